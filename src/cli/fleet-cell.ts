/** `tidemark fleet-cell`: the child process in which a worker of a fleet works on cells, one after another. Not for users. */
import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';
import process from 'node:process';
import { loadConfig } from '../config/load.ts';
import { onlyMirrorConfig } from '../config/mirrors.ts';
import { afterRealTime, type Clock, systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import type { CellChild } from '../fleet/cell-process.ts';
import { workOnCell } from '../fleet/cell-work.ts';
import type { CellOrder, FromCellProcess, ToCellProcess } from '../fleet/cell.ts';
import { assumeRequests, openReadClient } from '../wire-client.ts';
import type { CommandContext } from './context.ts';
import { serverLog } from './command-log.ts';

/** Time to stop after the worker has ended; then the process exits. */
const ORPHAN_MS = 5_000;

/**
 * Works on the cells that it receives over the channel, until that is closed.
 * @throws TidemarkError `usage` unless a worker started it
 */
export async function fleetCell(context: CommandContext): Promise<ExitCode> {
  if (!process.connected) {
    throw new TidemarkError('usage', 'fleet-cell is what a worker of a fleet starts for its cells', {
      hint: 'run `tidemark fleet work`',
    });
  }
  context.onHangup?.(() => undefined);
  return workOnCells(context, process);
}

async function workOnCells(context: CommandContext, worker: CellChannel): Promise<ExitCode> {
  const send = (message: FromCellProcess): void => {
    // The callback ignores the error if the worker has ended.
    if (worker.connected) worker.send?.(message, undefined, undefined, () => undefined);
  };
  const lease = new Lease(() => context.leave?.(EXIT.interrupted));
  const current: { stop: AbortController; onKnown: ((isKnown: boolean) => void) | null } = {
    stop: new AbortController(),
    onKnown: null,
  };
  const orders: CellOrder[] = [];
  let wake = (): void => undefined;
  const channel = { isOpen: true };
  const stop = (why: string): void => current.stop.abort(new TidemarkError('interrupted', why));
  worker.once('disconnect', () => {
    channel.isOpen = false;
    stop('the worker ended');
    afterRealTime(ORPHAN_MS, () => context.leave?.(EXIT.interrupted));
    wake();
  });
  worker.on('message', (message: ToCellProcess) => {
    if (message.type === 'lease') lease.renew(message);
    else if (message.type === 'stop') stop('the worker was stopped');
    else if (message.type === 'known') current.onKnown?.(message.isKnown);
    else {
      orders.push(message.order);
      wake();
    }
  });
  send({ type: 'ready' });
  for (;;) {
    const order = orders.shift();
    if (order === undefined) {
      if (!channel.isOpen) return EXIT.done;
      await new Promise<void>((resolve) => (wake = resolve));
      continue;
    }
    current.stop = new AbortController();
    const clock = shifted(order.clockAheadMs);
    const log = serverLog(context, 'warn').child({ cell: order.cell });
    const result = await workOnCell(order, {
      clock,
      random: Math.random,
      log,
      loadConfig: (file, env) => onlyMirrorConfig(loadConfig({ file, env, cwd: context.cwd })),
      openReadClient: (source, sourceLog, rateLog) =>
        openReadClient(source, sourceLog, rateLog, { clock, beforeSending: () => lease.require() }),
      assumeRequests: (source, rateLog, uncounted) => assumeRequests(source, rateLog, uncounted, clock),
      isKnown: (root) =>
        new Promise((resolve) => {
          current.onKnown = resolve;
          send({ type: 'is known', root });
        }),
      host: hostname(),
      pid: context.pid,
      signal: current.stop.signal,
    });
    send({ type: 'result', result });
  }
}

/**
 * How long the worker holds the rate group. Afterwards another worker may send requests with the same key: the process ends before it
 * sends another one. As with any kill, nothing is lost.
 */
class Lease {
  readonly #leave: () => void;
  #until = Number.POSITIVE_INFINITY;
  #untilMonotonicMs = Number.POSITIVE_INFINITY;

  constructor(leave: () => void) {
    this.#leave = leave;
  }

  renew({ until, forMs }: { readonly until: number; readonly forMs: number }): void {
    this.#until = until;
    this.#untilMonotonicMs = systemClock.monotonicMs() + forMs;
  }

  require(): void {
    // By both clocks: the first may be set back, and the second stops while the machine sleeps.
    if (systemClock.now() <= this.#until && systemClock.monotonicMs() <= this.#untilMonotonicMs) return;
    this.#leave();
    // Reached in the worker's own process, which does not end at once.
    throw new TidemarkError('interrupted', 'the lease of the group is over');
  }
}

function shifted(aheadMs: number): Clock {
  return { ...systemClock, now: () => systemClock.now() + aheadMs };
}

/** The channel to the worker: what is used of `process`. */
interface CellChannel extends EventEmitter {
  readonly connected: boolean;
  send?(
    message: FromCellProcess,
    handle: undefined,
    options: undefined,
    onSent: (error: Error | null) => void,
  ): boolean;
}

/** One end of a channel within this process. As between processes, messages arrive later, and as JSON. */
class ChannelEnd extends EventEmitter {
  connected = true;
  other: ChannelEnd | null = null;

  send(message: ToCellProcess | FromCellProcess): boolean {
    const text = JSON.stringify(message);
    setImmediate(() => this.other?.emit('message', JSON.parse(text)));
    return true;
  }

  disconnect(): void {
    if (!this.connected) return;
    this.connected = false;
    this.emit('disconnect');
    this.other?.disconnect();
  }
}

class CellsHere extends ChannelEnd implements CellChild {
  #hasExited = false;

  exit(code: ExitCode | null, signal: string | null = null): void {
    if (this.#hasExited) return;
    this.#hasExited = true;
    this.disconnect();
    this.emit('exit', code, signal);
  }

  /** Only asks the work to stop. */
  kill(signal: string): void {
    this.exit(null, signal);
  }
}

/** Works on cells in the worker's own process, with the same messages (`isOneProcess`). */
export function startCellsHere(context: CommandContext): CellChild {
  const child = new CellsHere();
  const worker = new ChannelEnd();
  child.other = worker;
  worker.other = child;
  const leave = (code: ExitCode): void => child.exit(code);
  void workOnCells({ ...context, leave }, worker).then(leave);
  return child;
}
