/** Setting the baseline of many mirrors: reports how many have it, and why the others do not. */
import { EXIT, type ExitCode } from '../core/errors.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { type CommandContext, print, printJson, printReason } from './context.ts';

/** `asked`: a worker will set it. */
type BaselineOutcome = 'set' | 'already' | 'asked' | 'waiting' | 'not_possible';

export interface BaselineRow {
  /** The name of the cell or the source. */
  readonly name: string;
  readonly outcome: BaselineOutcome;
  /** The run of the snapshot, if it is the baseline now. */
  readonly run: number | null;
  /** Why it is not set. */
  readonly reason: string | null;
}

/** Names in one line. */
const NAMES_SHOWN = 10;

/**
 * Prints how many have the baseline, and why the others do not.
 * @param one what a row is about
 * @returns 0 if all have it or a worker will set it, 3 if some do not, 1 if none does
 */
export async function reportBaselines(
  context: CommandContext,
  baseline: string,
  rows: readonly BaselineRow[],
  { one, schema }: { readonly one: 'cell' | 'source'; readonly schema: string },
): Promise<ExitCode> {
  const having = (outcome: BaselineOutcome): readonly BaselineRow[] =>
    rows.filter((row) => row.outcome === outcome);
  const [set, already, asked] = [having('set').length, having('already').length, having('asked').length];
  const [waiting, impossible] = [having('waiting'), having('not_possible')];
  if (context.options.json === true) {
    await printJson(context, {
      ...{ schema, name: baseline, set, already, asked },
      waiting: waiting.length,
      not_possible: impossible.length,
      [`${one}s`]: rows.map(({ name, outcome, run, reason }) => ({ [one]: name, outcome, run, reason })),
    });
  } else {
    const lines = [
      `${baseline} is the baseline of ${formatInteger(set + already)} of ${plural(rows.length, one)}: ${formatInteger(set)} set now, ${formatInteger(already)} already set`,
      ...(asked === 0 ? [] : [`${plural(asked, one)}: workers set it with their next job on each`]),
    ];
    await print(context, `${lines.join('\n')}\n`);
  }
  const missing = waiting.length + impossible.length;
  if (missing === 0) return EXIT.done;
  printReason(context, [
    ...reasonLines(waiting, `not set yet: ${plural(waiting.length, one)}`),
    ...reasonLines(impossible, `not possible: ${plural(impossible.length, one)}`),
  ]);
  return missing === rows.length ? EXIT.failed : EXIT.partial;
}

/** A line per reason, below the heading. */
function reasonLines(rows: readonly BaselineRow[], heading: string): string[] {
  if (rows.length === 0) return [];
  const byReason = Map.groupBy(rows, ({ reason }) => reason ?? '');
  const lines = [...byReason].map(([reason, all]) => {
    const names = all.slice(0, NAMES_SHOWN).map(({ name }) => name);
    const more = all.length > names.length ? ` and ${formatInteger(all.length - names.length)} more` : '';
    return `  ${reason}: ${names.join(', ')}${more}`;
  });
  return [heading, ...lines];
}
