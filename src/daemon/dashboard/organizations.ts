/** Organizations, worst first, and their projects: what the mirror has of each, what drifted, and how old it is. */
import { definitionOf } from '../../catalog/catalog.ts';
import type { ScopeKey, Severity } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { definitionsFor } from '../../config/source.ts';
import { TidemarkError } from '../../core/errors.ts';
import { formatInteger, plural } from '../../core/wording.ts';
import type { Finding } from '../../diff/drift.ts';
import { compareSeverities, worst } from '../../diff/severity.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { CollectionRow } from '../../mirror/run-rows.ts';
import { nameText } from '../../report/value-text.ts';
import type { SourceDrift } from '../../state/drift.ts';
import { parentNames } from '../../state/parent-names.ts';
import { EXCLUDED, kindsNeverRead } from '../../state/unasked.ts';
import { capital } from '../../report/document.ts';
import {
  ageHtml,
  attemptText,
  badge,
  collectionState,
  crumbs,
  emptyHtml,
  factsHtml,
  faint,
  nameHtml,
  nothingCopiedHtml,
  pageLinks,
  recordPath,
  severityTag,
  tableHtml,
} from './components.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import { neverReadHtml } from './drift-records.ts';
import type { PageContent, PageFacts } from './layout.ts';
import { readOneByOneFrom } from './records.ts';

const PAGE = 100;
const PROJECTS_SHOWN = 300;
/** Problems of single collections that the page of an organization names. */
const PROBLEMS_SHOWN = 20;

/** An organization without its projects, or a project. */
interface Branch {
  readonly id: string;
  readonly collections: CollectionRow[];
  readonly findings: Finding[];
  /** As `kindsNeverRead`. */
  readonly neverRead: ReadonlyMap<Kind, string>;
}

interface Organization extends Branch {
  readonly source: string;
  readonly projects: ReadonlyMap<string, Branch>;
}

export interface TreeFacts extends Omit<PageFacts, 'canAct'> {
  /** Of each source with a baseline. */
  readonly drifts: readonly SourceDrift[];
  /** Sources that could not be compared. */
  readonly driftUnknown: ReadonlySet<string>;
  /** By source: the greatest allowed age of a complete run, milliseconds; none where no schedule syncs it. */
  readonly allowedMs: ReadonlyMap<string, number>;
}

// What is wrong, and how badly.

interface Condition {
  /** Collections that were not complete at the last attempt, and kinds that were never read. */
  readonly unread: number;
  /** All collections, and kinds that were never read. */
  readonly collections: number;
  readonly records: number;
  /** When the collection that was complete longest ago was; null if one never was. */
  readonly completeAt: string | null;
  readonly isOld: boolean;
  readonly findings: readonly Finding[];
  readonly isDriftKnown: boolean;
}

function conditionOf(
  branches: readonly Branch[],
  { now, allowedMs, driftUnknown }: TreeFacts,
  source: string,
): Condition {
  const collections = branches.flatMap((branch) => branch.collections);
  const never = branches
    .flatMap(({ neverRead }) => [...neverRead.values()])
    .filter((why) => why !== EXCLUDED);
  const times = [...collections.map(({ lastCompleteAt }) => lastCompleteAt), ...never.map(() => null)];
  const completeAt = times.includes(null) ? null : (times.toSorted()[0] ?? null);
  const allowed = allowedMs.get(source);
  return {
    unread: collections.filter(isUnread).length + never.length,
    collections: collections.length + never.length,
    records: collections.reduce((sum, { records }) => sum + records, 0),
    completeAt,
    isOld: completeAt !== null && allowed !== undefined && now - Date.parse(completeAt) > allowed,
    findings: branches.flatMap((branch) => branch.findings),
    isDriftKnown: !driftUnknown.has(source),
  };
}

/** The condition of an organization with its projects. */
function conditionOfAll(organization: Organization, facts: TreeFacts): Condition {
  return conditionOf([organization, ...organization.projects.values()], facts, organization.source);
}

function isUnread({ lastOutcome }: CollectionRow): boolean {
  return lastOutcome !== 'complete';
}

/** Worst first: the most severe drift, then what is incomplete, then what is old. */
function compareConditions(a: Condition, b: Condition): number {
  const severity = ({ findings }: Condition): Severity => worst(findings.map((each) => each.severity));
  const hasDrift = ({ findings }: Condition): number => Number(findings.length > 0);
  return (
    hasDrift(b) - hasDrift(a) ||
    compareSeverities(severity(a), severity(b)) ||
    Number(b.unread > 0) - Number(a.unread > 0) ||
    Number(b.isOld) - Number(a.isOld) ||
    b.findings.length - a.findings.length ||
    b.unread - a.unread ||
    (a.completeAt ?? '').localeCompare(b.completeAt ?? '')
  );
}

