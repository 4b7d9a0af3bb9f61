/** Past runs, their health by day, and the page of one run. */
import { collectionKey } from '../../catalog/catalog.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { isoTime } from '../../core/clock.ts';
import { formatInteger, plural } from '../../core/wording.ts';
import type { FirstRead } from '../../diff/change.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow, SweepRow } from '../../mirror/run-rows.ts';
import { forgottenInto, forgottenText, previousRun, withInterrupted } from '../../state/runs.ts';
import { parentNames } from '../../state/parent-names.ts';
import { unreadNote } from '../../state/pin-baseline.ts';
import { collectionOutcome, sampledByRun } from '../../state/source-status.ts';
import { recreatedIn } from '../../state/recreated.ts';
import { readNewlyReadRecords } from '../../state/newly-read.ts';
import { ACTIVITY_KINDS, type changesOf, totalOf } from '../http/changes.ts';
import { removalsText } from '../../report/audit-report.ts';
import { alteredRun } from '../../state/intact.ts';
import { byText } from '../../report/value-text.ts';
import { starterText } from '../http/wording.ts';
import { actionForm } from './actions.ts';
import { type HealthDay, healthStrip } from './charts.ts';
import {
  ageHtml,
  allChangesText,
  changeArticles,
  changesText,
  crumbs,
  type DefinitionOf,
  tookText,
  emptyHtml,
  factsHtml,
  faint,
  hintHtml,
  nameHtml,
  outcomeBadge,
  placeOf,
  tableHtml,
  timeHtml,
  mismatchHtml,
} from './components.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import type { PageContent, PageFacts } from './layout.ts';

const PAGE = 50;
const STRIP_DAYS = 90;
/** 90 days of half-hourly runs. With more frequent runs, the strip shows only the latest days. */
const STRIP_RUNS = 4_400;
const DAY_MS = 24 * 60 * 60 * 1000;

const NO_RUN = [
  'No run yet.',
  'The first one starts with the schedule, or now with `tidemark sync`.',
] as const;

type RunsFacts = Pick<PageFacts, 'mirror' | 'sources' | 'now'>;

/** @param before only runs before this one are shown; null shows the newest */
export function runsPage(facts: RunsFacts, before: number | null): PageContent {
  const { mirror } = facts;
  const found = mirror.runs.list({ limit: PAGE + 1, ...(before === null ? {} : { upTo: before - 1 }) });
  const runs = withInterrupted(mirror, found.slice(0, PAGE));
  const last = runs.at(-1);
  const older =
    found.length > PAGE && last !== undefined
      ? markup`<a href="/runs?before=${last.run}" rel="next">Older runs</a>`
      : NOTHING;
  const newer = before === null ? NOTHING : markup`<a href="/runs">Newest runs</a>`;
  const unlike = mirror.runs.unlikeSealed({
    from: found.length > PAGE ? (last?.run ?? 0) : 0,
    ...(before === null ? {} : { upTo: before - 1 }),
  });
  const content =
    runs.length === 0
      ? emptyHtml(...NO_RUN)
      : markup`<h2 class="side">Health</h2>${healthStrips(facts)}<div class="gap"></div>
${runsTable(runs, facts)}<nav class="pages" aria-label="Pages">${newer}${older}</nav>`;
  const lead = markup`<h1>Runs</h1><p class="faint">Every sync, newest first.</p><div class="gap"></div>`;
  return { title: 'Runs', body: markup`${lead}${mismatchHtml(unlike.map(({ line }) => line))}${content}` };
}

/** The health of the last 90 days, a strip for each source. */
function healthStrips({ mirror, sources, now }: RunsFacts): Html[] {
  const first = isoTime(now - (STRIP_DAYS - 1) * DAY_MS);
  return sources.map((source, index) => {
    const runs = mirror.runs.list({ source, limit: STRIP_RUNS });
    const recent = runs.filter(({ startedAt, outcome }) => startedAt >= first && isEnded(outcome));
    const name = sources.length > 1 ? markup`<h3>${nameHtml(source)}</h3>` : NOTHING;
    return markup`${name}${healthStrip(healthDays(recent, now), sources.length > 1 ? ` of ${source}` : '', index === sources.length - 1)}`;
  });
}

function healthDays(runs: readonly RunRow[], now: number): HealthDay[] {
  const byDay = Map.groupBy(runs, ({ startedAt }) => startedAt.slice(0, 10));
  return Array.from({ length: STRIP_DAYS }, (_unused, index) => {
    const day = isoTime(now - (STRIP_DAYS - 1 - index) * DAY_MS).slice(0, 10);
    const own = byDay.get(day) ?? [];
    const changes = own.reduce((sum, run) => sum + totalOf(run), 0);
    return { day, outcome: worstOutcome(own), runs: own.length, changes };
  });
}

