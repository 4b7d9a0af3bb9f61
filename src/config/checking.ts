/** What the checks of a configuration share: the tree, where mistakes go, the files that were read, and secrets from files. */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { isLoopback } from '../core/local-url.ts';
import { suggest } from '../core/suggest.ts';
import { type Mistakes, place } from './mistakes.ts';
import type { Profile } from './override-options.ts';
import type { ProxySettings } from './proxy.ts';
import { pathKey, valueAt, type Path, type Tree } from './tree.ts';

/** A profile as it was found by its name or path. */
export type FoundProfile =
  | { readonly profile: Profile; readonly tree: Tree }
  /** The name or path leads nowhere: the end of a sentence about the option. */
  | { readonly mistake: string };

/**
 * `unused` for commands that only read the mirror: a missing key, variable or key file is not a mistake then, nor is having no
 * source at all. `optional` is the same, with the keys in files that can be read.
 */
export type KeyNeed = 'required' | 'optional' | 'unused';

/** What every check needs: the tree, where to put what is wrong or unwise, and where relative paths start. */
export interface Checking {
  readonly tree: Tree;
  readonly mistakes: Mistakes;
  readonly warnings: string[];
  /** Files of secrets that everybody can read, with the place of their warning. */
  readonly openFiles: Map<string, { readonly index: number; readonly count: number; readonly first: string }>;
  /** As `Config.unmasked`. */
  readonly unmasked: string[];
  /** Directory of the configuration file, or the current one. */
  readonly fileDirectory: string;
  readonly cwd: string;
  readonly keys: KeyNeed;
  readonly proxies: ProxySettings;
  /** Every file that is read is noted here. */
  readonly files: FilesRead;
  /** By directory and name: read once however many sources have it. */
  readonly profiles: Map<string, FoundProfile>;
}

type Surrounding = Pick<Checking, 'tree' | 'cwd' | 'fileDirectory'>;

/** Where relative paths at a place start: from a variable at the current directory, else at the file's. */
export function directoryOf({ tree, cwd, fileDirectory }: Surrounding, path: Path): string {
  return isFromVariable(tree, path) ? cwd : fileDirectory;
}

export function absolutePath(checking: Surrounding, path: Path, configured: string): string {
  return resolve(directoryOf(checking, path), configured);
}

/** True for what a `TIDEMARK_…` variable set, alone or with what it is part of. */
function isFromVariable({ variables }: Tree, path: Path): boolean {
  return path.some((_part, index) => variables.has(pathKey(path.slice(0, index + 1))));
}

/** Reports names that are not those of configured sources. */
export function checkSourceNames(
  { tree, mistakes }: Checking,
  at: Path,
  given: readonly string[],
  configured: readonly string[],
): void {
  for (const [index, source] of given.entries()) {
    if (configured.includes(source)) continue;
    const near = suggest(source, configured);
    const known =
      near !== undefined
        ? `; did you mean ${near}?`
        : configured.length === 0
          ? ' (there is none)'
          : ` (configured: ${configured.join(', ')})`;
    const shown = JSON.stringify(source.slice(0, 60));
    mistakes.add(tree, [...at, index], `expected the name of a source; ${shown} is none${known}`);
  }
}

/** Ends the warning of a secret that is not there. */
export const NOT_SENT = 'disabled until it is set';
/** Ends that of a value for restores. */
export const BLOCKED = 'restores that need it stay blocked, and no report masks it';

/** Variables that are not set below a path, taken from the mistakes and made warnings. */
export function unsetLines({ tree, mistakes, warnings }: Checking, at: Path): string[] {
  const lines = mistakes.removeUnset(tree, at);
  warnings.push(...lines.map((line) => `${line}: ${NOT_SENT}`));
  return lines;
}

/** Warns of a secret that is written in the file. `instead` ends the sentence. */
export function warnOfClearText({ tree, warnings }: Checking, path: Path, instead: string): void {
  if (tree.templates.has(pathKey(path)) || isFromVariable(tree, path)) return;
  if (isPlainLocalUrl(valueAt(tree.root, path))) return;
  warnings.push(`${place(tree, path)}written in clear; refer to a variable (\${NAME}) or use ${instead}`);
}

