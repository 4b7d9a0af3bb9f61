/** Reads the configuration: file, environment, secrets, profiles; reports all mistakes together; returns a frozen object. */
import { dirname, isAbsolute, join, parse, relative, resolve } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { Secret } from '../core/secret.ts';
import { proxySettings } from './proxy.ts';
import { CATALOG } from '../catalog/catalog.ts';
import { checkNotices, checkPings } from './channels.ts';
import { isKey, secretsIn, withholding } from './known-secrets.ts';
import { absolutePath, BLOCKED, type Checking, type KeyNeed, FilesRead, readTextFile } from './checking.ts';
import type { SourceConfig } from './config.ts';
import { type Environment, readDocument } from './document.ts';
import { applyEnvironment, CONFIG_VARIABLE, MIRROR_VARIABLE, unknownVariables } from './environment.ts';
import { Mistakes } from './mistakes.ts';
import { type ParsedOptions, OPTIONS } from './options.ts';
import { parseTree, typeInterpolations } from './parse.ts';
import type { LoadedConfig } from './mirrors.ts';
import { aboutOf, schemasAlong } from './schema.ts';
import {
  checkBackupOptions,
  checkFleet,
  checkHttp,
  checkReplica,
  checkSchedules,
  rulesOf,
} from './sections.ts';
import { checkSource } from './source.ts';
import { emptyTree, valueAt, type Tree, type Path } from './tree.ts';

const DEFAULT_FILE = 'tidemark.yaml';

interface LoadOptions {
  /** From `--config`; otherwise `TIDEMARK_CONFIG`, otherwise `./tidemark.yaml` if it exists. */
  readonly file?: string | undefined;
  /** Used instead of the content of `file`. */
  readonly text?: string;
  readonly env: Environment;
  /** Absolute path of the current directory. */
  readonly cwd: string;
  /** Default `required`. */
  readonly keys?: KeyNeed;
}

/**
 * The configuration (design.md, Configuration): environment variables take precedence over the YAML file, and both over
 * defaults. `mirrorConfigs` makes a `Config` of it for each mirror.
 * @throws TidemarkError `config_missing` if there is neither a file nor variables that define a source, or the named
 * file does not exist; `config_invalid` with every mistake on a line of its own
 */
export function loadConfig(options: LoadOptions): LoadedConfig {
  const { env, cwd, keys = 'required' } = options;
  const needsKeys = keys === 'required';
  const mistakes = new Mistakes();
  const files = new FilesRead();
  const { file, tree, usedVariables } = readFile(options, mistakes, files);
  if (mistakes.hasTextMistake) mistakes.throwIfAny();

  applyEnvironment(tree, env, usedVariables, mistakes);
  const warnings = ignoreUnsetSecrets(tree, mistakes);
  typeInterpolations(OPTIONS, tree);
  const parsed = parseTree(OPTIONS, tree, mistakes);
  if (!needsKeys) ignoreMissingKeys(tree, parsed, mistakes);

  const fileDirectory = file === null ? cwd : dirname(file);
  const checking: Checking = {
    tree,
    mistakes,
    warnings,
    openFiles: new Map(),
    unmasked: [],
    fileDirectory,
    cwd,
    keys,
    proxies: proxySettings(env),
    files,
    profiles: new Map(),
  };
  const sources = parsed.sources
    .map((source, index) => checkSource(checking, source, index))
    .filter((source) => source !== null);
  checkNames(checking, parsed, sources);
  const names = sourceNames(tree, parsed);
  const http = checkHttp(checking, parsed);
  const parts: Omit<LoadedConfig, 'knownSecrets' | 'unmasked' | 'unconfigured'> = {
    file,
    mirrorPath: absolutePath(checking, ['mirror'], parsed.mirror),
    sources,
    configured: sources,
    schedules: checkSchedules(checking, parsed, names),
    retention: rulesOf(parsed.retention),
    backup: checkBackupOptions(checking, parsed),
    daemon: parsed.daemon,
    drift: parsed.drift,
    notices: checkNotices(checking, parsed.notices, names),
    pings: checkPings(checking, parsed.pings, names),
    http,
    replica: checkReplica(checking, parsed, { http, sources }),
    fleet: checkFleet(checking, parsed),
    log: parsed.log,
    variables: [...usedVariables],
    secretVariables: secretVariables(tree),
    warnings: [...warnings, ...unknownVariables(env, usedVariables)],
    files: files.paths(),
    proxies: checking.proxies,
    fileHash: file === null ? '' : files.hashOf(file),
    digest: files.digest(
      Object.entries(env).filter(([name]) => name.startsWith('TIDEMARK_') || usedVariables.has(name)),
    ),
  };
  const known = secretsIn(parts);
  const withheldFrom = withholding(known);
  const shown = sources.map((source) => ({ ...source, definitions: withheldFrom(source.definitions) }));
  const config: LoadedConfig = {
    ...parts,
    sources: shown,
    configured: shown,
    knownSecrets: known,
    unmasked: [...new Set(checking.unmasked)],
    unconfigured: withheldFrom(CATALOG),
  };
  if (needsKeys && parsed.sources.length === 0 && !mistakes.covers(tree, ['sources'])) {
    if (mistakes.count === 0) throw missing(file, cwd);
    mistakes.add(tree, ['sources'], 'missing; expected a source, or TIDEMARK_BASE_URL and TIDEMARK_API_KEY');
  }
  mistakes.throwIfAny();
  return deepFrozen(config);
}

