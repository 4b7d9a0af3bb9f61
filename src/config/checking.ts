/** Shared by the checks of a configuration: the tree, mistakes and warnings, the files that were read, and secrets from files. */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { isLoopback } from '../core/local-url.ts';
import { systemCodeOf } from '../core/errors.ts';
import { didYouMean } from '../core/suggest.ts';
import { type Mistakes, place } from './mistakes.ts';
import type { Profile } from './override-options.ts';
import type { ProxySettings } from './proxy.ts';
import { pathKey, valueAt, type Path, type Tree } from './tree.ts';

/** A profile that was found by its name or path. */
export type FoundProfile =
  | { readonly profile: Profile; readonly tree: Tree }
  /** Why it was not found: the end of a sentence about the option. */
  | { readonly mistake: string };

/**
 * `unused` for commands that only read the mirror: a missing key, variable or key file is not a mistake, nor is a
 * configuration without sources. `optional` is the same, but keys are read from files if possible.
 */
export type KeyNeed = 'required' | 'optional' | 'unused';

/** What every check needs. */
export interface Checking {
  readonly tree: Tree;
  readonly mistakes: Mistakes;
  readonly warnings: string[];
  /** Files of secrets that every user can read, with the position of their warning. */
  readonly openFiles: Map<string, { readonly index: number; readonly count: number; readonly first: string }>;
  /** See `Config.unmasked`. */
  readonly unmasked: string[];
  /** Directory of the configuration file, or the current one. */
  readonly fileDirectory: string;
  readonly cwd: string;
  readonly keys: KeyNeed;
  readonly proxies: ProxySettings;
  readonly files: FilesRead;
  /** By directory and name: each is read once, even if many sources have it. */
  readonly profiles: Map<string, FoundProfile>;
}

type Surrounding = Pick<Checking, 'tree' | 'cwd' | 'fileDirectory'>;

/** The base of relative paths: the current directory for a value from a variable, otherwise that of the file. */
export function directoryOf({ tree, cwd, fileDirectory }: Surrounding, path: Path): string {
  return isFromVariable(tree, path) ? cwd : fileDirectory;
}

/** The configured path, made absolute. @param path of the option */
export function absolutePath(checking: Surrounding, path: Path, configured: string): string {
  return resolve(directoryOf(checking, path), configured);
}

/** True if a `TIDEMARK_…` variable set this value, or one that contains it. */
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
    const names = configured.length === 0 ? 'there is none' : `configured: ${configured.join(', ')}`;
    const known = didYouMean(source, configured) || ` (${names})`;
    const shown = JSON.stringify(source.slice(0, 60));
    mistakes.add(tree, [...at, index], `expected the name of a source; ${shown} is none${known}`);
  }
}

/** The end of the warning about a missing secret of a channel. */
export const NOT_SENT = 'disabled until it is set';
/** The end of the warning about a missing value for restores. */
export const BLOCKED = 'restores that need it stay blocked, and no report masks it';

/** Turns mistakes about variables that are not set, below a path, into warnings. Returns their lines. */
export function unsetLines({ tree, mistakes, warnings }: Checking, at: Path): string[] {
  const lines = mistakes.removeUnset(tree, at);
  warnings.push(...lines.map((line) => `${line}: ${NOT_SENT}`));
  return lines;
}

/** Warns about a secret that is written in the file. `instead` ends the sentence. */
export function warnOfClearText({ tree, warnings }: Checking, path: Path, instead: string): void {
  if (tree.templates.has(pathKey(path)) || isFromVariable(tree, path)) return;
  if (isPlainLocalUrl(valueAt(tree.root, path))) return;
  warnings.push(`${place(tree, path)}written in clear; refer to a variable (\${NAME}) or use ${instead}`);
}

/** Longer parts of a path are taken to be random tokens. */
const LONGEST_WORD = 15;

/** True for a URL of this machine without a password, a query, or a token in its path. */
function isPlainLocalUrl(value: unknown): boolean {
  if (typeof value !== 'string' || !URL.canParse(value)) return false;
  const { hostname, username, password, search, pathname } = new URL(value);
  const hasToken = pathname.split('/').some((part) => part.length > LONGEST_WORD);
  return isLoopback(hostname) && username + password + search === '' && !hasToken;
}

