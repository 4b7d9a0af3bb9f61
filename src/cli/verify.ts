/** `tidemark verify`: checks the mirror's contents against the stored hashes. */
import { resolve } from 'node:path';
import { scopeText } from '../catalog/catalog.ts';
import type { Config } from '../config/config.ts';
import { whoText } from '../core/actor.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode, asTidemarkError } from '../core/errors.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { repairHint, withMaskedId, verifyResult } from '../daemon/jobs/verify-result.ts';
import { fileDamage } from '../mirror/file-task.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { isOfAuditLog, isOfSchemaOnly, type VerifyProblem } from '../mirror/verify-records.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { nameText } from '../report/value-text.ts';
import { openConfiguredMirror } from '../wire.ts';
import { targetsOf } from './backup.ts';
import { groupAlike } from './plan-reason.ts';
import { recordJob } from './record-job.ts';
import { compareAuditFile, type NotedSeals, partOf, readAuditFile } from './verify-audit-file.ts';
import {
  isInteractive,
  isOneOutput,
  print,
  printReason,
  printShownReason,
  toRun,
  type CommandContext,
} from './context.ts';
import { inChain, lastStored, withMisattributed, withMissing } from '../backup/chain.ts';
import { listBackups } from '../backup/list.ts';
import { lackOf, type BackupManifest } from '../backup/manifest.ts';
import { mirrorId } from '../backup/plain-backup.ts';
import type { BackupTarget } from '../backup/targets/target.ts';
import { namesOf } from '../config/mirrors.ts';
import type { RestoredBackupEntry } from '../mirror/audit-log.ts';
import type { FoundSeal } from '../mirror/verify-chain.ts';
import { readConfigToShow } from './unmasked-keys.ts';

interface VerifyOptions {
  /** A root hash, or the hash of an entry of the audit log, that the user noted elsewhere. */
  readonly root?: string;
  readonly backups?: boolean;
  /** A file that `tidemark audit` wrote. */
  readonly audit?: string;
}

/**
 * Exit 0 without problems, 1 with problems, which are listed; also 1 if a root hash, one of a backup, or an entry of an exported
 * audit log is not in the mirror, and 3 if one of them could not be compared.
 */
export async function verify(context: CommandContext, options: VerifyOptions): Promise<ExitCode> {
  const root = options.root === undefined ? null : parseRoot(options.root);
  const file = options.audit === undefined ? null : readAuditFile(resolve(context.cwd, options.audit));
  const config = readConfigToShow(context);
  if ((root !== null || (file !== null && file.heads === null)) && context.ofSeveral !== undefined) {
    const what =
      root === null
        ? `${options.audit ?? ''} does not say of which mirrors its entries are: it is the log`
        : '--root is a hash';
    throw new TidemarkError('usage', `${what} of one mirror, and each source has its own`, {
      hint: `name one with --source; there are ${namesOf(context.ofSeveral.sources)}`,
    });
  }
  const part = file === null ? null : partOf(file, config);
  const targets = options.backups === true ? await targetsOf(context, undefined) : null;
  try {
    return await verifyConfigured(context, config, async (mirror) => [
      ...(root === null ? [] : [compareRoot(mirror, root)]),
      ...(targets === null ? [] : [await compareBackups(mirror, targets)]),
      ...(part === null ? [] : [compareAuditFile(mirror, config, part, context.ofSeveral)]),
    ]);
  } catch (error) {
    throw withDamage(error, config.mirror);
  }
}

/** Adds to the error of a mirror that cannot be opened the damage that SQLite finds in the file. */
function withDamage(error: unknown, path: string): unknown {
  if (!(error instanceof TidemarkError) || error.code !== 'mirror_corrupt') return error;
  const { code, message, hint } = error;
  let found: readonly string[];
  try {
    found = fileDamage(path);
  } catch (cause) {
    return new TidemarkError(code, message, { hint, cause });
  }
  if (found.length === 0) return error;
  const lines = found.slice(0, PLACES).map((line) => `  ${line}`);
  const more = found.length > PLACES ? ['  and more'] : [];
  return new TidemarkError(code, [`${message}:`, ...lines, ...more].join('\n'), { hint, cause: error });
}

