/** `tidemark config check`: shows how the configuration was understood; `config schema`: its JSON Schema, for editors. */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isOnMirrorDisk, mirrorDiskText } from '../backup/mirror-disk.ts';
import {
  type BackupConfig,
  type RetentionPolicy,
  SCHEDULE_NAMES,
  type SourceConfig,
} from '../config/config.ts';
import { MIRROR_VARIABLE } from '../config/environment.ts';
import {
  areBackupsEncrypted,
  hasMirrorPerSource,
  type LoadedConfig,
  mirrorConfigs,
  mirrorOf,
  namesOf,
} from '../config/mirrors.ts';
import { keyFingerprint } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import { type ExitCode, EXIT, firstError, TidemarkError } from '../core/errors.ts';
import { duration, formatInteger, plural } from '../core/wording.ts';
import { backupInterval } from '../daemon/http/wording.ts';
import { openMirrorAsItIs } from '../mirror/open.ts';
import { readLoadedConfig } from '../wire.ts';
import { type CommandContext, print, printDocument, printJson } from './context.ts';
import { missingMirror } from './missing-mirror.ts';
import { otherSourcesNote } from './other-sources.ts';
import { effectiveKindLimits, windowsText } from './rate-text.ts';
import { configJsonSchema } from '../config/json-schema.ts';

/** All mistakes come as one error (exit 4); warnings are printed and do not fail. */
export async function configCheck(context: CommandContext): Promise<ExitCode> {
  const config = readLoadedConfig(context, context.options);
  const { parseCron } = await import('../daemon/schedule/cron.ts');
  // Throws for a schedule that never comes due.
  for (const schedule of Object.values(config.schedules))
    if (schedule !== null) parseCron(schedule.cron, schedule.zone);
  const [directory] = mirrorConfigs(config).filter(({ mirror }) => isDirectory(mirror));
  if (directory !== undefined)
    throw new TidemarkError(
      'config_invalid',
      `mirror: ${directory.mirror} is a directory; a mirror is a file`,
      { hint: `name a file in it, such as ${join(directory.mirror, 'mirror.db')}` },
    );
  const warnings = [
    ...config.warnings,
    ...rateWarnings(config),
    ...(await backupWarnings(context, config)),
    ...otherSourceWarnings(context, config),
    ...(await hourWarnings(context, config)),
  ];
  if (context.options.json === true) {
    await printJson(context, {
      schema: 'tidemark.config_check/1',
      file: config.file,
      mirror: config.mirrorPath,
      sources: config.sources.map(({ name, baseUrl, profile }) => ({
        name,
        base_url: baseUrl.href,
        profile,
        mirror: mirrorOf(config, name),
      })),
      warnings,
    });
    return EXIT.done;
  }
  const lines = [
    `configuration: ${config.file ?? 'from the environment'}`,
    `mirror: ${config.mirrorPath}${hasMirrorPerSource(config) ? ', one file per source' : ''}${isMirrorSetByVariable(context) ? ` (${MIRROR_VARIABLE} is set: \`mirror\` of a file does not count)` : ''}`,
    ...config.sources.map(
      (source) =>
        `source ${source.name}: ${source.baseUrl.href}, profile ${source.profile}, ${rateText(source)}`,
    ),
    ...scheduleLines(config),
    ...ruleLines(config),
    ...backupLines(config.backup),
    ...warnings.map((warning) => `warning: ${warning}`),
    warnings.length === 0 ? 'valid' : `valid, with ${plural(warnings.length, 'warning')}`,
  ];
  await print(context, `${lines.join('\n')}\n`);
  return EXIT.done;
}

function scheduleLines({ schedules, notices, pings }: LoadedConfig): string[] {
  const times = SCHEDULE_NAMES.flatMap((name) => {
    const schedule = schedules[name];
    return schedule === null ? [] : `${name} \`${schedule.cron}\` ${schedule.zone}`;
  });
  const channels = notices.map(({ name, type }) => `${name} (${type})`);
  return [
    `schedules: ${times.join(', ') || 'none'}`,
    `notices: ${channels.join(', ') || 'no channel'}, ${plural(pings.length, 'ping')}`,
  ];
}

