/** `sources[].secrets`: values for what the service never shows, for records that a restore has to create again. */
import * as z from 'zod';
import { KINDS, type Kind } from '../catalog/kinds.ts';
import { Secret } from '../core/secret.ts';
import { absolutePath, type Checking } from './checking.ts';
import type { SecretRule } from './config.ts';
import { place } from './mistakes.ts';
import { readSecretText } from './secret-file.ts';
import { pathKey, type Path } from './tree.ts';
import { structured } from './value-types.ts';

const POINTER = /^\/./;

/** YAML reads an id of digits as a number, and `true` as a flag: both are meant as the text that is there. */
const MATCHED = z.union([z.string().min(1), z.int().transform(String), z.boolean().transform(String)]);

/** What is empty or not set is reported by its place (`valueOf`): it must not make all the other secrets unreadable. */
const VALUE = z.union([z.string(), z.strictObject({ file: z.string().optional() })]);

const RULE = z.strictObject({
  match: z.record(z.string().min(1), MATCHED).optional(),
  values: z.record(z.string().regex(POINTER), VALUE),
});

type Rule = z.output<typeof RULE>;

type ConfiguredSecrets = Readonly<Partial<Record<Kind, readonly Rule[]>>>;

export const SECRETS = structured<ConfiguredSecrets>(
  'mapping by kind',
  'a mapping of kinds to lists of {match, values}: match a mapping of fields to texts (left out: every record), ' +
    'values a mapping of JSON pointers to ${VARIABLE} or {file: PATH}',
  z.partialRecord(z.enum(KINDS), z.array(RULE)),
);

/**
 * The rules with their values read; a value that is not there is left out, and a warning says so. So is a rule of which
 * not all is known that tells its records: it would give their secrets to others.
 */
export function secretRules(checking: Checking, at: Path, given: ConfiguredSecrets): SecretRule[] {
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

function valueOf(checking: Checking, path: Path, value: Rule['values'][string]): Secret | null {
  const { tree, mistakes, warnings } = checking;
  const filePath = [...path, 'file'];
  if (value === '') {
    warnings.push(`${place(tree, path)}empty: restores that need it stay blocked`);
    return null;
  }
  if (typeof value === 'string') {
    const isReferred = tree.templates.has(pathKey(path)) || tree.label === null;
    if (!isReferred && !isFromEnvironment(checking, path)) {
      warnings.push(
        `${place(tree, path)}written in clear; refer to a variable (\${NAME}) or use {file: PATH}`,
      );
    }
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

function isFromEnvironment({ tree }: Checking, path: Path): boolean {
  return path.some((_part, index) => tree.variables.has(pathKey(path.slice(0, index + 1))));
}
