/** One changed record with its fields, as the reports show it. */
import type { Severity } from '../../catalog/definition.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { count } from '../../core/wording.ts';
import type { RecordChange } from '../../diff/change.ts';
import { fieldHtml } from '../../report/html-value.ts';
import { isMaskedId } from '../../report/mask.ts';
import { recreatedText } from '../../report/recreated-text.ts';
import { fieldsForPeople, nameText, SIGN } from '../../report/sections.ts';
import { columnChart } from './column-chart.ts';
import type { DayOfChanges } from '../http/changes.ts';
import { type Html, markup, NOTHING, trusted, capital, nameHtml } from './pieces.ts';
import { recordPath } from './record-page.ts';

/** Told apart without colour, and without reading. */
export const SEVERITY_SIGN: Readonly<Record<Severity, string>> = {
  critical: '▲▲',
  high: '▲',
  medium: '◆',
  low: '·',
};

/** Fields of a record that are seen at once: of one that came or went, and of one that changed. */
const WHOLE_SHOWN = 4;
const CHANGED_SHOWN = 12;

interface ArticleFacts {
  readonly definition: ResourceDefinition;
  /** The record's scope as text; empty for root records. */
  readonly place: string;
  readonly severity: Severity | null;
}

/** `change` is masked already. */
export function changeArticle(change: RecordChange, { definition, place, severity }: ArticleFacts): Html {
  const fields = fieldsForPeople(change, definition);
  const limit = change.change === 'changed' ? CHANGED_SHOWN : WHOLE_SHOWN;
  const rest = fields.slice(limit);
  const { created_again: again } = change;
  const name = markup`<h3>${nameHtml(nameText(change.name))}</h3>`;
  const id = change.name === change.id ? NOTHING : markup`<span class="id">${nameText(change.id)}</span> `;
  // A secret id is not asked for by its mark: that would read every record of the kind.
  const link = isMaskedId(change.id)
    ? name
    : markup`<a href="${recordPath(change.kind, change.id)}">${name}</a>`;
  return markup`<article class="record${severity === null ? '' : ` is-${severity}`}"><header>${link}<span class="tag ${change.change}">${SIGN[change.change]} ${change.change}</span>${severity === null ? NOTHING : severityTag(severity)}</header>
<p class="faint">${definition.title.one} ${id}${place === '' ? NOTHING : markup`in ${place}`}</p>${again === undefined ? NOTHING : markup`<p>${capital(recreatedText(again, change.id))}</p>`}
${trusted(fields.slice(0, limit).map(fieldHtml).join('\n'))}
${rest.length === 0 ? NOTHING : markup`<details class="rest"><summary>${rest.length} more ${rest.length === 1 ? 'field' : 'fields'}</summary>${trusted(rest.map(fieldHtml).join('\n'))}</details>`}</article>`;
}

function severityTag(severity: Severity): Html {
  return markup`<span class="tag ${severity}"><i aria-hidden="true">${SEVERITY_SIGN[severity]}</i> ${severity}</span>`;
}

// Changes of configuration by day as columns.

const PARTS = ['added', 'changed', 'removed'] as const;
const STEPS = [
  1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 800, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000,
  100_000, 200_000, 500_000, 1_000_000,
];

export function changeChart(days: readonly DayOfChanges[]): Html {
  const total = days.reduce((sum, { added, changed, removed }) => sum + added + changed + removed, 0);
  const columns = days.map(({ day, added, changed, removed }) => ({
    label: day.slice(5),
    title: `${day}: ${count(added)} added, ${count(changed)} changed, ${count(removed)} removed`,
    parts: PARTS.map((name) => ({ name, value: { added, changed, removed }[name] })),
    sign: '',
  }));
  return columnChart(columns, {
    label: `${count(total)} changes of configuration in ${days.length} days, as each run counted them`,
    show: (value) => count(value),
    steps: STEPS,
    legend: PARTS.map((name) => ({ name, text: name })),
    narrow: 14,
  });
}