/** Rules that hide drift are not in the audit log: whoever reads the configuration should see how many there are. */
function ruleLines({ drift: { ignore } }: LoadedConfig): string[] {
  return ignore.length === 0
    ? []
    : [
        `drift: ${plural(ignore.length, 'rule')} to ignore; \`tidemark drift --verbose\` lists what they hide`,
      ];
}

/** The service counts all requests with a key together, but each source keeps to its own limits. */
function rateWarnings({ sources }: LoadedConfig): string[] {
  return [...Map.groupBy(sources, keyFingerprint).values()].flatMap((group) => {
    const limits = new Set(group.map(({ rate }) => `${rate.perMinute} ${rate.perHour}`));
    if (limits.size < 2) return [];
    const names = namesOf(group.map(({ name }) => name));
    return [
      `rate: ${names} have the same address and key, and different limits. The service counts them together, and each keeps to its own limit: give them all the lowest`,
    ];
  });
}

/** Sources whose scheduled syncs need more than `rate.perHour`, estimated from earlier runs. */
async function hourWarnings(context: CommandContext, config: LoadedConfig): Promise<string[]> {
  const { sync: schedule } = config.schedules;
  const limited = config.sources.filter(({ rate }) => rate.perHour > 0);
  if (schedule === null || limited.length === 0) return [];
  const { hourNeeds, syncCosts, syncsInBusiestHour } = await import('./sync-per-hour.ts');
  const scheduled = new Set(schedule.sources);
  const keys = new Set(limited.map(keyFingerprint));
  const isCounted = (source: SourceConfig): boolean =>
    scheduled.has(source.name) && keys.has(keyFingerprint(source));
  const costs = syncCosts(context, config, isCounted);
  const needOf = hourNeeds(costs, schedule, syncsInBusiestHour(schedule));
  return [...new Set(limited.flatMap((source) => needOf(source)?.warning ?? []))];
}

/** True if `TIDEMARK_MIRROR` overrides `mirror` of the configuration file. */
export function isMirrorSetByVariable({ env }: Pick<CommandContext, 'env'>): boolean {
  return (env[MIRROR_VARIABLE] ?? '') !== '';
}

/** Mirrors that have other sources. A mirror that is damaged or older, or needs a copy to be read, is skipped: `doctor` reports it. */
function otherSourceWarnings(context: CommandContext, loaded: LoadedConfig): string[] {
  return mirrorConfigs(loaded).flatMap((config) => {
    if (!existsSync(config.mirror)) return [];
    try {
      const how = { command: 'config check', clock: systemClock, pid: context.pid };
      using mirror = openMirrorAsItIs(config.mirror, how);
      const note = mirror === null ? null : otherSourcesNote(mirror, config);
      return note === null ? [] : [`${note.message}: ${note.next}`];
    } catch (error) {
      if (firstError(error) instanceof TidemarkError) return [];
      throw error;
    }
  });
}

