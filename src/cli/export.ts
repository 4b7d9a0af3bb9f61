/** `tidemark export`: the mirror's records as NDJSON, JSON, YAML or CSV, to stdout or into a directory. */
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { finished } from 'node:stream/promises';
import type { Writable } from 'node:stream';
import { definitionOf } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/definition.ts';
import { KINDS } from '../catalog/definition.ts';
import { EXIT, TidemarkError } from '../core/errors.ts';
import type { ExitCode } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import { stringifyYaml } from '../core/yaml.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { MirrorRecord } from '../mirror/records.ts';
import { CsvColumns } from '../report/export/csv.ts';
import { recordPath } from '../report/export/file-name.ts';
import { exportLine } from '../report/export/record.ts';
import type { ExportRecord } from '../report/export/record.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { resolveRun } from './reference.ts';

type Format = 'ndjson' | 'json' | 'yaml' | 'csv';

interface ExportOptions {
  readonly format?: Format;
  readonly output?: string;
  readonly at?: string;
  readonly kind?: readonly Kind[];
  readonly organization?: readonly string[];
  readonly project?: readonly string[];
  readonly id?: readonly string[];
}

export async function exportRecords(context: CommandContext, options: ExportOptions): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const format = options.format ?? (context.options.json === true ? 'json' : 'ndjson');
  const mirror = openConfiguredMirror(config, 'read', 'export', context.pid);
  try {
    const names = config.sources.map(({ name }) => name);
    const filter: RecordFilter = {
      ...(names.length === 0 ? {} : { sources: names }),
      ...(options.kind === undefined ? {} : { kinds: options.kind }),
      ...(options.organization === undefined ? {} : { organizations: options.organization }),
      ...(options.project === undefined ? {} : { projects: options.project }),
      ...(options.id === undefined ? {} : { ids: options.id }),
    };
    const run = resolveRun(mirror, options.at ?? 'latest');
    const recordsOf = (of: RecordFilter): Iterable<MirrorRecord> =>
      run === null ? mirror.readRecords(of) : mirror.readRecordsAt(run, of);
    const read = (kinds?: readonly Kind[]): Iterable<ExportRecord> =>
      withSource(recordsOf(kinds === undefined ? filter : { ...filter, kinds }), names.length > 1);
    if (options.output === undefined) await toStream(context.stdout, format, read, options);
    else await toDirectory(resolve(context.cwd, options.output), format, read, options);
  } finally {
    mirror.close();
  }
  return EXIT.done;
}

function* withSource(
  records: Iterable<Omit<ExportRecord, 'source'> & { readonly source: string }>,
  isNamed: boolean,
): Generator<ExportRecord> {
  for (const record of records) yield { ...record, source: isNamed ? record.source : null };
}

type Read = (kinds?: readonly Kind[]) => Iterable<ExportRecord>;

async function toStream(stream: Writable, format: Format, read: Read, options: ExportOptions): Promise<void> {
  if (format === 'csv') {
    const [kind, ...others] = options.kind ?? [];
    if (kind === undefined || others.length > 0) {
      throw new TidemarkError('usage', 'CSV on stdout holds one kind', {
        hint: 'name it with --kind, or write one file per kind with --output DIR',
      });
    }
    await write(stream, csvLines(kind, read));
  } else if (format === 'yaml') {
    await write(stream, yamlDocuments(read()));
  } else await write(stream, format === 'json' ? jsonDocument(read()) : ndjsonLines(read()));
}

async function toDirectory(
  directory: string,
  format: Format,
  read: Read,
  options: ExportOptions,
): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  if (format === 'yaml') {
    for (const record of read()) {
      const path = `${join(directory, ...recordPath(record))}.yaml`;
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await writeFile(path, yamlOf(record), { mode: 0o600 });
    }
    return;
  }
  for (const kind of options.kind ?? KINDS) {
    const lines =
      format === 'csv'
        ? csvLines(kind, read)
        : format === 'json'
          ? jsonDocument(read([kind]))
          : ndjsonLines(read([kind]));
    const file = createWriteStream(join(directory, `${kind}.${format}`), { mode: 0o600 });
    await write(file, lines);
    file.end();
    await finished(file);
  }
}

function* ndjsonLines(records: Iterable<ExportRecord>): Generator<string> {
  for (const record of records) yield `${exportLine(record)}\n`;
}

function* jsonDocument(records: Iterable<ExportRecord>): Generator<string> {
  yield '{"schema":"tidemark.export/1","records":[';
  let separator = '\n';
  for (const record of records) {
    yield separator + exportLine(record);
    separator = ',\n';
  }
  yield '\n]}\n';
}

function* yamlDocuments(records: Iterable<ExportRecord>): Generator<string> {
  for (const record of records) yield `---\n${yamlOf(record)}`;
}

function yamlOf({ kind, scope, id, body, source }: ExportRecord): string {
  return stringifyYaml({
    ...(source === null ? {} : { source }),
    kind,
    scope: { ...scope },
    id,
    body: parseLossless(body),
  });
}

function* csvLines(kind: Kind, read: Read): Generator<string> {
  const records = read([kind]);
  const columns = new CsvColumns(definitionOf(kind), isNamedSource(read, kind));
  for (const { body } of records) columns.see(body);
  yield columns.header();
  for (const record of read([kind])) yield columns.line(record);
}

function isNamedSource(read: Read, kind: Kind): boolean {
  for (const { source } of read([kind])) return source !== null;
  return false;
}

/** Writes in pieces of about 64 KiB, and waits for the reader. */
async function write(stream: Writable, pieces: Iterable<string>): Promise<void> {
  let buffer = '';
  const flush = async (): Promise<void> => {
    if (buffer === '') return;
    const isFlowing = stream.write(buffer);
    buffer = '';
    // `once` from node:events takes its listeners away again and rejects on an error of the stream.
    if (!isFlowing) await once(stream, 'drain');
  };
  for (const piece of pieces) {
    buffer += piece;
    if (buffer.length > 65_536) await flush();
  }
  await flush();
}
