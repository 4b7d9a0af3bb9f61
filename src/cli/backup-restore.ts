/** `tidemark backup restore`. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { commandActor } from '../core/actor.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import { parseS3Address } from '../config/backup-target.ts';
import type { Config, TargetConfig } from '../config/config.ts';
import { hasMirrorPerSource, mirrorConfigs } from '../config/mirrors.ts';
import { plural } from '../core/wording.ts';
import type { Backup } from '../backup/list.ts';
import type { BackupManifest } from '../backup/manifest.ts';
import { restoreBackup } from '../backup/opened-backup.ts';
import { addressOf } from '../backup/targets/target.ts';
import { restoredStates } from '../daemon/notices/perhaps-open.ts';
import { realMirrorPath } from '../mirror/real-path.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { readConfig, readLoadedConfig } from '../wire.ts';
import { clearProgress, print, printJson, printNote, printReason, type CommandContext } from './context.ts';
import { backupDocument } from './backup.ts';
import {
  backupNamed,
  errorsOf,
  holder,
  identitiesOf,
  openIntact,
  openOptions,
  printPassedOver,
  restoreCommand,
  type RestoreOptions,
} from './backup-named.ts';
import { age } from './export-notes.ts';

type S3Place = NonNullable<ReturnType<typeof parseS3Address>>;

/**
 * Exit 0 when the mirror is in place.
 * @throws TidemarkError for `latest` if a target cannot be listed, as it may have a newer backup: the hint names the newest of the
 *   other targets
 */
export async function restoreOneBackup(context: CommandContext, options: RestoreOptions): Promise<ExitCode> {
  if (options.to === undefined) {
    throw new TidemarkError('usage', 'missing --to: where to write the restored mirror', {
      hint: 'give a path where no file exists yet: --to ./restored/mirror.db',
    });
  }
  const actor = commandActor(options.as);
  const named = await withSourceOf(context, options);
  const config = readConfig(named, named.options, 'unused');
  const found = await backupNamed(named, options.file, options);
  if (found.unread.length > 0) throw perhapsNewer(errorsOf(found.unread), found.backup, options);
  refuseOtherSource(context, sourcesIn(found.backup));
  printPassedOver(context, found);
  // Not an error: the user may want the history of another mirror.
  if (found.noneOfOwn !== null) printReason(context, [found.noneOfOwn.message]);
  const identities = await identitiesOf(context, options.identity);
  const to = resolve(context.cwd, options.to);
  const isConfigured = realMirrorPath(to) === realMirrorPath(config.mirror);
  const { backup, opened: facts } = await openIntact(
    context,
    found,
    async (each) =>
      await restoreBackup(each, to, {
        ...openOptions(context, identities),
        holder: holder(context, 'backup restore'),
        // Also for a copy: it may become the mirror later.
        actor,
        noticeStates: ({ sources, run }) => {
          const held = sources.map(({ source }) => source);
          // Only now are the sources of a backup without manifest known. Nothing is at `to` yet.
          refuseOtherSource(context, held);
          const configured = isConfigured ? config.sources.map(({ name }) => name) : [];
          return restoredStates([...new Set([...held, ...configured])], run, isoTime(systemClock.now()));
        },
      }),
  );
  clearProgress(context);
  if (backup.manifest === null)
    printNote(context, [
      `${backup.name} has no manifest: its file could not be compared, but all hashes in it match`,
    ]);
  if (context.options.json === true) {
    const { run, root, sources, checked } = facts;
    await printJson(context, {
      schema: 'tidemark.backup_restore/1',
      backup: backupDocument(backup),
      mirror: to,
      ...{ run, root, sources, checked },
    });
    return EXIT.done;
  }
  const { records, revisions } = facts.checked;
  const held = facts.sources.map(({ source }) => source);
  const missing = held.filter((source) => !config.configured.some(({ name }) => name === source));
  const lines = [
    `run ${facts.run} is at ${to}, verified: ${plural(records, 'record')}, ${plural(revisions, 'revision')}`,
    `root hash ${facts.root}`,
    `from ${backup.name}, made ${age(backup.madeAt, systemClock.now())}`,
    `sources in it: ${held.join(', ')}`,
    ...(missing.length === 0 ? [] : [unconfiguredText(held, missing, config)]),
    isConfigured
      ? `→ this is ${config.configured.length === 0 ? 'where commands look for the mirror' : 'the configured mirror'}, and its audit log has an entry of the restore: the next sync continues from there${missing.length === 0 ? '' : ', but only for sources that are in it'}`
      : `→ inspect it with TIDEMARK_MIRROR=${shellWord(to)} tidemark status; to continue from it, ${existsSync(config.mirror) ? `stop the daemon, move ${config.mirror} with its -wal and -shm away, and ` : ''}set \`mirror\` to it`,
  ];
  await print(context, `${lines.map(escapeControlCharacters).join('\n')}\n`);
  return EXIT.done;
}

