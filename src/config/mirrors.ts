/** One mirror for all sources, or one for each: makes a `Config` for each mirror file. */
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import type { ConfiguredBackups, MirrorPlace } from '../core/hints.ts';
import { firstWords, wordList } from '../core/wording.ts';
import {
  type BackupConfig,
  type Config,
  type Schedule,
  SCHEDULE_NAMES,
  type ScheduleName,
} from './config.ts';
import * as t from './schema.ts';

/** Stands for the name of a source in the configured path of the mirror. */
const PLACEHOLDER = '{source}';

/**
 * A loaded configuration, before it is known which mirror is meant. It cannot be passed by mistake where a `Config` of
 * one mirror is needed.
 */
export interface LoadedConfig extends Omit<Config, 'mirror' | 'rateLogBeside'> {
  /** Absolute path; if it contains `{source}`, each source has a mirror of its own. */
  readonly mirrorPath: string;
}

/** True if each source has a mirror of its own. */
export function hasMirrorPerSource({ mirrorPath }: Pick<LoadedConfig, 'mirrorPath'>): boolean {
  return mirrorPath.includes(PLACEHOLDER);
}

/** True if a report has to name its source: the configuration has several, or gives each a mirror of its own. */
export function namesItsSource({
  configured,
  mirror,
  rateLogBeside,
}: Pick<Config, 'configured' | 'mirror' | 'rateLogBeside'>): boolean {
  // If each source has a mirror, they share one log of requests, which is not beside any of them.
  return configured.length > 1 || rateLogBeside !== mirror;
}

/** The path of a source's mirror. */
export function mirrorOf({ mirrorPath }: Pick<LoadedConfig, 'mirrorPath'>, source: string): string {
  return mirrorPath.replaceAll(PLACEHOLDER, () => source);
}

/**
 * One `Config` per mirror file: one for all sources, or, with `{source}` in the path, one for each of `sources`,
 * without the other sources, in their order. All share one log of request starts, since two sources may use one key.
 */
export function mirrorConfigs(loaded: LoadedConfig): readonly Config[] {
  const { mirrorPath, ...common } = loaded;
  if (!hasMirrorPerSource(loaded))
    return [Object.freeze({ ...common, mirror: mirrorPath, rateLogBeside: mirrorPath })];
  const rateLogBeside = rateLogOf(mirrorPath);
  return loaded.sources.map((source) => {
    const schedules = Object.fromEntries(
      SCHEDULE_NAMES.map((name) => [name, scheduleOf(source.name, loaded.schedules[name])]),
    ) as Record<ScheduleName, Schedule | null>;
    return Object.freeze({
      ...common,
      mirror: mirrorOf(loaded, source.name),
      rateLogBeside,
      sources: Object.freeze([source]),
      configured: Object.freeze([source]),
      schedules: Object.freeze(schedules),
      backup: backupOf(source.name, loaded.backup),
    });
  });
}

/**
 * The mirrors of sources that are no longer configured: files where a source's own mirror would be, each with a
 * `Config` without sources. None if all sources share a mirror.
 */
export function unconfiguredMirrors(
  loaded: LoadedConfig,
): readonly { readonly source: string; readonly config: Config }[] {
  if (!hasMirrorPerSource(loaded)) return [];
  const { mirrorPath, ...common } = loaded;
  const configured = new Set(loaded.configured.map(({ name }) => name));
  return sourcesWithMirror(loaded).flatMap((source) => {
    if (configured.has(source)) return [];
    const place = { mirror: mirrorOf(loaded, source), rateLogBeside: rateLogOf(mirrorPath) };
    const none = { sources: [], configured: [], schedules: NO_SCHEDULES, backup: null };
    return [{ source, config: Object.freeze({ ...common, ...none, ...place }) }];
  });
}

/** Names of the sources whose own mirror exists, configured or not, if each has one. */
export function sourcesWithMirror({ mirrorPath }: Pick<LoadedConfig, 'mirrorPath'>): readonly string[] {
  const directory = commonDirectory(mirrorPath);
  // The part of the path that contains the name of the source: the file, or a directory above it.
  const [named = ''] = mirrorPath.slice(join(directory, sep).length).split(sep);
  return namesIn(directory, named).filter((source) => existsSync(mirrorOf({ mirrorPath }, source)));
}

const NO_SCHEDULES = Object.freeze(
  Object.fromEntries(SCHEDULE_NAMES.map((name) => [name, null])) as Record<ScheduleName, null>,
);

