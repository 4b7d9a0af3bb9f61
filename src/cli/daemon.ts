/** `tidemark daemon`: the schedules, until it is stopped. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { Config, HttpConfig } from '../config/config.ts';
import { type LoadedConfig, mirrorConfigs, namesOf } from '../config/mirrors.ts';
import { definitionsFor } from '../config/source.ts';
import { nodeOptions } from '../core/child-process.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError, type ExitCode, EXIT } from '../core/errors.ts';
import { listeningAt } from '../core/local-url.ts';
import type { Logger } from '../core/logger.ts';
import { backupWork, backUpInOneProcess } from '../daemon/jobs/job-table.ts';
import { type Daemon, startDaemon } from '../daemon/daemon.ts';
import type { DaemonEffects, JobProcess } from '../daemon/effects.ts';
import type { StartHttp } from '../daemon/http-endpoint.ts';
import type { RunCommand } from '../daemon/http/restores.ts';
import { openNoticeService } from '../daemon/notices/notice-service.ts';
import { locateMirrors, openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import { type CommandContext, print, printNote, printReason } from './context.ts';
import { daemonEffects, daemonLog, daemonUnreachable } from './daemon-effects.ts';
import { Agent, request } from 'node:http';
import { hostname } from 'node:os';
import { type DaemonLockfile, findDaemon, INSTANCE_HEADER, instanceOf } from '../daemon/lockfile.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';

interface DaemonCommandOptions {
  readonly once?: boolean;
  /** False for `--no-http`. */
  readonly http?: boolean;
  readonly check?: boolean;
}

/** Exit 0 after a stop; with `--once` the worst of what ran, 3 where a sync has to wait, 0 where nothing was due or another daemon does it. */
export async function daemon(context: CommandContext, options: DaemonCommandOptions): Promise<ExitCode> {
  if (options.check === true) return await daemonCheck(context);
  const { env } = context;
  // For its settings of the log, and of pings until the daemon has read its own configuration.
  const first = readLoadedConfig(context, context.options, 'required');
  const isOnce = options.once === true;
  const log = daemonLog(context, first.log.level, isOnce);
  const effects: DaemonEffects = {
    ...daemonEffects(context, log),
    ...(context.isOneProcess === true ? {} : { jobProcess: jobProcess(context, isOnce) }),
  };
  const living: { daemon: Daemon | null; isReloadAsked: boolean } = { daemon: null, isReloadAsked: false };
  const config = (): LoadedConfig => living.daemon?.cells.config() ?? first;
  const noticing = openNoticeService({ config, clock: systemClock, random: Math.random, log, env });
  // From the start: where nobody listens, SIGHUP ends the process.
  context.onHangup?.(() => {
    if (living.daemon === null) living.isReloadAsked = true;
    else living.daemon.reload();
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
    const running = await (isOnce ? startUnlessServed(context, first, start) : start()).catch(
      async (thrown: unknown) => {
        await noticing.startFailed({
          error: asTidemarkError(thrown),
          isOnce,
          effects,
          signal: context.signal,
        });
        throw thrown;
      },
    );
    if (running === null) return EXIT.done;
    living.daemon = running;
    if (living.isReloadAsked) running.reload();
    const stop = (): void => {
      const { reason } = context.signal as { readonly reason: unknown };
      const name = reason instanceof Error && typeof reason.cause === 'string' ? reason.cause : 'a signal';
      log.info({}, `${name} received: the daemon stops`);
      void running.stop();
    };
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

/** The daemon that was in the way may have ended before this process looked whether it runs. */
const START_ATTEMPTS = 5;

/** A tick of cron may come while the one before still runs. Null where each mirror has a daemon, which is said. */
async function startUnlessServed(
  context: CommandContext,
  loaded: LoadedConfig,
  start: () => Promise<Daemon>,
): Promise<Daemon | null> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await start();
    } catch (thrown) {
      const error = asTidemarkError(thrown);
      if (error.code !== 'mirror_locked') throw thrown;
      if (areServed(context, loaded)) {
        printNote(context, [`${error.message}: it does what is due, and this one has nothing to do`]);
        return null;
      }
      if (attempt === START_ATTEMPTS) throw thrown;
    }
  }
}

