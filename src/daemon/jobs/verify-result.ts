/** A verification of the mirror and its stored result, by the daemon or the command line. */
import { shownText } from '../../catalog/masks.ts';
import type { Config } from '../../config/config.ts';
import { configuredBackups } from '../../config/mirrors.ts';
import { definitionsFor } from '../../config/source.ts';
import { TidemarkError } from '../../core/errors.ts';
import { LATEST_BACKUP, namingBackup, RESTORE_HINT, RESTORE_OR_NEW_HINT } from '../../core/hints.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { VerifyResult } from '../../mirror/verify.ts';
import type { AuditedTable } from '../../mirror/audited-rows.ts';
import { isOfAuditLog, isOfSchemaOnly, type VerifyProblem } from '../../mirror/verify-records.ts';
import { isSecretId, maskedId } from '../../report/mask.ts';
import { type VerifySummary, NAMED_PROBLEMS } from './summaries.ts';
import { jobResult, type JobResult, type JobWork } from './work.ts';

/** The result of a verification: `failed` if it found problems. @param durationMs how long it took */
export function verifyResult(
  { checked, problems }: VerifyResult,
  config: Config,
  mirror: Pick<Mirror, 'runs'>,
  durationMs: number,
): JobResult {
  const newest = mirror.runs.list().find(({ root }) => root !== null);
  const summary: VerifySummary = {
    job: 'verify',
    ...checked,
    problems: problems.length,
    found: problems.slice(0, NAMED_PROBLEMS).map((problem) => problemLine(withMaskedId(problem, config))),
    ...(problems.length === 0 ? {} : { hint: repairHintToName(problems) }),
    ...(isOfAuditLog(problems) ? { isOfAuditLog: true } : {}),
    root: newest?.root ?? null,
    ...(newest === undefined ? {} : { run: newest.run }),
    durationMs: Math.round(durationMs),
  };
  if (problems.length === 0) return jobResult('done', summary);
  const what = isOfAuditLog(problems)
    ? 'the mirror does not match its audit log'
    : isOfSchemaOnly(problems)
      ? 'another program changed the schema of the mirror'
      : 'the contents of the mirror do not match the stored hashes';
  const hint = `run \`tidemark verify\`; then ${repairHintToName(problems)}`;
  const error = new TidemarkError('mirror_corrupt', `${what}: ${summary.found[0] ?? ''}`, { hint });
  return jobResult('failed', summary, { error });
}

/** What to do about these problems: if only what people recorded was changed, records and history are intact. */
export function repairHint(
  problems: readonly Pick<VerifyProblem, 'about' | 'again' | 'remedy'>[],
  config: Pick<Config, 'backup'>,
): string {
  return namingBackup(repairHintToName(problems), LATEST_BACKUP, configuredBackups(config));
}

/** The same with `latest` for the backup to restore, which is named when the hint is shown. */
export function repairHintToName(
  problems: readonly Pick<VerifyProblem, 'about' | 'again' | 'remedy'>[],
): string {
  if (isOfSchemaOnly(problems)) {
    const remedies = new Set(problems.flatMap(({ remedy }) => remedy ?? []));
    return `records and history match their hashes; ${[...remedies].join('; ')}`;
  }
  const tables = new Set(problems.map(({ about }) => about));
  const ways = [...tables].map((about) =>
    about === 'snapshots' ? pinningAgain(problems) : about === undefined ? undefined : AGAIN[about],
  );
  const isOfLog = problems.some(({ about }) => about !== undefined);
  if (ways.some((way) => way === undefined))
    return isOfLog ? `${CUT}; then ${RESTORE_OR_NEW_HINT}` : RESTORE_OR_NEW_HINT;
  return `records and history match their hashes; ${CUT}; else ${ways.join('; ')}; for what was altered or added, keep a copy of the mirror as evidence, and ${RESTORE_HINT}`;
}

/** The cut end of the log may have had the entries of these rows. */
const CUT =
  'if the end of the audit log was cut, these rows may be as people left them: compare first with `tidemark verify --root HASH` or `tidemark verify --backups`';

/** How people can repeat what is gone; no command confirms what was altered or added. */
const AGAIN: Readonly<Partial<Record<AuditedTable, string>>> = {
  acceptances: 'look at `tidemark drift` and `tidemark drift accepted`, and accept what is gone again',
};

/** The most commands in one line. */
const NAMED_COMMANDS = 3;

function pinningAgain(problems: readonly Pick<VerifyProblem, 'again'>[]): string {
  const commands = problems.flatMap(({ again }) => (again === undefined ? [] : [`\`${again}\``]));
  const named = commands.slice(0, NAMED_COMMANDS).join(', ');
  const more = commands.length > NAMED_COMMANDS ? `, and ${commands.length - NAMED_COMMANDS} more` : '';
  return `look at \`tidemark snapshots\`${commands.length === 0 ? '' : `, and pin what is gone again: ${named}${more}`}`;
}

/** The problem for display. An id that is a secret for any source is replaced. */
export function withMaskedId(problem: VerifyProblem, config: Config): VerifyProblem {
  const { id, recordKind, name } = problem;
  if (id === undefined || recordKind === undefined) return problem;
  const definitions = [
    definitionsFor(config, '')(recordKind),
    ...config.configured.map(({ name }) => definitionsFor(config, name)(recordKind)),
  ];
  const named =
    name === undefined
      ? problem
      : { ...problem, name: shownText(name, definitionsFor(config, '')(recordKind)) };
  const secret = definitions.find(isSecretId);
  return secret === undefined ? named : { ...named, id: maskedId(id, secret) };
}

/** One line: what is wrong, and where. */
function problemLine({ kind, message, recordKind, id, run }: VerifyProblem): string {
  const [what = ''] = message.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('***'));
  const places = [
    ...(recordKind === undefined ? [] : [`${recordKind} ${id ?? ''}`.trim()]),
    ...(run === undefined ? [] : [`run ${run}`]),
  ];
  return `${kind}: ${what}${places.length === 0 ? '' : ` (${places.join(', ')})`}`;
}

/** A verification of the mirror, as `tidemark verify` does it. */
export const VERIFY_JOB: Pick<JobWork, 'run'> = {
  run: async ({ config, mirror, effects, signal }) => {
    const startedMs = effects.clock.monotonicMs();
    const verified = await mirror.verify(() => signal.throwIfAborted());
    signal.throwIfAborted();
    return verifyResult(verified, config, mirror, effects.clock.monotonicMs() - startedMs);
  },
};
