/** The baseline of many mirrors at once: how many have it, and why the others do not. */
import { EXIT, type ExitCode } from '../core/errors.ts';
import { count, plural } from '../core/wording.ts';
import { type CommandContext, print, printReason } from './context.ts';

/** `asked`: a worker sets it later. */
type BaselineOutcome = 'set' | 'already' | 'asked' | 'waiting' | 'not_possible';

export interface BaselineRow {
  /** Of the cell, or of the source. */
  readonly name: string;
  readonly outcome: BaselineOutcome;
  /** Of the snapshot that is the baseline now; null where it is another one, or none. */
  readonly run: number | null;
  /** Why it is not set. */
  readonly reason: string | null;
}

/** Names that one line has. */
const NAMES_SHOWN = 10;

/**
 * Prints how many have a baseline, and why the others do not.
 * @param one what a row is about
 * @returns 0 if all have it or will have it, 3 if some do not, 1 if none has it
 */
export async function reportBaselines(
  context: CommandContext,
  baseline: string,
  rows: readonly BaselineRow[],
  { one, schema }: { readonly one: 'cell' | 'source'; readonly schema: string },
): Promise<ExitCode> {
  const having = (outcome: BaselineOutcome): readonly BaselineRow[] =>
    rows.filter((row) => row.outcome === outcome);
  const [set, already, asked] = [having('set'), having('already'), having('asked')];
  const isMissing = [...having('waiting'), ...having('not_possible')];
  if (context.options.json === true) {
    const all = rows.map(({ name, outcome, run, reason }) => ({ [one]: name, outcome, run, reason }));
    const document = {
      schema,
      name: baseline,
      set: set.length,
      already: already.length,
      asked: asked.length,
      waiting: having('waiting').length,
      not_possible: having('not_possible').length,
      [`${one}s`]: all,
    };
    await print(context, `${JSON.stringify(document)}\n`);
  } else {
    const done = set.length + already.length;
    const parts = [
      `${baseline} is the baseline of ${count(done)} of ${plural(rows.length, one)}: ${count(set.length)} set now, ${count(already.length)} already set`,
      ...(asked.length === 0
        ? []
        : [`${plural(asked.length, one)}: workers set it with their next job on each`]),
    ];
    await print(context, `${parts.join('\n')}\n`);
  }
  if (isMissing.length === 0) return EXIT.done;
  printReason(context, [
    ...reasonLines(having('waiting'), (n) => `not set yet: ${plural(n, one)}`),
    ...reasonLines(having('not_possible'), (n) => `not possible: ${plural(n, one)}`),
  ]);
  return isMissing.length === rows.length ? EXIT.failed : EXIT.partial;
}

/** Those with the same reason are one line. */
function reasonLines(rows: readonly BaselineRow[], head: (n: number) => string): string[] {
  if (rows.length === 0) return [];
  const byReason = Map.groupBy(rows, ({ reason }) => reason ?? '');
  const lines = [...byReason].map(([reason, all]) => {
    const names = all.slice(0, NAMES_SHOWN).map(({ name }) => name);
    const more = all.length > names.length ? ` and ${count(all.length - names.length)} more` : '';
    return `  ${reason}: ${names.join(', ')}${more}`;
  });
  return [head(rows.length), ...lines];
}