async function verifyConfigured(
  context: CommandContext,
  config: Config,
  compareNoted: (mirror: Mirror) => Promise<readonly NotedSeals[]>,
): Promise<ExitCode> {
  using mirror = openConfiguredMirror(config, 'read', 'verify', context.pid);
  const isShown = isInteractive(context);
  const startedAt = systemClock.now();
  const startedMs = systemClock.monotonicMs();
  const verified = await mirror.verify(({ records, of }) => {
    if (isShown) context.stderr.write(`\rverifying ${formatInteger(records)} of ${plural(of, 'record')} `);
  });
  if (isShown) context.stderr.write('\r\u001b[K');
  const { checked, notes } = verified;
  const problems = verified.problems.map((problem) => withMaskedId(problem, config));
  const result = verifyResult(verified, config, mirror, systemClock.monotonicMs() - startedMs);
  const runs = mirror.runs.list();
  const latest = runs.find(({ root }) => root !== null);
  const failed = runs.filter(({ root, outcome }) => root === null && outcome !== 'running').length;
  const audited = mirror.lastEntry();
  const noted = await compareNoted(mirror);
  const codes = [result.exitCode, ...noted.map(({ exitCode }) => exitCode)];
  const code =
    codes.find((each) => each === EXIT.failed) ?? codes.find((each) => each !== EXIT.done) ?? EXIT.done;
  if (context.options.json === true) {
    const document = {
      schema: 'tidemark.verify/1',
      mirror: mirror.path,
      checked,
      root: latest?.root ?? null,
      audit_log: audited,
      problems,
      notes,
      ...Object.fromEntries(noted.flatMap((each) => Object.entries(each.document))),
    };
    await print(context, `${JSON.stringify(document)}\n`);
  } else if (code !== EXIT.done || context.options.quiet !== true) {
    const lines = [
      ...problemLines(problems),
      `${problems.length === 0 ? 'verified' : `${plural(problems.length, 'problem')} found`}: ` +
        `${plural(checked.records, 'record')}, ${plural(checked.revisions, 'revision')}, ${plural(checked.runs, 'run')}` +
        (failed === 0 ? '' : ` and ${plural(failed, 'failed run')}`),
      ...noteLines(notes, context.options.verbose === true),
      // If there are problems, no hashes are printed: the user should not note these.
      ...(latest === undefined || problems.length > 0
        ? []
        : [`root hash of run ${latest.run}: ${latest.root ?? ''}`]),
      ...(audited === null || problems.length > 0
        ? []
        : [`audit log up to entry ${audited.entry}: ${audited.hash}`]),
      ...noted.flatMap((each) => each.lines),
      ...(problems.length === 0 ? [] : [toRun(`→ ${repairHint(problems, config)}`, context.options)]),
    ];
    await print(context, `${lines.map((line) => escapeControlCharacters(line)).join('\n')}\n`);
  }
  await recordJob(context, config, { name: 'verify', source: null, startedAt, result });
  if (problems.length > 0) {
    const what = isOfAuditLog(problems)
      ? `${mirror.path} does not match its audit log`
      : isOfSchemaOnly(problems)
        ? `another program changed the schema of ${mirror.path}`
        : `the contents of ${mirror.path} do not match the stored hashes`;
    printShownReason(context, [
      isOneOutput(context) ? what : `${what}: ${plural(problems.length, 'problem')}`,
      ...problemLines(problems)
        .slice(0, PLACES)
        .map((line) => `  ${line}`),
      `  → ${repairHint(problems, config)}`,
    ]);
  }
  for (const { reasons } of noted) if (reasons.length > 0) printReason(context, reasons);
  return code;
}

/** The last note, and how many earlier ones there are; with `isVerbose` all. */
function noteLines(notes: readonly { readonly message: string }[], isVerbose: boolean): string[] {
  const lines = notes.map(({ message }) => message);
  const earlier = isVerbose ? 0 : lines.length - 1;
  if (earlier < 1) return lines;
  return [...lines.slice(-1), `… ${plural(earlier, 'earlier note')} of retention or a move (-v)`];
}

/** At most this many places are listed for a finding; the rest is counted. */
const PLACES = 5;

/**
 * Prints similar findings once, with where and how often, since a damaged page affects every record on it. Findings are similar
 * if they differ only in a number, a type or a field.
 */
function problemLines(problems: readonly VerifyProblem[]): string[] {
  const findings = problems.flatMap((problem) =>
    sentences(problem).map((text) => ({ text: `${problem.kind}: ${text}`, place: placeText(problem) })),
  );
  return groupAlike(findings, ({ text }) => problemPattern(text)).flatMap((found) => {
    const [{ text, place }] = found;
    if (found.length === 1) return [`${text}${place === '' ? '' : ` (${place})`}`];
    const isSame = found.every((each) => each.text === text);
    const places = groupAlike(
      found.filter((each) => each.place !== ''),
      (each) => each.place,
    );
    const unnamed = places.length - PLACES;
    return [
      isSame
        ? `${text}, ${formatInteger(found.length)} times`
        : `${text}, and ${formatInteger(found.length - 1)} more of this sort`,
      ...places
        .slice(0, PLACES)
        .map((at) => `  ${at[0].place}${at.length === 1 ? '' : `, ${formatInteger(at.length)} times`}`),
      ...(unnamed > 0 ? [`  and ${plural(unnamed, 'other place')}: --json lists them`] : []),
    ];
  });
}

/** The lines of a message, without headings: SQLite reports everything that it finds in a file as one text. */
function sentences({ message }: VerifyProblem): string[] {
  const lines = message.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('***'));
  return lines.length === 0 ? [message] : lines;
}

function problemPattern(text: string): string {
  return text
    .replaceAll(/\s\/\S*/g, ' /…')
    .replaceAll(/\btype \w+/g, 'type …')
    .replaceAll(/\d+/g, '…');
}

function placeText({ recordKind, scope, id, name, run, instead }: VerifyProblem): string {
  const joined = (parts: readonly (string | undefined)[], separator: string): string =>
    parts.filter((part) => part !== undefined && part !== '').join(separator);
  const record = recordKind && joined([recordKind, name === undefined ? name : nameText(name), id], ' ');
  const place = joined([record, scope && scopeText(scope), run === undefined ? '' : `run ${run}`], ', ');
  return joined([place, instead], '; ');
}

// `tidemark verify --root HASH` and `--backups`: compares hashes that were kept elsewhere with the chain of the mirror.

/** @throws TidemarkError `usage` if the text is not a hash */
function parseRoot(text: string): string {
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
function compareRoot(mirror: Mirror, root: string): NotedSeals {
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
  const document = { noted: { root, ...sealDocument(found) } };
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

function sealDocument(found: FoundSeal | undefined): object {
  return found ?? { status: 'unknown' };
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
async function compareBackups(mirror: Mirror, targets: readonly BackupTarget[]): Promise<NotedSeals> {
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
        ...sealDocument(found),
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
