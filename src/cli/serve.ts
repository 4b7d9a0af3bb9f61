/** `tidemark serve`: a read-only replica of one source (docs/replica.md). Runs until it is stopped. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import type { LoadedConfig } from '../config/mirrors.ts';
import { definitionsFor } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { isLoopback, type ListeningAt } from '../core/local-url.ts';
import { Secret } from '../core/secret.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { createListener } from '../server/listener.ts';
import { createReplica } from '../server/replica/replica.ts';
import { openConfiguredMirror, readConfig, readLoadedConfig } from '../wire.ts';
import { print, printNote, type CommandContext, printJson } from './context.ts';
import { sourcesToRead } from './record.ts';
import { ServedSettings } from './served-settings.ts';
import { elsewhere, wideProxies } from './sandbox.ts';
import { serverLog } from './command-log.ts';
import { verificationNote } from './verification-note.ts';
import { localTime } from '../core/wording.ts';

interface ServeOptions {
  readonly host?: string;
  readonly port?: number;
  readonly tokenFile?: string;
  readonly trustedProxy?: readonly string[];
}

const DEFAULT_HOST = '127.0.0.1';
const DEFAULT_PORT = 8700;

/** Serves the replica until the command is stopped. */
export async function serve(context: CommandContext, options: ServeOptions): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const { host = DEFAULT_HOST, port = DEFAULT_PORT } = options;
  let tokens = replicaTokens(config, context.cwd, { ...options, host });
  let newest = tokens;
  const openMirror = (): Mirror => openConfiguredMirror(config, 'read', 'serve', context.pid);
  const { source, latest, warnings } = startingPoint(config, openMirror);
  printNote(context, [...warnings, ...wideProxies(options)]);
  const log = serverLog(context, config.log.level);
  const settings = new ServedSettings(context, {
    log,
    load: () => {
      const loaded = readLoadedConfig(context, context.options, 'unused');
      newest = replicaTokens(loaded, context.cwd, { ...options, host });
      return withTokenFile(loaded, newest, context.cwd, options);
    },
    take: () => {
      tokens = newest;
    },
  });
  const replica = createReplica({
    mirrorPath: config.mirror,
    openMirror,
    source,
    definitionOf: definitionsFor(config, source),
    tokens: () => tokens,
    pathPrefix: '',
    clock: systemClock,
    log,
  });
  const listener = createListener(replica.answer, log, options.trustedProxy ?? config.http.trustedProxies);
  try {
    const at = await listener.listen({ host, port });
    await printIntroduction(context, at, { source, latest, hasToken: tokens.length > 0 });
    await settings.untilStopped();
  } finally {
    await listener.close();
    replica.close();
  }
  return EXIT.done;
}

/** The source to serve, its latest run, and warnings about the mirror. */
function startingPoint(
  config: Config,
  openMirror: () => Mirror,
): { source: string; latest: RunRow | undefined; warnings: string[] } {
  using mirror = openMirror();
  const sources = sourcesToRead(config, mirror);
  const [source, ...more] = sources;
  if (source === undefined) {
    throw new TidemarkError('not_found', 'the mirror holds no source yet', {
      hint: 'run `tidemark sync` first',
    });
  }
  if (more.length > 0) {
    throw new TidemarkError('usage', `a replica serves one source, and there are ${sources.length}`, {
      hint: `choose one with --source: ${sources.join(', ')}`,
    });
  }
  return { source, latest: mirror.runs.latest(source), warnings: verificationNote(mirror) };
}

