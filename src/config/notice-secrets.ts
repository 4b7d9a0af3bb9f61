/** Secrets of channels and pings: one that is not there keeps that channel silent, and stops no backup. */
import { Secret } from '../core/secret.ts';
import { absolutePath, type Checking } from './checking.ts';
import { place } from './mistakes.ts';
import { readSecretFile } from './secret-file.ts';
import { pathKey, type Path } from './tree.ts';

const NOT_SENT = 'nothing is sent through it';

/** Variables that are not set below a path, taken from the mistakes and made warnings. */
export function unsetLines({ tree, mistakes, warnings }: Checking, at: Path): string[] {
  const lines = mistakes.removeUnset(tree, at);
  warnings.push(...lines.map((line) => `${line}: ${NOT_SENT}`));
  return lines;
}

interface GivenSecret {
  readonly text: string | undefined;
  readonly file: string | undefined;
  readonly isNeeded: boolean;
  /** Of the URL that it must be; null where any text will do. */
  readonly schemes: readonly string[] | null;
}

/**
 * The secret given as `key` or `keyFile`; null where there is none. What is wrong is a mistake; a file that cannot be read
 * is a warning and goes into `problems`. No message quotes the value.
 */
export function urlSecret(
  checking: Checking,
  at: Path,
  key: string,
  { text, file, isNeeded, schemes }: GivenSecret,
  problems: string[],
): Secret | null {
  const { tree, mistakes, warnings } = checking;
  const filePath = [...at, `${key}File`];
  if (text !== undefined && file !== undefined) {
    mistakes.add(tree, filePath, `expected ${key} or ${key}File, got both`);
    return null;
  }
  if (text === undefined && file === undefined) {
    if (isNeeded && problems.length === 0)
      mistakes.add(tree, [...at, key], `missing; give ${key}: \${VARIABLE} or ${key}File`);
    return null;
  }
  let value = text?.trim() ?? '';
  let isFrom: Path = [...at, key];
  if (file !== undefined) {
    isFrom = filePath;
    const path = absolutePath(checking, filePath, file);
    const read = readSecretFile(path);
    checking.files.note(path, JSON.stringify(read));
    if ('mistake' in read) {
      const line = `${place(tree, filePath)}${read.mistake}`;
      warnings.push(`${line}: ${NOT_SENT}`);
      problems.push(line);
      return null;
    }
    if (read.isOpen)
      warnings.push(
        `${place(tree, filePath)}${path} can be read by every user of this machine; chmod 600 it`,
      );
    value = read.value;
  } else if (!isReferred(checking, isFrom)) {
    warnings.push(`${place(tree, isFrom)}written in clear; refer to a variable (\${NAME}) or use ${key}File`);
  }
  const url = schemes === null ? null : URL.parse(value);
  if (schemes !== null && (url === null || !schemes.includes(url.protocol) || url.hostname === '')) {
    mistakes.add(
      tree,
      isFrom,
      `expected a URL that begins with ${schemes.map((scheme) => `${scheme}//`).join(' or ')}`,
    );
    return null;
  }
  return new Secret(value);
}

/** True where the value came from outside of the file: by `${VAR}`, or the whole list by its variable. */
function isReferred({ tree }: Checking, path: Path): boolean {
  return (
    tree.templates.has(pathKey(path)) ||
    path.some((_part, index) => tree.variables.has(pathKey(path.slice(0, index + 1))))
  );
}
