/** Which files an export consists of, and their texts: a file, a directory that `export --output` wrote, or stdin. */
import { createReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { isKind } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonValue, isJsonObject, parseLossless } from '../core/json.ts';
import { asFileTrouble } from '../core/file-errors.ts';
import { systemCodeOf } from '../core/system-errors.ts';
import { type ExportExtent, extentIn, UNFINISHED_NAME } from './export-extent.ts';
import { type TextFormat, formatOfName, formatOfText } from './export-texts.ts';

interface ExportText {
  /** As messages name it. */
  readonly name: string;
  readonly format: TextFormat;
  readonly text: string;
}

interface ExportFiles {
  readonly texts: AsyncIterable<ExportText>;
  /** Kinds that the directory has a place for, be it empty; null where nothing says which. */
  readonly kinds: ReadonlySet<Kind> | null;
  /** What the directory's manifest says of it; null where nothing does. */
  readonly extent: ExportExtent | null;
}

const MANIFEST = '.tidemark-export.json';
/** Opened anew: the process's own descriptor does not wait. */
const STDIN = '/dev/stdin';

/**
 * Finds the files of an export.
 * @throws TidemarkError `reference_unknown` when there is no such path, `usage` when it is no export that can be read
 * back, `file_system` and `read_only` from reading
 */
export async function findExport(path: string, cwd: string): Promise<ExportFiles> {
  if (path === '-')
    return {
      texts: oneText('standard input', null, () => buffer(createReadStream(STDIN))),
      kinds: null,
      extent: null,
    };
  const absolute = resolve(cwd, path);
  const isDirectory = await isFolder(absolute, path);
  if (!isDirectory) {
    const format = formatOfName(path);
    if (format === 'csv') throw isCsv(path);
    return { texts: oneText(path, format ?? null, () => readFile(absolute)), kinds: null, extent: null };
  }
  const { kinds, extent } = await readManifest(absolute, path);
  const names = (await readdir(absolute, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(absolute.length + 1))
    // What begins with a dot is not the export's: the manifest, a `.git` beside the records, half-written files.
    .filter((name) => !name.split(/[/\\]/).some((part) => part.startsWith('.')))
    .sort();
  const readable = names.filter((name) => {
    const format = formatOfName(name);
    return format !== undefined && format !== 'csv';
  });
  if (readable.length === 0 && names.some((name) => formatOfName(name) === 'csv')) throw isCsv(path);
  if (readable.length === 0 && kinds === null) {
    throw new TidemarkError('usage', `${path} holds no export`, {
      hint: 'name a file or directory that `tidemark export` wrote as ndjson, json or yaml',
    });
  }
  return { texts: textsOf(readable, absolute, path), kinds, extent };
}

async function isFolder(absolute: string, path: string): Promise<boolean> {
  try {
    return (await stat(absolute)).isDirectory();
  } catch (error) {
    if (systemCodeOf(error) !== 'ENOENT') throw asFileTrouble(error, path, 'read');
    throw new TidemarkError('reference_unknown', `there is no file or directory ${path}`, {
      hint: 'file:PATH names what `tidemark export` wrote; a relative path starts at the current directory',
    });
  }
}

function isCsv(path: string): TidemarkError {
  return new TidemarkError('usage', `${path} is CSV: it does not say enough to be read back`, {
    hint: 'write the export with --format ndjson, json or yaml',
  });
}

async function* textsOf(
  names: readonly string[],
  directory: string,
  path: string,
): AsyncGenerator<ExportText> {
  for (const name of names) {
    yield* oneText(join(path, name), formatOfName(name) as TextFormat, () => readFile(join(directory, name)));
  }
}

async function* oneText(
  name: string,
  format: TextFormat | null,
  read: () => Promise<Buffer>,
): AsyncGenerator<ExportText> {
  let bytes: Buffer;
  try {
    bytes = await read();
  } catch (error) {
    throw asFileTrouble(error, name, 'read');
  }
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new TidemarkError('usage', `${name} is not UTF-8 text`, {
      hint: 'name a file that `tidemark export` wrote',
      cause: error,
    });
  }
  yield { name, format: format ?? formatOfText(text), text };
}

type Manifest = Pick<ExportFiles, 'kinds' | 'extent'>;

/** The kinds that a manifest names places for, if its folders are kinds, and what it says of them. */
async function readManifest(directory: string, path: string): Promise<Manifest> {
  const none = { kinds: null, extent: null };
  let manifest: JsonValue;
  try {
    manifest = parseLossless(await readFile(join(directory, MANIFEST), 'utf8'));
  } catch (error) {
    // What is no JSON is not what an export leaves; the records say what they are by themselves.
    if (systemCodeOf(error) === 'ENOENT' || error instanceof SyntaxError) return none;
    throw asFileTrouble(error, join(path, MANIFEST), 'read');
  }
  const paths = isJsonObject(manifest) ? manifest['paths'] : undefined;
  if (!Array.isArray(paths)) return none;
  const kinds = paths.map((each) => (typeof each === 'string' ? each : '').replace(/(?:\/|\.[a-z]+)$/, ''));
  const isUnfinished = await isThere(join(directory, UNFINISHED_NAME));
  return {
    kinds: kinds.every(isKind) ? new Set(kinds) : null,
    extent: isUnfinished ? null : extentIn(manifest),
  };
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return false;
    throw asFileTrouble(error, path, 'read');
  }
}
