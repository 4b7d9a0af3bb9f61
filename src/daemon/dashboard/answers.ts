/** The five answers at the top of the overview, each a word and a line, and the sentence above them. */
import { worst } from '../http/health.ts';
import type { HealthSnapshot } from '../http/health-snapshot.ts';
import { type DriftCounts, fiveAnswers, verdictText } from '../http/five-answers.ts';
import { type Html, markup } from './html.ts';

/** @param drift null where there is no baseline */
export function answersHtml(snapshot: HealthSnapshot, drift: DriftCounts | null): Html {
  const items = fiveAnswers(snapshot, drift).map(
    ({ question, tone, word, line }) =>
      markup`<li class="${tone}"><h2>${linkOf(question)}</h2><div><b>${word}</b></div><p>${line}</p></li>`,
  );
  return markup`<ul class="answers">${items}</ul>`;
}

/** The page behind each answer. */
const PAGES: Readonly<Record<string, string>> = {
  Fresh: '/runs',
  Complete: '/organizations',
  Verified: '/#done',
  Restorable: '/drill',
  Drift: '/drift',
};

function linkOf(question: string): Html {
  return markup`<a href="${PAGES[question] ?? '/'}">${question}</a>`;
}

/** The sentence at the top. `needs`: how many things need a person. */
export function verdictHtml(snapshot: HealthSnapshot, drift: DriftCounts | null, needs: number): Html {
  const isCritical = (drift?.severities.critical ?? 0) > 0;
  const shown = worst([snapshot.health, { state: needs > 0 || isCritical ? 'degraded' : 'ok' }]);
  const mark = markup`<span class="verdict-mark" aria-hidden="true"></span>`;
  return markup`<h1 class="is-${shown}">${mark}${verdictText(snapshot, drift, needs)}</h1>`;
}
