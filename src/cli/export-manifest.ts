/**
 * What an export left in its directory, so that the next one takes away its own and nothing else. It stands beside the
 * records in whatever keeps the tree (git, say): so it names no time and no run, and stays as it is while the records do.
 */
import { join } from 'node:path';
import { KINDS } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import type { ExportExtent } from '../state/export-extent.ts';
import { textOf, writeIfDifferent } from './whole-file.ts';

export type ExportFormat = 'ndjson' | 'json' | 'yaml' | 'csv';

const MANIFEST_NAME = '.tidemark-export.json';

export interface Manifest {
  readonly format: ExportFormat;
  /** Names in the directory: files (`members.csv`), or folders of record files, which end in a slash (`members/`). */
  readonly paths: readonly string[];
  /** What the export was narrowed with, and which collections it holds whole; earlier versions did not say. */
  readonly extent?: ExportExtent;
}

/**
 * The manifest of a directory; undefined where no export left one.
 * @throws TidemarkError `usage` for a file of that name that is none
 */
export async function readManifest(directory: string): Promise<Manifest | undefined> {
  const path = join(directory, MANIFEST_NAME);
  const text = await textOf(path);
  if (text === undefined) return undefined;
  const manifest = parsed(text);
  if (manifest === undefined) {
    throw new TidemarkError('usage', `${path} is not what an export leaves`, {
      hint: 'put it back as it was, or choose another directory with --output',
    });
  }
  return manifest;
}

/** Written only where it says something else than before. */
export async function writeManifest(
  directory: string,
  { format, paths, extent }: Manifest,
  how: { readonly pid: number; readonly signal: AbortSignal },
): Promise<void> {
  const document = { schema: 'tidemark.export_manifest/1', format, paths: [...paths].sort(), ...extent };
  await writeIfDifferent(join(directory, MANIFEST_NAME), `${JSON.stringify(document, null, 2)}\n`, how);
}

/** A tree that is passed around can hold any manifest: it must not lead out of the directory, or to others' files. */
function parsed(text: string): Manifest | undefined {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    // SyntaxError: cut or edited; the caller says so.
    return undefined;
  }
  if (typeof document !== 'object' || document === null) return undefined;
  const { schema, format, paths } = document as Partial<Record<string, unknown>>;
  if (schema !== 'tidemark.export_manifest/1' || !isFormat(format) || !Array.isArray(paths)) return undefined;
  const isAllOurs = paths.every((path) => typeof path === 'string' && (isFolder(path) || isKindFile(path)));
  return isAllOurs ? { format, paths: paths as string[] } : undefined;
}

function isFormat(value: unknown): value is ExportFormat {
  return value === 'ndjson' || value === 'json' || value === 'yaml' || value === 'csv';
}

export function isFolder(path: string): boolean {
  return /^[A-Za-z0-9%_~-][A-Za-z0-9%_~.-]*\/$/.test(path);
}

function isKindFile(path: string): boolean {
  const [kind = '', format, ...rest] = path.split('.');
  return (KINDS as readonly string[]).includes(kind) && isFormat(format) && rest.length === 0;
}
