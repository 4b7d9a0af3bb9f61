/** What asks for a person, gravest first, each with what to do. */
import type { HealthSnapshot } from '../http/health-snapshot.ts';
import type { HealthReason } from '../http/health-reason.ts';
import { type Html, markup, NOTHING } from './html.ts';
import { ageHtml, hintHtml } from './pieces.ts';

interface Need extends HealthReason {
  /** Null for what concerns the whole. */
  readonly source: string | null;
}

/** A first sync under way asks for nobody. */
export function needsOf({ health }: HealthSnapshot): Need[] {
  return [
    ...health.reasons.map((reason): Need => ({ ...reason, source: null })),
    ...health.sources.flatMap(({ source, reasons }) =>
      reasons.map((reason): Need => ({ ...reason, source })),
    ),
  ]
    .filter(({ code, hint }) => code !== 'first_sync' || hint !== null)
    .sort((a, b) => rank(a) - rank(b));
}

export function needsHtml(needs: readonly Need[], now: number): Html {
  if (needs.length === 0) return NOTHING;
  const items = needs.map(
    ({ source, state, message, since, hint }) =>
      markup`<li class="${state === 'failing' ? 'bad' : 'warn'}"><p><strong>${source === null ? NOTHING : markup`<bdi>${source}</bdi>: `}${message}</strong>${since === null ? NOTHING : markup` <span class="faint">${ageHtml(since, now)}</span>`}</p>${hintHtml(hint)}</li>`,
  );
  return markup`<section aria-labelledby="needs"><h2 id="needs">Needs you</h2><ul class="needs">${items}</ul></section>`;
}

function rank({ state }: Need): number {
  return state === 'failing' ? 0 : 1;
}
