/** Makes one backup, from the mirror to the targets. Runs in a child process (`process.ts`), except for cells and in most tests. */
import { join } from 'node:path';
import type { TargetConfig } from '../config/config.ts';
import { type Clock, isoTime, settlesWithin } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { programVersion } from '../core/package-root.ts';
import { duration } from '../core/wording.ts';
import { migrationsDigest } from '../mirror/migrations.ts';
import { emptiedError, holdsBackupOf, holdsBackups } from './list.ts';
import { type BackupManifest, MANIFEST_SCHEMA, manifestText } from './manifest.ts';
import { backupName, manifestName } from './name.ts';
import { type Digests, digestOf, pack, readsBackOtherwise, unpack } from './packing.ts';
import { takePlainBackup, type PlainFacts } from './plain-backup.ts';
import { requireOne, type StoredBackup } from './stored-backup.ts';
import { openTarget } from './targets/open.ts';
import { addressOf, type BackupTarget, type LocalBackup } from './targets/target.ts';

/** Plain values only: it is sent to another process. */
export interface BackupJob {
  readonly mirrorPath: string;
  /** For the plain SQLite file, and the packed one. */
  readonly workDirectory: string;
  readonly targets: readonly TargetConfig[];
  readonly recipients: readonly string[];
  /** `mirrorId` of the mirror: part of the names of unfinished files. */
  readonly owner: string;
  /**
   * Directories in which backups of this mirror were stored: if one has none now, nothing is stored there, as its disk
   * may not be mounted.
   */
  readonly mustHaveSome?: readonly string[];
  /** Of the worker of a fleet that makes it: part of the backup's name. */
  readonly fence?: number | null;
  /** How long a target may take for its first answer, in milliseconds; by default `ANSWERS_MS`. */
  readonly answersWithinMs?: number;
}

/** The limit for the first answer of a target: a bucket or a network disk that hangs must not delay the other targets for long. */
export const ANSWERS_MS = 60_000;

/** After this time, waiting for a target is reported. */
export const QUIET_WAIT_MS = 3_000;

/** `waiting`: for the first answer of a target. */
export type BackupPhase = 'copying' | 'verifying' | 'packing' | 'checking' | 'storing' | 'waiting';

export interface BackupWorkProgress {
  readonly phase: BackupPhase;
  /** From 0 to 1. */
  readonly share: number;
  /** With `waiting`: address of the target. */
  readonly target?: string;
}

export interface MadeBackup {
  readonly manifest: BackupManifest;
  /** In the order of the job's targets; at least one was stored. */
  readonly stored: readonly StoredBackup[];
}

interface WorkOptions {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: BackupWorkProgress) => void;
}

/** Does the work of one backup: `backUpInProcess`, except in most tests. */
export type BackupWork = (job: BackupJob, options: WorkOptions) => Promise<MadeBackup>;

/**
 * Makes a backup: copies the mirror, verifies the copy by opening it, packs it, reads the packed file back, and stores
 * it in each target, where it is read back again before it gets its name. Targets that fail do not affect the others,
 * and targets that have answered get the backup before it waits for another one.
 * @throws TidemarkError of its steps, and `NoTargetError` if no target could take the backup
 */
export async function createBackup(
  job: BackupJob,
  { clock, signal, onProgress }: WorkOptions & { readonly clock: Clock },
): Promise<MadeBackup> {
  const share = (phase: BackupPhase) => (done: number, of: number) =>
    onProgress({ phase, share: of === 0 ? 1 : Math.min(1, done / of) });
  const known: Place[] = [];
  const opening = job.targets.map(async (config) => {
    const place = await openPlace(config, job, clock);
    known.push(place);
    return place;
  });
  // Each is awaited later, where its error is handled; until then, a rejection must not end the process.
  void Promise.allSettled(opening);
  // Most directories answer at once: their names are needed for `freeName`.
  const directories = opening.filter((_opening, index) => job.targets[index]?.type === 'directory');
  await settlesWithin(Promise.all(directories), QUIET_WAIT_MS, clock);
  // The work begins only if at least one target can be used.
  if (known.every(({ error }) => error !== null)) await anyUsable(opening, { job, known, clock, onProgress });
  const plainPath = join(job.workDirectory, 'backup.db');
  const copying = share('copying');
  const verifying = share('verifying');
  const madeAt = clock.now();
  const facts = await takePlainBackup(job.mirrorPath, plainPath, {
    clock,
    onBackup: ({ pages, pagesLeft }) => copying(pages - pagesLeft, pages),
    onVerify: ({ records, of }) => verifying(records, of),
  });
  const name = freeName(known, madeAt, facts.run, job);
  const packed = join(job.workDirectory, 'backup.packed');
  const digests = await pack(plainPath, packed, { recipients: job.recipients });
  onProgress({ phase: 'packing', share: 1 });
  await readBack(packed, digests, job.recipients.length > 0);
  onProgress({ phase: 'checking', share: 1 });
  const manifest = manifestOf(job, { name, madeAt, facts, digests });
  const { bytes, sha256 } = digests.packed;
  const backup = { name, path: packed, bytes, sha256, manifest: manifestText(manifest) };
  const stored = await storeInTurn(backup, { job, opening, known, clock, signal, onProgress });
  requireOne(stored);
  return { manifest, stored };
}

