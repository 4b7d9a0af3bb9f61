/** What a restore of selected records, or of a version of one, would send back, and the command that does it. */
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { plural } from '../../core/wording.ts';
import { type RecordChange, recordName } from '../../diff/change.ts';
import { compareBodies, placeOf } from '../../diff/compare.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RecordRow } from '../../mirror/records.ts';
import { maskedFields, maskedId, withMaskedId } from '../../report/mask.ts';
import { nameText } from '../../report/value-text.ts';
import type { SourceDrift } from '../../state/drift.ts';
import { recordHistory } from '../../state/record-history.ts';
import { emptyHtml, fieldListHtml, nameHtml, recordPath, timeHtml } from './components.ts';
import { driftArticles, selectionOf } from './drift.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import type { PageContent } from './layout.ts';
import { type Version, versionAt } from './versions.ts';

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
${applyHtml(restoreCommand(drift.source, changes))}
<section><h2>What drifted</h2>${articles}</section>`;
  return { title, body };
}

/** The command, to be copied. */
function applyHtml(command: string): Html {
  return markup`<section><h2>Apply it</h2>
<p>Run this where the key is that may write: it reads the service again, shows the plan, and asks before it sends
anything.</p>
<pre class="body command" tabindex="0">${command}</pre></section>`;
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

// One version of one record.

/** The path of the plan that restores a record as a state has it. */
export function versionPlanPath({ kind, record }: RecordRow, reference: string): string {
  return `/restore?${new URLSearchParams({ version: reference, kind, of: String(record) }).toString()}`;
}

interface VersionPlanFacts {
  readonly mirror: Mirror;
  readonly config: Config;
  readonly row: RecordRow;
  /** Names the state with the version. */
  readonly reference: string;
  readonly now: number;
}

/** @throws TidemarkError `reference_unknown` for a state that there is not */
export function versionPlanPage({ mirror, config, row, reference, now }: VersionPlanFacts): PageContent {
  const definitions = definitionsFor(config, row.source);
  const definition = definitions(row.kind);
  const latest = mirror.runs.latest(row.source)?.run ?? 0;
  const { revisions } = recordHistory(mirror, row, latest, definitions);
  const at = (each: string): Version => versionAt(mirror, row, revisions, { reference: each, now });
  const [current, wanted] = [at('latest'), at(reference)];
  const known = wanted.body ?? current.body;
  const own = withMaskedId(
    { id: row.id, name: known === undefined ? row.id : recordName(definition, known, row.id) },
    definition,
  );
  const title = `Restore ${nameText(own.name)}`;
  const crumbs = markup`<p class="crumbs faint"><a href="/records">Records</a> /
<a href="${recordPath(row.kind, maskedId(row.id, definition), row.record)}">${nameHtml(nameText(own.name))}</a></p>
<h1>Restore plan</h1>
<p class="faint">${definition.title.one} ${nameHtml(nameText(own.name))}, back to run ${wanted.run} of ${timeHtml(wanted.at)}.</p>`;
  const page = (...content: readonly HtmlPart[]): PageContent => ({
    title,
    body: markup`${crumbs}${content}`,
  });
  const { never } = definition.restore;
  if (never !== null) return page(emptyHtml('This kind is never written:', `${never}.`));
  if (wanted.revision === undefined)
    return page(emptyHtml('No version then.', `The record was first seen after run ${wanted.run}.`));
  const command = versionCommand(mirror, row, own.id, wanted.run, wanted.body === undefined);
  if (wanted.body === undefined)
    return page(
      current.body === undefined
        ? emptyHtml('Nothing to restore:', 'the record was removed then, and still is.')
        : [markup`<p>The record was removed then: this removes it from the service.</p>`, applyHtml(command)],
    );
  if (current.body === undefined) {
    const again = markup`<p>The record was removed: this creates it again, under a new id that the service chooses.</p>`;
    return page(again, applyHtml(command));
  }
  const all = compareBodies(definition, current.body, wanted.body, 'default');
  const managed = compareBodies(definition, current.body, wanted.body, 'managed');
  const sets = new Set(managed.map(placeOf));
  const others = maskedFields(
    all.filter((field) => !sets.has(placeOf(field))),
    definition,
  );
  if (all.length === 0)
    return page(emptyHtml('Nothing to restore:', `the record is now as it was in run ${wanted.run}.`));
  const rest =
    others.length === 0
      ? NOTHING
      : markup`<section><h2>Not sent</h2><p class="faint">Only the service sets these, or the profile does not say that requests may.</p>
${fieldListHtml(others, 0)}</section>`;
  const changes =
    managed.length === 0
      ? emptyHtml('No writable field differs.', 'See below what does.')
      : [
          applyHtml(command),
          markup`<section><h2>What it sets</h2><p class="faint">From run ${current.run}, the latest, to run ${wanted.run}:</p>
${fieldListHtml(maskedFields(managed, definition), FIELDS_SHOWN)}</section>`,
        ];
  return page(changes, rest);
}

const FIELDS_SHOWN = 20;

function versionCommand(
  mirror: Mirror,
  { kind, source, scope, id }: RecordRow,
  shownId: string,
  run: number,
  isRemoval: boolean,
): string {
  const isAmbiguous = mirror.records.find(kind, id, { sources: [source] }).length > 1;
  const { organization_id: organization, project_id: project } = isAmbiguous ? scope : {};
  return [
    `tidemark restore run:${run}`,
    `--source ${quoted(source)}`,
    `--kind ${kind}`,
    ...(organization === undefined ? [] : [`--organization ${quoted(organization)}`]),
    ...(project === undefined ? [] : [`--project ${quoted(project)}`]),
    `--id ${quoted(shownId)}`,
    ...(isRemoval ? ['--prune --max-removals 1'] : []),
    '--apply',
  ].join(' ');
}

/** As a POSIX shell takes it literally. */
export function quoted(text: string): string {
  return /^[\w.:@/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
