/** `tidemark verify`: checks the mirror's contents against the stored hashes. */
import { resolve } from 'node:path';
import { scopeText } from '../catalog/catalog.ts';
import type { Config } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, firstError, TidemarkError, type ExitCode } from '../core/errors.ts';
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
  printJson,
} from './context.ts';
import { namesOf } from '../config/mirrors.ts';
import { readConfigToShow } from './unmasked-keys.ts';
import { compareBackups, compareRoot, parseRoot } from './verify-noted.ts';

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
function withDamage(caught: unknown, path: string): unknown {
  const error = firstError(caught);
  if (!(error instanceof TidemarkError) || error.code !== 'mirror_corrupt') return caught;
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
    await printJson(context, document);
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
