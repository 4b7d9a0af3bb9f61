/** `tidemark daemon`: the schedules, until it is stopped. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import { TidemarkError, type ExitCode } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { backupWork } from '../daemon/jobs/works.ts';
import { type Daemon, startDaemon } from '../daemon/daemon.ts';
import type { DaemonEffects } from '../daemon/effects.ts';
import type { StartHttp } from '../daemon/http-endpoint.ts';
import type { StartJob } from '../daemon/effects.ts';
import type { RunCommand } from '../daemon/http/restores.ts';
import { openNoticeService } from '../daemon/notices/notice-service.ts';
import { readConfig, openConfiguredMirror } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { daemonEffects, daemonLog } from './daemon-effects.ts';

interface DaemonCommandOptions {
  readonly once?: boolean;
  /** False for `--no-http`. */
  readonly http?: boolean;
  readonly check?: boolean;
}

/** Exit 0 after a stop; with `--once` the worst of what ran, 0 where nothing was due. */
export async function daemon(context: CommandContext, options: DaemonCommandOptions): Promise<ExitCode> {
  if (options.check === true) return (await import('./daemon-check.ts')).daemonCheck(context);
  const { env } = context;
  const loadConfig = (): Config => readConfig(context, context.options);
  // For its settings of the log, and of channels until the daemon has read its own configuration.
  const first = loadConfig();
  const log = daemonLog(context, first.log.level);
  const effects: DaemonEffects = {
    ...daemonEffects(context, log),
    startJob: jobStarter(context),
  };
  const living: { daemon: Daemon | null } = { daemon: null };
  const view = (): Daemon['view'] | null => living.daemon?.view ?? null;
  const config = (): Config => view()?.config() ?? first;
  const noticing = openNoticeService({ config, view, clock: systemClock, random: Math.random, log, env });
  try {
    const running = await startDaemon(effects, {
      isOnce: options.once === true,
      startHttp: options.http === false ? null : httpStarter(context, log),
      observers: noticing.observers,
      backup: backupWork(env),
    });
    living.daemon = running;
    context.onHangup?.(() => running.reload());
    const stop = (): void => void running.stop();
    if (context.signal.aborted) stop();
    else context.signal.addEventListener('abort', stop, { once: true });
    const code = await running.done;
    // What did not end in time holds the process; the mirror is as safe as after a crash.
    if (running.hasLeftWork()) context.leave?.(code);
    return code;
  } finally {
    await noticing.close();
  }
}

function httpStarter(context: CommandContext, log: Logger): StartHttp {
  return async (view, localToken) => {
    const [{ startHttp }, { createReplica }] = await Promise.all([
      import('../daemon/http/http.ts'),
      import('../server/replica/replica.ts'),
    ]);
    const { host, port, token, tokenFile, triggerToken, trustedProxies, userHeader, mcp } =
      view.config().http;
    if (token === null && tokenFile !== null) {
      throw new TidemarkError('config_invalid', `${tokenFile} gave no token: nothing listens without it`, {
        hint: 'correct http.tokenFile, or the permissions of that file',
      });
    }
    return startHttp(view, {
      host,
      port,
      token,
      triggerToken,
      localToken: localToken.reveal(),
      trustedProxies,
      userHeader,
      clock: systemClock,
      log,
      // The library for it is large: loaded where it is on.
      ...(mcp ? { mcp: (await import('./mcp.ts')).openMcp(context) } : {}),
      runCommand: commandRunner(context),
      replica: (source, pathPrefix) => {
        const { token: own } = view.config().replica;
        if (own === null) return null;
        return createReplica({
          mirrorPath: view.config().mirror,
          openMirror: () => openConfiguredMirror(view.config(), 'read', 'daemon', context.pid),
          source,
          definitionOf: definitionsFor(view.config(), source),
          tokens: [own],
          pathPrefix,
          clock: systemClock,
          log,
        });
      },
    });
  };
}

// Starts the process of a job: this very program, with the options that say where the configuration is.

function jobStarter(context: CommandContext): StartJob {
  const { entry, execPath, env, cwd } = context;
  return () =>
    // stdout carries nothing; what it logs goes where the daemon's own lines go. Node's own options are handed on.
    fork(entry, argumentsOf(context), { execPath, env, cwd, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
}

/** Runs this very program with a command, and the option that says where the configuration is. */
function commandRunner(context: CommandContext): RunCommand {
  const { entry, execPath, env, cwd } = context;
  return async (args, signal) => {
    const [command = '', ...rest] = args;
    const child = fork(entry, [command, ...configFile(context), ...rest], {
      ...{ execPath, env, cwd },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
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

/** No key is among them: the process reads configuration and environment itself. */
function argumentsOf(context: CommandContext): string[] {
  const { source = [], quiet, logLevel, color } = context.options;
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