function hasNoProblem({ unread, findings, isOld, isDriftKnown }: Condition): boolean {
  return unread === 0 && findings.length === 0 && !isOld && isDriftKnown;
}

// The tree: made from the rows of collections and the keys of projects, without reading a record.

/** @param only the id of one organization; left out, all */
function organizationsOf(
  { mirror, config, drifts }: TreeFacts,
  source: string,
  only?: string,
): Organization[] {
  const tree = new Map<string, Branch & { readonly projects: Map<string, Branch> }>();
  const never = [...kindsNeverRead(mirror, config, source)];
  const neverBelow = (key: ScopeKey): ReadonlyMap<Kind, string> =>
    new Map(
      never.filter(([kind]) => {
        const { scope } = definitionOf(kind);
        return scope.includes(key) && (key === 'project_id' || !scope.includes('project_id'));
      }),
    );
  const [ofOrganization, ofProject] = [neverBelow('organization_id'), neverBelow('project_id')];
  const organizationAt = (id: string): Branch & { readonly projects: Map<string, Branch> } =>
    valueAt(tree, id, () => ({ ...emptyBranch(id, ofOrganization), projects: new Map() }));
  const collections = mirror.runs.collections(source).filter(({ retiredRun }) => retiredRun === null);
  const homes = homesOfProjects(mirror, source, collections);
  const branchOf = ({ kind, scope, id }: Place): Branch | null => {
    const project = scope.project_id ?? (kind === 'projects' ? id : undefined);
    const home = scope.organization_id ?? (project === undefined ? undefined : homes.get(project));
    const organization = home ?? (kind === 'organizations' ? id : undefined);
    if (organization === undefined) return null;
    const own = organizationAt(organization);
    return project === undefined
      ? own
      : valueAt(own.projects, project, () => emptyBranch(project, ofProject));
  };
  for (const { id } of mirror.records.keys({ sources: [source], kinds: ['organizations'] }))
    organizationAt(id);
  for (const [project, home] of homes)
    branchOf({ kind: 'projects', scope: { organization_id: home }, id: project });
  for (const row of collections) branchOf({ kind: row.kind, scope: row.scope })?.collections.push(row);
  for (const finding of drifts.find((each) => each.source === source)?.open ?? [])
    branchOf(finding)?.findings.push(finding);
  return [...tree.values()]
    .filter(({ id }) => only === undefined || id === only)
    .map((organization) => ({ ...organization, source }));
}

/** A finding, or a collection, which has no id. */
type Place = Pick<Finding, 'kind' | 'scope'> & { readonly id?: string };

function emptyBranch(id: string, neverRead: Branch['neverRead']): Branch {
  return { id, neverRead, collections: [], findings: [] };
}

function valueAt<Value>(map: Map<string, Value>, key: string, create: () => Value): Value {
  const value = map.get(key) ?? create();
  map.set(key, value);
  return value;
}

/** The organization of each project: of one that is in the lists of several, the first. */
function homesOfProjects(
  mirror: Mirror,
  source: string,
  collections: readonly CollectionRow[],
): ReadonlyMap<string, string> {
  const homes = new Map<string, string>();
  const add = (project: string | undefined, organization: string | undefined): void => {
    if (project !== undefined && organization !== undefined && !homes.has(project))
      homes.set(project, organization);
  };
  for (const { id, scope } of mirror.records.keys({ sources: [source], kinds: ['projects'] }))
    add(id, scope.organization_id);
  for (const { scope } of collections) add(scope.project_id, scope.organization_id);
  return homes;
}

// The list of all organizations.

