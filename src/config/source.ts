/** Checks one source of the configuration: key, address, kinds, profile, secrets. */
import { createHash } from 'node:crypto';
import { CATALOG, definitionOf } from '../catalog/catalog.ts';
import type { KindRate } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { isLoopback } from '../core/local-url.ts';
import { Secret } from '../core/secret.ts';
import {
  BLOCKED,
  type Checking,
  directoryOf,
  fileSecret,
  secretInFile,
  type FoundProfile,
  absolutePath,
  readSecretText,
  warnOfClearText,
  warnOfOpenFile,
} from './checking.ts';
import type { Config, KindRateLimits, SourceConfig, SecretRule } from './config.ts';
import { checkGit } from './git.ts';
import { type KindChoice, foundOtherwise, mirroredKinds, takenAlong } from './mirrored-kinds.ts';
import { place } from './mistakes.ts';
import type { ParsedSource } from './options.ts';
import type { KindOverrides } from './override-options.ts';
import { findProfile, applyProfile } from './profile.ts';
import { valueAt, type Path, type Tree, pathKey } from './tree.ts';

/** The definitions of a profile, shared by the sources without `definitions` of their own. */
const definitionsOf = new WeakMap<FoundProfile, readonly ResourceDefinition[]>();

/** The profile, which is read once for all sources that name it. */
function profileOf(checking: Checking, name: string, directory: string): FoundProfile {
  const key = JSON.stringify([directory, name]);
  const known = checking.profiles.get(key);
  if (known !== undefined) return known;
  const found = findProfile(name, directory, checking.mistakes, checking.files);
  checking.profiles.set(key, found);
  return found;
}

/** The source at a position of the list; null if its address or profile is missing or wrong. */
export function checkSource(checking: Checking, parsed: ParsedSource, index: number): SourceConfig | null {
  const { tree, mistakes, warnings, keys } = checking;
  const needsKeys = keys === 'required';
  const at: Path = ['sources', index];
  const isWrong = (...keys: string[]): boolean => mistakes.covers(tree, [...at, ...keys]);

  const isRead = needsKeys || (keys === 'optional' && parsed.apiKey === undefined);
  const file = isRead ? parsed.apiKeyFile : undefined;
  const onUnreadable = needsKeys ? undefined : (): void => undefined;
  const apiKey =
    fileSecret(checking, at, 'apiKey', file, onUnreadable) ??
    parsed.apiKey ??
    // Not sent, but masked.
    secretInFile(checking, [...at, 'apiKeyFile'], parsed.apiKeyFile);
  if (apiKey === undefined && needsKeys && !isWrong('apiKey') && !isWrong('apiKeyFile')) {
    mistakes.add(
      tree,
      [...at, 'apiKey'],
      'missing; give apiKey: ${VARIABLE} or apiKeyFile, or set TIDEMARK_API_KEY or TIDEMARK_API_KEY_FILE',
    );
  }

  const { baseUrl } = parsed;
  if (baseUrl === undefined && !isWrong('baseUrl')) {
    mistakes.add(
      tree,
      [...at, 'baseUrl'],
      'missing; expected the address of the service, or TIDEMARK_BASE_URL',
    );
  }
  if (baseUrl?.protocol === 'http:' && !isLoopback(baseUrl.hostname)) {
    const where = place(tree, [...at, 'baseUrl']);
    warnings.push(
      `${where}http:// sends the key unencrypted to ${baseUrl.hostname}; use https:// where it is offered`,
    );
  }

  const kinds = checkKinds(checking, parsed, at);
  const profilePath = [...at, 'profile'];
  const found = profileOf(checking, parsed.profile, directoryOf(checking, profilePath));
  if ('mistake' in found) {
    mistakes.add(tree, profilePath, found.mistake);
    return null;
  }
  const apply = (): readonly ResourceDefinition[] =>
    applyProfile(CATALOG, found.profile, parsed.definitions, (layer, path, message) => {
      if (layer === 'user') mistakes.add(tree, [...at, 'definitions', ...path], message);
      else mistakes.add(found.tree, ['kinds', ...path], message);
    });
  const hasOwn = Object.keys(parsed.definitions).length > 0;
  const definitions = hasOwn ? apply() : (definitionsOf.get(found) ?? apply());
  if (!hasOwn) definitionsOf.set(found, definitions);
  if (baseUrl === undefined) return null;
  const kindLimits = kindRates(
    definitions,
    parsed.definitions,
    (window) => valueAt(tree.root, [...at, 'rate', window]) !== undefined && parsed.rate[window] === 0,
  );
  return {
    name: parsed.name,
    baseUrl,
    apiKey: new Secret(apiKey ?? ''),
    keyOption: parsed.apiKeyFile === undefined ? 'apiKey' : 'apiKeyFile',
    proxies: checking.proxies,
    profile: parsed.profile,
    ...(found.profile.keyPath === undefined ? {} : { keyPath: found.profile.keyPath }),
    organizations: parsed.organizations,
    projects: parsed.projects,
    kinds,
    rate: {
      perMinute: chosen(tree, at, 'perMinute', parsed.rate.perMinute, found.profile.rate.perMinute),
      perHour: chosen(tree, at, 'perHour', parsed.rate.perHour, found.profile.rate.perHour),
      concurrency: chosen(tree, at, 'concurrency', parsed.rate.concurrency, found.profile.rate.concurrency),
      ...(kindLimits.length === 0 ? {} : { kinds: kindLimits }),
    },
    pageSize: parsed.pageSize,
    retry: parsed.retry,
    sync: { maxDurationMs: parsed.sync.maxDuration },
    recordings: {
      sharingPerRun: parsed.recordings.sharingPerRun,
      fullSweepEveryMs: parsed.recordings.fullSweepEvery,
    },
    removals: {
      maxRecords: parsed.removals.maxRecords,
      maxShare: parsed.removals.maxShare,
      confirmAfterMs: parsed.removals.confirmAfter,
    },
    restore: {
      maxShare: parsed.restore.maxShare,
      minRecords: parsed.restore.minRecords,
      maxAgeMs: parsed.restore.maxAge,
      ownUser: parsed.restore.ownUser ?? null,
    },
    redact: parsed.redact,
    secrets: secretRules(checking, [...at, 'secrets'], parsed.secrets),
    given: { secrets: Object.keys(parsed.secrets), definitions: Object.keys(parsed.definitions) },
    git: checkGit(checking, at, parsed.name, parsed.git),
    definitions,
  };
}