/**
 * The path of the mirror, even if the rest of the configuration is invalid: enough to find the daemon, which continues
 * with its earlier configuration. If the file is not valid YAML, only the line of the mirror is read.
 * @throws TidemarkError as `loadConfig`, if the option itself is invalid, or the file cannot be read
 */
export function locateMirror(options: LoadOptions): string {
  const { env, cwd } = options;
  const mistakes = new Mistakes();
  const isInEnvironment = (env[MIRROR_VARIABLE] ?? '') !== '';
  const read: FileRead = isInEnvironment
    ? { file: null, tree: emptyTree(null), usedVariables: new Set() }
    : readFile(options, mistakes, new FilesRead());
  const { file } = read;
  const tree = file !== null && mistakes.hasTextMistake ? mirrorLine(file, options, mistakes) : read.tree;
  applyEnvironment(tree, env, read.usedVariables, mistakes);
  const { mirror } = parseTree(OPTIONS, tree, mistakes);
  if (mistakes.covers(tree, ['mirror'])) mistakes.throwIfAny();
  return absolutePath({ tree, cwd, fileDirectory: file === null ? cwd : dirname(file) }, ['mirror'], mirror);
}

/** A tree of only the line that begins with `mirror:`; empty without such a line. */
function mirrorLine(file: string, { env, cwd }: LoadOptions, mistakes: Mistakes): Tree {
  const text = readTextFile(file);
  const line = 'mistake' in text ? undefined : /^mirror:.*$/m.exec(text.text)?.[0];
  const label = labelOf(file, cwd);
  // If the key is quoted, indented or in braces, it cannot be read without the rest, and the default would be wrong.
  if (line === undefined && !('mistake' in text) && /^[^#]*\bmirror\b["']?\s*:/m.test(text.text))
    mistakes.throwIfAny();
  if (line === undefined) return emptyTree(label);
  const own = new Mistakes();
  const { tree } = readDocument(line, label, env, own);
  if (own.count > 0) mistakes.throwIfAny();
  return tree;
}

interface FileRead {
  readonly file: string | null;
  readonly tree: Tree;
  readonly usedVariables: ReadonlySet<string>;
}

function readFile(
  { file: named, text, env, cwd }: LoadOptions,
  mistakes: Mistakes,
  files: FilesRead,
): FileRead {
  const fromVariable = env[CONFIG_VARIABLE] === '' ? undefined : env[CONFIG_VARIABLE];
  const given = named ?? fromVariable;
  const path = resolve(cwd, given ?? DEFAULT_FILE);
  const label = labelOf(path, cwd);
  const read = text === undefined ? readTextFile(path) : { text };
  files.note(path, JSON.stringify(read));
  if (!('mistake' in read)) return { file: path, ...readDocument(read.text, label, env, mistakes) };
  if (read.isMissing && given === undefined) {
    return { file: null, tree: emptyTree(null), usedVariables: new Set() };
  }
  if (read.isMissing) {
    throw new TidemarkError('config_missing', `no configuration file at ${path}`, {
      hint:
        named === undefined
          ? `correct ${CONFIG_VARIABLE}, or write that file (config/example.yaml shows every option)`
          : 'correct --config, or write that file (config/example.yaml shows every option)',
    });
  }
  throw new TidemarkError('config_invalid', `${label} ${read.mistake}`, {
    hint: 'name a readable YAML file with --config',
  });
}

/** The name of the file in messages: relative to the current directory if it is below it. */
function labelOf(path: string, cwd: string): string {
  const label = relative(cwd, path);
  // In a container, the current directory is often `/`: there the absolute path is clearer.
  const isClear = label !== '' && !label.startsWith('..') && !isAbsolute(label);
  return cwd === parse(cwd).root || !isClear ? path : label;
}

function missing(file: string | null, cwd: string): TidemarkError {
  const searched =
    file === null
      ? `no configuration: there is no ${join(cwd, DEFAULT_FILE)}, and TIDEMARK_BASE_URL and TIDEMARK_API_KEY are not set`
      : `no source: ${labelOf(file, cwd)} names none, and TIDEMARK_BASE_URL and TIDEMARK_API_KEY are not set`;
  return new TidemarkError('config_missing', searched, {
    hint: `\`tidemark init${file === null ? '' : ' --force'}\` asks for both and writes the configuration; or set TIDEMARK_BASE_URL and TIDEMARK_API_KEY (or TIDEMARK_API_KEY_FILE), or write it yourself (config/example.yaml shows every option)`,
  });
}

function ignoreMissingKeys(tree: Tree, parsed: ParsedOptions, mistakes: Mistakes): void {
  for (const index of parsed.sources.keys()) {
    mistakes.remove(tree, ['sources', index, 'apiKey']);
    mistakes.remove(tree, ['sources', index, 'apiKeyFile']);
  }
  mistakes.remove(tree, ['http', 'token']);
  mistakes.remove(tree, ['http', 'triggerToken']);
  mistakes.remove(tree, ['replica', 'token']);
}

/** Turns mistakes about missing values for restores into warnings: only the steps that need them are blocked. */
function ignoreUnsetSecrets(tree: Tree, mistakes: Mistakes): string[] {
  const sources = tree.root['sources'];
  return (Array.isArray(sources) ? sources : []).flatMap((_source, index) =>
    mistakes.removeUnset(tree, ['sources', index, 'secrets']).map((line) => `${line}: ${BLOCKED}`),
  );
}

function checkNames(
  { tree, mistakes }: Checking,
  parsed: ParsedOptions,
  configured: readonly SourceConfig[],
): void {
  const first = new Map<string, number>();
  for (const [index, { name }] of parsed.sources.entries()) {
    const path = ['sources', index, 'name'];
    if (isKey(name, configured)) {
      mistakes.add(
        tree,
        path,
        'this is an API key, not a name; it would be in the mirror and in every report',
      );
      continue;
    }
    const other = first.get(name);
    if (other === undefined) first.set(name, index);
    else if (!mistakes.covers(tree, path) && !mistakes.covers(tree, ['sources', other, 'name'])) {
      const isGiven = valueAt(tree.root, path) !== undefined;
      const problem = isGiven ? `${JSON.stringify(name)} is the name of sources[${other}] too` : 'missing';
      mistakes.add(tree, path, `${problem}; expected a different name for each source`);
    }
  }
}

/** The names of the sources. An invalid one is included as given, so that a reference to it is not a second mistake. */
function sourceNames(tree: Tree, { sources }: ParsedOptions): string[] {
  return sources.map(({ name }, index) => {
    const given = valueAt(tree.root, ['sources', index, 'name']);
    return typeof given === 'string' ? given : name;
  });
}

/** Freezes a value recursively, except the contents of `Secret` and `URL`. */
function deepFrozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  if (!(value instanceof URL) && !(value instanceof Secret)) Object.values(value).forEach(deepFrozen);
  return value;
}

/**
 * Names of the variables that secret values refer to, sorted, without `TIDEMARK_…` variables. Child processes must not
 * inherit them.
 */
function secretVariables(tree: Tree): string[] {
  const names = [...tree.templates].flatMap(([key, text]) => {
    const path = JSON.parse(key) as Path;
    const schema = schemasAlong(OPTIONS, path, tree.root)[path.length];
    return schema !== undefined && aboutOf(schema).isSecret === true ? namesIn(text) : [];
  });
  return [...new Set(names)].toSorted();
}

/** Names of the variables in a text, in which `$${` stands for a plain `${`. */
function namesIn(text: string): string[] {
  return [...text.matchAll(/(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g)].flatMap(([, escape, name]) =>
    escape === '' && name !== undefined ? [name] : [],
  );
}