/** Makes backups in this process. */
export function backUpHere(clock: Clock): BackupWork {
  return (job, options) => createBackup(job, { clock, ...options });
}

interface Place {
  readonly config: TargetConfig;
  readonly target: BackupTarget;
  /** Names of the files there. */
  readonly names: ReadonlySet<string>;
  /** Why it cannot be used; null if it can. */
  readonly error: TidemarkError | null;
  /** As in `StoredBackup`. */
  readonly isEmptied: boolean;
}

/** Waits until a usable target has answered. @throws NoTargetError if none can be used */
async function anyUsable(
  opening: readonly Promise<Place>[],
  { job, known, clock, onProgress }: Pick<Storing, 'job' | 'known' | 'clock' | 'onProgress'>,
): Promise<void> {
  const usable = opening.map(async (each) => {
    const { error } = await each;
    if (error !== null) throw error;
  });
  const first = Promise.any(usable).catch(async () =>
    requireOne(
      (await Promise.all(opening)).map(({ target: { address }, error, isEmptied }) => ({
        ...{ address, path: null, error, isEmptied },
      })),
    ),
  );
  if (!(await settlesWithin(first, QUIET_WAIT_MS, clock))) {
    // Without targets that have answered and cannot be used.
    const silent = job.targets.filter((config) => known.every((place) => place.config !== config));
    onProgress({ phase: 'waiting', share: 0, target: silent.map(addressOf).join(' or ') });
  }
  await first;
}

interface Storing extends WorkOptions {
  readonly job: BackupJob;
  readonly opening: readonly Promise<Place>[];
  /** The places that have answered. */
  readonly known: readonly Place[];
  readonly clock: Clock;
}

/**
 * Stores the backup in the targets that have answered first, directories before buckets. Returns the outcomes in the
 * order of the job's targets.
 */
async function storeInTurn(
  backup: LocalBackup,
  { job, opening, known, clock, signal, onProgress }: Storing,
): Promise<StoredBackup[]> {
  const { name, bytes } = backup;
  const places = job.targets.map((config, index) => ({ config, index, place: opening[index] }));
  const hasAnswered = new Set(known.map(({ config }) => config));
  const rank = ({ config }: (typeof places)[number]): number =>
    (hasAnswered.has(config) ? 0 : 2) + (config.type === 'directory' ? 0 : 1);
  const outcomes: { readonly index: number; readonly outcome: StoredBackup }[] = [];
  for (const { config, index, place } of places.toSorted((a, b) => rank(a) - rank(b))) {
    if (place === undefined) throw new Error('a target was not opened');
    if (!(await settlesWithin(place, QUIET_WAIT_MS, clock)))
      onProgress({ phase: 'waiting', share: 0, target: addressOf(config) });
    const { target, names, error, isEmptied } = await place;
    const before = 2 * outcomes.length * bytes;
    const onBytes = (done: number): void =>
      onProgress({ phase: 'storing', share: Math.min(1, (before + done) / (2 * bytes * places.length)) });
    const store = async (): Promise<void> => {
      if (names.has(name) || names.has(manifestName(name))) throw taken(target.pathOf(name));
      await target.store(backup, { owner: job.owner, signal, onBytes });
    };
    const failure = error ?? (await failureOf(store));
    const path = failure === null ? target.pathOf(name) : null;
    outcomes.push({ index, outcome: { address: target.address, path, error: failure, isEmptied } });
  }
  return outcomes.toSorted((a, b) => a.index - b.index).map(({ outcome }) => outcome);
}