function worstOutcome(runs: readonly RunRow[]): HealthDay['outcome'] {
  const outcomes = new Set<string>(runs.map(({ outcome }) => outcome));
  if (outcomes.size === 0) return 'none';
  if (outcomes.size === 1 && outcomes.has('complete')) return 'complete';
  return outcomes.has('failed') || outcomes.has('interrupted') ? 'failed' : 'partial';
}

/** The row of a run in progress has the outcome `running`, which its type does not have. */
function isEnded(outcome: string): boolean {
  return outcome !== 'running';
}

/** The health strips and the latest runs. @param shown how many runs */
export function latestRuns(facts: RunsFacts, shown: number): Html {
  const { mirror } = facts;
  const runs = withInterrupted(mirror, mirror.runs.list({ limit: shown }));
  if (runs.length === 0) return emptyHtml(...NO_RUN);
  return markup`${healthStrips(facts)}<div class="gap"></div>${runsTable(runs, facts)}`;
}

function runsTable(runs: readonly RunRow[], { sources, now }: RunsFacts): Html {
  const hasOthers = sources.length > 1;
  const columns = [
    { head: 'Run' },
    ...(hasOthers ? [{ head: 'Source', style: 'below source', label: 'Source' }] : []),
    { head: 'Outcome' },
    { head: 'When' },
    { head: 'Took', style: 'num' },
    { head: 'What changed', style: 'below phone' },
    { head: 'Added', style: 'num spare' },
    { head: 'Changed', style: 'num spare' },
    { head: 'Removed', style: 'num spare' },
    { head: 'Requests', style: 'num spare' },
    { head: 'Started by', style: 'spare' },
  ];
  // Before a run has ended, the mirror has no counts of it.
  const number = ({ outcome }: RunRow, value: number): HtmlPart =>
    !isEnded(outcome) ? NOTHING : value === 0 ? faint('0') : formatInteger(value);
  return tableHtml(
    'Runs',
    columns,
    runs.map((run) => [
      markup`<a href="/runs/${run.run}">${run.run}</a>`,
      ...(hasOthers ? [nameHtml(run.source)] : []),
      outcomeBadge(run.outcome),
      ageHtml(run.finishedAt ?? run.startedAt, now),
      tookText(run),
      whatChanged(run),
      number(run, run.added),
      number(run, run.changed),
      number(run, run.removed),
      number(run, run.requests),
      faint(starterText(run)),
    ]),
  );
}

/** The counts in one cell, for a phone, which has no room for a column each. */
function whatChanged(run: RunRow): Html {
  const text = changesText(run);
  if (text !== '') return markup`${text}`;
  if (!isEnded(run.outcome)) return NOTHING;
  return faint(run.root === null ? 'published nothing' : 'nothing changed');
}

// The page of one run.

/** Changes that the page of a run shows. */
export const RUN_CHANGES_SHOWN = 100;
/** Collections that the page of a run shows, incomplete ones first. */
const SWEEPS_SHOWN = 150;

interface RunFacts extends Omit<PageFacts, 'sources'> {
  readonly run: RunRow;
  readonly changes: Awaited<ReturnType<typeof changesOf>>;
}

export function runPage(facts: RunFacts): PageContent {
  const { mirror, config, run } = facts;
  const definitions = definitionsFor(config, run.source);
  const names = parentNames(mirror, run.source, definitions, run.run);
  const { collections, looks } = readNewlyReadRecords(mirror, [run.run], null);
  const firstReads = [...collections, ...looks];
  const sweeps = mirror.runs.sweeps(run.run);
  const unlike = alteredRun(mirror, run.run);
  const body = markup`${crumbs(['/runs', 'Runs'])}<h1>Run ${run.run}</h1>${mismatchHtml(unlike)}
${runFacts(facts, firstReads)}${pinsHtml(facts)}
<section><h2>What changed</h2>${changesHtml(facts, definitions, names)}
${activityHtml(sweeps, firstReads)}</section>
<section><h2>Collections</h2>${sweepsHtml(facts, sweeps, firstReads, names)}</section>`;
  return { title: `Run ${run.run}`, body };
}