/**
 * The content of the file that `…File` names; undefined if the secret is given as `key`, or not at all. Both together
 * are a mistake.
 * @param onUnreadable called with a line, without the secret, if the file cannot be read; if omitted, this is a mistake
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

/** Warns about a file that every user can read: once, even if many options name it. @param file absolute */
export function warnOfOpenFile({ tree, warnings, openFiles }: Checking, at: Path, file: string): void {
  const known = openFiles.get(file);
  const count = (known?.count ?? 0) + 1;
  const index = known?.index ?? warnings.length;
  const first =
    known?.first ?? `${place(tree, at)}${file} can be read by every user of this machine; chmod 600 it`;
  openFiles.set(file, { index, count, first });
  warnings[index] = count === 1 ? first : `${first} (${count} options name it)`;
}

/** The content of a secret file, only to be masked; a file that cannot be read is added to `unmasked`. */
export function secretInFile(checking: Checking, at: Path, file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  const read = readSecretFile(absolutePath(checking, at, file));
  if ('value' in read) return read.value;
  checking.unmasked.push(read.mistake);
  return undefined;
}

/** The files that a configuration was read from, to detect changes, and a hash of their contents, to tell configurations apart. */
export class FilesRead {
  readonly #contents = new Map<string, string>();

  /**
   * @param path absolute
   * @param content what was read, or why it could not be; kept as a hash
   */
  note(path: string, content: string): void {
    this.#contents.set(path, createHash('sha256').update(content).digest('hex'));
  }

  paths(): string[] {
    return [...this.#contents.keys()];
  }

  /** Hash of the content of one file; empty if it was not read. */
  hashOf(path: string): string {
    return this.#contents.get(path) ?? '';
  }

  /** Hash of everything. @param variables name and value of each environment variable on which the configuration depends */
  digest(variables: readonly (readonly [string, string | undefined])[]): string {
    const all = [[...this.#contents], variables.toSorted(([one], [other]) => (one < other ? -1 : 1))];
    return createHash('sha256').update(JSON.stringify(all)).digest('hex');
  }
}

// Reads secrets, and configuration files as text.

/** `isOpen`: every user of the machine can read it. `mistake`: the end of a sentence that does not quote the content. */
type SecretFile = { readonly value: string; readonly isOpen: boolean } | { readonly mistake: string };

// A key or address has some dozens of characters: larger files are a mistake.
const LARGEST_BYTES = 16_384;

/** A secret of any text, such as a private key: the content without the last line end. */
export function readSecretText(path: string): SecretFile {
  return readSmallFile(path, (text) => {
    const value = text.replace(/\r?\n$/, '');
    return value === '' ? { mistake: `${path} is empty: expected the secret in it` } : { value };
  });
}

/** A key or token: the trimmed content of the file. */
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
  const code = systemCodeOf(error);
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'does not exist';
  if (code === 'EACCES' || code === 'EPERM') return 'cannot be read: permission denied';
  if (code === 'EISDIR') return 'is a directory: expected a file';
  return `cannot be read: ${error instanceof Error ? error.message : String(error)}`;
}

const LARGEST_DOCUMENT_BYTES = 4 * 1024 * 1024;

type TextFile = { readonly text: string } | { readonly mistake: string; readonly isMissing: boolean };

/** The text of a UTF-8 file without its byte order mark, or why it cannot be read, as the end of a sentence. */
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

/** Returns the addresses of proxies, after warning about ranges that contain more than proxies. */
export function withWideNamed({ tree, warnings }: Checking, networks: readonly string[]): readonly string[] {
  const claims = 'any address and, with http.userHeader, any name';
  for (const line of wideNetworks(networks, claims))
    warnings.push(`${place(tree, ['http', 'trustedProxies'])}${line}`);
  return networks;
}

/**
 * A line about each range that contains more than proxies.
 * @param claims what forwarded headers can claim
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
