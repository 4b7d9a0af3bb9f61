/** `tidemark backup restore`, and finding the backup that a command names. */
import { statSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, resolve } from 'node:path';
import { commandActor } from '../core/actor.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { asTidemarkError, EXIT, exitCodeFor, TidemarkError, type ExitCode } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import type { Secret } from '../core/secret.ts';
import { isS3Address, parseS3Address } from '../config/backup-target.ts';
import type { Config, TargetConfig } from '../config/config.ts';
import { hasMirrorPerSource, mirrorConfigs, namesOf } from '../config/mirrors.ts';
import { plural } from '../core/wording.ts';
import { type Backup, readBackup } from '../backup/list.ts';
import { parseBackupName } from '../backup/name.ts';
import { begunByMistake, earlierBackups, originOf } from '../backup/earlier.ts';
import type { BackupManifest } from '../backup/manifest.ts';
import { readIdentities } from '../backup/encryption.ts';
import { type OpenOptions, restoreBackup } from '../backup/opened-backup.ts';
import { mirrorId } from '../backup/plain-backup.ts';
import { directoryTarget } from '../backup/targets/directory.ts';
import { openTarget } from '../backup/targets/open.ts';
import { addressOf, type BackupTarget } from '../backup/targets/target.ts';
import { restoredStates } from '../daemon/notices/perhaps-open.ts';
import { realMirrorPath } from '../mirror/real-path.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { readConfig, readLoadedConfig } from '../wire.ts';
import { isInteractive, print, printNote, type CommandContext } from './context.ts';
import {
  backupDocument,
  listEach,
  listWaiting,
  mirrorName,
  printUnread,
  s3Config,
  targetsOf,
  withConfiguredMirror,
} from './backup.ts';
import { backupsBelow, newerBelow } from './backups-below.ts';
import { age } from './export-notes.ts';

type S3Place = NonNullable<ReturnType<typeof parseS3Address>>;

export interface RestoreOptions {
  readonly file: string;
  readonly to?: string;
  readonly identity?: readonly string[];
  readonly as?: string;
}

/**
 * Exit 0 when the mirror is in place.
 * @throws TidemarkError for `latest` if one of the targets cannot be listed, since it may have a newer one: the hint names the newest
 *   of the others
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
  const { backup, unread } = await backupNamed(named, options.file, options);
  if (unread.length > 0) throw perhapsNewer(errorsOf(unread), backup, options);
  refuseOtherSource(context, sourcesIn(backup));
  const identities = await identitiesOf(context, options.identity);
  const to = resolve(context.cwd, options.to);
  // Whatever link leads there: before the file is made.
  const isConfigured = realMirrorPath(to) === realMirrorPath(config.mirror);
  const facts = await restoreBackup(backup, to, {
    ...openOptions(context, identities),
    holder: holder(context, 'backup restore'),
    // Also of a copy: it may become the mirror later.
    actor,
    noticeStates: ({ sources, run }) => {
      // A backup without its manifest says only now whose it is; nothing is at `to` yet.
      refuseOtherSource(
        context,
        sources.map(({ source }) => source),
      );
      const configured = isConfigured ? config.sources : [];
      const names = [...sources.map(({ source }) => source), ...configured.map(({ name }) => name)];
      return restoredStates([...new Set(names)], run, isoTime(systemClock.now()));
    },
  });
  if (isInteractive(context)) context.stderr.write('\r\u001b[K');
  if (backup.manifest === null)
    printNote(context, [
      `${backup.name} has no manifest: its file could not be compared, but all hashes in it match`,
    ]);
  if (context.options.json === true) {
    const document = {
      schema: 'tidemark.backup_restore/1',
      backup: backupDocument(backup),
      mirror: to,
      run: facts.run,
      root: facts.root,
      sources: facts.sources,
      checked: facts.checked,
    };
    await print(context, `${JSON.stringify(document)}\n`);
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
      ? `→ this is the configured mirror, and its audit log has an entry of the restore: the next sync continues from there${missing.length === 0 ? '' : ', but only for sources that are in it'}`
      : `→ inspect it with TIDEMARK_MIRROR=${shellWord(to)} tidemark status; to continue from it, stop the daemon, move ${config.mirror} with its -wal and -shm away, and set \`mirror\` to it`,
  ];
  await print(context, `${lines.map(escapeControlCharacters).join('\n')}\n`);
  return EXIT.done;
}

/** As its manifest says; none where that does not say it. */
function sourcesIn({ manifest }: Backup): string[] {
  const { sources = [] }: Partial<BackupManifest> = manifest ?? {};
  return sources.map(({ source }) => source);
}

