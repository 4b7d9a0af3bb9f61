/** Whether a plan may be sent: `--yes`, or a person on a terminal who has seen it (design.md, Commands). */
import { TidemarkError } from '../core/errors.ts';
import { formatInteger } from '../core/grouped.ts';
import { escapeControlCharacters } from '../report/escape-control.ts';
import { type ShownPlan, planSummary } from '../report/plan-view.ts';
import type { CommandContext } from './context.ts';

interface ConsentOptions {
  readonly yes?: boolean;
}

/** The question names so many of the gravest steps. */
const GRAVEST_SHOWN = 5;

/**
 * Before anything is read or sent: that somebody can say yes.
 * @throws TidemarkError `usage` where nobody can be asked
 */
export function requireConsent(context: CommandContext, { yes }: ConsentOptions, command: string): void {
  if (yes === true) return;
  if (context.options.json === true) {
    throw new TidemarkError('usage', 'with --json nobody sees the plan before it is sent', {
      hint: `look at it with \`${command}\` without --json, or give --yes; nothing was sent`,
    });
  }
  if (context.stdin.isTTY && context.stderr.isTTY === true) return;
  throw new TidemarkError('usage', 'no terminal to ask on: what would be sent needs a yes', {
    hint: `look at the plan with \`${command}\`, then give --yes; nothing was sent`,
  });
}

/**
 * Asks, unless `--yes` said it already. The plan stands above the question.
 * @returns false for no
 * @throws TidemarkError `interrupted` when the question was left; nothing was sent then
 */
export async function consents(
  context: CommandContext,
  { yes }: ConsentOptions,
  plan: ShownPlan,
  source: string,
): Promise<boolean> {
  if (yes === true) return true;
  const { askYesNo } = await import('./prompt.ts');
  const answer = await askYesNo(
    context,
    [`${planSummary(plan)}: send this to ${source}?`, ...gravest(plan)].join('\n'),
    {
      yes: 'Yes, send it',
      no: 'No',
    },
  );
  if (answer === null) {
    throw new TidemarkError('interrupted', 'nothing was sent', {
      hint: 'a plan that `tidemark restore --out FILE` saves can be applied later, with `tidemark apply FILE`',
    });
  }
  return answer;
}

/** Removals first, then what touches what people may do; creations are the least of it. */
const GRAVITY: Readonly<Record<string, number>> = { remove: 0, update: 1, act: 2, create: 3 };

function gravest({ steps }: ShownPlan): string[] {
  const sent = steps.filter(({ request }) => request !== null);
  const order = sent.toSorted((a, b) => (GRAVITY[a.action] ?? 9) - (GRAVITY[b.action] ?? 9));
  const more = sent.length - GRAVEST_SHOWN;
  return [
    ...order
      .slice(0, GRAVEST_SHOWN)
      .map(
        ({ action, request, kind, name }) =>
          `  ${request?.act ?? action} ${kind} ${escapeControlCharacters(name)}`,
      ),
    ...(more > 0 ? [`  and ${formatInteger(more)} more`] : []),
  ];
}
