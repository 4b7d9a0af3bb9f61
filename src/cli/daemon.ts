/** `tidemark daemon`: runs the schedules until it is stopped. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { type LoadedConfig, mirrorConfigs } from '../config/mirrors.ts';
import { definitionsFor } from '../config/source.ts';
import { nodeOptions } from '../core/child-process.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError, type ExitCode, EXIT } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { backupWork, backUpInOneProcess } from '../daemon/jobs/job-table.ts';
import { type Daemon, startDaemon } from '../daemon/daemon.ts';
import type { DaemonEffects, JobProcess } from '../daemon/effects.ts';
import type { StartHttp } from '../daemon/http-endpoint.ts';
import type { RunCommand } from '../daemon/http/restores.ts';
import { openNoticeService } from '../daemon/notices/notice-service.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { daemonCheck } from './daemon-check.ts';
import { daemonEffects, daemonLog, daemonOf, isPlainLog } from './daemon-effects.ts';

interface DaemonCommandOptions {
  readonly once?: boolean;
  /** False for `--no-http`. */
  readonly http?: boolean;
  readonly check?: boolean;
}

/**
 * Exit 0 after a stop. With `--once` the worst exit code of what ran, 3 if a sync has to wait, 0 if nothing was due or another daemon
 * does it.
 */
export async function daemon(context: CommandContext, options: DaemonCommandOptions): Promise<ExitCode> {
  if (options.check === true) return await daemonCheck(context);
  const { env } = context;
  // For the settings of the log, and for pings until the daemon has read its configuration.
  const first = readLoadedConfig(context, context.options, 'required');
  const isOnce = options.once === true;
  const log = daemonLog(context, first.log.level, isOnce);
  const effects: DaemonEffects = {
    ...daemonEffects(context, log),
    ...(context.isOneProcess === true ? {} : { jobProcess: jobProcess(context, isOnce) }),
  };
  const state: { daemon: Daemon | null; isReloadAsked: boolean } = { daemon: null, isReloadAsked: false };
  const config = (): LoadedConfig => state.daemon?.cells.config() ?? first;
  const noticing = openNoticeService({
    ...{ config, clock: systemClock, random: Math.random, log, env },
    configFile:
      context.options.config === undefined ? undefined : resolve(context.cwd, context.options.config),
  });
  // Before the start: without a listener SIGHUP would end the process.
  context.onHangup?.(() => {
    if (state.daemon === null) state.isReloadAsked = true;
    else state.daemon.reload();
  });
  try {
    const start = (): Promise<Daemon> =>
      startDaemon(effects, {
        isOnce,
        isQuiet: isOnce && context.options.quiet === true,
        startHttp: options.http === false ? null : httpStarter(context, log),
        observers: noticing.observersOf,
        backup: backupWork(env, context.isOneProcess ? backUpInOneProcess : null),
      });
    const running = await (
      isOnce ? startUnlessServed(context, { loaded: first, log, start }) : start()
    ).catch(async (thrown: unknown) => {
      const error = asTidemarkError(thrown);
      await noticing.startFailed({ error, isOnce, effects, signal: context.signal });
      throw thrown;
    });
    if (running === null) return EXIT.done;
    state.daemon = running;
    if (state.isReloadAsked) running.reload();
    const stop = (): void => {
      const { reason } = context.signal as { readonly reason: unknown };
      const name = reason instanceof Error && typeof reason.cause === 'string' ? reason.cause : 'a signal';
      log.info({}, `${name} received: the daemon stops`);
      void running.stop();
    };
    if (context.signal.aborted) stop();
    else context.signal.addEventListener('abort', stop, { once: true });
    const code = await running.done;
    if (isOnce) logExitCode(context, log, code);
    // Work that did not end in time would keep the process alive; the mirror is as safe as after a crash.
    if (running.hasLeftWork()) context.leave?.(code);
    return code;
  } finally {
    await noticing.close();
  }
}

/** Logs the exit code, as `program.ts` would print it in plain text among lines of JSON. */
function logExitCode(context: CommandContext, log: Logger, code: ExitCode): void {
  if (code === EXIT.done || code === EXIT.differences || !log.isLevelEnabled('error')) return;
  if (isPlainLog(context, true)) return;
  log.error({ exitCode: code }, `ended with ${code}: the lines before say why`);
  context.onReasonPrinted?.();
}