/**
 * With a mirror per source: `--source` says whose mirror is meant, and another configured one's must not take its place.
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
 * With a mirror per source: names the source in whose target alone the place or the backup is, or which alone is in a backup elsewhere,
 * unless somebody named one.
 * @throws TidemarkError as `backupNamed` where no source's own place is meant: it names these
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
  let names = holding((target) => isBelow(resolvedPlace(context, file), target));
  if (names.length === 0) {
    const { backup } = await backupNamed(context, file, options);
    names = holding((each) => addressOf(each) === backup.target.address);
    // A copy that is in no target.
    if (names.length === 0) names = sourcesIn(backup).filter((name) => configured.includes(name));
  }
  const [source, ...more] = names;
  if (source === undefined || more.length > 0) return context;
  return { ...context, options: { ...context.options, source: [source] } };
}

function resolvedPlace({ cwd }: CommandContext, file: string): string | S3Place {
  return parseS3Address(file) ?? resolve(cwd, file);
}

function isBelow(place: string | S3Place, target: TargetConfig): boolean {
  const isIn = (below: string, above: string): boolean => below === above || below.startsWith(`${above}/`);
  if (typeof place === 'string') return target.type === 'directory' && isIn(place, target.path);
  const { bucket, endpoint, prefix } = place;
  if (target.type !== 's3' || target.bucket !== bucket || target.endpoint !== endpoint) return false;
  return isIn(prefix, target.prefix);
}

/** The error of a restore of `latest`, where it cannot be known which one that is. @param backup the newest of the targets that answered */
function perhapsNewer(
  unread: readonly TidemarkError[],
  { name, madeAt }: Backup,
  options: RestoreOptions,
): TidemarkError {
  const [first] = unread;
  const hints = [...new Set(unread.flatMap(({ hint }) => hint ?? []))];
  const command = restoreCommand(name, options);
  return new TidemarkError(
    first?.code ?? 'internal',
    `${unread.map(({ message }) => message).join('; ')}. A newer backup than in the other targets may be there`,
    {
      hint: [
        ...hints,
        `or restore the newest of the other targets, made ${age(madeAt, systemClock.now())}: ${command}`,
      ].join('; '),
      cause: first,
    },
  );
}

function restoreCommand(file: string, { to = '', identity = [], as }: RestoreOptions): string {
  const words = [
    '--to',
    to,
    ...identity.flatMap((each) => ['--identity', each]),
    ...(as === undefined ? [] : ['--as', as]),
  ];
  return `\`tidemark backup restore ${[file, ...words].map(shellWord).join(' ')}\``;
}

/** The history of a source continues only under its name, which a new configuration may not have. */
function unconfiguredText(
  held: readonly string[],
  missing: readonly string[],
  { configured }: Config,
): string {
  const others = configured.map(({ name }) => name).filter((name) => !held.includes(name));
  const [first = ''] = missing;
  const what =
    others.length === 0
      ? `the configuration has no source ${missing.join(', ')}`
      : `the configuration has ${others.join(', ')}, and not ${missing.join(', ')}`;
  return `→ ${what}: give the source the name that it had (\`name: ${first}\`, or TIDEMARK_NAME=${first}), or the next sync begins another one without history`;
}

interface NamedBackup {
  readonly backup: Backup;
  /** Of `latest`: the targets that could not be listed. One of these may have a newer one. */
  readonly unread: readonly UnreadTarget[];
}

interface UnreadTarget {
  readonly address: string;
  readonly error: TidemarkError;
}

export function errorsOf(unread: readonly UnreadTarget[]): TidemarkError[] {
  return unread.map(({ error }) => error);
}