/** The rate of the user; if none was given, that of the profile, otherwise the default. */
function chosen(tree: Tree, at: Path, key: string, parsed: number, ofProfile: number | undefined): number {
  return valueAt(tree.root, [...at, 'rate', key]) === undefined ? (ofProfile ?? parsed) : parsed;
}

/**
 * The limits of kinds. A kind that is read one by one for each parent counts with the kind of the parent, unless it has
 * a limit of its own. If the source lifts its limit (`rate.perMinute: 0`), the limits of the profile for kinds are
 * lifted too.
 * @param own the source's `definitions`, whose limits are not lifted
 */
function kindRates(
  definitions: readonly ResourceDefinition[],
  own: KindOverrides,
  isLifted: (window: keyof KindRate) => boolean,
): KindRateLimits[] {
  const kindsOf = new Map<Kind, [Kind, ...Kind[]]>();
  for (const { kind, rate } of definitions) if (rate !== undefined) kindsOf.set(kind, [kind]);
  for (const { kind, rate, reading, discovery } of definitions) {
    if (rate !== undefined || reading !== 'each' || discovery.from === 'root') continue;
    kindsOf.get(discovery.from)?.push(kind);
  }
  return definitions.flatMap(({ kind, rate }) => {
    const kinds = kindsOf.get(kind);
    if (rate === undefined || kinds === undefined) return [];
    const limit = (window: keyof KindRate): number =>
      isLifted(window) && own[kind]?.rate?.[window] === undefined ? 0 : rate[window];
    const limits = { perMinute: limit('perMinute'), perHour: limit('perHour') };
    return limits.perMinute === 0 && limits.perHour === 0 ? [] : [{ kinds, ...limits }];
  });
}

/**
 * The kinds of the source at this path. If none is left to mirror, this is a mistake; if an exclusion excludes others
 * too, there is a warning.
 */
function checkKinds(checking: Checking, parsed: ParsedSource, at: Path): SourceConfig['kinds'] {
  const { tree, mistakes, warnings } = checking;
  const { include, exclude } = parsed.kinds;
  const kinds = { include: include ?? null, exclude: exclude ?? [] };
  if (include !== undefined && exclude !== undefined) {
    mistakes.add(tree, [...at, 'kinds', 'exclude'], 'expected include or exclude, got both');
    return kinds;
  }
  if (include?.length === 0) {
    mistakes.add(tree, [...at, 'kinds'], 'leaves no kind to mirror');
    return kinds;
  }
  const isWrong = ['kinds', 'organizations', 'projects', 'recordings'].some((key) =>
    mistakes.covers(tree, [...at, key]),
  );
  if (isWrong || (include === undefined && exclude === undefined)) return kinds;
  const choice = { ...parsed, kinds };
  const path = [...at, 'kinds', include === undefined ? 'exclude' : 'include'];
  if (mirroredKinds(choice).size === 0) mistakes.add(tree, path, nothingLeft(choice));
  else warnings.push(...notes(choice).map((note) => `${place(tree, path)}${note}`));
  return kinds;
}

