/** `tidemark config check`: the configuration as it was understood; `config schema`: its JSON Schema, for editors. */
import { statSync } from 'node:fs';
import type { BackupConfig, RateLimits } from '../config/config.ts';
import { hasMirrorPerSource, mirrorOf } from '../config/mirrors.ts';
import { type ExitCode, EXIT } from '../core/errors.ts';
import { count, plural } from '../core/wording.ts';
import { readLoadedConfig } from '../wire.ts';
import { type CommandContext, print, printDocument } from './context.ts';
import { windowsText } from './rate-text.ts';
import { configJsonSchema } from '../config/json-schema.ts';

/** All mistakes come as one error (exit 4); warnings are printed and do not fail. */
export async function configCheck(context: CommandContext): Promise<ExitCode> {
  const config = readLoadedConfig(context, context.options);
  const { parseCron } = await import('../daemon/schedule/cron.ts');
  // Throws for one that never comes.
  for (const schedule of Object.values(config.schedules))
    if (schedule !== null) parseCron(schedule.cron, schedule.zone);
  const warnings = [...config.warnings, ...backupWarnings(config.backup)];
  if (context.options.json === true) {
    const document = {
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
    };
    await print(context, `${JSON.stringify(document)}\n`);
    return EXIT.done;
  }
  const lines = [
    `configuration: ${config.file ?? 'from the environment'}`,
    `mirror: ${config.mirrorPath}${hasMirrorPerSource(config) ? ', one file per source' : ''}`,
    ...config.sources.map(
      ({ name, baseUrl, profile, rate }) =>
        `source ${name}: ${baseUrl.href}, profile ${profile}, ${rateText(rate)}`,
    ),
    ...warnings.map((warning) => `warning: ${warning}`),
    warnings.length === 0 ? 'valid' : `valid, with ${plural(warnings.length, 'warning')}`,
  ];
  await print(context, `${lines.join('\n')}\n`);
  return EXIT.done;
}

/** What would make a backup fail, or leave it readable for anybody who gets hold of it. */
function backupWarnings(backup: BackupConfig | null): string[] {
  if (backup === null) return [];
  const missing = backup.targets.flatMap((target) => {
    if (target.type !== 'directory') return [];
    const facts = statSync(target.path, { throwIfNoEntry: false });
    if (facts?.isDirectory() === true) return [];
    const problem = facts === undefined ? 'does not exist' : 'is not a directory';
    return [`backup.targets: ${target.path} ${problem}: backups there fail until it is a directory`];
  });
  const isEncrypted = backup.recipients.length > 0 || backup.recipientsFile !== null;
  return isEncrypted ? missing : [...missing, `backup: ${UNENCRYPTED}`];
}

/** Said by `init` too, before anything is written. */
export const UNENCRYPTED =
  'without backup.recipients backups are not encrypted; they hold every value the service returned, secrets included';

function rateText({ perMinute, perHour, concurrency, kinds = [] }: RateLimits): string {
  const limits = [
    ...(perMinute === 0 ? [] : [`at most ${plural(perMinute, 'request')} a minute`]),
    ...(perHour === 0 ? [] : [`at most ${plural(perHour, 'request')} an hour`]),
  ];
  const own = kinds.map((each) => `; ${each.kinds[0]} at most ${windowsText(each) ?? ''}`);
  return `${limits.length === 0 ? 'no limit on requests' : limits.join(' and ')}, ${count(concurrency)} at a time${own.join('')}`;
}

export async function configSchema(context: CommandContext): Promise<ExitCode> {
  await printDocument(context, `${JSON.stringify(configJsonSchema(), null, 2)}\n`);
  return EXIT.done;
}