/** What would make backups fail, useless or readable for others. */
async function backupWarnings(context: CommandContext, config: LoadedConfig): Promise<string[]> {
  const { backup } = config;
  if (backup === null) return [];
  const missing = backup.targets.flatMap((target) => {
    if (target.type !== 'directory' || isDirectory(target.path)) return [];
    const problem = existsSync(target.path) ? 'is not a directory' : 'does not exist';
    return [`backup.targets: ${target.path} ${problem}: backups there fail until it is a directory`];
  });
  return [
    ...missing,
    ...(await onMirrorDisk(context, backup, config)),
    ...(areBackupsEncrypted({ backup }) ? [] : [`backup: ${UNENCRYPTED}`]),
  ];
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Targets on the disk of the mirror. None if a mirror is missing that was there: its path may be on another disk now. */
async function onMirrorDisk(
  context: CommandContext,
  { targets }: BackupConfig,
  loaded: LoadedConfig,
): Promise<string[]> {
  for (const config of mirrorConfigs(loaded))
    if (!existsSync(config.mirror) && (await missingMirror(context, config)) !== null) return [];
  const found: string[] = [];
  for (const target of targets) {
    if (target.type !== 'directory' || !isDirectory(target.path)) continue;
    if (await isOnMirrorDisk(target, loaded.mirrorPath)) found.push(target.path);
  }
  return found.length === 0 ? [] : [`backup.targets: ${mirrorDiskText(found)}`];
}

/** How often backups are made and which are kept; notes that retention removes most of them if it keeps one per longer period. */
function backupLines(backup: BackupConfig | null): string[] {
  if (backup === null) return [];
  const every = backupInterval(backup.everyMs);
  return [...new Set(backup.targets.map(({ retention }) => retention))].map((retention) => {
    const thinned = retention === null ? null : thinnedTo(retention, backup.everyMs);
    const note =
      thinned === null
        ? ''
        : `; of those of one ${thinned} only the newest stays: add backup.keepHourly or backup.keepWithin to keep more`;
    return `backups: ${every}, ${keptText(retention)}${note}`;
  });
}

/** E.g. `kept: 7 daily, 4 weekly, 12 monthly`. */
export function keptText(retention: RetentionPolicy | null): string {
  if (retention === null) return 'all kept';
  const { withinMs, ...counts } = retention;
  const rules = [
    ...(withinMs === undefined ? [] : [`all of ${duration(withinMs)}`]),
    ...Object.entries(counts).map(([period, number]) => `${formatInteger(number)} ${period}`),
  ];
  return `kept: ${rules.join(', ')}`;
}

const PERIODS = [
  ['hourly', 'hour', 3_600_000],
  ['daily', 'day', 86_400_000],
  ['weekly', 'week', 7 * 86_400_000],
  ['monthly', 'month', 30 * 86_400_000],
  ['yearly', 'year', 365 * 86_400_000],
] as const;

/** The shortest period for which retention keeps one backup, if several are made in it; otherwise null. */
function thinnedTo(retention: RetentionPolicy, everyMs: number): string | null {
  if (retention.last !== undefined || retention.withinMs !== undefined) return null;
  const shortest = PERIODS.find(([period]) => retention[period] !== undefined);
  if (shortest === undefined) return null;
  const [, name, ms] = shortest;
  return everyMs < ms ? name : null;
}

/** `init` warns of it too, before it writes anything. */
export const UNENCRYPTED =
  'without backup.recipients backups are not encrypted; they hold every value the service returned, secrets included';

function rateText({ rate, definitions, kinds: { include, exclude } }: SourceConfig): string {
  const { perMinute, perHour, concurrency } = rate;
  const known = definitions.map(({ kind }) => kind);
  const synced = (include ?? known).filter((kind) => !exclude.includes(kind));
  const limits = [
    ...(perMinute === 0 ? [] : [`at most ${plural(perMinute, 'request')} a minute`]),
    ...(perHour === 0 ? [] : [`at most ${plural(perHour, 'request')} an hour`]),
  ];
  const own = effectiveKindLimits(rate, new Set(synced)).map(
    (each) => `; ${each.kinds[0]} at most ${windowsText(each) ?? ''}`,
  );
  return `${limits.length === 0 ? 'no limit on requests' : limits.join(' and ')}, ${formatInteger(concurrency)} at a time${own.join('')}`;
}

export async function configSchema(context: CommandContext): Promise<ExitCode> {
  await printDocument(context, `${JSON.stringify(configJsonSchema(), null, 2)}\n`);
  return EXIT.done;
}