/** According to its manifest; empty if that is missing or incomplete. */
function sourcesIn({ manifest }: Backup): string[] {
  const { sources = [] }: Partial<BackupManifest> = manifest ?? {};
  return sources.map(({ source }) => source);
}

/**
 * With a mirror per source: the mirror of another configured source must not replace that of `--source`.
 * @throws TidemarkError `usage`
 */
function refuseOtherSource(context: CommandContext, held: readonly string[]): void {
  const { source: asked } = context.options;
  const loaded = readLoadedConfig(context, context.options, 'unused');
  if (asked === undefined || !hasMirrorPerSource(loaded) || held.some((name) => asked.includes(name))) return;
  const other = held.find((name) => loaded.configured.some((each) => each.name === name));
  if (other === undefined) return;
  throw new TidemarkError('usage', `this is a backup of ${held.join(', ')}, not of ${asked.join(', ')}`, {
    hint: `restore it with --source ${shellWord(other)}; \`tidemark backup list --source ${shellWord(asked[0] ?? '')}\` lists those of ${asked.join(', ')}`,
  });
}

/**
 * With a mirror per source and no `--source`: adds the source if the place or the backup is in the target of one source only, or if
 * a backup elsewhere has only this one.
 * @throws TidemarkError as `backupNamed`, if the place is in no target
 */
async function withSourceOf(context: CommandContext, options: RestoreOptions): Promise<CommandContext> {
  const { file } = options;
  const loaded = readLoadedConfig(context, context.options, 'unused');
  const configs = mirrorConfigs(loaded);
  if (configs.length < 2 || file === 'latest') return context;
  const configured = loaded.configured.map(({ name }) => name);
  const holding = (isMeant: (target: TargetConfig) => boolean): string[] =>
    configs
      .filter(({ backup }) => backup?.targets.some(isMeant) === true)
      .flatMap(({ sources }) => sources.map(({ name }) => name));
  const place = parseS3Address(file) ?? resolve(context.cwd, file);
  let names = holding((target) => isBelow(place, target));
  if (names.length === 0) {
    const { backup } = await backupNamed(context, file, options);
    names = holding((each) => addressOf(each) === backup.target.address);
    // A copy outside of all targets.
    if (names.length === 0) names = sourcesIn(backup).filter((name) => configured.includes(name));
  }
  const [source, ...more] = names;
  if (source === undefined || more.length > 0) return context;
  return { ...context, options: { ...context.options, source: [source] } };
}

function isBelow(place: string | S3Place, target: TargetConfig): boolean {
  const isIn = (below: string, above: string): boolean => below === above || below.startsWith(`${above}/`);
  if (typeof place === 'string') return target.type === 'directory' && isIn(place, target.path);
  const { bucket, endpoint, prefix } = place;
  if (target.type !== 's3' || target.bucket !== bucket || target.endpoint !== endpoint) return false;
  return isIn(prefix, target.prefix);
}

/** The error if it is not known which backup is the latest. @param backup the newest in the targets that could be listed */
function perhapsNewer(
  unread: readonly TidemarkError[],
  { name, madeAt }: Backup,
  options: RestoreOptions,
): TidemarkError {
  const [first] = unread;
  const newest = `or restore the newest of the other targets, made ${age(madeAt, systemClock.now())}: ${restoreCommand(name, options)}`;
  return new TidemarkError(
    first?.code ?? 'internal',
    `${unread.map(({ message }) => message).join('; ')}. A newer backup than in the other targets may be there`,
    { hint: [...new Set(unread.flatMap(({ hint }) => hint ?? [])), newest].join('; '), cause: first },
  );
}

/** A source's history continues only under the same name, which a new configuration may lack. */
function unconfiguredText(
  held: readonly string[],
  missing: readonly string[],
  { configured }: Config,
): string {
  const others = configured.map(({ name }) => name).filter((name) => !held.includes(name));
  const [first = ''] = missing;
  if (configured.length === 0)
    return `→ no source is configured yet: give it the name that it had (\`name: ${first}\`, \`tidemark init --name ${first}\`, or TIDEMARK_NAME=${first}), or the first sync begins another one without history`;
  const what =
    others.length === 0
      ? `the configuration has no source ${missing.join(', ')}`
      : `the configuration has ${others.join(', ')}, and not ${missing.join(', ')}`;
  return `→ ${what}: give the source the name that it had (\`name: ${first}\`, or TIDEMARK_NAME=${first}), or the next sync begins another one without history`;
}
