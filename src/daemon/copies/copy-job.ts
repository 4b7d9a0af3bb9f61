/** The work on one copy, from the mirror to the finished files. It runs in a process of its own (`copy-process.ts`). */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, isoTime } from '../../core/clock.ts';
import { asFileTrouble } from '../../core/file-errors.ts';
import { programVersion } from '../../core/version.ts';
import { copyName, manifestName, partialName } from './copy-name.ts';
import { type CopyManifest, MANIFEST_SCHEMA, manifestText } from './manifest.ts';
import { type Digests, damaged, digestOf, pack, unpack } from './packing.ts';
import { takePlainCopy, type PlainFacts } from './plain-copy.ts';
import { finish } from './unfinished.ts';

/** Plain values only: it is handed to another process. */
export interface CopyJob {
  readonly mirrorPath: string;
  /** For the plain SQLite file. */
  readonly workDirectory: string;
  readonly directory: string;
  readonly recipients: readonly string[];
  /** Whose unfinished files these are: `mirrorId`. */
  readonly owner: string;
}

export type CopyPhase = 'copying' | 'verifying' | 'packing' | 'checking';

export interface CopyProgress {
  readonly phase: CopyPhase;
  /** From 0 to 1. */
  readonly share: number;
}

interface CopyEffects {
  readonly clock: Clock;
  readonly onProgress: (progress: CopyProgress) => void;
}

/** How the work is done: `copyInProcess` unless somebody has a reason. */
export type CopyWork = (
  job: CopyJob,
  options: Omit<CopyEffects, 'clock'> & { readonly signal: AbortSignal },
) => Promise<CopyManifest>;

/**
 * Makes a copy: takes it, verifies it by opening it, packs it, reads what was packed back, and only then gives it its
 * name. Returns its manifest.
 * @throws TidemarkError as its steps do; unfinished files may stay, which the next sweep removes
 */
export async function makeCopy(job: CopyJob, { clock, onProgress }: CopyEffects): Promise<CopyManifest> {
  const plainPath = join(job.workDirectory, 'copy.db');
  const share = (phase: CopyPhase) => (done: number, of: number) =>
    onProgress({ phase, share: of === 0 ? 1 : Math.min(1, done / of) });
  const copying = share('copying');
  const verifying = share('verifying');
  const madeAt = clock.now();
  const facts = await takePlainCopy(job.mirrorPath, plainPath, {
    clock,
    onBackup: ({ pages, pagesLeft }) => copying(pages - pagesLeft, pages),
    onVerify: ({ records, of }) => verifying(records, of),
  });
  const name = freeName(job, madeAt, facts.run);
  const partial = join(job.directory, partialName(name, job.owner));
  const digests = await pack(plainPath, partial, { recipients: job.recipients });
  onProgress({ phase: 'packing', share: 1 });
  await readBack(partial, digests, job.recipients.length > 0);
  onProgress({ phase: 'checking', share: 1 });
  const manifest = manifestOf(job, { name, madeAt, facts, digests });
  const manifestPath = join(job.directory, partialName(manifestName(name), job.owner));
  try {
    await writeFile(manifestPath, manifestText(manifest), { flag: 'wx', mode: 0o600, flush: true });
  } catch (error) {
    throw asFileTrouble(error, manifestPath, 'written');
  }
  await finish(job.directory, name, job.owner);
  return manifest;
}

/** A second copy within a second is called by the next one: the manifest has the time as it was. */
function freeName({ directory, recipients }: CopyJob, madeAt: number, run: number): string {
  for (let at = madeAt; ; at += 1000) {
    const name = copyName(at, run, recipients.length > 0);
    if (!existsSync(join(directory, name)) && !existsSync(join(directory, manifestName(name)))) return name;
  }
}

/** What is on the disk is what was written; without encryption also that it can be unpacked to what was verified. */
async function readBack(path: string, written: Digests, isEncrypted: boolean): Promise<void> {
  const packed = isEncrypted ? await digestOf(path) : (await unpack(path, null, { identities: [] })).packed;
  if (packed.sha256 !== written.packed.sha256) throw damaged(path);
}

function manifestOf(
  { recipients }: CopyJob,
  { name, madeAt, facts, digests }: { name: string; madeAt: number; facts: PlainFacts; digests: Digests },
): CopyManifest {
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
    versions: { tidemark: programVersion(), schema },
  };
}
