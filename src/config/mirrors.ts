/** One mirror for all sources, or one for each: a loaded configuration becomes one `Config` per mirror file. */
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import type { ConfiguredBackups, MirrorPlace } from '../core/hints.ts';
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
 * A configuration as it was loaded, before it is known which mirror is meant. It is not a `Config`: what works on a mirror
 * cannot be given one by mistake.
 */
export interface LoadedConfig extends Omit<Config, 'mirror' | 'rateLogBeside'> {
  /** Absolute path; with `{source}` in it, each source has a mirror of its own. */
  readonly mirrorPath: string;
}

/** True where each source has a mirror of its own. */
export function hasMirrorPerSource({ mirrorPath }: Pick<LoadedConfig, 'mirrorPath'>): boolean {
  return mirrorPath.includes(PLACEHOLDER);
}

/** True where a report has to name its source: the configuration has several, or gives each a mirror of its own. */
export function namesItsSource({
  configured,
  mirror,
  rateLogBeside,
}: Pick<Config, 'configured' | 'mirror' | 'rateLogBeside'>): boolean {
  // Sources with a mirror each share one log of requests, which is beside none of them.
  return configured.length > 1 || rateLogBeside !== mirror;
}

/** The path of a source's mirror. */
export function mirrorOf({ mirrorPath }: Pick<LoadedConfig, 'mirrorPath'>, source: string): string {
  return mirrorPath.replaceAll(PLACEHOLDER, () => source);
}

/**
 * One `Config` per mirror file: one for all sources, or with `{source}` in the path one for each of `sources`, which knows
 * no other source, in their order; none where there is no source. All share one log of request starts, since two sources
 * may use one key.
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
 * The mirrors of sources that are configured no longer: files in the place of a source's own mirror. Each comes with a
 * `Config` that has no source. None where all sources share a mirror.
 */
export function unconfiguredMirrors(
  loaded: LoadedConfig,
): readonly { readonly source: string; readonly config: Config }[] {
  if (!hasMirrorPerSource(loaded)) return [];
  const { mirrorPath, ...common } = loaded;
  const configured = new Set(loaded.configured.map(({ name }) => name));
  return sourcesWithMirror(loaded).flatMap((source) => {
    if (configured.has(source)) return [];
    const mirror = mirrorOf(loaded, source);
    const none = { sources: [], configured: [], schedules: NO_SCHEDULES, backup: null };
    return [
      {
        source,
        config: Object.freeze({ ...common, ...none, mirror, rateLogBeside: rateLogOf(mirrorPath) }),
      },
    ];
  });
}

/** Names of the sources whose own mirror exists, configured or not, where each has one. */
export function sourcesWithMirror({ mirrorPath }: Pick<LoadedConfig, 'mirrorPath'>): readonly string[] {
  const [before = ''] = mirrorPath.split(PLACEHOLDER);
  const directory = before.endsWith(sep) ? before : dirname(before);
  // What has the name of the source in it: the file, or a directory above it.
  const [named = ''] = mirrorPath.slice(join(directory, sep).length).split(sep);
  return namesIn(directory, named).filter((source) => existsSync(mirrorOf({ mirrorPath }, source)));
}

const NO_SCHEDULES = Object.freeze(
  Object.fromEntries(SCHEDULE_NAMES.map((name) => [name, null])) as Record<ScheduleName, null>,
);

/** Names that stand in a directory where the placeholder of `pattern` is. */
function namesIn(directory: string, pattern: string): readonly string[] {
  const parts = pattern.split(PLACEHOLDER);
  const fixed = parts.reduce((sum, part) => sum + part.length, 0);
  const [prefix = ''] = parts;
  // Without the directory there is no mirror either.
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

/** Each mirror's backups are apart, below its source's name: retention of one never counts those of another. */
function backupOf(source: string, backup: BackupConfig | null): BackupConfig | null {
  if (backup === null) return null;
  const targets = backup.targets.map((target) =>
    target.type === 'directory'
      ? { ...target, path: join(target.path, source), within: target.path }
      : { ...target, prefix: target.prefix === '' ? source : `${target.prefix}/${source}` },
  );
  return Object.freeze({ ...backup, targets: Object.freeze(targets) });
}

/** What of a `Config` says where its mirror is, and whose; and whether its backups are encrypted. */
export type MirrorOwnership = Pick<Config, 'mirror' | 'rateLogBeside'> &
  Partial<Pick<Config, 'backup'>> & {
    readonly sources: readonly { readonly name: string }[];
  };

/** Name of the source whose mirror it is alone; null for one mirror of all sources. */
export function ownerOf({ mirror, rateLogBeside, sources }: MirrorOwnership): string | null {
  return mirror === rateLogBeside ? null : (sources[0]?.name ?? null);
}

/** The mirror as hints name it. */
export function placeOf(config: MirrorOwnership): MirrorPlace {
  return { path: config.mirror, owner: ownerOf(config), backups: configuredBackups(config) };
}

/** How backups are configured, as hints name them; null where they have no target. */
export function configuredBackups(config: Partial<Pick<Config, 'backup'>>): ConfiguredBackups | null {
  return config.backup === null ? null : { isEncrypted: areBackupsEncrypted(config) };
}

export function areBackupsEncrypted({ backup = null }: Partial<Pick<Config, 'backup'>>): boolean {
  return backup !== null && (backup.recipients.length > 0 || backup.recipientsFile !== null);
}

/** Absolute path beside which the log of request starts is, for this path of the mirror. */
export function rateLogBesideOf({ mirrorPath }: Pick<LoadedConfig, 'mirrorPath'>): string {
  return hasMirrorPerSource({ mirrorPath }) ? rateLogOf(mirrorPath) : mirrorPath;
}

/** In the last directory that all mirrors are in; the dot keeps it apart from directories named as sources. */
function rateLogOf(mirrorPath: string): string {
  const [before = ''] = mirrorPath.split(PLACEHOLDER);
  return join(before.endsWith(sep) ? before : dirname(before), 'tidemark.mirrors');
}

/**
 * The `Config` of the only mirror.
 * @throws TidemarkError `usage` (`SeveralMirrors`) if there are several, `config_missing` where each source has its own and there is none
 */
export function onlyMirrorConfig(loaded: LoadedConfig): Config {
  const [config, ...more] = mirrorConfigs(loaded);
  if (config === undefined) {
    throw new TidemarkError(
      'config_missing',
      `no source: each has a mirror of its own (${loaded.mirrorPath})`,
      {
        hint: 'add a source to the configuration',
      },
    );
  }
  if (more.length > 0) throw new SeveralMirrors(loaded.sources.map(({ name }) => name));
  return config;
}

/** A command for one mirror was asked about several; nothing was done. Those that can are called for each of them. */
export class SeveralMirrors extends TidemarkError {
  readonly sources: readonly string[];

  constructor(sources: readonly string[]) {
    super('usage', 'each source has a mirror of its own: name one with --source', {
      hint: `there are ${namesOf(sources)}`,
    });
    this.sources = sources;
  }
}

/** Names in one line. */
const NAMED = 20;

/** `a, b and c`, or the first of many and how many there are besides. */
export function namesOf(names: readonly string[]): string {
  const more = names.length - NAMED;
  if (more > 0) return `${names.slice(0, NAMED).join(', ')} and ${more} more`;
  const last = names.at(-1) ?? '';
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`;
}