/** True where each mirror has a daemon. */
function areServed({ pid }: CommandContext, loaded: LoadedConfig): boolean {
  const looker = { pid, host: hostname(), now: systemClock.now() };
  return mirrorConfigs(loaded).every(({ mirror }) => findDaemon(mirror, looker) !== null);
}

function httpStarter(context: CommandContext, log: Logger): StartHttp {
  return async (cells, localToken) => {
    const [{ startHttp }, { createReplica }] = await Promise.all([
      import('../daemon/http/http.ts'),
      import('../server/replica/replica.ts'),
    ]);
    const { host, port, token, tokenFile, triggerToken, trustedProxies, userHeader, mcp } =
      cells.config().http;
    if (token === null && tokenFile !== null) {
      throw new TidemarkError('config_invalid', `${tokenFile} gave no token: nothing listens without it`, {
        hint: 'correct http.tokenFile, or the permissions of that file',
      });
    }
    return startHttp(cells, {
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
        const { token: own } = cells.config().replica;
        const view = cells.of(source);
        if (own === null || view === null) return null;
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

function jobProcess(context: CommandContext, isOnce: boolean): JobProcess {
  const { entry, execPath, env, cwd } = context;
  return {
    entry,
    start: (config) =>
      // stdout carries nothing; what it logs goes where the daemon's own lines go. Node's own options are handed on.
      fork(entry, [...argumentsOf(context, config), ...(isOnce ? ['--once'] : [])], {
        ...{ execPath, execArgv: nodeOptions(), env, cwd },
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      }),
  };
}

/** Runs this very program with a command, and the option that says where the configuration is. */
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
    // One that cannot be sent to has ended, or will not begin: its exit says more.
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

/** No key is among them: the process reads configuration and environment itself. */
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

// `tidemark daemon --check`: asks the living daemon of this mirror whether it does what it is there for.

/** Shorter than what container engines and Kubernetes give a probe by our own manifests. */
const TIMEOUT_MS = 8000;
const LARGEST_CHARACTERS = 1_000_000;
/** Under NODE_USE_ENV_PROXY the global agent would ask HTTP_PROXY, and take its word for the daemon's. */
const NO_PROXY = new Agent({ proxyEnv: {} });
/** As the first line of the text, or `state` of the document, with the status that goes with it. */
const STATUS_BY_STATE: Readonly<Record<string, number>> = {
  ok: 200,
  degraded: 200,
  starting: 503,
  failing: 503,
};

/**
 * Prints what `/readyz` says. Exit 0 for `ok`, `degraded` and `starting`, 1 for `failing`: a daemon that is busy with its
 * first sync is well, and a container engine that takes it for ill would only end what it waits for.
 * @throws TidemarkError `unreachable` where no daemon is running on this mirror, or it does not answer
 */
async function daemonCheck(context: CommandContext): Promise<ExitCode> {
  const { mirrors, names, mistake, http } = mirrorsToAsk(context);
  const looker = { pid: context.pid, host: hostname(), now: systemClock.now() };
  // A daemon of many mirrors is beside each of them, but not beside one that could not be taken.
  const card = mirrors.reduce<DaemonLockfile | null>(
    (found, mirror) => found ?? findDaemon(mirror, looker),
    null,
  );
  if (card === null) {
    const answering = http === null ? null : await daemonAt(http, context.signal);
    if (answering !== null) throw withoutLockfile(answering, names, mirrors);
    const none = `no daemon is running on ${names}, or this user may not see it`;
    throw new TidemarkError('unreachable', mistake === null ? none : `${none}; ${mistake.message}`, {
      cause: mistake,
      hint:
        mistake === null
          ? 'start one with `tidemark daemon`; ask as the user that it runs as, with the same configuration'
          : 'correct the configuration, then start one with `tidemark daemon`',
    });
  }
  if (card.isOnce)
    throw new TidemarkError(
      'unreachable',
      `no daemon is running on ${names}: a call of \`daemon --once\` is running (process ${card.pid} on ${card.host}, since ${card.since})`,
      { hint: '`tidemark status` shows what such calls keep; `pings` report when they fail or stop' },
    );
  const isJson = context.options.json === true;
  const accept = isJson ? 'application/json' : 'text/plain';
  const { status, instance, text } = await readiness(card, accept, context.signal);
  if (status !== 200 && status !== 503) throw unreachable(card, `it answered ${status}`);
  if (instance !== instanceOf(card.token.reveal()))
    throw unreachable(card, `what answers at ${card.url ?? ''} is not this daemon`);
  const state = isJson ? stateIn(text) : text.split('\n', 1)[0];
  if (state === undefined || STATUS_BY_STATE[state] !== status)
    throw unreachable(card, 'its answer does not include its health');
  const lines = text.trimEnd().split('\n');
  await print(
    context,
    `${isJson ? text.trim() : lines.map((line) => escapeControlCharacters(line)).join('\n')}\n`,
  );
  if (state !== 'failing') return EXIT.done;
  printReason(context, failingReason(text, isJson));
  return EXIT.failed;
}

interface MirrorsToAsk {
  readonly mirrors: readonly string[];
  /** The mirrors in a sentence. */
  readonly names: string;
  /** What is wrong with the configuration: a daemon that runs works on without it, and says so itself. */
  readonly mistake: TidemarkError | null;
  /** Where it listens, if it runs; null if the configuration cannot be read. */
  readonly http: Pick<HttpConfig, 'host' | 'port'> | null;
}

/** @throws TidemarkError `unreachable` where the configuration does not tell where a mirror is */
function mirrorsToAsk(context: CommandContext): MirrorsToAsk {
  const { options } = context;
  let mistake: TidemarkError;
  try {
    const loaded = readLoadedConfig(context, options, 'unused');
    const mirrors = mirrorConfigs(loaded).map(({ mirror }) => mirror);
    return { mirrors, names: loaded.mirrorPath, mistake: null, http: loaded.http };
  } catch (error) {
    mistake = asTidemarkError(error);
    if (mistake.code !== 'config_invalid' && mistake.code !== 'config_missing') throw error;
  }
  try {
    const mirrors = locateMirrors(context, options);
    if (mirrors.length === 0) throw mistake;
    return { mirrors, names: namesOf(mirrors), mistake, http: null };
  } catch (error) {
    const { message, hint } = asTidemarkError(error);
    throw new TidemarkError(
      'unreachable',
      `no daemon can be found without the path of its mirror: ${message}`,
      {
        cause: error,
        ...(hint === undefined ? {} : { hint }),
      },
    );
  }
}

/** What fails, out of the answer in either form. */
function failingReason(text: string, isJson: boolean): string[] {
  const head = 'the daemon is not healthy:';
  if (!isJson) return [head, ...failingLines(text.split('\n'))];
  const reasonsIn = ({ source, reasons = [], sources = [] }: Readiness): string[] => [
    ...reasons
      .filter(({ state }) => state === 'failing')
      .map(({ message }) => `  failing: ${source === undefined ? '' : `${source}: `}${message}`),
    ...sources.flatMap(reasonsIn),
  ];
  return [head, ...reasonsIn(JSON.parse(text) as Readiness)];
}

/** In the text, the line of a source (`NAME: STATE`) comes before its reasons, which are indented. */
function failingLines(lines: readonly string[]): string[] {
  let source = '';
  return lines.flatMap((line) => {
    const name = /^(\S.*): (?:ok|degraded|starting|failing)$/.exec(line)?.[1];
    if (name !== undefined) source = `${name}: `;
    return line.startsWith(FAILING) ? [`${FAILING}${source}${line.slice(FAILING.length)}`] : [];
  });
}

const FAILING = '  failing: ';

/** The part of `tidemark.health/1` with the failures. */
interface Readiness {
  readonly source?: string;
  readonly reasons?: readonly { readonly state: string; readonly message: string }[];
  readonly sources?: readonly Readiness[];
}

interface Answering {
  readonly url: string;
  /** Its state; null if it answers only who has a token. */
  readonly state: string | null;
}

/**
 * The daemon that answers where this one would listen; null if none does. It is not known to be this one: that is proved with the
 * token beside the mirror, and a token is not sent to somebody unknown.
 */
async function daemonAt(
  { host, port }: Pick<HttpConfig, 'host' | 'port'>,
  signal: AbortSignal,
): Promise<Answering | null> {
  if (port === 0) return null;
  const { url } = listeningAt(host, { address: host, port, family: '' });
  try {
    const answer = await get(new URL('/readyz', url), { accept: 'text/plain' }, signal);
    const [state = ''] = answer.text.split('\n', 1);
    if (answer.instance !== undefined && STATUS_BY_STATE[state] === answer.status) return { url, state };
    return answer.status === 401 && isRefusal(answer.text) ? { url, state: null } : null;
  } catch {
    // Nobody listens there: no daemon runs.
    return null;
  }
}

/** Whether it is how a daemon with `http.token` answers without one. */
function isRefusal(text: string): boolean {
  try {
    return (JSON.parse(text) as { error?: { code?: unknown } }).error?.code === 'unauthorized';
  } catch {
    // No JSON: somebody else's.
    return false;
  }
}

/** Nothing beside the mirror says where its daemon is, but one answers. */
function withoutLockfile(
  { url, state }: Answering,
  names: string,
  mirrors: readonly string[],
): TidemarkError {
  const away = mirrors.find((mirror) => !existsSync(mirror));
  const answers = `a daemon answers at ${url}${state === null ? '' : ` with ${state}`}`;
  if (away === undefined)
    return new TidemarkError(
      'unreachable',
      `no daemon is running on ${names}, or this user may not see it; ${answers}`,
      {
        hint: 'ask as the user that it runs as, with the same configuration. If the volume of its mirror is away and another mirror is in its place, move that one away and mount the volume. If it is the daemon of another mirror, start one for this with an `http.listen` of its own',
      },
    );
  return new TidemarkError(
    'unreachable',
    `${answers}, but ${away} and the daemon's file beside it are missing: is the volume mounted?`,
    {
      hint: 'mount the volume that the mirror belongs to, or put the file back: a restart of the daemon begins a new mirror instead, without history. If it is the daemon of another mirror, start one for this with an `http.listen` of its own',
    },
  );
}

async function readiness(
  card: DaemonLockfile,
  accept: string,
  signal: AbortSignal,
): Promise<ReadinessAnswer> {
  const { url, token } = card;
  if (url === null) throw unreachable(card, 'it answers no HTTP');
  try {
    return await get(new URL('/readyz', url), { accept, authorization: `Bearer ${token.reveal()}` }, signal);
  } catch (error) {
    throw unreachable(card, error instanceof Error ? error.message : String(error), error);
  }
}

interface ReadinessAnswer {
  readonly status: number;
  readonly instance: string | undefined;
  readonly text: string;
}

/** @throws Error where there is no answer in time, or one that does not end */
function get(url: URL, headers: Record<string, string>, signal: AbortSignal): Promise<ReadinessAnswer> {
  return new Promise((resolve, reject) => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const sent = request(url, { agent: NO_PROXY, headers, signal: limit }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => {
        text += chunk;
        if (text.length > LARGEST_CHARACTERS) answer.destroy(new Error('its answer does not end'));
      });
      answer.on('error', reject);
      const instance = [answer.headers[INSTANCE_HEADER.toLowerCase()] ?? []].flat()[0];
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, instance, text }));
    });
    sent.on('error', (error) =>
      reject(limit.aborted && !signal.aborted ? new Error(`no answer within ${TIMEOUT_MS / 1000} s`) : error),
    );
    sent.end();
  });
}

/** The state of a health document; undefined for anything else. */
function stateIn(text: string): string | undefined {
  try {
    const { schema, state } = JSON.parse(text) as Record<string, unknown>;
    return schema === 'tidemark.health/1' && typeof state === 'string' ? state : undefined;
  } catch {
    // No JSON: the caller says so.
    return undefined;
  }
}

function unreachable(card: DaemonLockfile, why: string, cause?: unknown): TidemarkError {
  return daemonUnreachable(card, why, {
    cause,
    hint: 'see its log; `http.listen` sets the address where it answers',
  });
}
