/** `tidemark verify --root HASH` and `--backups`: compares hashes that were kept elsewhere with the chain of the mirror. */
import { whoText } from '../core/actor.ts';
import { EXIT, TidemarkError, asTidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { inChain, lastStored, withMisattributed, withMissing } from '../backup/chain.ts';
import { listBackups } from '../backup/list.ts';
import { lackOf, type BackupManifest } from '../backup/manifest.ts';
import { mirrorId } from '../backup/plain-backup.ts';
import type { BackupTarget } from '../backup/targets/target.ts';
import type { RestoredBackupEntry } from '../mirror/audit-log.ts';
import type { FoundSeal } from '../mirror/verify-chain.ts';
import type { NotedSeals } from './verify-audit-file.ts';

/** @throws TidemarkError `usage` if the text is not a hash */
export function parseRoot(text: string): string {
  const root = text.trim().toLowerCase();
  if (/^[0-9a-f]{64}$/.test(root)) return root;
  throw new TidemarkError('usage', `--root ${text} is not a hash`, {
    hint: 'give the 64 hexadecimal digits that `tidemark verify` or `tidemark runs --json` printed',
  });
}

/**
 * Exit 0 for the current root hash of a run, or the hash of an entry; 3 for a root hash that `forget` or a move replaced, since
 * it cannot be recomputed any more; 1 for any other.
 */
export function compareRoot(mirror: Mirror, root: string): NotedSeals {
  const found = mirror.findSeal(root);
  if (found === undefined) {
    const [restored] = mirror.restoredBackups();
    return {
      document: {
        noted: {
          ...{ root, status: 'unknown' },
          ...(restored === undefined ? {} : { restored_backup: restored }),
        },
      },
      lines: [],
      reasons: [
        `hash ${root} is neither in the chain nor in the audit log of ${mirror.path}: it is of another mirror, the chain was written again since, or an older backup was restored since`,
        // Only the user knows when the hash was noted.
        ...(restored === undefined
          ? []
          : [`${restoredLine(restored)}: that explains it only if you noted it before ${restored.at}`]),
      ],
      exitCode: EXIT.failed,
    };
  }
  const document = { noted: { root, ...found } };
  const line = `${found.status === 'entry' ? '' : 'root '}hash ${root} is that of ${sealText(found)}`;
  if (found.status !== 'replaced') return { document, lines: [line], reasons: [], exitCode: EXIT.done };
  return {
    document,
    lines: [line],
    reasons: [
      `what root hash ${root} covered cannot be computed any more, since ${found.how === 'move' ? 'a move' : `forget ${found.forget}`} replaced it`,
      `  → check that this ${found.how} was yours, and note the root hash again after each forget or move`,
    ],
    exitCode: EXIT.partial,
  };
}

/** Who restored a backup, and when: runs after that backup and before its restore are missing. */
function restoredLine({ entry, at, by, via, name, run }: RestoredBackupEntry): string {
  return `  → entry ${entry} of the audit log: ${whoText({ by, via })} restored ${name ?? 'a backup'} (run ${run ?? 'unknown'}) on ${at}; what was recorded between that backup and then is not in this mirror`;
}

/**
 * Whether the restore of an older backup explains that a backup is not in the chain. It does if the backup was made before that
 * restore, and is newer than the backup that was restored.
 */
function restoredLines(
  restores: readonly RestoredBackupEntry[],
  { made_at: madeAt, run, audit_log: audited }: BackupManifest,
  lacks: 'root' | 'entry',
): string[] {
  const isBefore = ({ at }: RestoredBackupEntry): boolean => Date.parse(madeAt) <= Date.parse(at);
  const isLater = (restored: RestoredBackupEntry): boolean =>
    lacks === 'entry' ? (audited?.entry ?? 0) >= restored.entry : run > (restored.run ?? 0);
  const [newest] = restores;
  if (newest === undefined) return [];
  const reason = restores.find((restored) => isBefore(restored) && isLater(restored));
  if (reason !== undefined) return [restoredLine(reason)];
  const why = isBefore(newest)
    ? `it is not newer than the backup that ${whoText(newest)} restored then`
    : `it was made on ${madeAt}, after that restore`;
  return [
    `  → the restore of a backup on ${newest.at} (entry ${newest.entry} of the audit log) does not explain it: ${why}`,
  ];
}

function sealText(found: FoundSeal): string {
  if (found.status === 'entry')
    return `entry ${found.entry} of the audit log (${found.action} by ${whoText(found)})`;
  if (found.status === 'run') return `run ${found.run}`;
  const { run, into, forget, at } = found;
  const went = into === null ? '' : `, whose changes are in run ${into} now`;
  return `run ${run} until ${found.how === 'move' ? 'it was moved' : `forget ${forget}`} (${at}, by ${whoText(found)})${went}`;
}

/** A backup that was compared. */
interface Compared {
  readonly target: string;
  readonly file: string;
  readonly run: number;
  readonly found: FoundSeal | undefined;
  /** What of its manifest is not in the chain; `key` if the manifest itself was altered. */
  readonly lacks: 'root' | 'entry' | 'key' | null;
  /** How its file contradicts the manifest, in size or name; null if it does not. */
  readonly damage: string | null;
}

/** A backup that was not compared. */
interface LeftOut {
  readonly target: string;
  readonly file: string;
  readonly reason: 'other_mirror' | 'no_manifest' | 'gone';
  /** As in its manifest. */
  readonly mirror: string | null;
}

/**
 * Compares the root hashes and audit log entries in the manifests of this mirror's backups. Exit 0 if all are in the chain, and
 * at least one is that of a current run; 1 if one is not, a file contradicts its manifest, or the newest backup is gone; 3 if a
 * target or a manifest could not be read, or nothing was compared.
 */
export async function compareBackups(mirror: Mirror, targets: readonly BackupTarget[]): Promise<NotedSeals> {
  const owner = mirrorId(mirror);
  const restores = mirror.restoredBackups();
  const compared: Compared[] = [];
  const wrong: string[] = [];
  const unread: string[] = [];
  const leftOut: LeftOut[] = [];
  for (const target of targets) {
    let backups: Awaited<ReturnType<typeof listBackups>>;
    try {
      const listed = withMisattributed(mirror, await listBackups(target));
      backups = withMissing(target, listed, lastStored(mirror, target.address));
    } catch (error) {
      unread.push(`${target.address}: ${asTidemarkError(error).message}`);
      continue;
    }
    for (const { name, path, manifest, reason, state, isMisattributed = false } of backups) {
      const file = { target: target.address, file: name };
      const damage = state === 'damaged' || state === 'gone' ? reason : null;
      if (manifest === null && state === 'gone') {
        wrong.push(`${path} is gone: ${reason ?? 'its file is not there'}`);
        leftOut.push({ ...file, reason: 'gone', mirror: owner });
        continue;
      }
      if (manifest === null) {
        unread.push(`${path}: ${reason ?? 'it has no manifest'}`);
        leftOut.push({ ...file, reason: 'no_manifest', mirror: null });
        continue;
      }
      if (manifest.mirror !== owner && !isMisattributed) {
        leftOut.push({ ...file, reason: 'other_mirror', mirror: manifest.mirror });
        continue;
      }
      const { run, root } = manifest;
      if (damage !== null) wrong.push(`${path} is damaged: ${damage}`);
      const lack = lackOf(manifest);
      if (lack !== null) {
        compared.push({ ...file, run, found: undefined, lacks: 'key', damage });
        wrong.push(`${path}: its manifest was altered: ${lack}`);
        continue;
      }
      const { audit_log: audited } = manifest;
      const { found, lacks } = inChain(mirror, manifest);
      compared.push({ ...file, run, found, lacks, damage });
      if (lacks === null) continue;
      wrong.push(
        lacks === 'root' || audited === null
          ? `${path}: root hash ${root} of run ${run} is not in the chain`
          : `${path}: entry ${audited.entry} of the audit log, with hash ${audited.hash}, is not in the chain`,
        ...restoredLines(restores, manifest, lacks),
      );
    }
  }
  const damaged = compared.filter(({ damage }) => damage !== null).length;
  const intact = compared.filter(({ lacks, damage }) => lacks === null && damage === null);
  const present = intact.filter(({ found }) => found?.status === 'run');
  const replaced = intact.filter(({ found }) => found?.status === 'replaced');
  const lacking = (what: Compared['lacks']): number => compared.filter(({ lacks }) => lacks === what).length;
  if (compared.length === 0) unread.push('no backup of this mirror was found: nothing was compared');
  else if (wrong.length === 0 && present.length === 0)
    unread.push(
      'all backups are older than the latest forget: no root hash of theirs can be computed any more',
      '  → run `tidemark backup create`: its root hash is the present one',
    );
  return {
    document: {
      backups: compared.map(({ target, file, run, found, damage }) => ({
        ...{ target, file, run, damage },
        ...(found ?? { status: 'unknown' }),
      })),
      left_out: leftOut,
    },
    lines: [
      `${plural(compared.length, 'backup')} compared: ${[
        `${present.length} with the root hash of a run`,
        ...(replaced.length === 0 ? [] : [`${replaced.length} with a root hash that a forget replaced`]),
        ...(lacking('root') === 0 ? [] : [`${lacking('root')} not in the chain`]),
        ...(lacking('entry') === 0
          ? []
          : [`${lacking('entry')} with an audit log entry that is not in the chain`]),
        ...(lacking('key') === 0 ? [] : [`${lacking('key')} with an altered manifest`]),
        ...(damaged === 0 ? [] : [`${damaged} damaged`]),
      ].join(', ')}`,
      ...leftOutLines(leftOut.filter((each) => each.reason !== 'gone')),
      'by their manifests and the sizes of their files; `tidemark backup verify` reads the content',
    ],
    reasons: [...wrong, ...unread],
    exitCode: wrong.length > 0 ? EXIT.failed : unread.length > 0 ? EXIT.partial : EXIT.done,
  };
}

function leftOutLines(leftOut: readonly LeftOut[]): string[] {
  if (leftOut.length === 0) return [];
  const others = leftOut.filter(({ reason }) => reason === 'other_mirror');
  const mirrors = new Set(others.map(({ mirror }) => mirror)).size;
  const unknown = leftOut.length - others.length;
  const reasons = [
    ...(others.length === 0
      ? []
      : [`${others.length} of ${mirrors === 1 ? 'another mirror' : plural(mirrors, 'other mirror')}`]),
    ...(unknown === 0 ? [] : [`${unknown} without a manifest that can be read`]),
  ];
  return [
    `${plural(leftOut.length, 'backup')} left out: ${reasons.join(', ')}; \`tidemark backup list\` lists them`,
  ];
}
