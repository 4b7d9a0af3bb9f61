/** Writes an export in its format: to stdout, into a file or into a directory. */
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import type { Kind } from '../catalog/kinds.ts';
import { escapeForTerminal, escapeInLines } from '../core/escape-control.ts';
import { TidemarkError } from '../core/errors.ts';
import { formatInteger, plural } from '../core/wording.ts';
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
import { printJson, printNote, type CommandContext } from './context.ts';
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
  /** The state; null for several sources, each of which has its own latest state. */
  readonly of: { readonly run: number; readonly at: string } | null;
}

/** Writes the records to stdout; as a table, those of the only kind. */
export async function toStdout(context: CommandContext, content: ExportContent, shape: Shape): Promise<void> {
  const only = isTable(shape.format) ? shape.kinds[0] : undefined;
  await writeToStdout(context, piecesOf(content, shape, { only }), shape.format);
}

/** Writes to stdout; on a terminal, control characters are escaped. */
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
    // Unlike the stream's own `once`, that of node:events rejects on an error of the stream.
    if (!context.stdout.write(safe)) await once(context.stdout, 'drain');
  }
}

/** True for formats with columns, which differ between kinds. */
export function isTable(format: ExportFormat): boolean {
  return format === 'csv' || format === 'parquet';
}

/** The content of all kinds, or of `only` one, as tables need. The state and the extent are included if the format can have them. */
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

/** File name endings with which `--output` means a file, not a directory. */
const ENDINGS: Readonly<Record<ExportFormat, readonly string[]>> = {
  ndjson: ['.ndjson', '.jsonl'],
  json: ['.json'],
  yaml: ['.yaml', '.yml'],
  csv: ['.csv'],
  parquet: ['.parquet'],
  'terraform-imports': ['.tf'],
};

/** Endings of other formats, which nobody means as the name of a directory. */
const UNKNOWN_ENDING =
  /\.(?:xlsx?|ods|tsv|txt|xml|html?|md|pdf|sql|db|sqlite3?|duckdb|avro|orc|arrow|feather|gz|zip|zst|tar|tgz)$/i;

/**
 * The format of the file that `--output` names, by its ending; null for a directory, including an existing one with such a name.
 * @throws TidemarkError `usage` if `--format` is another one, or no format has the ending
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

/** Writes to a file what would otherwise go to stdout. */
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
  await writeAtomically(path, pieces, context);
  const counted =
    shape.format === 'terraform-imports'
      ? `${plural(imports.blocks, 'import block')}, and ${plural(imports.comments, 'record')} as comments,`
      : plural(content.count, 'record');
  await reportFile(context, path, {
    ...{ format: shape.format, run: content.run, counted },
    unread: unreadDocument(shape.extent, stale),
  });
}

/** Reports that the file is written. @param about.unread keys of the document about what the file may lack */
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
    const document = outcomeDocument(dirname(path), format, run, outcome, unread);
    await printJson(context, { ...document, file: basename(path) });
  } else printNote(context, [`${counted} written to ${path}`]);
}

/** Returns how many files of an earlier export were removed. */
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
    { pid: context.pid, signal: context.signal, note: (line) => printNote(context, [line]) },
  );
  const { files, written, removed } = outcome;
  if (context.options.json === true) {
    const unread = unreadDocument(extent, stale);
    await printJson(context, outcomeDocument(directory, format, content.run, outcome, unread));
  } else
    printNote(context, [
      `${plural(files, 'file')} in ${directory}: ${formatInteger(written)} written, ${formatInteger(files - written)} unchanged; ${formatInteger(removed)} of an earlier export removed`,
    ]);
  return removed;
}

function outcomeDocument(
  directory: string,
  format: ExportFormat,
  run: number,
  { files, written, removed }: DirectoryOutcome,
  unread: object,
): object {
  const schema = 'tidemark.export_directory/1';
  return { schema, directory, format, run, files, written, removed, ...unread };
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

/** The folders of record files: one per source if there are several, otherwise one per kind. */
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

/** Without run and time: the files change only if the records do. */
function* kindFiles(
  content: ExportContent,
  { format, kinds, extent }: Pick<Shape, 'format' | 'kinds' | 'extent'>,
): Generator<ExportFile> {
  for (const kind of kinds) {
    const shape = { format, extent: extentOfKind(extent, kind), of: null };
    const pieces = piecesOf(content, shape, { only: kind });
    yield { path: [`${kind}.${format}`], pieces, isRecord: false };
  }
}
