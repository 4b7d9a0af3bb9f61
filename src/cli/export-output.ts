/** Where an export goes: to stdout, into a file or into a directory, in its format. */
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import type { Kind } from '../catalog/kinds.ts';
import { escapeForTerminal, escapeInLines } from '../core/escape-control.ts';
import { TidemarkError } from '../core/errors.ts';
import { count, plural } from '../core/wording.ts';
import {
  csvLines,
  jsonDocument,
  ndjsonLines,
  yamlDocument,
  yamlDocuments,
} from '../report/export/documents.ts';
import { fileSegment, recordPath } from '../report/export/file-name.ts';
import { parquetOfKind } from '../report/export/parquet.ts';
import { type TerraformCounts, terraformImports } from '../report/export/terraform.ts';
import type { ExportExtent } from '../state/export.ts';
import { inChunks, writeAtomically, yieldToEventLoop } from './atomic-file.ts';
import { print, printNote, type CommandContext } from './context.ts';
import { type ExportContent, extentOfKind } from './export-content.ts';
import {
  writeDirectory,
  type DirectoryOutcome,
  type ExportFile,
  type ExportFormat,
} from './export-directory.ts';
import type { StaleCollection } from './export-notes.ts';

/** How the records are to be written. */
export interface Shape {
  readonly format: ExportFormat;
  readonly kinds: readonly Kind[];
  readonly extent: ExportExtent;
  /** Of which state; null for several sources, each of which has its own latest. */
  readonly of: { readonly run: number; readonly at: string } | null;
}

/** Writes the records to stdout: of a table, those of the only kind. */
export async function toStdout(context: CommandContext, content: ExportContent, shape: Shape): Promise<void> {
  const only = isTable(shape.format) ? shape.kinds[0] : undefined;
  await writeToStdout(context, piecesOf(content, shape, { only }), shape.format);
}

/** Yields to the event loop between chunks; on a terminal, control characters are escaped. */
export async function writeToStdout(
  context: CommandContext,
  pieces: Iterable<string | Uint8Array>,
  format: ExportFormat,
): Promise<void> {
  const isJson = format === 'ndjson' || format === 'json';
  const escaped = isJson ? escapeForTerminal : format === 'csv' ? escapeInLines : null;
  for (const chunk of inChunks(pieces)) {
    await yieldToEventLoop(context.signal);
    const isEscaped = escaped !== null && context.stdout.isTTY === true && typeof chunk === 'string';
    const safe = isEscaped ? escaped(chunk) : chunk;
    // `once` from node:events takes its listeners away again and rejects on an error of the stream.
    if (!context.stdout.write(safe)) await once(context.stdout, 'drain');
  }
}

/** Formats with columns, which differ between kinds. */
export function isTable(format: ExportFormat): boolean {
  return format === 'csv' || format === 'parquet';
}

/** The content of all kinds, or of `only` one: a table knows no other way. State and extent go where the format has room for them. */
function piecesOf(
  content: ExportContent,
  { format, extent, of }: Pick<Shape, 'format' | 'extent' | 'of'>,
  { only, imports }: { readonly only: Kind | undefined; readonly imports?: TerraformCounts },
): Iterable<string | Uint8Array> {
  const unknown = new Map(extent.volatile_unknown?.map(({ kind, fields }) => [kind, fields]));
  const narrowing = only === undefined ? {} : { kind: only };
  switch (format) {
    case 'csv':
      if (only === undefined) throw new Error('a CSV file holds one kind');
      return csvLines(only, content.hasSource, content.look(narrowing), content.records(narrowing));
    case 'parquet':
      if (only === undefined) throw new Error('a Parquet file holds one kind');
      return parquetOfKind(only, content.dated(narrowing), content.parents());
    case 'terraform-imports':
      return terraformImports(content.look(narrowing), content.records(narrowing), imports);
    case 'yaml':
      return yamlDocuments(content.records(narrowing), unknown);
    case 'json':
      return jsonDocument(content.records(narrowing), { ...of, ...extent });
    case 'ndjson':
      return ndjsonLines(content.records(narrowing), unknown);
  }
}

/** The endings of file names by which `--output` means a file rather than a directory. */
const ENDINGS: Readonly<Record<ExportFormat, readonly string[]>> = {
  ndjson: ['.ndjson', '.jsonl'],
  json: ['.json'],
  yaml: ['.yaml', '.yml'],
  csv: ['.csv'],
  parquet: ['.parquet'],
  'terraform-imports': ['.tf'],
};

/** Those of other formats: a directory of that name would be a surprise. */
const UNKNOWN_ENDING =
  /\.(?:xlsx?|ods|tsv|txt|xml|html?|md|pdf|sql|db|sqlite3?|duckdb|avro|orc|arrow|feather|gz|zip|zst|tar|tgz)$/i;

/**
 * The format of the file that `--output` names by its ending; null for a directory, also for one that has such a name.
 * @throws TidemarkError `usage` where another format is asked for, or the ending is of none
 */
export function formatOfFile(
  { cwd }: CommandContext,
  output = '',
  asked?: ExportFormat,
): ExportFormat | null {
  const formats = Object.keys(ENDINGS) as ExportFormat[];
  const format = formats.find((each) =>
    ENDINGS[each].some((ending) => output.toLowerCase().endsWith(ending)),
  );
  const ending = UNKNOWN_ENDING.exec(output)?.[0];
  if (format === undefined && ending === undefined) return null;
  if (statSync(resolve(cwd, output), { throwIfNoEntry: false })?.isDirectory() === true) return null;
  if (format === undefined)
    throw new TidemarkError('usage', `${output}: there is no export as ${ending}`, {
      hint: `name a directory, or a file that ends in ${Object.values(ENDINGS).flat().join(', ')}`,
    });
  if (asked === undefined || asked === format) return format;
  throw new TidemarkError('usage', `${output} is the name of a file of the format ${format}, not ${asked}`, {
    hint: `leave --format out, or name a directory, or a file that ends in ${ENDINGS[asked].join(' or ')}`,
  });
}

