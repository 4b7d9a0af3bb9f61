/** `tidemark mcp-sql`: the child process that answers one query of an MCP client. Not for users: they have `sqlite3`. */
import { Worker } from 'node:worker_threads';
import { definitionOf as catalogDefinition } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { definitionsFor } from '../config/source.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import { workerFile } from '../core/package-root.ts';
import type { WatchdogLimits } from '../core/watchdog-worker.ts';
import { isSecretId, maskedAt, maskedBody, maskedId } from '../report/mask.ts';
import { openConfiguredMirror } from '../wire.ts';
import { type CommandContext, printJson } from './context.ts';
import { readConfigToShow } from './unmasked-keys.ts';

/** Generous for one query: counting a mirror of a million recordings takes a second. */
export const LIMITS: WatchdogLimits = { ms: 10_000, residentBytes: 768 * 1024 * 1024 };
const USUAL_ROWS = 100;
const MOST_CHARACTERS = 500_000;

/** Prints the answer, as `tidemark.sql/1`. A watchdog thread ends the process at the limits. */
export async function mcpSql(
  context: CommandContext,
  { query, limit = USUAL_ROWS }: { readonly query: string; readonly limit?: number },
): Promise<ExitCode> {
  const watchdog = new Worker(workerFile('core/watchdog-worker'), { workerData: LIMITS });
  watchdog.unref();
  const config = readConfigToShow(context);
  const mirror = openConfiguredMirror(config, 'read', 'mcp-sql', context.pid);
  const definitions = new Map<string, (kind: Kind) => ResourceDefinition>();
  const definitionOf = (kind: Kind, source: string): ResourceDefinition => {
    const known = definitions.get(source) ?? definitionsFor(config, source);
    definitions.set(source, known);
    return known(kind);
  };
  const known = [...config.sources.map(({ name }) => name), ...mirror.runs.sources()];
  try {
    const answer = mirror.queryMasked({
      sql: query,
      maxRows: limit,
      maxCharacters: MOST_CHARACTERS,
      maskBody: (kind, source, body) =>
        JSON.stringify(maskedBody(parseLossless(body), definitionOf(kind, source))),
      maskName: (kind, source, name) => {
        const pointers = [...catalogDefinition(kind).nameFrom, ...definitionOf(kind, source).nameFrom];
        const masked = pointers.map((pointer) => maskedAt(pointer, name, definitionOf(kind, source)));
        const hidden = masked.find((each) => each !== name);
        return typeof hidden === 'string' ? hidden : name;
      },
      maskId: (kind, source, id) => maskedId(id, definitionOf(kind, source)),
      hasSecretId: ({ kind }) => known.some((source) => isSecretId(definitionOf(kind, source))),
    });
    const document = { schema: 'tidemark.sql/1', ...answer, row_count: answer.rows.length };
    await printJson(context, document);
    return EXIT.done;
  } finally {
    mirror.close();
    await watchdog.terminate();
  }
}