async function printIntroduction(
  context: CommandContext,
  listening: ListeningAt,
  {
    source,
    latest,
    hasToken,
  }: { readonly source: string; readonly latest: RunRow | undefined; readonly hasToken: boolean },
): Promise<void> {
  const { url } = listening;
  const run = latest?.run ?? null;
  const at = latest === undefined ? null : (latest.finishedAt ?? latest.startedAt);
  if (latest === undefined) {
    printNote(context, [`nothing of ${source} was synced yet: every request is answered 503 until it is`]);
  }
  if (context.options.json === true) {
    await printJson(context, { schema: 'tidemark.serve/1', url, source, run, at });
    return;
  }
  const state = run === null || at === null ? '' : `, as of ${localTime(at)} (run ${run}) and of later runs`;
  await print(
    context,
    [
      `replica of ${source} listens on ${url}${elsewhere(listening)}`,
      `it answers every GET path of the API from the mirror${state}`,
      `try it:  curl ${hasToken ? '-H "Authorization: Bearer TOKEN" ' : ''}${url}/api/organizations/`,
      'stop it with Ctrl-C',
      '',
    ].join('\n'),
  );
}

/**
 * The tokens of the replica, from `--token-file` or from the configuration.
 * @param options.tokenFile one token per line; empty lines and lines that begin with `#` do not count
 * @throws TidemarkError `usage` for a file without a token, for no token on an address that needs one, and for a token that is
 * the key of a source; `config_invalid` if the configuration names a file that gave none; `file_system` for a file that cannot
 * be read
 */
function replicaTokens(
  config: Pick<Config, 'configured' | 'replica'>,
  cwd: string,
  { host, tokenFile }: Pick<ServeOptions, 'tokenFile'> & { readonly host: string },
): readonly Secret[] {
  const tokens = tokenFile === undefined ? configuredTokens(config) : tokensOf(resolve(cwd, tokenFile));
  if (tokens.length === 0 && !isLoopback(host)) {
    throw new TidemarkError('usage', `${host} is not a loopback address and needs a token`, {
      hint: 'give one with --token-file, or set replica.token or replica.tokenFile (TIDEMARK_REPLICA_TOKEN)',
    });
  }
  for (const { name, apiKey } of config.configured) {
    const key = apiKey.reveal();
    if (key === '' || !tokens.some((token) => token.reveal() === key)) continue;
    throw new TidemarkError('usage', `a token of the replica is the key of source ${name}`, {
      hint: 'give the replica a separate token, such as `openssl rand -hex 32` prints: the key opens the service itself',
    });
  }
  return tokens;
}

/** The configuration with the file of `--token-file` as one of its files: a change of it reloads the configuration. */
function withTokenFile(
  loaded: LoadedConfig,
  tokens: readonly Secret[],
  cwd: string,
  { tokenFile }: Pick<ServeOptions, 'tokenFile'>,
): LoadedConfig {
  if (tokenFile === undefined) return loaded;
  const digest = createHash('sha256').update(
    JSON.stringify([loaded.digest, tokens.map((token) => token.reveal())]),
  );
  return { ...loaded, files: [...loaded.files, resolve(cwd, tokenFile)], digest: digest.digest('hex') };
}

function configuredTokens({ replica: { token, tokenFile } }: Pick<Config, 'replica'>): readonly Secret[] {
  if (token !== null) return [token];
  if (tokenFile === null) return [];
  throw new TidemarkError('config_invalid', `replica.tokenFile ${tokenFile} gave no token`, {
    hint: 'put the token in that file and make it readable, or name another file with --token-file',
  });
}

function tokensOf(path: string): readonly Secret[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw asFileError(error, path, 'read');
  }
  const lines = text.split('\n').map((line) => line.trim());
  const tokens = lines.filter((line) => line !== '' && !line.startsWith('#'));
  const broken = tokens.find((token) => !/^[\x21-\x7e]+$/.test(token));
  if (tokens.length > 0 && broken === undefined) return tokens.map((token) => new Secret(token));
  const what = broken === undefined ? 'holds no token' : 'holds a token that no header could carry';
  throw new TidemarkError('usage', `${path} ${what}`, {
    hint: 'write one token a line: visible ASCII characters without spaces, such as `openssl rand -hex 32` prints',
  });
}