function nothingLeft(choice: KindChoice): string {
  const message = 'leaves no kind to mirror';
  if (choice.kinds.include !== null)
    return `${message}: ${switchedOff(choice).join(', ')} is off (${SWITCH}: 0)`;
  const parents = [...takenAlong(choice).keys()];
  if (parents.length === 0) return message;
  const names = parents.join(' and ');
  return `${message}: without ${names} nothing else is found; take ${names} out, or name the ids of those to mirror (organizations: [ID])`;
}

function notes(choice: KindChoice): string[] {
  const off = switchedOff(choice);
  return [
    ...[...takenAlong(choice)].map(
      ([parent, kinds]) =>
        `excluding ${parent} leaves out ${kinds.join(', ')} too, which only ${parent} lead to; name them here as well if you want that`,
    ),
    ...[...foundOtherwise(choice)].map(
      ([parent, kinds]) =>
        `without ${parent}, ${kinds.join(', ')} are found by the organizations' teams alone; name the ids (${parent}: [ID]) where those may not show all`,
    ),
    ...(off.length === 0 ? [] : [`${off.join(', ')} is not read while ${SWITCH} is 0`]),
  ];
}

const SWITCH = 'recordings.sharingPerRun';

/** Kinds that `include` names, but that another option switches off. */
function switchedOff({ kinds, recordings }: KindChoice): string[] {
  if (recordings.sharingPerRun !== 0) return [];
  return CATALOG.filter(
    ({ kind, reading }) => reading === 'each' && kinds.include?.includes(kind) === true,
  ).map(({ kind }) => kind);
}

/** The definitions of a source, with the secrets to mask; those of the catalog for a source that is no longer configured. */
export function definitionsFor(config: Config, source: string): (kind: Kind) => ResourceDefinition {
  const definitions = config.configured.find(({ name }) => name === source)?.definitions;
  const byKind = new Map(
    (definitions ?? config.unconfigured).map((definition) => [definition.kind, definition]),
  );
  return (kind) => byKind.get(kind) ?? definitionOf(kind);
}

/** What the configuration has already, for advice about lines to add. */
export interface Present {
  readonly variables: readonly string[];
  readonly given: NonNullable<SourceConfig['given']>;
}

/** What the configuration has already for a source. */
export function presentIn({ variables, configured }: Config, source: string): Present {
  const given = configured.find(({ name }) => name === source)?.given;
  return { variables, given: given ?? { secrets: [], definitions: [] } };
}

const POINTER = /^\/./;

type SecretValue = string | { readonly file?: string | undefined };

/**
 * Reads the values of `sources[].secrets`. Missing values are left out with a warning. So are rules whose
 * `match` is not completely known: they could match other records.
 */
function secretRules(checking: Checking, at: Path, given: ParsedSource['secrets']): SecretRule[] {
  const unset = [...checking.tree.unset].map(([key, what]) => ({ path: JSON.parse(key) as Path, what }));
  const below = (at: Path) => unset.filter(({ path }) => at.every((part, depth) => path[depth] === part));
  return Object.entries(given).flatMap(([kind, rules]) =>
    rules.flatMap(({ match = {}, values }, index): SecretRule[] => {
      const matchPath = [...at, kind, index, 'match'];
      if (below(matchPath).length > 0) return [];
      const path = [...at, kind, index, 'values'];
      const lacking = new Map(below(path).map((each) => [String(each.path[path.length]), each.what]));
      const found = Object.entries(values).flatMap(([pointer, value]): [string, Secret][] => {
        const secret = valueOf(checking, [...path, pointer], value);
        if (secret instanceof Secret) return [[pointer, secret]];
        if (secret !== null) lacking.set(pointer, secret.lacks);
        return [];
      });
      const rule = {
        kind: kind as Kind,
        match: Object.fromEntries(
          Object.entries(match).map(([name, text]) => [POINTER.test(name) ? name : `/${name}`, text]),
        ),
        values: Object.fromEntries(found),
      };
      return [lacking.size === 0 ? rule : { ...rule, unset: Object.fromEntries(lacking) }];
    }),
  );
}

/** The secret; or what is wrong with it, after a warning; or null if a warning or a mistake already reports it. */
function valueOf(checking: Checking, path: Path, value: SecretValue): Secret | { lacks: string } | null {
  const { tree, mistakes, warnings } = checking;
  const filePath = [...path, 'file'];
  if (value === '') {
    warnings.push(`${place(tree, path)}empty: restores that need it stay blocked`);
    return { lacks: 'its value is empty' };
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
    warnings.push(`${place(tree, path)}${read.mistake}: ${BLOCKED}`);
    return { lacks: read.mistake };
  }
  if (read.isOpen) warnOfOpenFile(checking, path, file);
  return new Secret(read.value);
}

/** Identifies a key at an origin without revealing it: for the log of requests, and to find sources that share a limit. */
export function keyFingerprint({ baseUrl, apiKey }: Pick<SourceConfig, 'baseUrl' | 'apiKey'>): string {
  return createHash('sha256').update(`${baseUrl.origin}\0${apiKey.reveal()}`).digest('hex').slice(0, 32);
}