/** More than one, as the process that held the lock may end before this one looks for its daemon. */
const START_ATTEMPTS = 5;

/** Null, with a line in the log, if each mirror has a daemon already: cron may call `--once` while the call before still runs. */
async function startUnlessServed(
  context: CommandContext,
  {
    loaded,
    log,
    start,
  }: { readonly loaded: LoadedConfig; readonly log: Logger; readonly start: () => Promise<Daemon> },
): Promise<Daemon | null> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await start();
    } catch (thrown) {
      const error = asTidemarkError(thrown);
      if (error.code !== 'mirror_locked') throw thrown;
      if (mirrorConfigs(loaded).every(({ mirror }) => daemonOf(context, mirror) !== null)) {
        log.info({}, `${error.message}: it does what is due, and this one has nothing to do`);
        return null;
      }
      if (attempt === START_ATTEMPTS) throw thrown;
    }
  }
}

function httpStarter(context: CommandContext, log: Logger): StartHttp {
  return async (cells, localToken) => {
    const [{ startHttp }, { createReplica }] = await Promise.all([
      import('../daemon/http/http.ts'),
      import('../server/replica/replica.ts'),
    ]);
    const { tokenFile, mcp, ...http } = cells.config().http;
    const { token } = http;
    if (token === null && tokenFile !== null) {
      throw new TidemarkError('config_invalid', `${tokenFile} gave no token: nothing listens without it`, {
        hint: 'correct http.tokenFile, or the permissions of that file',
      });
    }
    return startHttp(cells, {
      ...http,
      localToken: localToken.reveal(),
      clock: systemClock,
      log,
      // Loaded only if it is on: the MCP library is large.
      ...(mcp ? { mcp: (await import('./mcp.ts')).openMcp(context) } : {}),
      runCommand: commandRunner(context),
      replica: (source, pathPrefix) => {
        const { token: own } = cells.config().replica;
        const view = cells.of(source);
        if (own === null || view === null) return null;
        return createReplica({
          mirrorPath: view.config().mirror,
          openMirror: () => openConfiguredMirror(view.config(), 'read', 'daemon', context.pid),
          source,
          definitionOf: definitionsFor(view.config(), source),
          tokens: () => [own],
          pathPrefix,
          clock: systemClock,
          log,
        });
      },
    });
  };
}

/** Starts this program for a job, with the same configuration. */
function jobProcess(context: CommandContext, isOnce: boolean): JobProcess {
  const { entry, execPath, env, cwd } = context;
  return {
    entry,
    start: (config) =>
      // It writes nothing to stdout, and logs to the daemon's stderr. It gets the daemon's options of Node.
      fork(entry, [...argumentsOf(context, config), ...(isOnce ? ['--once'] : [])], {
        ...{ execPath, execArgv: nodeOptions(), env, cwd },
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      }),
  };
}

/** Runs this program with a command and the same configuration. */
function commandRunner(context: CommandContext): RunCommand {
  const { entry, execPath, env, cwd } = context;
  return async (args, signal, order) => {
    const [command = '', ...rest] = args;
    const child = fork(entry, [command, ...configFile(context), ...rest], {
      ...{ execPath, execArgv: nodeOptions(), env, cwd },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    // If it cannot be sent, the process has ended, and its exit code says more.
    if (order !== undefined) child.send(order, () => undefined);
    const interrupt = (): void => void child.kill('SIGTERM');
    signal.addEventListener('abort', interrupt, { once: true });
    try {
      const [code] = (await once(child, 'close')) as [number | null];
      return { code, stderr };
    } finally {
      signal.removeEventListener('abort', interrupt);
    }
  };
}

/** Contains no key: the process reads configuration and environment itself. */
function argumentsOf(context: CommandContext, config: Config): string[] {
  const { quiet, logLevel, color } = context.options;
  const isOne = config.configured.length === 1;
  const source = isOne ? config.configured.map(({ name }) => name) : (context.options.source ?? []);
  return [
    'daemon-job',
    ...configFile(context),
    ...source.flatMap((name) => ['--source', name]),
    ...(quiet === true ? ['--quiet'] : []),
    ...(logLevel === undefined ? [] : ['--log-level', logLevel]),
    ...(color === false ? ['--no-color'] : []),
  ];
}

function configFile({ options: { config } }: CommandContext): string[] {
  return config === undefined ? [] : ['--config', config];
}