/** Writes what would go to stdout. */
export async function toFile(
  context: CommandContext,
  path: string,
  content: ExportContent,
  shape: Shape,
  stale: readonly StaleCollection[],
): Promise<void> {
  const only = isTable(shape.format) ? shape.kinds[0] : undefined;
  const imports = { blocks: 0, comments: 0 };
  const pieces = piecesOf(content, shape, { only, imports });
  await writeAtomically(path, pieces, { pid: context.pid, signal: context.signal });
  const counted =
    shape.format === 'terraform-imports'
      ? `${plural(imports.blocks, 'import block')}, and ${plural(imports.comments, 'record')} as comments,`
      : plural(content.count, 'record');
  await reportFile(context, path, {
    ...{ format: shape.format, run: content.run, counted },
    unread: unreadDocument(shape.extent, stale),
  });
}

/** Says that the file is written, and how much is in it. `unread`: keys of the document, with what it may lack. */
export async function reportFile(
  context: CommandContext,
  path: string,
  about: {
    readonly format: ExportFormat;
    readonly run: number;
    readonly unread: object;
    readonly counted: string;
  },
): Promise<void> {
  const { format, run, unread, counted } = about;
  if (context.options.json === true) {
    const outcome = { files: 1, written: 1, removed: 0 };
    const document = {
      ...outcomeDocument(dirname(path), format, run, outcome, unread),
      file: basename(path),
    };
    await print(context, `${JSON.stringify(document)}\n`);
  } else printNote(context, [`${counted} written to ${path}`]);
}

/** Returns how many files of an earlier export it removed. */
export async function toDirectory(
  context: CommandContext,
  directory: string,
  content: ExportContent,
  { format, kinds, extent }: Shape,
  stale: readonly StaleCollection[],
): Promise<number> {
  const outcome = await writeDirectory(
    directory,
    format === 'yaml'
      ? { format, extent, paths: folders(content, kinds), files: () => recordFiles(content) }
      : {
          format,
          extent,
          paths: kinds.map((kind) => `${kind}.${format}`),
          files: () => kindFiles(content, { format, kinds, extent }),
        },
    {
      ...{ pid: context.pid, signal: context.signal },
      note: (line) => printNote(context, [line]),
    },
  );
  if (context.options.json === true) {
    const document = outcomeDocument(directory, format, content.run, outcome, unreadDocument(extent, stale));
    await print(context, `${JSON.stringify(document)}\n`);
    return outcome.removed;
  }
  const { files, written, removed } = outcome;
  printNote(context, [
    `${plural(files, 'file')} in ${directory}: ${count(written)} written, ${count(files - written)} unchanged; ${count(removed)} of an earlier export removed`,
  ]);
  return removed;
}

function outcomeDocument(
  directory: string,
  format: ExportFormat,
  run: number,
  outcome: DirectoryOutcome,
  unread: object,
): object {
  return {
    schema: 'tidemark.export_directory/1',
    directory,
    format,
    run,
    files: outcome.files,
    written: outcome.written,
    removed: outcome.removed,
    ...unread,
  };
}

function unreadDocument(
  { unread_by_source: bySource }: ExportExtent,
  stale: readonly StaleCollection[],
): object {
  return {
    ...(bySource === undefined ? {} : { unread_by_source: bySource }),
    stale: stale.map(({ source, kind, scope, outcome, error, lastComplete, limited, part }) => ({
      ...{ source, kind, scope, outcome },
      last_complete: lastComplete,
      ...(limited === undefined ? {} : { is_limited: true, reason: limited }),
      ...(part === undefined ? {} : { is_part: true, reason: part }),
      ...(limited !== undefined || outcome === null
        ? {}
        : { reason: error === null ? outcome : `${outcome}: ${error}` }),
    })),
  };
}

/** The folders that a tree of record files will have: per source where several are named, else per kind. */
function folders(content: ExportContent, kinds: readonly Kind[]): string[] {
  return content.hasSource
    ? content.sources
        .filter((source) => !content.isEmpty({ source }))
        .map((source) => `${fileSegment(source)}/`)
    : kinds.filter((kind) => !content.isEmpty({ kind })).map((kind) => `${kind}/`);
}

function* recordFiles(content: ExportContent): Generator<ExportFile> {
  for (const record of content.records()) {
    const path = recordPath(record);
    yield {
      path: [...path.slice(0, -1), `${path.at(-1) ?? ''}.yaml`],
      pieces: [yamlDocument(record)],
      isRecord: true,
    };
  }
}

/** Without run and time: a tree that is kept changes only where the records do. */
function* kindFiles(
  content: ExportContent,
  { format, kinds, extent }: Pick<Shape, 'format' | 'kinds' | 'extent'>,
): Generator<ExportFile> {
  for (const kind of kinds) {
    const pieces = piecesOf(
      content,
      { format, extent: extentOfKind(extent, kind), of: null },
      { only: kind },
    );
    yield { path: [`${kind}.${format}`], pieces, isRecord: false };
  }
}