/** As long as no word of a path is: a random token. */
const LONGEST_WORD = 15;

/** A URL of this machine without a password, a query, or a token in its path. */
function isPlainLocalUrl(value: unknown): boolean {
  if (typeof value !== 'string' || !URL.canParse(value)) return false;
  const { hostname, username, password, search, pathname } = new URL(value);
  const hasToken = pathname.split('/').some((part) => part.length > LONGEST_WORD);
  return isLoopback(hostname) && username + password + search === '' && !hasToken;
}

/**
 * What the file of `keyFile` holds; undefined where the secret is given as `key`, or not at all. Both together are a
 * mistake. A file that cannot be read goes to `onUnreadable`, as a line without the secret.
 * @param onUnreadable left out: it is a mistake
 */
export function fileSecret(
  checking: Checking,
  at: Path,
  key: string,
  file: string | undefined,
  onUnreadable?: (line: string) => void,
): string | undefined {
  const { tree, mistakes } = checking;
  const [textPath, filePath] = [
    [...at, key],
    [...at, `${key}File`],
  ];
  const hasText = valueAt(tree.root, textPath) !== undefined;
  if (hasText && file !== undefined) {
    mistakes.add(tree, filePath, `expected ${key} or ${key}File, got both`);
    return undefined;
  }
  if (hasText && !mistakes.covers(tree, textPath)) warnOfClearText(checking, textPath, `${key}File`);
  if (file === undefined) return undefined;
  const path = absolutePath(checking, filePath, file);
  const read = readSecretFile(path);
  checking.files.note(path, JSON.stringify(read));
  if ('mistake' in read) {
    if (onUnreadable === undefined) mistakes.add(tree, filePath, read.mistake);
    else onUnreadable(`${place(tree, filePath)}${read.mistake}`);
    return undefined;
  }
  if (read.isOpen) warnOfOpenFile(checking, filePath, path);
  return read.value;
}

/** One warning per file, however many options name it. @param file absolute */
export function warnOfOpenFile({ tree, warnings, openFiles }: Checking, at: Path, file: string): void {
  const known = openFiles.get(file);
  const count = (known?.count ?? 0) + 1;
  const index = known?.index ?? warnings.length;
  const first =
    known?.first ?? `${place(tree, at)}${file} can be read by every user of this machine; chmod 600 it`;
  openFiles.set(file, { index, count, first });
  warnings[index] = count === 1 ? first : `${first} (${count} options name it)`;
}

/** What a file of one secret holds that is only masked; one that cannot be read is noted in `unmasked`. */
export function secretInFile(checking: Checking, at: Path, file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  const read = readSecretFile(absolutePath(checking, at, file));
  if ('value' in read) return read.value;
  checking.unmasked.push(read.mistake);
  return undefined;
}

/**
 * The files that a configuration was read from, to detect that it may have changed, and one hash of their contents, by which
 * two configurations are distinguished.
 */
export class FilesRead {
  readonly #contents = new Map<string, string>();

  /**
   * @param path absolute
   * @param content what was taken from it, or why nothing was; kept as a hash
   */
  note(path: string, content: string): void {
    this.#contents.set(path, createHash('sha256').update(content).digest('hex'));
  }

