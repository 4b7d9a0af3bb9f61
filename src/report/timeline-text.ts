/** A period on a terminal: run by run, newest first, a line per record and one per changed field. */
import { formatInteger } from '../core/grouped.ts';
import { plural } from '../core/wording.ts';
import { changeText } from './recreated-text.ts';
import { escapeControlCharacters } from './escape-control.ts';
import { maskedFields, withMaskedId } from './mask.ts';
import { nameText, SIGN } from './sections.ts';
import { type TextOptions, fieldLines, paintOf } from './text.ts';
import { type Timeline, type TimelineEvent, newestFirst } from './timeline.ts';

/** The period as lines of text, the last one ended; summary first. */
export function renderTimelineText(timeline: Timeline, options: TextOptions): string {
  const { colors, maxRecords = Infinity } = options;
  const events = newestFirst(timeline.events);
  const shown = events.slice(0, maxRecords);
  const rest = events.length - shown.length;
  const count = (change: string): number => events.filter((event) => event.change === change).length;
  const summary = (['added', 'removed', 'changed'] as const)
    .filter((change) => count(change) > 0)
    .map((change) => `${formatInteger(count(change))} ${change}`);
  const hint = options.moreHint === undefined ? '' : `: \`${options.moreHint}\` shows all`;
  const lines = [
    ...(options.title === undefined ? [] : [colors.bold(escapeControlCharacters(options.title))]),
    colors.bold(summary.length === 0 ? 'Nothing changed' : summary.join(', ')),
    ...(options.notes ?? []).map((note) => colors.dim(escapeControlCharacters(note))),
    ...runLines(shown, options),
    ...(rest > 0 ? ['', `… ${plural(rest, 'more record')}${hint}`] : []),
  ];
  return `${lines.join('\n')}\n`;
}

function runLines(events: readonly TimelineEvent[], options: TextOptions): string[] {
  const byRun = Map.groupBy(events, ({ run }) => run);
  return [...byRun.values()].flatMap((own) => {
    const [first] = own;
    if (first === undefined) return [];
    const source = first.source === undefined ? '' : ` of ${nameText(first.source)}`;
    const when = `${first.at.slice(0, 16).replace('T', ' ')} UTC`;
    const heading = options.colors.bold(`${when} · run ${first.run}${source}`);
    return ['', heading, ...own.flatMap((event) => eventLines(event, options))];
  });
}

function eventLines(event: TimelineEvent, options: TextOptions): string[] {
  const definition = options.definitions(event.kind);
  const isShown = options.showsSecrets === true;
  const { id, name } = isShown ? event : withMaskedId(event, definition);
  const { colors } = options;
  const head = paintOf(
    event.change,
    colors,
  )(`${SIGN[event.change]} ${definition.title.one} ${colors.bold(nameText(name))}`);
  const fields = event.change === 'changed' ? (event.fields ?? []) : [];
  const masked = isShown ? fields : maskedFields(fields, definition);
  const isTold = event.created_again !== undefined;
  return [
    `  ${head} ${changeText({ ...event, id })}${isTold ? '' : ` ${colors.dim(`id ${nameText(id)}`)}`}`,
    ...masked.flatMap((field) => fieldLines(field, options)),
  ];
}