/**
 * `latest` is the newest complete one of all targets that can be listed. A name alone is looked for in the targets, then here. A directory or an
 * address `s3://…` names a backup, or the place of backups, whose newest is meant.
 */
export async function backupNamed(
  context: CommandContext,
  file: string,
  restore: RestoreOptions | null = null,
): Promise<NamedBackup> {
  const isToRestore = restore !== null;
  const hint = (place: string): string =>
    restore === null
      ? `\`tidemark backup verify ${shellWord(place)}\` verifies the newest`
      : `${restoreCommand(place, restore)} restores the newest`;
  const list: ListTarget = async (target) => {
    try {
      return await listWaiting(context, target);
    } catch (thrown) {
      throw isToRestore ? thrown : notListed(thrown);
    }
  };
  const newestIn = async (target: BackupTarget, address: string): Promise<Backup> => {
    const backups = await list(target);
    const elsewhere = backups.length > 0 ? null : await backupsBelow([target], address, hint);
    if (elsewhere !== null) throw elsewhere;
    const newest = newestOf(context, backups, { where: target.address, isToRestore });
    const newer = await newerBelow([{ target, newest }], address, hint);
    if (newer !== null) throw newer;
    return newest;
  };
  if (file === 'latest') return await latestOfTargets(context, isToRestore, hint);
  const found = async (): Promise<Backup> => {
    if (isS3Address(file)) return await backupAt(context, file, { list, newestIn });
    const isName = parseBackupName(file) !== undefined && basename(file) === file;
    const named = isName
      ? (await backupsIn(context, list)).filter(({ name, state }) => name === file && state !== 'gone')
      : [];
    const mirrors = Map.groupBy(named, ({ manifest }) => manifest?.mirror);
    if (mirrors.size > 1) throw ofSeveralMirrors(file, named);
    const [inTarget] = named;
    if (inTarget !== undefined) return inTarget;
    const path = resolve(context.cwd, file);
    const isPlace =
      statSync(path, { throwIfNoEntry: false })?.isDirectory() === true || isTarget(context, path);
    if (!isPlace) return await readBackup(path);
    return await newestIn(directoryTarget(path), file);
  };
  return { backup: await found(), unread: [] };
}

/** True for a configured directory, or the one above those of all sources: it may be away, and is never a backup itself. */
function isTarget(context: CommandContext, place: string): boolean {
  return mirrorConfigs(readLoadedConfig(context, context.options, 'unused')).some(({ backup }) =>
    backup?.targets.some(
      (target) => target.type === 'directory' && (target.path === place || target.within === place),
    ),
  );
}

type ListTarget = (target: BackupTarget) => Promise<readonly Backup[]>;

/** The error of a verification, which found nothing damaged: no backup was looked at. */
function notListed(thrown: unknown): TidemarkError {
  const error = asTidemarkError(thrown);
  const code = exitCodeFor(error.code);
  if (code === EXIT.usage || code === EXIT.interrupted) return error;
  const { message, hint, isRetryable } = error;
  return new TidemarkError('target_unread', message, { hint, isRetryable, cause: error });
}

/** The error of several targets. @param first gives its code */
function ofAll(errors: readonly TidemarkError[], first: TidemarkError): TidemarkError {
  if (errors.length === 1) return first;
  const hints = [...new Set(errors.flatMap(({ hint }) => hint ?? []))];
  return new TidemarkError(first.code, errors.map(({ message }) => message).join('; '), {
    ...(hints.length === 0 ? {} : { hint: hints.join('; ') }),
    isRetryable: first.isRetryable,
    cause: first,
  });
}

