/** `tidemark restore --abandon [N]`: ends an unfinished restore that nobody will resume. Sends nothing. */
import { whoText } from '../core/actor.ts';
import { TidemarkError, EXIT, type ExitCode } from '../core/errors.ts';
import { localTime, plural } from '../core/wording.ts';
import type { RestoreRow } from '../mirror/restores.ts';
import { maskedRestore } from '../report/plan-mask.ts';
import { restoreReport, type RestoreReport } from '../restore/apply/report.ts';
import { abandonedOutcome, readAbandonable, sourceToAbandon } from '../restore/apply/resume.ts';
import { shownPlan } from '../restore/plan/plan.ts';
import { print, printReason, type CommandContext, printJson } from './context.ts';
import { journalOf, openSession, restoreNumber, restoreText } from './restore-session.ts';

interface AbandonOptions {
  /** A number as text, or true for the latest one. */
  readonly abandon?: string | true;
  readonly yes?: boolean;
  readonly as?: string;
}

const TAKEN: ReadonlySet<string> = new Set(['abandon', 'yes', 'as'] satisfies (keyof AbandonOptions)[]);

/**
 * Exit 0 if the restore was ended, 1 if the user declines.
 * @throws TidemarkError `usage` with any other option, and if nothing is left of the restore; `reference_unknown` for an
 * unknown number; `not_found` if none is interrupted; `mirror_locked` while one is applied; `interrupted` if the user left the
 * question
 */
export async function abandonRestore(context: CommandContext, options: AbandonOptions): Promise<ExitCode> {
  const others = Object.entries(options).filter(([name, value]) => value !== undefined && !TAKEN.has(name));
  if (others.length > 0) {
    throw new TidemarkError(
      'usage',
      '--abandon sends nothing, and takes no other option than --yes and --as',
      {
        hint: 'give --abandon alone, or with the number of the restore',
      },
    );
  }
  const number = typeof options.abandon === 'string' ? restoreNumber(options.abandon) : undefined;
  requireAnswer(context, options, number);
  using session = await openSession(context, {
    // Not the name of a command that applies a plan: during the question, the restore counts as interrupted.
    command: 'restore --abandon',
    writes: true,
    needsNoMirror: false,
    needsNoKey: true,
    as: options.as,
    sourceIn: (mirror, names) => sourceToAbandon(mirror, names, number),
  });
  const { config, source, definitions, parentName } = session;
  const mirror = journalOf(session);
  const row = readAbandonable(mirror, source.name, number);
  const outcome = abandonedOutcome(mirror, row.restore);
  const before = restoreReport(mirror, row.restore);
  if (options.yes !== true && !(await agrees(context, row, before, outcome))) {
    printReason(context, [`${stillText(row)}: nothing was changed`]);
    return EXIT.failed;
  }
  mirror.restores.abandon(row.restore, outcome);
  const report = restoreReport(mirror, row.restore);
  const { json, verbose } = context.options;
  const shown = { parentName, plan: shownPlan(row) ?? undefined, isVerbose: verbose === true };
  if (json === true) await printJson(context, maskedRestore(report, definitions));
  else await print(context, restoreText(context, config, report, shown));
  return EXIT.done;
}

/** @throws TidemarkError `usage` without `--yes` if there is no terminal to ask on */
function requireAnswer(context: CommandContext, { yes }: AbandonOptions, number: number | undefined): void {
  const { options, stdin, stderr } = context;
  if (yes === true || (options.json !== true && stdin.isTTY && stderr.isTTY === true)) return;
  const look = number === undefined ? 'tidemark restores' : `tidemark restores show ${number}`;
  throw new TidemarkError(
    'usage',
    options.json === true
      ? 'with --json, nobody is asked before the restore is abandoned'
      : 'no terminal to ask on, and --yes was not given',
    { hint: `look at what was done with \`${look}\`, then give --yes; nothing was changed` },
  );
}

function stillText({ restore, outcome }: RestoreRow): string {
  return `restore ${restore} is still ${outcome === 'interrupted' ? outcome : 'unfinished'}`;
}

async function agrees(
  context: CommandContext,
  row: RestoreRow,
  { source, steps, summary }: RestoreReport,
  outcome: 'failed' | 'partial',
): Promise<boolean> {
  const { restore, startedAt, by, via } = row;
  const { askYesNo } = await import('./prompt.ts');
  const unanswered = steps.filter((step) => step.outcome === 'sent').length;
  const done = [
    `${summary.applied} of ${plural(steps.length, 'step')} applied`,
    ...(unanswered === 0 ? [] : [`${unanswered} sent without an answer`]),
  ].join(', ');
  const answer = await askYesNo(
    context,
    `restore ${restore} of ${source}, begun ${localTime(startedAt)} by ${whoText({ by, via })}: ${done}. End it as ${outcome}? What it did stays, and the rest is not sent.`,
    { yes: 'Yes, leave it as it is', no: 'No' },
  );
  if (answer !== null) return answer;
  throw new TidemarkError('interrupted', `${stillText(row)}: nothing was changed`);
}