/** The names under which the run is pinned; for a logged-in user, with forms to pin and unpin it. */
function pinsHtml({ mirror, run, canAct }: RunFacts): Html {
  if (run.root === null) return NOTHING;
  const to = ['to', `/runs/${run.run}`] as const;
  const pinned = mirror.snapshots.checked().filter((snapshot) => snapshot.run === run.run);
  const pins = pinned.map((snapshot) => {
    const { name, isBaseline } = snapshot;
    const unpin = markup`<button class="quiet">Unpin</button>`;
    const mark = markup`<button class="quiet">Measure drift from it</button>`;
    const baseline = isBaseline ? faint('baseline') : actionForm('baseline', [['name', name], to], mark);
    const forms = canAct ? [baseline, actionForm('unpin', [['name', name], to], unpin)] : NOTHING;
    return markup`<div class="actions">Pinned as <strong>${nameHtml(name)}</strong> by ${nameHtml(byText(snapshot))}${forms}</div>`;
  });
  const box = markup`<label>Pin this state as<input name="name" required maxlength="100"
 pattern="[\\p{L}\\p{N}._][\\p{L}\\p{M}\\p{N}._\\-]*" title="letters, digits, dots, dashes and underscores, like before-migration"></label>`;
  const pin = [['run', String(run.run)], to] as const;
  const form = actionForm('pin', pin, box, markup`<button>Pin</button>`);
  const unlike = pinned.flatMap(({ contradiction }) => contradiction?.line ?? []);
  const unread = pinned.length > 0 || canAct ? unreadNote(mirror, run.run) : undefined;
  const partial = unread === undefined ? NOTHING : hintHtml(`As a baseline: ${unread}.`);
  return markup`${mismatchHtml(unlike)}${partial}${pins}${canAct ? form : NOTHING}`;
}

function runFacts({ mirror, config, run, now }: RunFacts, firstReads: readonly FirstRead[]): Html {
  const forgotten = forgottenInto(mirror, run.run);
  const optional = (name: string, value: Html | string | null): [string, HtmlPart][] =>
    value === null ? [] : [[name, value]];
  return factsHtml([
    ['Source', nameHtml(run.source)],
    ['Outcome', outcomeBadge(run.outcome)],
    ['Started', markup`${timeHtml(run.startedAt)} ${faint(ageHtml(run.startedAt, now))}`],
    ['Took', tookText(run) || 'still running'],
    ['Started by', starterText(run)],
    ['Requests', `${formatInteger(run.requests)}, including ${plural(run.retries, 'retry', 'retries')}`],
    ['Records', recordsText(mirror, run, firstReads)],
    ...optional(
      'Includes',
      forgotten === undefined
        ? null
        : `${forgottenText(forgotten)}. The counts are those of this run, the changes those of all.`,
    ),
    ...optional('Removals', acceptedText(mirror, config, run)),
    ...optional('Problem', run.error),
    ...optional('Root hash', run.root === null ? null : markup`<code>${run.root}</code>`),
  ]);
}

/** Who accepted held removals in this run; null if nobody did. */
function acceptedText(mirror: Mirror, config: Config, run: RunRow): string | null {
  const found = mirror.acceptedRemovals(run.run);
  if (found === undefined) return null;
  return `accepted by ${byText(found)}: ${removalsText(found.subject, definitionsFor(config, run.source))}`;
}

function recordsText(mirror: Mirror, run: RunRow, firstReads: readonly FirstRead[]): string {
  // A component may be in two lists that are read for the first time; it was added once.
  const firsts = Math.min(
    run.added,
    firstReads.reduce((sum, { records }) => sum + records, 0),
  );
  const previous = run.root === null ? undefined : previousRun(mirror, run);
  const again =
    previous === undefined
      ? 0
      : recreatedIn(mirror, { from: previous, to: run }).reduce((sum, { records }) => sum + records, 0);
  return [
    `${allChangesText(run)}, ${formatInteger(run.unchanged)} unchanged`,
    ...(firsts === 0 ? [] : [`${formatInteger(firsts)} of the added were only read for the first time`]),
    ...(again === 0
      ? []
      : [
          `${formatInteger(again)} of the added and removed are the same records, created again by a restore`,
        ]),
  ].join('; ');
}

function changesHtml(
  { mirror, run, changes }: RunFacts,
  definitions: DefinitionOf,
  names: ReturnType<typeof parentNames>,
): Html {
  if (changes === null) {
    const isHistoryKept = mirror.retention.forgottenBefore(run.run) === undefined;
    const why =
      run.root === null
        ? 'This run published nothing.'
        : `It was the first of its source${isHistoryKept ? '' : ' that is kept'}: all of it was new.`;
    return emptyHtml('Nothing to compare with.', why);
  }
  if (changes.changes.length === 0) return emptyHtml('Nothing changed.', '');
  const articles = changeArticles(changes.changes, definitions, names);
  const more = markup`<p class="faint">and more: <code>tidemark runs show ${run.run}</code></p>`;
  return markup`${articles}${changes.isMore ? more : NOTHING}`;
}