async function latestOfTargets(
  context: CommandContext,
  isToRestore: boolean,
  hint: (place: string) => string,
): Promise<NamedBackup> {
  const listed = await listEach(context, await targetsOf(context, undefined));
  const unread = listed.flatMap(({ target: { address }, error }) =>
    error === null ? [] : [{ address, error }],
  );
  const all = listed.flatMap(({ backups }) => backups);
  const [first] = unread;
  if (first !== undefined && all.every(({ state }) => state !== 'whole')) {
    const error = ofAll(errorsOf(unread), first.error);
    if (isToRestore) throw error;
    // Else the damaged one is named.
    if (all.every(({ state }) => state !== 'damaged')) throw notListed(error);
  }
  const read = listed.filter(({ error }) => error === null);
  const where = read.map(({ target }) => target.address).join(' or ');
  try {
    const targets = read.map(({ target }) => target);
    const elsewhere = all.length > 0 ? null : await backupsBelow(targets, null, hint);
    if (elsewhere !== null) throw elsewhere;
    const newest = newestOf(context, all, { where, isToRestore });
    // In whichever target: each may have the newer ones.
    const newer = await newerBelow(
      targets.map((target) => ({ target, newest })),
      null,
      hint,
    );
    if (newer !== null) throw newer;
    return { backup: newest, unread };
  } catch (error) {
    // Whoever is to name one needs to know that there may be others.
    printUnread(context, errorsOf(unread));
    throw error;
  }
}

function ofSeveralMirrors(name: string, backups: readonly Backup[]): TidemarkError {
  const places = backups.map(({ path }) => path);
  return new TidemarkError('usage', `backups of several mirrors are named ${name}: ${namesOf(places)}`, {
    hint: 'give the path of the one that you mean, or its source with --source',
  });
}

/** Those of the configured targets, of all mirrors, that answer; none where nothing is configured: the file may be here. */
async function backupsIn(context: CommandContext, list: ListTarget): Promise<readonly Backup[]> {
  const configs = mirrorConfigs(readLoadedConfig(context, context.options, 'unused'));
  const targets = configs.flatMap(({ backup }) => backup?.targets ?? []);
  const listed = await Promise.allSettled(
    targets.map(async (target) => await list(await openTarget(target, systemClock))),
  );
  const [failed] = listed.filter((each) => each.status === 'rejected');
  const found = listed.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
  if (found.length === 0 && failed !== undefined) throw failed.reason;
  return found;
}

async function backupAt(
  context: CommandContext,
  address: string,
  {
    list,
    newestIn,
  }: {
    readonly list: ListTarget;
    readonly newestIn: (target: BackupTarget, address: string) => Promise<Backup>;
  },
): Promise<Backup> {
  const config = s3Config(context, address);
  const last = config.prefix.split('/').at(-1) ?? '';
  const isFile = parseBackupName(last) !== undefined;
  const prefix = isFile || last === 'latest' ? config.prefix.slice(0, -last.length - 1) : config.prefix;
  const target = await openTarget({ ...config, prefix }, systemClock);
  if (!isFile) return await newestIn(target, address.replace(/\/latest(?=\?|$)/, ''));
  const named = (await list(target)).find(({ name }) => name === last);
  if (named !== undefined) return named;
  throw new TidemarkError('reference_unknown', `there is no backup ${last} in ${target.address}`, {
    hint: `\`tidemark backup list ${shellWord(target.address)}\` lists them`,
  });
}

/**
 * The newest complete backup of the configured mirror; without one, of the only mirror that has backups there. To restore from,
 * none is chosen while the configured mirror may have been begun by mistake: the backup that is meant is then the other one's. Nor is
 * one of which another has a later run.
 * @throws TidemarkError `usage` if several mirrors have: nothing says which one is meant
 */
