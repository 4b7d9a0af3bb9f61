/** The parts of a plan as pages show them: what is sent, what is not, what is missing, and the command. */
import type { Config } from '../../config/config.ts';
import { definitionsFor, presentIn } from '../../config/source.ts';
import { shellWord } from '../../core/hints.ts';
import { plural } from '../../core/wording.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import {
  acceptedLines,
  lackingTexts,
  REFERRING,
  referringText,
  secretLines,
  SECRETS_INTRO,
  sentItems,
  unselectedText,
} from '../../report/plan-report.ts';
import { recordHtml } from '../../report/render-html.ts';
import { nameText } from '../../report/value-text.ts';
import { type Plan, isExecutable } from '../../restore/plan/plan.ts';
import { parentNames } from '../../state/parent-names.ts';
import { capital } from '../../report/document.ts';
import { type DefinitionOf, nameHtml, warningHtml, withCommands } from './components.ts';
import { type Html, type HtmlPart, markup, NOTHING, trusted } from './html.ts';

const NAMES_SHOWN = 20;
/** With more steps than this, the contents of created records are folded. */
const UNFOLDED = 10;

/** What each step sends, by the number of the step, as in the report of the plan. @param plan masked */
export function sentArticles(
  plan: Plan,
  mirror: Mirror,
  source: string,
  definitions: DefinitionOf,
): ReadonlyMap<number | undefined, Html> {
  const items = sentItems(plan, { definitions, parentName: parentNames(mirror, source, definitions) });
  return new Map(
    items.map((item) => {
      const isFolded = item.change === 'added' && items.length > UNFOLDED;
      return [item.number, trusted(recordHtml(isFolded ? { ...item, isWholeRecord: true } : item))];
    }),
  );
}

/** Warns of settings that created records will lack, since no request can set them. */
export function lackingHtml(plan: Plan, definitions: DefinitionOf): Html[] {
  return lackingTexts(plan, { definitions }).map(({ text, reason }) =>
    warningHtml(['! ', text, ': ', withCommands(reason)]),
  );
}

export function planWarnings({ warnings = [] }: Plan): Html[] {
  return warnings.map((line) => warningHtml(['! ', withCommands(line)]));
}

/** What to add to the configuration to supply missing secrets; nothing if none is missing. */
export function secretsHtml(plan: Plan, config: Config, source: string): HtmlPart {
  const definitions = definitionsFor(config, source);
  const lines = secretLines(plan.steps, { definitions, present: presentIn(config, source) });
  if (lines.length === 0) return NOTHING;
  const shown = lines.map((line) => markup`${line}\n`);
  return markup`<p>${capital(SECRETS_INTRO)}:</p><pre class="body" tabindex="0">${shown}</pre>`;
}

/** The steps that send nothing: one item for the records of a kind with the same reason. */
export function unsentItems(plan: Plan, definitions: DefinitionOf): Html[] {
  const groups = Map.groupBy(
    plan.steps.filter((step) => !isExecutable(step)),
    (step) => JSON.stringify([step.action, step.kind, step.reason, acceptedLines(step)]),
  );
  return [...groups.values()].flatMap((steps) => {
    const [step] = steps;
    if (step === undefined) return [];
    const { one, many } = definitions(step.kind).title;
    const why = [...(step.reason === null ? [] : [step.reason]), ...acceptedLines(step)].join('; ');
    const title = steps.length === 1 ? one : plural(steps.length, one, many);
    const names = steps
      .slice(0, NAMES_SHOWN)
      .map(({ name }) => nameText(name))
      .join(', ');
    const more = steps.length > NAMES_SHOWN ? ` and ${steps.length - NAMES_SHOWN} more` : '';
    return markup`<li><span class="tag high">${step.action}</span> ${title} <strong>${nameHtml(names)}</strong>${more}${why === '' ? '' : `: ${why}`}</li>`;
  });
}

export const PLAN_THESE = 'Plan these too';

/**
 * Warns of lost records below those that the plan creates, and of records that name these by their old ids, where the plan leaves them
 * out.
 * @param form adds the lost records to the plan
 */
export function unselectedHtml(
  { unselected = [], referring = [], summary }: Plan,
  definitions: DefinitionOf,
  form: HtmlPart,
): HtmlPart {
  const others =
    referring.length === 0
      ? NOTHING
      : warningHtml(
          `! ${capital(REFERRING)}: ${referringText(referring, { definitions })}. Plan that when this is restored.`,
        );
  if (unselected.length === 0) return others;
  const isOne = unselected.length === 1 && unselected[0]?.count === 1;
  const [it, them] = [isOne ? 'it is' : 'they are', summary.create === 1 ? 'it' : 'them'];
  const text = `${unselectedText(unselected, definitions)} below ${them} ${isOne ? 'was' : 'were'} lost with ${them}: ${it} not in this plan.`;
  return [warningHtml(['! ', text, form]), others];
}

/** A command with more ids is folded. */
const IDS_SHOWN = 10;

/** The command, to be copied. */
export function commandPart(args: readonly string[]): Html {
  const command = markup`<pre class="body command" tabindex="0">${commandHtml(args)}</pre>`;
  const ids = args.filter((arg) => arg.startsWith('--id=')).length;
  return ids <= IDS_SHOWN
    ? command
    : markup`<details class="rest"><summary>The command, with ${plural(ids, 'id')}</summary>${command}</details>`;
}

/** The command as a person would type it; lines break only between options. */
function commandHtml(args: readonly string[]): Html {
  const words = args.map((arg) => {
    const [, option, value] = /^(--[\w-]+)=([^-].*)$/s.exec(arg) ?? [];
    const word =
      option === undefined || value === undefined ? shellWord(arg) : `${option} ${shellWord(value)}`;
    return markup` <span class="word">${word}</span>`;
  });
  return markup`tidemark restore${words}`;
}