/** The error of a target that answered after the name was chosen, and has another mirror's backup of this name. */
function taken(path: string): TidemarkError {
  return new TidemarkError('file_system', `${path} is there already: it belongs to another backup`, {
    hint: 'run `tidemark backup create` again',
    isRetryable: true,
  });
}

async function openPlace(
  config: TargetConfig,
  { owner, answersWithinMs, mustHaveSome = [] }: BackupJob,
  clock: Clock,
): Promise<Place> {
  const target = await openTarget(config, clock);
  let names: ReadonlySet<string> = new Set();
  let isEmptied = false;
  const look = async (): Promise<Pick<Place, 'names' | 'isEmptied'>> => {
    const found = new Set((await target.sweep(owner)).map(({ name }) => name));
    // Checked again, even if the caller has: the disk may have been mounted or unmounted since.
    const mustHave = config.type === 'directory' && mustHaveSome.includes(config.path);
    return { names: found, isEmptied: mustHave && !(await holdsBackupOf(target, owner, found)) };
  };
  const error = await failureOf(async () => {
    // The limit includes reading the manifests: a disk may hang in the middle.
    ({ names, isEmptied } = await answered(target, look(), answersWithinMs ?? ANSWERS_MS, clock));
    if (isEmptied) throw emptiedError(target.address, holdsBackups(names));
  });
  return { config, target, names, error, isEmptied };
}

/**
 * The answer of a target to a first request.
 * @throws TidemarkError `timeout` if it takes longer than `withinMs`, or the error of the request
 */
export async function answered<T>(
  { address }: BackupTarget,
  answer: Promise<T>,
  withinMs: number,
  clock: Clock,
): Promise<T> {
  if (await settlesWithin(answer, withinMs, clock)) return await answer;
  throw new TidemarkError('timeout', `${address} has not answered for ${duration(withinMs)}`, {
    hint: 'check that it works and can be reached from this machine',
    isRetryable: true,
  });
}

async function failureOf(work: () => Promise<void>): Promise<TidemarkError | null> {
  try {
    await work();
    return null;
  } catch (error) {
    return asTidemarkError(error);
  }
}

/** A free name. A second backup within one second is named after the next second; its manifest has the true time. */
function freeName(
  places: readonly Place[],
  madeAt: number,
  run: number,
  { recipients, fence = null }: Pick<BackupJob, 'recipients' | 'fence'>,
): string {
  for (let at = madeAt; ; at += 1000) {
    const name = backupName(at, run, recipients.length > 0, fence);
    if (!places.some(({ names }) => names.has(name) || names.has(manifestName(name)))) return name;
  }
}

/** Checks that the disk has what was written and, without encryption, that it can be unpacked. */
async function readBack(path: string, written: Digests, isEncrypted: boolean): Promise<void> {
  const read = async (): Promise<Digests['packed']> => {
    if (isEncrypted) return await digestOf(path);
    try {
      return (await unpack(path, null, { identities: [] })).packed;
    } catch (error) {
      const isDamaged = ['mirror_corrupt', 'usage'].includes(asTidemarkError(error).code);
      throw isDamaged ? readsBackOtherwise(path) : error;
    }
  };
  if ((await read()).sha256 !== written.packed.sha256) throw readsBackOtherwise(path);
}

function manifestOf(
  { recipients }: BackupJob,
  { name, madeAt, facts, digests }: { name: string; madeAt: number; facts: PlainFacts; digests: Digests },
): BackupManifest {
  const { schema, ...contents } = facts;
  return {
    schema: MANIFEST_SCHEMA,
    file: name,
    made_at: isoTime(madeAt),
    ...contents,
    bytes: digests.packed.bytes,
    sha256: digests.packed.sha256,
    plain_bytes: digests.plain.bytes,
    plain_sha256: digests.plain.sha256,
    compression: 'zstd',
    encryption: recipients.length === 0 ? null : 'age',
    versions: { tidemark: programVersion(), schema, schema_digest: migrationsDigest(schema) ?? '' },
  };
}
