/** `tidemark daemon`: the schedules, until it is stopped. */
import { hostname } from 'node:os';
import { systemClock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { ExitCode } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { silentLogger } from '../core/logger.ts';
import { copyWork } from '../daemon/copies/copy-work.ts';
import { startDaemon } from '../daemon/daemon.ts';
import type { DaemonEffects } from '../daemon/effects.ts';
import { giveMemoryBack } from '../daemon/idle-memory.ts';
import type { StartHttp } from '../daemon/http-endpoint.ts';
import { commandLogger, openReadClient } from '../wire-client.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { terminalLog } from './terminal-log.ts';

interface DaemonCommandOptions {
  readonly once?: boolean;
  /** False for `--no-http`. */
  readonly http?: boolean;
  readonly check?: boolean;
}

/** Exit 0 after a stop; with `--once` the worst of what ran, 0 where nothing was due. */
export async function daemon(context: CommandContext, options: DaemonCommandOptions): Promise<ExitCode> {
  if (options.check === true) return (await import('./daemon-check.ts')).daemonCheck(context);
  const load: DaemonEffects['loadConfig'] = () => readConfig(context, context.options);
  // Once for what it says of the log; the daemon reads its own.
  const log = daemonLog(context, load().log.level);
  const running = await startDaemon(
    {
      clock: systemClock,
      random: Math.random,
      log,
      loadConfig: load,
      openMirror: (now, mode, command) => openConfiguredMirror(now, mode, command, context.pid),
      openReadClient,
      onRest: giveMemoryBack,
      host: hostname(),
      pid: context.pid,
    },
    {
      isOnce: options.once === true,
      startHttp: options.http === false || options.once === true ? null : httpStarter(log),
      observers: [],
      copy: copyWork(context.env),
    },
  );
  context.onHangup?.(() => running.reload());
  const stop = (): void => void running.stop();
  if (context.signal.aborted) stop();
  else context.signal.addEventListener('abort', stop, { once: true });
  const code = await running.done;
  return code;
}

function httpStarter(log: Logger): StartHttp {
  return async (view, localToken) => {
    const { startHttp } = await import('../daemon/http/http.ts');
    const { host, port, token, tokenFile } = view.config().http;
    if (token === null && tokenFile !== null) {
      throw new TidemarkError('config_invalid', `${tokenFile} gave no token: nothing listens without it`, {
        hint: 'correct http.tokenFile, or the permissions of that file',
      });
    }
    return startHttp(view, { host, port, token, localToken: localToken.reveal(), clock: systemClock, log });
  };
}

function daemonLog(context: CommandContext, configured: Parameters<typeof commandLogger>[1]): Logger {
  const level =
    context.options.logLevel ?? (context.options.quiet === true ? 'warn' : (configured ?? 'info'));
  if (level === 'silent') return silentLogger;
  return context.stderr.isTTY === true
    ? terminalLog(context, level, systemClock)
    : commandLogger(level, undefined);
}
