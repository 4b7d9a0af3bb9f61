/** Compares the manifests of backups with the chain of the mirror. */
import type { Clock } from '../core/clock.ts';
import { firstWords, plural } from '../core/wording.ts';
import type { FoundSeal } from '../mirror/verify-chain.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openMirror } from '../mirror/open.ts';
import { type Backup, newestFirst } from './list.ts';
import { type BackupManifest, lackOf } from './manifest.ts';
import { parseBackupName } from './name.ts';
import { mirrorId } from './plain-backup.ts';
import type { BackupTarget } from './targets/target.ts';

interface InChain {
  /** The seal with the root hash; undefined if it is not in the chain. */
  readonly found: FoundSeal | undefined;
  /** What is not in the chain: the root hash, or the latest entry of the audit log; null if both are. */
  readonly lacks: 'root' | 'entry' | null;
}

/** Whether the chain of the mirror has what the manifest of a backup says. */
export function inChain(
  mirror: Mirror,
  { run, root, audit_log: audited }: Pick<BackupManifest, 'run' | 'root' | 'audit_log'>,
): InChain {
  const found = mirror.findSeal(root);
  const isOfRun = found !== undefined && found.status !== 'entry' && found.run === run;
  if (!isOfRun) return { found: undefined, lacks: 'root' };
  const hasEntry = audited === null || mirror.findSeal(audited.hash)?.status === 'entry';
  return { found, lacks: hasEntry ? null : 'entry' };
}

/**
 * Names of the complete backups of the mirror that are not in its chain: the mirror was altered, or replaced by an
 * older one. These backups may be the only copy of later runs, and the only proof.
 */
export function contradicting(mirror: Mirror, backups: readonly Backup[]): string[] {
  const owner = mirrorId(mirror);
  return backups.flatMap(({ name, state, manifest }) => {
    if (state !== 'whole' || manifest?.mirror !== owner) return [];
    // An altered manifest is reported too: `verify --backups` says what it lacks.
    return lackOf(manifest) !== null || inChain(mirror, manifest).lacks !== null ? [name] : [];
  });
}

/** `contradicting` for the mirror at `path`. @throws TidemarkError if it cannot be read */
export function contradictingIn(
  path: string,
  backups: readonly Backup[],
  { command, clock }: { readonly command: string; readonly clock: Clock },
): string[] {
  const mirror = openMirror(path, { mode: 'read', command, clock });
  try {
    return contradicting(mirror, backups);
  } finally {
    mirror.close();
  }
}

/**
 * The same backups, with those marked as damaged whose manifest names another mirror, but has the root hash of a run of
 * this one: they would be taken for backups of the other mirror.
 */
export function withMisattributed(mirror: Mirror, backups: readonly Backup[]): Backup[] {
  const owner = mirrorId(mirror);
  return backups.map((backup) => {
    const { state, manifest } = backup;
    if (state !== 'whole' || manifest === null || manifest.mirror === owner) return backup;
    // Only status `run`: a root hash that a move replaced may be that of the earlier mirror.
    const found = mirror.findSeal(manifest.root);
    if (found?.status !== 'run' || found.run !== manifest.run) return backup;
    const reason = `its manifest names another mirror, but has the root hash of run ${found.run} of this one`;
    return { ...backup, state: 'damaged', isMisattributed: true, reason };
  });
}

interface LastStored {
  /** `mirrorId` of the mirror. */
  readonly owner: string;
  readonly name: string | undefined;
}

/** The name of the backup that the mirror stored in a target last. */
export function lastStored(mirror: Mirror, address: string): LastStored {
  return { owner: mirrorId(mirror), name: mirror.daemon.lastStoredIn(address) };
}

/**
 * The backups of a target, with an entry `gone` for the one that the mirror stored there last, if neither it nor a
 * newer backup of the mirror exists: retention always keeps the newest.
 * @param backups all backups in the target, newest first
 */
export function withMissing(
  target: BackupTarget,
  backups: readonly Backup[],
  { owner, name }: LastStored,
): Backup[] {
  const stored = parseBackupName(name ?? '');
  if (stored === undefined) return [...backups];
  const isOwn = (each: Backup): boolean =>
    each.isMisattributed === true || (each.manifest?.mirror ?? owner) === owner;
  // Compares the times in the names, since manifests have more exact ones. A later time with an earlier run is a
  // renamed older backup.
  const isThere = backups.some(
    (each) =>
      each.name === stored.name ||
      (isOwn(each) && each.run >= stored.run && newestFirst(parseBackupName(each.name) ?? each, stored) < 0),
  );
  if (isThere) return [...backups];
  const missing: Backup = {
    ...stored,
    target,
    path: target.pathOf(stored.name),
    bytes: 0,
    state: 'gone',
    reason: 'it was stored there last, and neither its file nor its manifest is there',
    isOfOtherVersion: false,
    manifest: null,
  };
  const older = backups.findIndex(isOwn);
  return older === -1 ? [...backups, missing].toSorted(newestFirst) : backups.toSpliced(older, 0, missing);
}

const NAMED = 3;

export const CONTRADICTING_HINT = '`tidemark verify --backups` says what differs';

/**
 * A sentence about backups that are not in the chain of the mirror, e.g. `1 backup (NAME) is not in the chain …`; null
 * for none.
 */
export function contradictingText(names: readonly string[]): string | null {
  const all = [...new Set(names)];
  if (all.length === 0) return null;
  const [are, they, them] = all.length === 1 ? ['is', 'it', 'it'] : ['are', 'they', 'them'];
  return `${plural(all.length, 'backup')} (${firstWords(all, NAMED)}) ${are} not in the chain of this mirror: ${they} may have later runs, and retention keeps ${them} until you delete ${them}`;
}