/** @param page from 1 on */
export function organizationsPage(facts: TreeFacts, page: number): PageContent {
  const { sources } = facts;
  const all = sources
    .flatMap((source) => organizationsOf(facts, source))
    .map((organization) => ({ ...organization, condition: conditionOfAll(organization, facts) }))
    .sort((a, b) => compareConditions(a.condition, b.condition) || a.id.localeCompare(b.id));
  const well = all.filter(({ condition }) => hasNoProblem(condition)).length;
  const title = 'Organizations';
  const never = all.length === 0 ? [] : neverReadHtml(facts.mirror, sources);
  const summary =
    well < all.length
      ? `${formatInteger(all.length - well)} with drift or problems, worst first.`
      : never.length > 0
        ? 'What was read is well.'
        : 'All are well.';
  const lead = markup`<h1>${plural(all.length, 'organization')}</h1><p class="faint">${summary}</p>${never}`;
  if (all.length === 0) return { title, body: markup`${lead}${nothingCopiedHtml()}` };
  const shown = all.slice((page - 1) * PAGE, page * PAGE);
  const names = new Map(sources.map((source) => [source, namesOf(facts, source)]));
  const rows = shown.map(({ id, source, projects, condition }) => [
    markup`<a href="${organizationPath(id, source)}">${nameHtml(names.get(source)?.('organizations', id) ?? id)}</a>`,
    ...(sources.length > 1 ? [nameHtml(source)] : []),
    stateHtml(condition),
    driftHtml(condition),
    ageHtml(condition.completeAt, facts.now),
    formatInteger(projects.size),
    formatInteger(condition.records),
  ]);
  const columns = [
    { head: 'Organization', style: 'wide' },
    ...(sources.length > 1 ? [{ head: 'Source', style: 'below source', label: 'Source' }] : []),
    { head: 'State', style: 'below' },
    { head: 'Drift', style: 'below', label: 'Drift' },
    { head: 'Oldest list', style: 'spare' },
    { head: 'Projects', style: 'num spare' },
    { head: 'Records', style: 'num', label: 'Records' },
  ];
  const pages = pageLinks(page, page * PAGE >= all.length, (to) => `/organizations?page=${to}`);
  return { title, body: markup`${lead}<div class="gap"></div>${tableHtml(title, columns, rows)}${pages}` };
}

function organizationPath(id: string, source: string): string {
  return `/organizations/${encodeURIComponent(id)}?${new URLSearchParams({ source }).toString()}`;
}

function namesOf({ mirror, config }: TreeFacts, source: string): (kind: Kind, id: string) => string {
  const nameOf = parentNames(mirror, source, definitionsFor(config, source));
  return (kind, id) => nameText(nameOf(kind, id) ?? id);
}

function stateHtml({ unread, collections, completeAt, isOld }: Condition): Html {
  if (unread === 0 && isOld) return badge('bad', 'old');
  return badge(...collectionState(collections, unread, completeAt, false));
}

function driftHtml({ findings, isDriftKnown }: Pick<Condition, 'findings' | 'isDriftKnown'>): HtmlPart {
  if (!isDriftKnown) return faint('not known');
  if (findings.length === 0) return faint('none');
  return markup`${plural(findings.length, 'finding')}, up to ${severityTag(worst(findings.map(({ severity }) => severity)))}`;
}

// The page of one organization.

/** @throws TidemarkError `not_found` where the mirror has no such organization */
export function organizationPage(facts: TreeFacts, id: string, source: string | null): PageContent {
  const { mirror, sources, now } = facts;
  const found = sources
    .filter((each) => source === null || each === source)
    .flatMap((each) => organizationsOf(facts, each, id));
  const [organization] = found;
  if (organization === undefined) {
    throw new TidemarkError('not_found', 'Organization not found', {
      hint: 'it may be excluded by the configuration, or removed: search for its name',
    });
  }
  const name = namesOf(facts, organization.source);
  const own = name('organizations', id);
  const projects = [...organization.projects.values()];
  const all = conditionOfAll(organization, facts);
  const isThere = mirror.records.find('organizations', id, { sources: [organization.source] }).length > 0;
  const drift =
    all.findings.length > 0
      ? markup`<a href="/drift">${plural(all.findings.length, 'finding')}</a>`
      : all.isDriftKnown
        ? 'none'
        : 'not known';
  const summary = factsHtml([
    ['Id', markup`<span class="id">${nameText(id)}</span>`],
    ...(sources.length > 1 ? [['Source', nameHtml(organization.source)] as const] : []),
    ['State', stateHtml(all)],
    ['Drift', drift],
    ['Oldest list', ageHtml(all.completeAt, now)],
    ['Records', formatInteger(all.records)],
  ]);
  const sorted = projects
    .map((project) => ({ project, condition: conditionOf([project], facts, organization.source) }))
    .sort((a, b) => compareConditions(a.condition, b.condition));
  const more = sorted.length - PROJECTS_SHOWN;
  const settings = isThere
    ? markup`<p><a href="${recordPath('organizations', id)}">Settings and history</a></p>`
    : NOTHING;
  const body = markup`${crumbs(['/organizations', 'Organizations'])}<h1>${nameHtml(own)}</h1>
${summary}${settings}
<section><h2>Organization-wide</h2>${branchHtml(facts, organization, { organization: id }, organization.source)}</section>
<section><h2>${plural(projects.length, 'project')}</h2>
${sorted.slice(0, PROJECTS_SHOWN).map(({ project, condition }) => {
  const open = hasNoProblem(condition) ? NOTHING : markup` open`;
  return markup`<details class="branch"${open}><summary><h3>${nameHtml(name('projects', project.id))}</h3>
${stateHtml(condition)} ${condition.findings.length === 0 ? NOTHING : driftHtml(condition)} ${faint(plural(condition.records, 'record'))}</summary>
${branchHtml(facts, project, { project: project.id }, organization.source)}</details>`;
})}
${more > 0 ? markup`<p class="faint">and ${plural(more, 'more project')}, all without problems or with lesser ones</p>` : NOTHING}</section>`;
  return { title: own, body };
}

