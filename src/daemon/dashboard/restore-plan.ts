/** What a restore of selected records would put back, and the command that does it: the daemon has no key that writes. */
import { plural } from '../../core/wording.ts';
import type { RecordChange } from '../../diff/change.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { SourceDrift } from '../../state/drift.ts';
import { emptyHtml } from './components.ts';
import { driftArticles, selectionOf } from './drift.ts';
import { markup } from './html.ts';
import type { PageContent } from './layout.ts';

/** @param selected values of `selectionOf` */
export function restorePage(
  mirror: Mirror,
  drift: SourceDrift | null,
  selected: readonly string[],
): PageContent {
  const title = 'Restore plan';
  const crumbs = markup`<p class="crumbs faint"><a href="/drift">Drift</a></p><h1>${title}</h1>`;
  const changes = (drift?.document.changes ?? []).filter((each) => selected.includes(selectionOf(each)));
  if (drift === null || changes.length === 0) {
    const hint = 'Select findings on the drift page, then plan their restore.';
    return { title, body: markup`${crumbs}${emptyHtml('Nothing is selected.', hint)}` };
  }
  const baseline = mirror.snapshots.baseline();
  const articles = driftArticles(mirror, drift, { only: selected });
  const body = markup`${crumbs}
<p class="faint">Back to ${baseline?.name ?? 'the baseline'}, run ${baseline?.run ?? 0}: ${effectText(changes)}.</p>
<section><h2>Apply it</h2>
<p>The daemon has no key that writes. Run this where the key is: it reads the service again, shows the plan, and asks
before it sends anything.</p>
<pre class="body command" tabindex="0">${restoreCommand(drift.source, changes)}</pre></section>
<section><h2>What drifted</h2>${articles}</section>`;
  return { title, body };
}

/** In the words of what a restore does. */
function effectText(changes: readonly RecordChange[]): string {
  const counted = (change: RecordChange['change']): number =>
    changes.filter((each) => each.change === change).length;
  const effects = [
    [counted('removed'), 'to create again'],
    [counted('changed'), 'to change back'],
    [counted('added'), 'to remove'],
  ] as const;
  return effects
    .flatMap(([count, what]) => (count === 0 ? [] : `${plural(count, 'record')} ${what}`))
    .join(', ');
}

function restoreCommand(source: string, changes: readonly RecordChange[]): string {
  const added = changes.filter(({ change }) => change === 'added').length;
  const kinds = [...new Set(changes.map(({ kind }) => kind))];
  return [
    'tidemark restore baseline',
    `--source ${quoted(source)}`,
    ...kinds.map((kind) => `--kind ${kind}`),
    ...changes.map(({ id }) => `--id ${quoted(id)}`),
    ...(added === 0 ? [] : [`--prune --max-removals ${added}`]),
    '--apply',
  ].join(' ');
}

/** As a POSIX shell takes it literally. */
function quoted(text: string): string {
  return /^[\w.:@/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
