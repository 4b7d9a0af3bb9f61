/** The records that drifted, as articles, and what pages say about the drift of a source. */
import type { Severity } from '../../catalog/definition.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { plural } from '../../core/wording.ts';
import { compareSeverities } from '../../diff/severity.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { type ReportChange, sectionsOf } from '../../report/diff-report.ts';
import { capital } from '../../report/document.ts';
import { groupedNotes, uncomparedCollections } from '../../report/notes.ts';
import type { ReportOptions } from '../../report/options.ts';
import { kindsOutsideDrift, type SourceDrift } from '../../state/drift.ts';
import { parentNames } from '../../state/parent-names.ts';
import { type UnreadRestore, unreadRestoreText } from '../../state/runs.ts';
import { age } from '../http/wording.ts';
import { changeArticle, emptyHtml, nameHtml, placeOf, warningHtml, withCommands } from './components.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import { selectionOf } from './restore-selection.ts';

/** The records of a source that are shown at most. */
export const RECORDS_SHOWN = 200;

/** A changed record of a source as it is shown: all but `original` is masked. */
export interface DriftRecord extends ReportChange {
  readonly definition: ResourceDefinition;
  /** The severity of each open finding: a changed record has one for each field, an added or removed one has one. */
  readonly findings: readonly Severity[];
  /** Findings of the record that the filter leaves out. */
  readonly hiddenCount: number;
}

/** All records with open findings, worst first. */
export function driftRecords(mirror: Mirror, drift: SourceDrift): DriftRecord[] {
  return sectionsOf(drift.document, optionsOf(mirror, drift))
    .flatMap(({ definition, changes }) =>
      changes.map((report): DriftRecord => {
        const { original } = report;
        const fields = original.change === 'changed' ? original.fields : [null];
        const findings = fields.map((field) => drift.severityOf(original, field));
        return { ...report, definition, findings, hiddenCount: 0 };
      }),
    )
    .sort((a, b) => compareSeverities(a.severity, b.severity));
}

export function findingsOf(records: readonly DriftRecord[]): Severity[] {
  return records.flatMap(({ findings }) => findings);
}

/** An article for each selected record, worst first. @param selected values of `selectionOf` */
export function driftArticles(mirror: Mirror, drift: SourceDrift, selected: readonly string[]): Html[] {
  const records = driftRecords(mirror, drift).filter(({ original }) =>
    selected.includes(selectionOf(original)),
  );
  return articlesOf(mirror, drift, records.slice(0, RECORDS_SHOWN));
}

/** The articles of the worst records of all sources together, `most` at most; with several sources, each names its own. */
export function worstArticles(mirror: Mirror, drifts: readonly SourceDrift[], most: number): Html[] {
  return drifts
    .flatMap((drift) =>
      driftRecords(mirror, drift)
        .slice(0, most)
        .map((record) => ({ drift, record })),
    )
    .sort((a, b) => compareSeverities(a.record.severity, b.record.severity))
    .slice(0, most)
    .flatMap(({ drift, record }) => articlesOf(mirror, drift, [record], { namesSource: drifts.length > 1 }));
}

export function articlesOf(
  mirror: Mirror,
  drift: SourceDrift,
  records: readonly DriftRecord[],
  {
    namesSource = false,
    more = () => ({}),
  }: {
    readonly namesSource?: boolean;
    readonly more?: (record: DriftRecord) => { readonly id?: string; readonly actions?: HtmlPart };
  } = {},
): Html[] {
  const parentName = parentNames(mirror, drift.source, drift.definitions);
  return records.map((record) => {
    const { change, definition, severity, id, name } = record;
    const parents = placeOf(change.scope, drift.definitions, parentName);
    const places = namesSource ? [parents, `source ${drift.source}`] : [parents];
    const place = places.filter((each) => each !== '').join(', ');
    return changeArticle({ ...change, id, name }, { definition, place, severity, ...more(record) });
  });
}

/** Says that a source has no drift, and as of when. @param held records whose removal is held */
export function noDriftHtml({ document }: SourceDrift, now: number, held = 0): Html {
  const { run, at } = document.to;
  const when = at === undefined ? '' : `, ${age(at, now)}`;
  const uncompared = uncomparedCollections(document).length;
  if (held > 0) {
    const rest = uncompared === 0 ? '' : ` ${plural(uncompared, 'collection')} not compared or not fresh.`;
    return emptyHtml(
      `${plural(held, 'record is missing, its', 'records are missing, their')} removal is held.`,
      `No other drift${uncompared === 0 ? '' : ' in what could be compared'}.${rest}`,
    );
  }
  if (uncompared > 0)
    return emptyHtml(
      'No drift in what could be compared.',
      `${plural(uncompared, 'collection')} not compared or not fresh.`,
    );
  return emptyHtml('No drift', run === undefined ? 'as of the latest run.' : `as of run ${run}${when}.`);
}

/** What was left out of the comparison, without activity data, which always is. */
export function leftOutHtml({ document, definitions }: SourceDrift): Html[] {
  const usual = kindsOutsideDrift({});
  const notes = (document.left_out ?? []).filter(({ kind }) => !usual.includes(kind));
  return groupedNotes('Left out', notes, definitions).map((line) => markup`<p class="faint">${line}.</p>`);
}

/** Warns that the last restore is newer than what is compared; nothing for null. */
export function unreadRestoreHtml(restored: UnreadRestore | null | undefined): HtmlPart {
  if (restored === undefined || restored === null) return NOTHING;
  const text = capital(unreadRestoreText(restored));
  return warningHtml([withCommands(text), '.']);
}

/** Names the sources of which no run was published: whether they drifted is unknown. */
export function neverReadHtml(mirror: Mirror, sources: readonly string[]): Html[] {
  return sources
    .filter((source) => mirror.runs.latest(source) === undefined)
    .map((source) =>
      warningHtml(
        markup`Nothing of ${nameHtml(source)} was read yet: <code>tidemark sync --source ${source}</code> reads it.`,
      ),
    );
}

export const NO_BASELINE =
  'Pin a state and measure drift from it: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`.';

export function optionsOf(mirror: Mirror, { definitions, severityOf, source }: SourceDrift): ReportOptions {
  const parentName = parentNames(mirror, source, definitions);
  return { definitions, severityOf, isWorstFirst: true, parentName };
}