  paths(): string[] {
    return [...this.#contents.keys()];
  }

  /** Of what was taken from one file; empty for one that was not read. */
  hashOf(path: string): string {
    return this.#contents.get(path) ?? '';
  }

  /** @param variables name and value of each variable of the environment that the configuration depends on */
  digest(variables: readonly (readonly [string, string | undefined])[]): string {
    const all = [[...this.#contents], variables.toSorted(([one], [other]) => (one < other ? -1 : 1))];
    return createHash('sha256').update(JSON.stringify(all)).digest('hex');
  }
}

// Secrets from files, as containers mount them, and configuration files as text.

type SecretFile = { readonly value: string; readonly isOpen: boolean } | { readonly mistake: string };

// A key or address has some dozens of characters: a larger file is not one.
const LARGEST_BYTES = 16_384;

/** The content of a file of any text, such as a private key, without the line end of its last line. */
export function readSecretText(path: string): SecretFile {
  return readSmallFile(path, (text) => {
    const value = text.replace(/\r?\n$/, '');
    return value === '' ? { mistake: `${path} is empty: expected the secret in it` } : { value };
  });
}

/**
 * The trimmed content of a secret file; `isOpen` says that every user of the machine can read it. A problem is
 * returned as the end of a sentence that does not quote the content.
 */
export function readSecretFile(path: string): SecretFile {
  return readSmallFile(path, (text) => {
    const value = text.trim();
    if (value === '') return { mistake: `${path} is empty: expected the secret in it` };
    return /^[\x21-\x7e]+$/.test(value)
      ? { value }
      : { mistake: `${path}: expected one secret of visible ASCII characters without spaces` };
  });
}

function readSmallFile(
  path: string,
  take: (text: string) => { readonly value: string } | { readonly mistake: string },
): SecretFile {
  try {
    const facts = statSync(path);
    if (facts.isDirectory())
      return { mistake: `${path} is a directory: expected a file that holds the secret` };
    if (facts.size > LARGEST_BYTES) return { mistake: `${path} is too large to be a secret` };
    const taken = take(readFileSync(path, 'utf8'));
    if ('mistake' in taken) return taken;
    return { ...taken, isOpen: process.platform !== 'win32' && (facts.mode & 0o004) !== 0 };
  } catch (error) {
    return { mistake: `${path} ${unreadable(error)}` };
  }
}

/** Why a file could not be read, as the end of a sentence. */
function unreadable(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'does not exist';
  if (code === 'EACCES' || code === 'EPERM') return 'cannot be read: permission denied';
  if (code === 'EISDIR') return 'is a directory: expected a file';
  return `cannot be read: ${error instanceof Error ? error.message : String(error)}`;
}

// An organization's list of ids fits a thousand times over.
const LARGEST_DOCUMENT_BYTES = 4 * 1024 * 1024;

type TextFile = { readonly text: string } | { readonly mistake: string; readonly isMissing: boolean };

/** The text of a UTF-8 file without its byte order mark; or why it cannot be read, as the end of a sentence. */
export function readTextFile(path: string): TextFile {
  let bytes: Buffer;
  try {
    const facts = statSync(path);
    if (facts.isDirectory()) return { mistake: 'is a directory: expected a YAML file', isMissing: false };
    if (facts.size > LARGEST_DOCUMENT_BYTES)
      return { mistake: 'is larger than 4 MB: expected a YAML file', isMissing: false };
    bytes = readFileSync(path);
  } catch (error) {
    const mistake = unreadable(error);
    return { mistake, isMissing: mistake === 'does not exist' };
  }
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    // TypeError: the bytes are not UTF-8.
    return { mistake: 'is not UTF-8 text: save it in that encoding', isMissing: false };
  }
}

/** The addresses of proxies, after a warning of ranges that have more than proxies in them. */
export function withWideNamed({ tree, warnings }: Checking, networks: readonly string[]): readonly string[] {
  const claims = 'any address and, with http.userHeader, any name';
  for (const line of wideNetworks(networks, claims))
    warnings.push(`${place(tree, ['http', 'trustedProxies'])}${line}`);
  return networks;
}

/**
 * A line of each range that has more than proxies in it.
 * @param claims what its forwarded headers are believed for
 */
export function wideNetworks(networks: readonly string[], claims = 'any address'): string[] {
  const wide = networks.filter((each) => {
    const [address = '', bits] = each.split('/');
    return bits !== undefined && (address.includes(':') ? Number(bits) < 32 : Number(bits) <= 8);
  });
  return wide.map((each) => {
    const who = each.startsWith('127.') ? 'every user of this machine' : 'whoever is in it';
    return `${each} is wide: ${who} can claim ${claims}; list the proxies alone`;
  });
}
