/** `sources[].secrets`: values for what the service never shows, for records that a restore has to create again. */
import type { Kind } from '../catalog/kinds.ts';
import { Secret } from '../core/secret.ts';
import { absolutePath, readSecretText, warnOfClearText, type Checking } from './checking.ts';
import type { SecretRule } from './config.ts';
import { place } from './mistakes.ts';
import type { ParsedSource } from './options.ts';
import { pathKey, type Path } from './tree.ts';

const POINTER = /^\/./;

type SecretValue = string | { readonly file?: string | undefined };

/**
 * The rules with their values read; a value that is not there is left out, and a warning says so. So is a rule of which
 * not all is known that tells its records: it would give their secrets to others.
 */
export function secretRules(checking: Checking, at: Path, given: ParsedSource['secrets']): SecretRule[] {
  const unset = [...checking.tree.unset].map((key) => JSON.parse(key) as Path);
  return Object.entries(given).flatMap(([kind, rules]) =>
    rules.flatMap(({ match = {}, values }, index): SecretRule[] => {
      const matchPath = [...at, kind, index, 'match'];
      if (unset.some((path) => matchPath.every((part, depth) => path[depth] === part))) return [];
      const path = [...at, kind, index, 'values'];
      const rule = {
        kind: kind as Kind,
        match: Object.fromEntries(
          Object.entries(match).map(([name, text]) => [POINTER.test(name) ? name : `/${name}`, text]),
        ),
        values: Object.fromEntries(
          Object.entries(values).flatMap(([pointer, value]) => {
            const secret = valueOf(checking, [...path, pointer], value);
            return secret === null ? [] : [[pointer, secret]];
          }),
        ),
      };
      return [rule];
    }),
  );
}

function valueOf(checking: Checking, path: Path, value: SecretValue): Secret | null {
  const { tree, mistakes, warnings } = checking;
  const filePath = [...path, 'file'];
  if (value === '') {
    warnings.push(`${place(tree, path)}empty: restores that need it stay blocked`);
    return null;
  }
  if (typeof value === 'string') {
    warnOfClearText(checking, path, '{file: PATH}');
    return new Secret(value);
  }
  if (value.file === undefined || value.file === '') {
    // A warning reports the unset variable already.
    if (!tree.unset.has(pathKey(filePath))) mistakes.add(tree, path, 'expected {file: PATH}');
    return null;
  }
  const file = absolutePath(checking, path, value.file);
  const read = readSecretText(file);
  checking.files.note(file, JSON.stringify(read));
  if ('mistake' in read) {
    warnings.push(`${place(tree, path)}${read.mistake}: restores that need it stay blocked`);
    return null;
  }
  if (read.isOpen) {
    warnings.push(
      `${place(tree, path)}${value.file} can be read by every user of this machine; chmod 600 it`,
    );
  }
  return new Secret(read.value);
}
