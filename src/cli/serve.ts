/** `tidemark serve`: the read-only replica of one source (docs/replica.md). Runs until it is stopped. */
import type { Config } from '../config/config.ts';
import { isLoopback } from '../config/source.ts';
import { definitionsFor } from '../config/source-definitions.ts';
import { aborted } from '../core/aborted.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { createListener } from '../server/listener.ts';
import { createReplica } from '../server/replica/replica.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { print, printNote, type CommandContext } from './context.ts';
import { sourcesToRead } from './mirrored-sources.ts';
import { replicaTokens } from './serve-tokens.ts';
import { commandLog } from './terminal-log.ts';

interface ServeOptions {
  readonly host?: string;
  readonly port?: number;
  readonly tokenFile?: string;
  readonly trustedProxy?: readonly string[];
}

const DEFAULT_HOST = '127.0.0.1';
const DEFAULT_PORT = 8700;

export async function serve(context: CommandContext, options: ServeOptions): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const { host = DEFAULT_HOST, port = DEFAULT_PORT } = options;
  const tokens = replicaTokens(config, context.cwd, options.tokenFile);
  if (tokens.length === 0 && !isLoopback(host)) {
    throw new TidemarkError('usage', `${host} is no loopback address and needs a token`, {
      hint: 'give one with --token-file, or set replica.token or replica.tokenFile (TIDEMARK_REPLICA_TOKEN)',
    });
  }
  const openMirror = (): Mirror => openConfiguredMirror(config, 'read', 'serve', context.pid);
  const { source, latest } = startingPoint(config, openMirror);
  const log = commandLog(context, config.log.level);
  const replica = createReplica({
    mirrorPath: config.mirror,
    openMirror,
    source,
    definitionOf: definitionsFor(config, source),
    tokens,
    pathPrefix: '',
    clock: systemClock,
    log,
  });
  const listener = createListener(replica.answer, log, options.trustedProxy ?? config.http.trustedProxies);
  try {
    const { url } = await listener.listen({ host, port });
    await tell(context, url, source, latest);
    await aborted(context.signal);
  } finally {
    await listener.close();
    replica.close();
  }
  return EXIT.done;
}

/** What there is to serve, before anything listens. */
function startingPoint(
  config: Config,
  openMirror: () => Mirror,
): { source: string; latest: RunRow | undefined } {
  const mirror = openMirror();
  try {
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
    return { source, latest: mirror.latestRun(source) };
  } finally {
    mirror.close();
  }
}

async function tell(
  context: CommandContext,
  url: string,
  source: string,
  latest: RunRow | undefined,
): Promise<void> {
  const run = latest?.run ?? null;
  const at = latest === undefined ? null : (latest.finishedAt ?? latest.startedAt);
  if (latest === undefined) {
    printNote(context, [`nothing of ${source} was synced yet: every request is answered 503 until it is`]);
  }
  if (context.options.json === true) {
    await print(context, `${JSON.stringify({ schema: 'tidemark.serve/1', url, source, run, at })}\n`);
    return;
  }
  const state =
    run === null || at === null ? '' : `, as of ${at} (run ${run}) and of later runs as they come`;
  await print(
    context,
    [
      `replica of ${source} listens on ${url}`,
      `it answers every GET path of the interface from the mirror${state}`,
      `try it:  curl ${url}/api/organizations/`,
      'stop it with Ctrl-C',
      '',
    ].join('\n'),
  );
}