/**
 * The kinds of an organization or project, and what could not be read.
 * @param within the parameter of the record browser that limits it to the branch
 */
function branchHtml(
  facts: TreeFacts,
  branch: Branch,
  within: Readonly<Record<string, string>>,
  source: string,
): HtmlPart {
  const { config, sources, now } = facts;
  const byKind = Map.groupBy(branch.collections, ({ kind }) => kind);
  const definitions = definitionsFor(config, source);
  const recordsOf = (kind: Kind): number =>
    (byKind.get(kind) ?? []).reduce((sum, { records }) => sum + records, 0);
  const hasDrift = branch.findings.length > 0;
  const rows = [...byKind].map(([kind, collections]): HtmlPart[] => {
    const findings = branch.findings.filter((finding) => finding.kind === kind);
    const { unread, completeAt, records } = conditionOf(
      [{ ...branch, collections, findings, neverRead: new Map() }],
      facts,
      source,
    );
    const from = readOneByOneFrom(kind);
    const of = from === null ? 0 : recordsOf(from);
    const query = new URLSearchParams({ kind, ...within, ...(sources.length > 1 ? { source } : {}) });
    return [
      markup`<a href="/records?${query.toString()}">${capital(definitions(kind).title.many)}</a>`,
      badge(...collectionState(collections.length, unread, completeAt, records < of)),
      ...(hasDrift ? [findings.length === 0 ? NOTHING : driftHtml({ findings, isDriftKnown: true })] : []),
      records < of ? `${formatInteger(records)} of ${formatInteger(of)}` : formatInteger(records),
      ageHtml(completeAt, now),
    ];
  });
  for (const [kind, why] of branch.neverRead)
    rows.push([
      capital(definitions(kind).title.many),
      why === EXCLUDED ? badge('plain', 'excluded') : badge('warn', 'not read yet'),
      ...(hasDrift ? [NOTHING] : []),
      NOTHING,
      NOTHING,
    ]);
  // Findings on the organization or project itself belong to the list that it is in, which is not in this branch.
  const own = branch.findings.filter(({ kind }) => !byKind.has(kind));
  const [first] = own;
  if (first !== undefined)
    rows.unshift([
      markup`<a href="${recordPath(first.kind, first.id)}">Settings</a>`,
      NOTHING,
      driftHtml({ findings: own, isDriftKnown: true }),
      NOTHING,
      NOTHING,
    ]);
  if (rows.length === 0) return emptyHtml('Nothing was read of it.', '');
  const columns = [
    { head: 'Kind', style: 'wraps' },
    { head: 'State', style: 'below' },
    ...(hasDrift ? [{ head: 'Drift', style: 'below', label: 'Drift' }] : []),
    { head: 'Records', style: 'num', label: 'Records' },
    { head: 'As of', style: 'spare' },
  ];
  const byReason = Map.groupBy(branch.collections.filter(isUnread), ({ lastOutcome, lastError }) =>
    attemptText(lastOutcome, lastError),
  );
  const neverByReason = Map.groupBy(
    [...branch.neverRead].map(([kind, why]) => ({ kind, why })),
    ({ why }) => why,
  );
  const problems = [...byReason, ...neverByReason].map(([why, same]) => {
    const kinds = [...new Set(same.map(({ kind }) => definitions(kind).title.many))];
    return markup`<li><strong>${kinds.join(', ')}</strong>: ${why}</li>`;
  });
  const more = problems.length - PROBLEMS_SHOWN;
  const list =
    problems.length === 0
      ? NOTHING
      : markup`<ul class="faint">${problems.slice(0, PROBLEMS_SHOWN)}${more > 0 ? markup`<li>and ${plural(more, 'other')}</li>` : NOTHING}</ul>`;
  const caption = `Kinds of ${Object.entries(within).flat().join(' ')}`;
  return [tableHtml(caption, columns, rows), list];
}