/** How many changes of activity kinds the run has, which the page does not list. */
function activityHtml(sweeps: readonly SweepRow[], firstReads: readonly FirstRead[]): Html {
  const isActivity = ({ kind }: { readonly kind: SweepRow['kind'] }): boolean =>
    ACTIVITY_KINDS.includes(kind);
  const all = sweeps.filter(isActivity).reduce((sum, sweep) => sum + totalOf(sweep), 0);
  const firsts = firstReads.filter(isActivity).reduce((sum, { records }) => sum + records, 0);
  if (all <= firsts) return NOTHING;
  const link = markup`<a href="/changes?kind=session_recordings">changes of recordings</a>`;
  return markup`<p class="faint">Not listed: ${plural(all - firsts, 'change')} of activity data (${link})</p>`;
}

function sweepsHtml(
  { mirror, config, run }: RunFacts,
  sweeps: readonly SweepRow[],
  firstReads: readonly FirstRead[],
  names: ReturnType<typeof parentNames>,
): Html {
  if (sweeps.length === 0) return emptyHtml('None was read.', '');
  const definitions = definitionsFor(config, run.source);
  const sampled = sampledByRun(mirror, { source: run.source, run: run.run, sweeps });
  const newHere = new Map(firstReads.map((each) => [collectionKey(each), each.records]));
  const sorted = sweeps.toSorted(
    (a, b) => Number(a.outcome === 'complete') - Number(b.outcome === 'complete'),
  );
  // Collections that were skipped for the same reason share a row.
  const alike = [...Map.groupBy(sweeps, ({ outcome, error }) => `${outcome} ${error ?? ''}`).values()].filter(
    ([first, ...others]) => first?.outcome === 'skipped' && others.length > 0,
  );
  const together = new Set(alike.flat());
  const single = sorted.filter((sweep) => !together.has(sweep));
  const grouped = alike.map((group) => {
    const kinds = new Set(group.map(({ kind }) => kind)).size;
    return [
      markup`${plural(group.length, 'collection')} ${faint(`of ${plural(kinds, 'kind')}`)}`,
      outcomeBadge('skipped'),
      '',
      ...['', '', '', ''],
      faint(group[0]?.error ?? ''),
    ];
  });
  const listed = single.slice(0, SWEEPS_SHOWN).map((sweep) => {
    const note = noteText(sweep, newHere.get(collectionKey(sweep)));
    return [
      markup`${definitions(sweep.kind).title.many} ${faint(placeOf(sweep.scope, definitions, names))}`,
      outcomeBadge(collectionOutcome(sweep, sampled)),
      holdsText(sweep),
      formatInteger(sweep.records),
      formatInteger(sweep.added),
      formatInteger(sweep.changed),
      formatInteger(sweep.removed),
      note === '' ? NOTHING : faint(note),
    ];
  });
  const columns = [
    { head: 'Collection', style: 'wide' },
    { head: 'Outcome' },
    { head: 'Contents', style: 'below phone' },
    { head: 'Records', style: 'num spare' },
    { head: 'Added', style: 'num spare' },
    { head: 'Changed', style: 'num spare' },
    { head: 'Removed', style: 'num spare' },
    { head: 'Note', style: 'wide below' },
  ];
  const problems = single.slice(0, SWEEPS_SHOWN).filter(({ outcome }) => outcome !== 'complete').length;
  const rows = [...listed.slice(0, problems), ...grouped, ...listed.slice(problems)];
  const more = single.length - listed.length;
  const rest = more > 0 ? markup`<p class="faint">and ${plural(more, 'other collection')}</p>` : NOTHING;
  return markup`${tableHtml('Collections of the run', columns, rows)}${rest}`;
}

/** The counts of a collection in one cell; empty if it could not be read. */
function holdsText(sweep: SweepRow): string {
  const records = sweep.records > 0 || sweep.outcome === 'complete' ? plural(sweep.records, 'record') : '';
  return [records, changesText(sweep)].filter((text) => text !== '').join(', ');
}

function noteText({ error, held }: SweepRow, newHere: number | undefined): string {
  if (error !== null) return error;
  if (newHere !== undefined) return `${formatInteger(newHere)} new here, read for the first time`;
  return held > 0 ? `${plural(held, 'removal')} held` : '';
}
