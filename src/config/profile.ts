/** Reads profiles, and applies their overrides and those of a user to the catalog. */
import { readdirSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import type { FieldDefinition, RestoreRules } from '../catalog/definition.ts';
import type { Kind, KindRow } from '../catalog/kinds.ts';
import { type ResourceDefinition, compileDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { packageFile } from '../core/package-root.ts';
import { didYouMean } from '../core/suggest.ts';
import { FilesRead, type FoundProfile, readTextFile } from './checking.ts';
import { readDocument } from './document.ts';
import { Mistakes } from './mistakes.ts';
import {
  type FieldOverride,
  type KindOverride,
  type KindOverrides,
  type Profile,
  PROFILE_OPTIONS,
} from './override-options.ts';
import { parseTree } from './parse.ts';
import { pathText, type Path } from './tree.ts';

type OverrideLayer = 'profile' | 'user';
type ReportOverrideMistake = (layer: OverrideLayer, path: Path, message: string) => void;

/**
 * The effective catalog: every kind with the profile's overrides and then the user's. The catalog itself is not
 * changed. An override of something unknown goes to `report`, which by default throws.
 * @throws TidemarkError `config_invalid` for an unknown kind or field, when no `report` is given
 */
export function applyProfile(
  catalog: readonly KindRow[],
  profile: Pick<Profile, 'kinds'>,
  userOverrides: KindOverrides,
  report: ReportOverrideMistake = refuse,
): readonly ResourceDefinition[] {
  const layers = [
    ['profile', profile.kinds],
    ['user', userOverrides],
  ] as const;
  let definitions: readonly KindRow[] = structuredClone(catalog);
  for (const [layer, overrides] of layers) {
    const kinds = definitions.map(({ kind }) => kind);
    for (const kind of Object.keys(overrides)) {
      if (!kinds.includes(kind as Kind)) report(layer, [kind], `unknown kind${didYouMean(kind, kinds)}`);
    }
    definitions = definitions.map((definition) => {
      const override = overrides[definition.kind];
      if (override === undefined) return definition;
      const result = overridden(definition, override, (path, message) =>
        report(layer, [definition.kind, ...path], message),
      );
      const isOpened = layer === 'user' && !isOpen(definition) && isOpen(result);
      return isOpened ? { ...result, isOpenedByHand: true } : result;
    });
  }
  return definitions.map(compileDefinition);
}

function refuse(layer: OverrideLayer, path: Path, message: string): never {
  throw new TidemarkError('config_invalid', `${layer} overrides: ${pathText(path)}: ${message}`);
}

type Report = (path: Path, message: string) => void;

function overridden(definition: KindRow, override: KindOverride, report: Report): KindRow {
  let fields = definition.fields;
  let renamed: KindRow = definition;
  for (const [name, change] of Object.entries(override.fields ?? {})) {
    const was = change.was ?? name;
    const known = fields.map((field) => field.name);
    const current = fields.find((field) => field.name === was);
    if (change.was !== undefined && current === undefined) {
      const near = didYouMean(was, known);
      report(['fields', name, 'was'], `${definition.kind} has no field ${JSON.stringify(was)}${near}`);
      continue;
    }
    if (was !== name && known.includes(name)) {
      report(['fields', name], `${definition.kind} already has a field of this name`);
      continue;
    }
    if (current === undefined && change.type === undefined) {
      const near = didYouMean(name, known) || '; to add it, give its type';
      report(['fields', name], `unknown field of ${definition.kind}${near}`);
      continue;
    }
    if (change.writable === true && !isWritableKind(definition)) {
      report(
        ['fields', name, 'writable'],
        `${definition.kind} cannot be written: the API has no operation for it`,
      );
      continue;
    }
    const field = overriddenField(name, current, change);
    fields =
      current === undefined ? [...fields, field] : fields.map((each) => (each === current ? field : each));
    if (was === name) continue;
    renamed = withRenamedPointers({ ...renamed, fields }, was, name);
    fields = renamed.fields;
  }
  const { permission, listing, rate, writePaths } = override;
  return {
    ...renamed,
    fields,
    naturalKey: override.naturalKey ?? renamed.naturalKey,
    nameFrom: override.nameFrom ?? renamed.nameFrom,
    references: override.references ?? renamed.references,
    permission: {
      ...renamed.permission,
      read: permission?.read ?? renamed.permission.read,
      write: permission?.write ?? renamed.permission.write,
    },
    listing: {
      listKeys: listing?.listKeys ?? renamed.listing.listKeys,
      acceptsQuery: listing?.acceptsQuery ?? renamed.listing.acceptsQuery,
      query: listing?.query ?? renamed.listing.query,
      isCountTrusted: listing?.countTrusted ?? renamed.listing.isCountTrusted,
      needsRetrieve: listing?.needsRetrieve ?? renamed.listing.needsRetrieve,
    },
    ...(rate === undefined || (rate.perMinute ?? rate.perHour) === undefined
      ? {}
      : {
          rate: {
            perMinute: rate.perMinute ?? renamed.rate?.perMinute ?? 0,
            perHour: rate.perHour ?? renamed.rate?.perHour ?? 0,
          },
        }),
    restore:
      writePaths === undefined
        ? renamed.restore
        : {
            ...renamed.restore,
            alternativePaths: {
              ...renamed.restore.alternativePaths,
              ...(writePaths.create === undefined ? {} : { create: writePaths.create }),
              ...(writePaths.update === undefined ? {} : { update: writePaths.update }),
            },
          },
  };
}

/** True if a field can be written. */
function isOpen({ fields }: KindRow): boolean {
  return fields.some(({ isWritable, isVolatile }) => isWritable && !isVolatile);
}

function isWritableKind(definition: KindRow): boolean {
  return definition.operations.some(({ role }) => role === 'create' || role === 'update');
}

function overriddenField(
  name: string,
  current: FieldDefinition | undefined,
  change: FieldOverride,
): FieldDefinition {
  const isWritable = change.writable ?? current?.isWritable ?? false;
  const shownAt = change.shownAt ?? current?.shownAt;
  return {
    name,
    type: change.type ?? current?.type ?? 'any',
    isWritable,
    isVolatile: change.volatile ?? current?.isVolatile ?? false,
    isSecret: change.secret ?? current?.isSecret ?? false,
    secretPointers: change.secretPointers ?? current?.secretPointers ?? [],
    secretsNeeded: change.secretsNeeded ?? current?.secretsNeeded ?? null,
    isCreateOnly: change.createOnly ?? current?.isCreateOnly ?? false,
    isMerged: change.merged ?? current?.isMerged ?? false,
    requires: change.requires ?? current?.requires ?? null,
    isUnordered: change.unordered ?? current?.isUnordered ?? false,
    ...(shownAt === undefined ? {} : { shownAt }),
    // As in the catalog: fields that can be set matter more than derived ones.
    severity: change.severity ?? current?.severity ?? (isWritable ? 'medium' : 'low'),
    values:
      change.values === undefined
        ? (current?.values ?? null)
        : change.values === 'any'
          ? null
          : change.values,
    description: change.description ?? current?.description ?? 'Named by the configuration.',
  };
}

/** The rules of restore, with the new name of a field, and pointers into it. */
function followed(
  restore: RestoreRules<Kind>,
  was: string,
  name: string,
  follow: (pointer: string) => string,
): RestoreRules<Kind> {
  const renamed = (field: string): string => (field === was ? name : field);
  const at = <Place extends { readonly pointer: string }>(place: Place): Place => ({
    ...place,
    pointer: follow(place.pointer),
  });
  const { state, replacedBy, owner, keepsHighest } = restore;
  return {
    ...restore,
    state: state && {
      ...state,
      field: renamed(state.field),
      actions: state.actions.map((each) => ({ ...each, alsoSets: each.alsoSets.map(renamed) })),
    },
    derived: restore.derived.map((each) => ({
      ...each,
      field: renamed(each.field),
      from: each.from.map(follow),
    })),
    follows: restore.follows.map((each) => ({ ...each, field: renamed(each.field) })),
    requestValues: restore.requestValues.map((each) => ({ ...each, field: renamed(each.field) })),
    owner: owner === null ? null : follow(owner),
    byPerson: restore.byPerson.map((each) => ({
      ...at(each),
      ...(each.shows === undefined ? {} : { shows: follow(each.shows) }),
      ...(each.doneWhen === undefined ? {} : { doneWhen: at(each.doneWhen) }),
    })),
    endedWhen: restore.endedWhen.map(at),
    replacedBy: replacedBy && { ...replacedBy, pointer: follow(replacedBy.pointer) },
    keepsHighest: keepsHighest === null ? null : follow(keepsHighest),
  };
}

/** The definition with pointers into a renamed field changed. */
function withRenamedPointers(definition: KindRow, was: string, name: string): KindRow {
  const follow = (pointer: string): string =>
    pointer === `/${was}` || pointer.startsWith(`/${was}/`)
      ? `/${name}${pointer.slice(was.length + 1)}`
      : pointer;
  return {
    ...definition,
    fields: definition.fields.map((field) =>
      field.requires === null ? field : { ...field, requires: follow(field.requires) },
    ),
    idPath: definition.idPath.map((part, index) => (index === 0 && part === was ? name : part)),
    naturalKey: definition.naturalKey.map(follow),
    nameFrom: definition.nameFrom.map(follow),
    references: definition.references.map((reference) => ({
      ...reference,
      pointer: follow(reference.pointer),
    })),
    restore: followed(definition.restore, was, name, follow),
  };
}

/** Names of the profiles that ship with the package. */
export function profileNames(): string[] {
  return readdirSync(packageFile('config', 'profiles'))
    .filter((name) => name.endsWith('.yaml'))
    .map((name) => basename(name, '.yaml'))
    .toSorted();
}

/** Profiles of the package that were read without a mistake, by name: many configurations use the same one. */
const readBefore = new Map<string, { readonly text: string; readonly found: FoundProfile }>();

/**
 * Reads a profile. A word is one of `profileNames`; anything with a slash or ending in .yaml or .yml is a path,
 * relative to `directory`. Mistakes in the file are added to `mistakes`.
 */
export function findProfile(
  nameOrPath: string,
  directory: string,
  mistakes: Mistakes,
  files: FilesRead,
): FoundProfile {
  const isPath = /[/\\]|\.ya?ml$/.test(nameOrPath);
  const path = isPath
    ? resolve(directory, nameOrPath)
    : packageFile('config', 'profiles', `${nameOrPath}.yaml`);
  const file = readTextFile(path);
  if (!isPath && !readBefore.has(nameOrPath)) {
    // Compared exactly: some file systems find a file whatever the letter case of its name.
    const names = profileNames();
    if (!names.includes(nameOrPath)) {
      const near = didYouMean(nameOrPath, names, JSON.stringify);
      return {
        mistake: `expected one of ${names.join(', ')} or the path of a file, got ${JSON.stringify(nameOrPath)}${near}`,
      };
    }
  }
  files.note(path, JSON.stringify(file));
  if ('mistake' in file) return { mistake: `${path} ${file.mistake}` };
  const before = isPath ? undefined : readBefore.get(nameOrPath);
  if (before?.text === file.text) return before.found;
  const mistakesBefore = mistakes.count;
  const label = isPath ? nameOrPath : `profiles/${nameOrPath}.yaml`;
  const { tree } = readDocument(file.text, label, null, mistakes);
  const { rate, keyPath, kinds } = parseTree(PROFILE_OPTIONS, tree, mistakes);
  const found: FoundProfile = { profile: { name: nameOrPath, rate, keyPath, kinds }, tree };
  if (!isPath && mistakes.count === mistakesBefore) readBefore.set(nameOrPath, { text: file.text, found });
  return found;
}

/**
 * The profile of an option `--profile`.
 * @throws TidemarkError `usage` when there is none of that name, `config_invalid` when it is damaged
 */
export function profileOption(nameOrPath: string, directory: string): Profile {
  const mistakes = new Mistakes();
  const found = findProfile(nameOrPath, directory, mistakes, new FilesRead());
  if ('mistake' in found) throw new TidemarkError('usage', `--profile: ${found.mistake}`);
  mistakes.throwIfAny();
  return found.profile;
}
