/** The SQLite file inside a backup: copied from the mirror, and verified by opening it. */
import { createHash } from 'node:crypto';
import type { Clock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { RESTORE_HINT } from '../core/hints.ts';
import { type BackupOptions, takeOutOfBackup } from '../mirror/backup.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { AuditLogContradicted } from '../mirror/audited-rows.ts';
import { openMirror } from '../mirror/open.ts';
import type { VerifyProgress, VerifyResult } from '../mirror/verify.ts';
import { isOfAuditLog } from '../mirror/verify-records.ts';
import type { BackupManifest } from './manifest.ts';

/** The part of a manifest that comes from the contents of the mirror. */
export interface PlainFacts extends Pick<
  BackupManifest,
  'mirror' | 'run' | 'root' | 'audit_log' | 'sources' | 'checked'
> {
  readonly schema: number;
}

interface PlainOptions {
  readonly clock: Clock;
  readonly signal?: AbortSignal;
  readonly onBackup?: BackupOptions['onProgress'];
  readonly onVerify?: (progress: VerifyProgress) => void;
}

/**
 * Writes a consistent copy of the mirror to `path` and verifies it: structure, hashes, history, and the chain of seals.
 * @throws TidemarkError `mirror_missing` if nothing was published yet, `mirror_corrupt` if the copy does not verify
 */
export async function takePlainBackup(
  mirrorPath: string,
  path: string,
  options: PlainOptions,
): Promise<PlainFacts> {
  const { clock, signal, onBackup } = options;
  const mirror = openMirror(mirrorPath, { mode: 'read', command: 'backup create', clock });
  try {
    await mirror.backupTo(path, {
      ...(signal === undefined ? {} : { signal }),
      ...(onBackup === undefined ? {} : { onProgress: onBackup }),
    });
  } finally {
    mirror.close();
  }
  takeOutOfBackup(path, mirrorPath);
  return await checkPlainBackup(path, `the backup of ${mirrorPath}`, options);
}

/**
 * Opens and verifies the SQLite file of a backup. `subject` names it in errors.
 * @throws TidemarkError `mirror_corrupt` if it does not verify, `mirror_missing` if it has no run, `mirror_version`
 *   or `mirror_newer` if this version cannot read it
 */
export async function checkPlainBackup(
  path: string,
  subject: string,
  { clock, onVerify }: PlainOptions,
): Promise<PlainFacts> {
  try {
    const backup = openMirror(path, { mode: 'read', command: 'verify', clock });
    try {
      const result = await backup.verify(onVerify);
      refuseProblems(result, subject);
      return factsOf(backup, result, subject);
    } finally {
      backup.close();
    }
  } catch (error) {
    throw named(error, path, subject);
  }
}

/** An error about the temporary file `path`, with the name that the user knows. */
function named(error: unknown, path: string, subject: string): unknown {
  const { code, message } = asTidemarkError(error);
  const isOtherVersion = code === 'mirror_version' || code === 'mirror_newer';
  if (!message.includes(path) || (!isOtherVersion && code !== 'mirror_corrupt')) return error;
  return new TidemarkError(
    code,
    message.replace(path, () => subject),
    { hint: isOtherVersion ? 'use the version of Tidemark that made it' : DAMAGED_HINT, cause: error },
  );
}

const DAMAGED_HINT = `\`tidemark verify\` says whether the mirror itself is damaged: if so, ${RESTORE_HINT}; earlier backups stay (\`tidemark backup list\`)`;

function refuseProblems({ problems }: VerifyResult, subject: string): void {
  const [first] = problems;
  if (first === undefined) return;
  const more = problems.length === 1 ? '' : `, and ${problems.length - 1} more`;
  const message = `${subject} does not verify: ${first.message.trim().replaceAll('\n', ' ')}${more}`;
  if (isOfAuditLog(problems)) throw new AuditLogContradicted(message);
  throw new TidemarkError('mirror_corrupt', message, { hint: DAMAGED_HINT });
}

function factsOf(mirror: Mirror, { checked }: VerifyResult, subject: string): PlainFacts {
  const [latest] = mirror.runs.list({ isPublished: true, limit: 1 });
  if (latest === undefined || latest.root === null) {
    throw new TidemarkError('mirror_missing', `${subject} holds no published run`, {
      hint: 'run `tidemark sync` first',
    });
  }
  const sources = mirror.runs.sources().flatMap((source) => {
    const run = mirror.runs.latest(source);
    return run === undefined
      ? []
      : [{ source, run: run.run, outcome: run.outcome, finished_at: run.finishedAt }];
  });
  return {
    mirror: mirrorId(mirror),
    run: latest.run,
    root: latest.root,
    audit_log: mirror.lastEntry(),
    sources,
    checked,
    schema: mirror.schemaVersion,
  };
}

/** Identifies a mirror without revealing anything about it: the same in all of its backups. */
export function mirrorId(mirror: Mirror): string {
  return createHash('sha256')
    .update('tidemark.backups\0')
    .update(mirror.acceptances.fingerprintKey())
    .digest('hex')
    .slice(0, 16);
}