/** The names at the placeholder of `pattern` in the entries of a directory. */
function namesIn(directory: string, pattern: string): readonly string[] {
  const parts = pattern.split(PLACEHOLDER);
  const fixed = parts.reduce((sum, part) => sum + part.length, 0);
  const [prefix = ''] = parts;
  const entries = existsSync(directory) ? readdirSync(directory) : [];
  return entries.flatMap((entry) => {
    const length = (entry.length - fixed) / (parts.length - 1);
    const name = entry.slice(prefix.length, prefix.length + length);
    const isName = t.name.safeParse(name).success && parts.join(name) === entry;
    return isName ? [name] : [];
  });
}

function scheduleOf(source: string, schedule: Schedule | null): Schedule | null {
  return schedule?.sources.includes(source) === true ? { ...schedule, sources: [source] } : null;
}

/** The backups of each mirror are below the name of its source, so that retention never counts those of another. */
function backupOf(source: string, backup: BackupConfig | null): BackupConfig | null {
  if (backup === null) return null;
  const targets = backup.targets.map((target) =>
    target.type === 'directory'
      ? { ...target, path: join(target.path, source), within: target.path }
      : { ...target, prefix: target.prefix === '' ? source : `${target.prefix}/${source}` },
  );
  return Object.freeze({ ...backup, targets: Object.freeze(targets) });
}

/** The part of a `Config` that determines where its mirror is, whose it is, and whether its backups are encrypted. */
export type MirrorOwnership = Pick<Config, 'mirror' | 'rateLogBeside'> &
  Partial<Pick<Config, 'backup'>> & {
    readonly sources: readonly { readonly name: string }[];
  };

/** Name of the source to which the mirror belongs; null for one mirror of all sources. */
export function ownerOf({ mirror, rateLogBeside, sources }: MirrorOwnership): string | null {
  return mirror === rateLogBeside ? null : (sources[0]?.name ?? null);
}

/** The mirror in the form that hints need. */
export function placeOf(config: MirrorOwnership): MirrorPlace {
  return { path: config.mirror, owner: ownerOf(config), backups: configuredBackups(config) };
}

/** How backups are configured, in the form that hints need; null if they have no target. */
export function configuredBackups(config: Partial<Pick<Config, 'backup'>>): ConfiguredBackups | null {
  return config.backup === null ? null : { isEncrypted: areBackupsEncrypted(config) };
}

export function areBackupsEncrypted({ backup = null }: Partial<Pick<Config, 'backup'>>): boolean {
  return backup !== null && (backup.recipients.length > 0 || backup.recipientsFile !== null);
}

/** `Config.rateLogBeside` for this path of the mirror. */
export function rateLogBesideOf({ mirrorPath }: Pick<LoadedConfig, 'mirrorPath'>): string {
  return hasMirrorPerSource({ mirrorPath }) ? rateLogOf(mirrorPath) : mirrorPath;
}

/** The last directory that contains all mirrors, if each source has one. */
function commonDirectory(mirrorPath: string): string {
  const [before = ''] = mirrorPath.split(PLACEHOLDER);
  return before.endsWith(sep) ? before : dirname(before);
}

/** A name with a dot, which names of sources cannot have: it differs from every directory of a source. */
function rateLogOf(mirrorPath: string): string {
  return join(commonDirectory(mirrorPath), 'tidemark.mirrors');
}

/**
 * The `Config` of the only mirror.
 * @throws TidemarkError `usage` (`SeveralMirrors`) if there are several, `config_missing` if each source has its own
 * and there is none
 */
export function onlyMirrorConfig(loaded: LoadedConfig): Config {
  const [config, ...more] = mirrorConfigs(loaded);
  if (config === undefined) {
    throw new TidemarkError(
      'config_missing',
      `no source: each has a mirror of its own (${loaded.mirrorPath})`,
      { hint: 'add a source to the configuration' },
    );
  }
  if (more.length > 0) throw new SeveralMirrors(loaded.sources.map(({ name }) => name));
  return config;
}

/** The error of a command for one mirror if there are several; nothing was done. Some commands then run for each mirror. */
export class SeveralMirrors extends TidemarkError {
  readonly sources: readonly string[];

  constructor(sources: readonly string[]) {
    super('usage', 'each source has a mirror of its own: name one with --source', {
      hint: `there are ${namesOf(sources)}`,
    });
    this.sources = sources;
  }
}

const NAMED = 20;

/** `a, b and c`; of more than 20 names, the first, and how many others there are. */
export function namesOf(names: readonly string[]): string {
  return names.length > NAMED ? firstWords(names, NAMED) : wordList(names);
}
