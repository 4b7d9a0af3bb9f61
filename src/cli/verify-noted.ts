/** `tidemark verify --root HASH` and `--backups`: seals that were kept elsewhere, against the chain of the mirror. */
import { listBackups } from '../backup/list.ts';
import { mirrorId } from '../backup/plain-backup.ts';
import type { BackupTarget } from '../backup/targets/target.ts';
import { EXIT, TidemarkError, type ExitCode, asTidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { FoundSeal } from '../mirror/verify-chain.ts';

/** Seals kept elsewhere, as `verify` reports them. */
export interface NotedSeals {
  /** As in the JSON document. */
  readonly document: Readonly<Record<string, unknown>>;
  readonly lines: readonly string[];
  /** Why it does not end with 0; empty where it does. */
  readonly reasons: readonly string[];
  readonly exitCode: ExitCode;
}

/** @throws TidemarkError `usage` for what is not a hash */
export function parseRoot(text: string): string {
  const root = text.trim().toLowerCase();
  if (/^[0-9a-f]{64}$/.test(root)) return root;
  throw new TidemarkError('usage', `--root ${text} is not a hash`, {
    hint: 'give the 64 hexadecimal digits that `tidemark verify` or `tidemark runs --json` printed',
  });
}

/**
 * Exit 0 for the present root of a run, or the hash of an entry; 3 for a root that a forget replaced, since what it sealed
 * cannot be computed any more; 1 for any other.
 */
export function compareRoot(mirror: Mirror, root: string): NotedSeals {
  const found = mirror.findSeal(root);
  const document = { noted: { root, ...sealDocument(found) } };
  if (found === undefined) {
    return {
      document,
      lines: [],
      reasons: [
        `root ${root} is not in the chain of ${mirror.path}: it is of another mirror, or the chain was written again since`,
      ],
      exitCode: EXIT.failed,
    };
  }
  const line = `root ${root} is that of ${sealText(found)}`;
  if (found.status !== 'replaced') return { document, lines: [line], reasons: [], exitCode: EXIT.done };
  return {
    document,
    lines: [line],
    reasons: [
      `what root ${root} sealed cannot be computed any more, since forget ${found.forget} replaced it`,
      '  → check that this forget was yours, and note the root again after each forget',
    ],
    exitCode: EXIT.partial,
  };
}

function sealText(found: FoundSeal): string {
  if (found.status === 'entry')
    return `entry ${found.entry} of the audit log (${found.action} by ${found.by})`;
  if (found.status === 'run') return `run ${found.run}`;
  const { run, into, forget, at, by } = found;
  const went = into === null ? '' : `, whose changes are in run ${into} now`;
  return `run ${run} until forget ${forget} (${at}, by ${by})${went}`;
}

function sealDocument(found: FoundSeal | undefined): object {
  return found ?? { status: 'unknown' };
}

/** One target as it was listed. */
interface Compared {
  readonly target: string;
  readonly file: string;
  readonly run: number;
  readonly found: FoundSeal | undefined;
}

/**
 * Compares the roots, and the latest entries of the audit log, that manifests of backups of this mirror have. Exit 0 where
 * all are in the chain and one at least is of a present run; 1 where one is not; 3 where a target or a manifest could not
 * be read, or nothing was compared.
 */
export async function compareBackups(mirror: Mirror, targets: readonly BackupTarget[]): Promise<NotedSeals> {
  const owner = mirrorId(mirror);
  const compared: Compared[] = [];
  const wrong: string[] = [];
  const unread: string[] = [];
  for (const target of targets) {
    let backups: Awaited<ReturnType<typeof listBackups>>;
    try {
      backups = await listBackups(target);
    } catch (error) {
      unread.push(`${target.address}: ${asTidemarkError(error).message}`);
      continue;
    }
    for (const { name, path, manifest, reason } of backups) {
      if (manifest === null) unread.push(`${path}: ${reason ?? 'it has no manifest'}`);
      if (manifest?.mirror !== owner) continue;
      const { run, root, audit_log: audited = null } = manifest;
      const found = mirror.findSeal(root);
      const isOfRun = found !== undefined && found.status !== 'entry' && found.run === run;
      compared.push({ target: target.address, file: name, run, found: isOfRun ? found : undefined });
      if (!isOfRun) wrong.push(`${path}: root ${root} of run ${run} is not in the chain`);
      else if (audited !== null && mirror.findSeal(audited.hash)?.status !== 'entry')
        wrong.push(
          `${path}: entry ${audited.entry} of the audit log, with hash ${audited.hash}, is not in it`,
        );
    }
  }
  const present = compared.filter(({ found }) => found?.status === 'run');
  const replaced = compared.filter(({ found }) => found?.status === 'replaced');
  if (compared.length === 0) unread.push('no backup of this mirror was found: nothing was compared');
  else if (wrong.length === 0 && present.length === 0)
    unread.push('all backups are older than the latest forget: no root of theirs can be computed any more');
  return {
    document: {
      backups: compared.map(({ found, ...backup }) => ({ ...backup, ...sealDocument(found) })),
    },
    lines: [
      `${plural(compared.length, 'backup')} compared: ${[
        `${present.length} with the root of a run`,
        ...(replaced.length === 0 ? [] : [`${replaced.length} with a root that a forget replaced`]),
        ...(wrong.length === 0 ? [] : [`${wrong.length} not in the chain`]),
      ].join(', ')}`,
    ],
    reasons: [...wrong, ...unread],
    exitCode: wrong.length > 0 ? EXIT.failed : unread.length > 0 ? EXIT.partial : EXIT.done,
  };
}
