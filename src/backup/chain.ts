/** Whether a mirror has in its chain what the manifest of one of its backups says. */
import { plural } from '../core/wording.ts';
import type { FoundSeal } from '../mirror/verify-chain.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { type Backup, newestFirst } from './list.ts';
import { type BackupManifest, lackOf } from './manifest.ts';
import { parseBackupName } from './name.ts';
import { mirrorId } from './plain-backup.ts';
import type { BackupTarget } from './targets/target.ts';

interface InChain {
  /** Of its root; undefined where that is not in the chain. */
  readonly found: FoundSeal | undefined;
  /** What is not in the chain: the root, or the latest entry of the audit log. Null where both are. */
  readonly lacks: 'root' | 'entry' | null;
}

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
 * Names of the complete backups of this mirror that its chain does not have: the mirror was altered, or an older one is in its place.
 * They may be the only copy of later runs, and the only proof.
 */
export function contradicting(mirror: Mirror, backups: readonly Backup[]): string[] {
  const owner = mirrorId(mirror);
  return backups.flatMap(({ name, state, manifest }) => {
    if (state !== 'whole' || manifest?.mirror !== owner) return [];
    // An altered manifest does not prove anything, and `verify --backups` names what it lacks.
    return lackOf(manifest) !== null || inChain(mirror, manifest).lacks !== null ? [name] : [];
  });
}

/**
 * The same backups; as damaged those whose manifest names another mirror, although it has the root hash of a run of this one: they
 * would pass for backups of the other one, and so hide.
 */
export function withMisattributed(mirror: Mirror, backups: readonly Backup[]): Backup[] {
  const owner = mirrorId(mirror);
  return backups.map((backup) => {
    const { state, manifest } = backup;
    if (state !== 'whole' || manifest === null || manifest.mirror === owner) return backup;
    // A root hash that a move replaced may be that of the mirror before it.
    const found = mirror.findSeal(manifest.root);
    if (found?.status !== 'run' || found.run !== manifest.run) return backup;
    const reason = `its manifest names another mirror, but has the root hash of run ${found.run} of this one`;
    return { ...backup, state: 'damaged', isMisattributed: true, reason };
  });
}

/** What a mirror knows of a target: its own id, and the name of the backup that it stored there last. */
interface LastStored {
  readonly owner: string;
  readonly name: string | undefined;
}

export function lastStored(mirror: Mirror, address: string): LastStored {
  return { owner: mirrorId(mirror), name: mirror.daemon.lastStoredIn(address) };
}

/**
 * The same backups of a target, with the one that a mirror stored there last as gone, if neither that nor a newer one of that
 * mirror is there: retention keeps the newest.
 * @param backups all that are there, newest first
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
  // By the times in the names: that of a manifest is more exact. A later one with an earlier run is an older one under a new name.
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

/** E.g. `1 backup (NAME) is not in the chain of this mirror, and is kept`; null without any. */
export function contradictingText(names: readonly string[]): string | null {
  const all = [...new Set(names)];
  if (all.length === 0) return null;
  const more = all.length > NAMED ? ` and ${all.length - NAMED} more` : '';
  const [are, may] = all.length === 1 ? ['is', 'it may'] : ['are', 'they may'];
  return `${plural(all.length, 'backup')} (${all.slice(0, NAMED).join(', ')}${more}) ${are} not in the chain of this mirror: ${may} have later runs, and retention keeps ${all.length === 1 ? 'it' : 'them'} until you delete ${all.length === 1 ? 'it' : 'them'}`;
}