function newestOf(
  context: CommandContext,
  backups: readonly Backup[],
  { where, isToRestore }: { readonly where: string; readonly isToRestore: boolean },
): Backup {
  const complete = backups
    .filter(({ state }) => state === 'whole')
    .toSorted((a, b) => Date.parse(b.madeAt) - Date.parse(a.madeAt) || b.run - a.run);
  // A damaged mirror may say which it is, and nothing else.
  const owner = withConfiguredMirror(context, mirrorId);
  const isBegunAnew =
    withConfiguredMirror(context, (mirror, config) => {
      const earlier = earlierBackups(complete, originOf(mirror));
      return begunByMistake(config, [{ address: where, earlier }], mirror) !== null;
    }) ?? false;
  const own = complete.filter(({ manifest }) => manifest?.mirror === owner);
  const [latest] = own.length > 0 ? own : complete;
  const [damaged, ...others] = backups.filter(({ state }) => state === 'damaged');
  if (latest === undefined && damaged !== undefined) {
    const more = others.length === 0 ? '' : `, and ${plural(others.length, 'other backup')} too`;
    throw new TidemarkError(
      'mirror_corrupt',
      `no backup in ${where} is complete: ${damaged.name} is damaged (${damaged.reason ?? ''})${more}`,
      { hint: '`tidemark backup list` lists the backups; `tidemark backup create` makes another one' },
    );
  }
  if (latest === undefined) {
    throw new TidemarkError('reference_unknown', `there is no complete backup in ${where}`, {
      hint: '`tidemark backup list` lists the backups; `tidemark backup create` makes one',
    });
  }
  const newest = [...Map.groupBy(complete, ({ manifest }) => manifest?.mirror).values()].flatMap(
    ([each]) => each ?? [],
  );
  const severalMirrors = (why: string): TidemarkError =>
    new TidemarkError(
      'usage',
      `${where} has backups of several mirrors${why}: ${choiceText(newest, owner)}`,
      {
        hint: 'name the one that you mean instead of `latest`; `tidemark backup list` lists them all',
      },
    );
  if (own.length === 0 && newest.length > 1) throw severalMirrors('');
  if (isToRestore && own.length > 0 && isBegunAnew)
    throw severalMirrors(', and the configured one was begun after backups of another one had been made');
  const later = laterRun(latest, complete);
  if (later === null) return latest;
  const text = `${latest.name} is the newest by its time, but ${later.name} has a later run: an older backup was restored between the two, the clock was wrong, or somebody altered a time`;
  if (isToRestore)
    throw new TidemarkError('usage', text, {
      hint: 'name the one that you mean; `tidemark backup list` lists them. `latest` works again once the other one and its manifest are moved away',
    });
  printNote(context, [text]);
  return latest;
}

/** The backup of the same mirror with the latest run, where that is later than the newest one's: nothing proves a time. */
function laterRun(newest: Backup, complete: readonly Backup[]): Backup | null {
  // A fence proves the order of two workers of a fleet: the runs of the former one may be lost.
  const isOutrun = ({ manifest, run, fence }: Backup): boolean =>
    manifest?.mirror === newest.manifest?.mirror && run > newest.run && fence === newest.fence;
  const [later = null] = complete.filter(isOutrun).toSorted((a, b) => b.run - a.run);
  return later;
}

const CHOICES_SHOWN = 4;

/** The newest backup of each mirror, with what distinguishes a long history from one that was just begun. */
function choiceText(newest: readonly Backup[], owner: string | null): string {
  const shown = newest.slice(0, CHOICES_SHOWN).map((backup) => {
    const { name, madeAt, manifest } = backup;
    // A manifest is read as far as backups need it.
    const { checked, sources = [] }: Partial<BackupManifest> = manifest ?? {};
    const held = checked === undefined ? '' : `, ${plural(checked.runs, 'run')}`;
    const of = sources.map(({ source }) => source).join(', ');
    return `${name} of mirror ${mirrorName(backup, owner)}, ${of}${held}, made ${age(madeAt, systemClock.now())}`;
  });
  const more = newest.length - shown.length;
  return `${shown.join('; ')}${more > 0 ? `; and of ${plural(more, 'other mirror')}` : ''}`;
}

export async function identitiesOf(
  { cwd }: CommandContext,
  files: readonly string[] | undefined,
): Promise<readonly Secret[]> {
  return (await Promise.all((files ?? []).map((file) => readIdentities(resolve(cwd, file))))).flat();
}

export function openOptions(context: CommandContext, identities: readonly Secret[]): OpenOptions {
  const options = { identities, clock: systemClock, signal: context.signal };
  if (!isInteractive(context)) return options;
  return {
    ...options,
    onProgress: (phase, share) => {
      context.stderr.write(`\r\u001b[K${phase} ${Math.floor(share * 100)} % `);
    },
  };
}

export function holder({ pid }: CommandContext, command: string) {
  return { command, pid, host: hostname(), since: isoTime(systemClock.now()) };
}
