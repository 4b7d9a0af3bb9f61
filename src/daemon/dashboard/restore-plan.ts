/** What a restore of selected records, or of a version of one, would send back, and the command that does it. */
import type { Scope } from '../../catalog/definition.ts';
import type { RecordKey } from '../../catalog/order.ts';
import type { Config } from '../../config/config.ts';
import { maskedMessage } from '../../config/known-secrets.ts';
import { definitionsFor } from '../../config/source.ts';
import { TidemarkError } from '../../core/errors.ts';
import { formatInteger, plural } from '../../core/wording.ts';
import { type RecordChange, recordName } from '../../diff/change.ts';
import { compareBodies, placeOf as fieldPlace } from '../../diff/compare.ts';
import { continuedIds } from '../../diff/found-again.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RecordRow } from '../../mirror/records.ts';
import { contradictionText } from '../../report/drift-document.ts';
import { maskedFields, withMaskedId } from '../../report/mask.ts';
import { maskedPlan } from '../../report/plan-mask.ts';
import { adoptionLines, leftText, planSummary } from '../../report/plan-report.ts';
import { nameText } from '../../report/value-text.ts';
import { makePlan } from '../../restore/plan/make.ts';
import { type Plan, isExecutable } from '../../restore/plan/plan.ts';
import { otherProfile } from '../../restore/plan/settings.ts';
import { acceptedBetween } from '../../state/accepted-drift.ts';
import { type SourceDrift, ignoredIn } from '../../state/drift.ts';
import { openMirrorState } from '../../state/mirror-diff.ts';
import { firstHeld, heldBelowTest } from '../../state/held-names.ts';
import { resolveState } from '../../state/resolved-state.ts';
import { recordHistory } from '../../state/record-history.ts';
import { lastReadings } from '../../state/runs.ts';
import type { StateFilter } from '../../state/filter.ts';
import { type LoadedState, stateOfRecords } from '../../state/state.ts';
import type { RestoreCommand } from '../http/restores.ts';
import { actionForm } from './actions.ts';
import {
  crumbs,
  emptyHtml,
  fieldListHtml,
  hiddenInputs,
  moreHtml,
  nameHtml,
  recordPath,
  timeHtml,
  warningHtml,
  withCommands,
} from './components.ts';
import { driftArticles } from './drift-records.ts';
import { KEEP_ACCEPTED, keepAcceptedHtml, selectionOf, WITH_CHILDREN } from './restore-selection.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import type { PageContent, PageFacts } from './layout.ts';
import { type Version, versionAt } from './versions.ts';
import {
  commandPart,
  unsentItems,
  sentArticles,
  lackingHtml,
  planWarnings,
  secretsHtml,
  PLAN_THESE,
  unselectedHtml,
} from './plan-parts.ts';

/** A page with a plan, and the command that makes that plan; null if there is nothing to plan. */
export interface RestoreContent {
  readonly content: PageContent;
  readonly command: RestoreCommand | null;
}

interface PlanFacts extends Pick<PageFacts, 'mirror' | 'config' | 'now'> {
  readonly asked: {
    readonly query: URLSearchParams;
    /** True where the plan can be made and applied in the dashboard. */
    readonly canApply: boolean;
  };
}

type Asked = PlanFacts['asked'];

interface SelectionFacts extends PlanFacts {
  /** Values of `selectionOf`. */
  readonly selected: readonly string[];
}

const TITLE = 'Restore plan';
const SELECTION_HEAD = markup`${crumbs(['/drift', 'Drift'])}<h1>${TITLE}</h1>`;

function nothingSelected(what: string): RestoreContent {
  const empty = emptyHtml(
    'Nothing is selected.',
    `Select ${what} on the drift page, then plan their restore.`,
  );
  return { content: { title: TITLE, body: markup`${SELECTION_HEAD}${empty}` }, command: null };
}

/** What a restore of the selected findings would send, as far as the mirror knows, and what it could not. */
export async function restorePage(
  facts: SelectionFacts & { readonly drift: SourceDrift | null },
): Promise<RestoreContent> {
  const { mirror, drift, selected, asked } = facts;
  const changes = (drift?.document.changes ?? []).filter((each) => selected.includes(selectionOf(each)));
  if (drift === null || changes.length === 0) return nothingSelected('findings');
  const { source } = drift;
  const baseline = mirror.snapshots.baseline();
  const drifted = new Set(drift.open.map(selectionOf)).size;
  const part =
    changes.length < drifted
      ? `: ${formatInteger(changes.length)} of the ${plural(drifted, 'record')} with drift`
      : '';
  const planned = await plannedHtml(facts, source, {
    reference: 'baseline',
    filter: { kinds: [...new Set(changes.map(({ kind }) => kind))], ids: changes.map(({ id }) => id) },
    removals: changes.filter(({ change }) => change === 'added').length,
  });
  const head = markup`${SELECTION_HEAD}
<p class="faint">Back to ${baseline?.name ?? 'the baseline'}, run ${baseline?.run ?? 0}${part}.</p>`;
  const args = restoreArgs(source, changes, planned);
  const drifts = markup`<section><h2>What drifted</h2>${driftArticles(mirror, drift, selected)}</section>`;
  return planContent(planned, asked, { title: TITLE, head, source, args, rest: drifts });
}

/** The same for records whose removals are held. */
export async function heldPlanPage(facts: SelectionFacts, source: string): Promise<RestoreContent> {
  const { mirror, config, selected, asked } = facts;
  const all = firstHeld(mirror, source, definitionsFor(config, source), Infinity);
  const held = all.filter((each) => selected.includes(selectionOf(each)));
  if (held.length === 0) return nothingSelected('held removals');
  const kinds = [...new Set(held.map(({ kind }) => kind))];
  const ids = [...new Set(held.map(({ id }) => id))];
  const wanted = { reference: 'latest', filter: { kinds, ids }, removals: 0 };
  const planned = await plannedHtml(facts, source, wanted);
  const what =
    held.length === all.length
      ? `The service no longer shows ${plural(held.length, 'record')}, of which the mirror has the last state.`
      : `This plan has ${formatInteger(held.length)} of the ${plural(all.length, 'record')} that the service no longer shows; the mirror has their last state.`;
  const head = markup`${SELECTION_HEAD}<p>${what}</p>`;
  const args = ['latest', `--source=${source}`, ...optionsOf('kind', kinds), ...optionsOf('id', ids)];
  return planContent(planned, asked, { title: TITLE, head, source, args });
}

/** The page of a plan, and its command. */
function planContent(
  planned: Planned,
  asked: Asked,
  {
    title,
    head,
    source,
    args,
    rest = NOTHING,
  }: RestoreCommand & { readonly title: string; readonly head: HtmlPart; readonly rest?: HtmlPart },
): RestoreContent {
  const own = withBoxes(args, asked);
  const body = markup`${head}
${planned.html}${planned.below}
${applyHtml(planned, own, asked)}
${rest}`;
  return { content: { title, body }, command: { source, args: own } };
}

function optionsOf(name: string, values: readonly string[]): string[] {
  return values.map((value) => `--${name}=${value}`);
}

/**
 * The command, to be copied; and where that is allowed, the form that makes the plan here. Nothing for a plan that does nothing; but if
 * only invites are missing, the command that sends them.
 */
function applyHtml(
  { isIdle, isInviting }: Planned,
  args: readonly string[],
  { query, canApply }: Asked,
): HtmlPart {
  if (isIdle && !isInviting) return NOTHING;
  const form =
    isIdle || !canApply
      ? NOTHING
      : markup`<p>Or make the plan here: the daemon reads the service again and shows it; nothing is sent before you confirm.</p>
${actionForm('plan', [['query', query.toString()]], markup`<button>Make the plan</button>`)}`;
  const invites = isIdle ? ['--invite-missing'] : [];
  return markup`<section><h2>Apply it</h2>
<p>Run this where you have the key with write access: it reads the service again, shows the plan, and asks before it
sends anything. This page does not know that key: the command names the permissions that it lacks, if the service reports them.</p>
${commandPart([...args, ...invites, '--apply'])}${form}</section>`;
}

/** What the command of the page restores. */
interface Wanted {
  /** Names the desired state. */
  readonly reference: string;
  readonly filter: StateFilter;
  /** How many records it may remove. */
  readonly removals: number;
}

interface Planned {
  readonly html: Html;
  /** True where the plan would send and record nothing. */
  readonly isIdle: boolean;
  /** True where `--invite-missing` would send more. */
  readonly isInviting: boolean;
  /** False where the plan removes nothing: then its command allows no removal. */
  readonly isRemoving: boolean;
  /** Says what was lost below the records that the plan creates and is not in it, with a button that adds it. */
  readonly below: HtmlPart;
}

/** The plan as of the newest run of the mirror: the steps that are sent, and those that are not, with the reasons. */
async function plannedHtml(facts: PlanFacts, source: string, wanted: Wanted): Promise<Planned> {
  const definitions = definitionsFor(facts.config, source);
  try {
    const plan = maskedPlan(await mirrorPlan(facts, source, wanted), definitions);
    const sent = [...sentArticles(plan, facts.mirror, source, definitions).values()];
    const rest = moreHtml(sent.length - SENT_SHOWN, 'step');
    const unsent = unsentItems(plan, definitions);
    const left = plan.left.map(
      (each) => markup`<li><span class="tag">left</span> ${leftText(each, { definitions })}</li>`,
    );
    const again = adoptionLines(plan, { definitions, isWhole: true }).map(
      (line) => markup`<li><span class="tag">new id</span> ${line}</li>`,
    );
    const why =
      continuedIds(plan) === 0
        ? NOTHING
        : markup` Drift lists these as added and removed until the restore records that they are the same.`;
    const html = markup`<section><h2>What it would do</h2>
<p>From the newest run of the mirror: ${planSummary(plan)}.${why}</p>${sent.slice(0, SENT_SHOWN)}${rest}<ul class="steps">${unsent}${left}${again}</ul>${profileHtml(facts.config, source, plan)}${secretsHtml(plan, facts.config, source)}${lackingHtml(plan, definitions)}${warningsHtml(plan, facts.asked)}</section>`;
    const isIdle = !plan.steps.some(isExecutable) && continuedIds(plan) === 0;
    const isInviting = plan.steps.some(({ obstacle }) => obstacle === 'not_creatable');
    const below = unselectedHtml(plan, definitions, withChildrenHtml(facts.asked.query));
    return { html, isIdle, isInviting, isRemoving: plan.summary.remove > 0, below };
  } catch (error) {
    if (!(error instanceof TidemarkError)) throw error;
    const message = maskedMessage(error.message, facts.config.knownSecrets);
    const html = warningHtml(markup`! This page cannot tell what would be sent: ${message}`);
    return { html, isIdle: false, isInviting: false, isRemoving: true, below: NOTHING };
  }
}

function profileHtml(config: Config, source: string, plan: Plan): Html[] {
  const configured = config.sources.find(({ name }) => name === source);
  const lines = configured === undefined ? [] : otherProfile(configured, plan);
  return lines.map((line) => markup`<p class="hint">${withCommands(line)}</p>`);
}

const SENT_SHOWN = 200;
/** The warnings; and where the plan sets back accepted or ignored drift, a box that leaves it as it is. */
function warningsHtml(plan: Plan, { query }: Asked): HtmlPart {
  const isKept = query.has(KEEP_ACCEPTED);
  const warnings = planWarnings(plan);
  if (!isKept && plan.steps.every(({ accepted, ignored }) => (accepted ?? ignored) === undefined))
    return warnings;
  const hidden = hiddenInputs([...query].filter(([name]) => name !== KEEP_ACCEPTED));
  return markup`${warnings}<form class="search" method="get" action="/restore">${hidden}${keepAcceptedHtml(isKept)}<button>Update the plan</button></form>`;
}

/** The plan that the command on the page makes, with the newest run of the mirror in place of the live service. */
async function mirrorPlan(
  { mirror, config, asked, now }: PlanFacts,
  source: string,
  { reference, filter, removals }: Wanted,
): Promise<Plan> {
  const configured = config.sources.find(({ name }) => name === source);
  if (configured === undefined) throw new TidemarkError('usage', `${source} is no longer configured`);
  const open = (state: string): LoadedState =>
    openMirrorState(mirror, source, resolveState(mirror, state, { now, source }));
  const desired = open(reference);
  const held = mirror.runs.heldRecords(source);
  const { plan } = await makePlan({
    request: {
      filter,
      withChildren: asked.query.has(WITH_CHILDREN),
      fields: [],
      prune: removals === 0 ? null : { maxRemovals: removals },
      createOrganizations: false,
      inviteMissing: false,
      sendEmail: false,
      keepAccepted: asked.query.has(KEEP_ACCEPTED),
      maxShare: null,
      isAgeMeant: true,
    },
    desired,
    readLive: () => Promise.resolve(withoutHeld(open('latest'), held, heldBelowTest(mirror, source))),
    source: configured,
    definitions: definitionsFor(config, source),
    idMap: mirror.restores.idMap(source),
    acceptedIn: (live) => acceptedBetween(config, mirror, { from: desired, to: live }, { source, now }),
    ignores: ignoredIn(config, source),
    contradictionText: (each) => contradictionText(each, source, definitionsFor(config, source)),
    held,
    lastSeen: lastReadings(mirror, source),
    // Both sides come from the mirror.
    redaction: null,
    now,
  });
  return plan;
}

/** The newest run as the service showed it: without the records whose removal is held, which the mirror keeps, and what is below them. */
function withoutHeld(
  latest: LoadedState,
  held: readonly RecordKey[],
  isBelowHeld: (scope: Scope) => boolean,
): LoadedState {
  if (held.length === 0) return latest;
  const gone = new Set(held.map(selectionOf));
  const isThere = (record: RecordKey): boolean =>
    !gone.has(selectionOf(record)) && !isBelowHeld(record.scope);
  return stateOfRecords([], latest, {
    records: (filter) => Iterator.from(latest.records(filter)).filter(isThere),
  });
}

/** Adds the options that the box and the button of the page have set. */
function withBoxes(args: readonly string[], { query }: Asked): string[] {
  return [
    ...args,
    ...(query.has(WITH_CHILDREN) ? ['--with-children'] : []),
    ...(query.has(KEEP_ACCEPTED) ? ['--keep-accepted'] : []),
  ];
}

/** A button that adds what is below the created records to the plan. */
function withChildrenHtml(query: URLSearchParams): Html {
  const hidden = hiddenInputs([...query, [WITH_CHILDREN, 'on']]);
  return markup`<form class="search" method="get" action="/restore">${hidden}<button>${PLAN_THESE}</button></form>`;
}

function restoreArgs(source: string, changes: readonly RecordChange[], { isRemoving }: Planned): string[] {
  const added = changes.filter(({ change }) => change === 'added').length;
  return [
    'baseline',
    `--source=${source}`,
    ...optionsOf('kind', [...new Set(changes.map(({ kind }) => kind))]),
    ...optionsOf(
      'id',
      changes.map(({ id }) => id),
    ),
    ...(added === 0 || !isRemoving ? [] : ['--prune', `--max-removals=${added}`]),
  ];
}

// One version of one record.

/** The path of the plan that restores a record to a state. */
export function versionPlanPath({ kind, record }: RecordRow, reference: string): string {
  return `/restore?${new URLSearchParams({ version: reference, kind, of: String(record) }).toString()}`;
}

interface VersionPlanFacts extends PlanFacts {
  readonly row: RecordRow;
  /** Names the state with the version. */
  readonly reference: string;
}

/** What a restore of a version of a record would send. @throws TidemarkError `reference_unknown` for an unknown state */
export async function versionPlanPage(facts: VersionPlanFacts): Promise<RestoreContent> {
  const { mirror, row, reference, asked, now } = facts;
  const { source, kind } = row;
  const definitions = definitionsFor(facts.config, source);
  const definition = definitions(kind);
  const latest = mirror.runs.latest(source)?.run ?? 0;
  const { revisions } = recordHistory(mirror, row, latest, definitions);
  const at = (each: string): Version => versionAt(mirror, row, revisions, { reference: each, now });
  const [current, wanted] = [at('latest'), at(reference)];
  const known = wanted.body ?? current.body;
  const own = withMaskedId(
    { id: row.id, name: known === undefined ? row.id : recordName(definition, known, row.id) },
    definition,
  );
  const name = nameText(own.name);
  const title = `Restore ${name}`;
  const head = markup`${crumbs(['/records', 'Records'], [recordPath(kind, own.id, row.record), nameHtml(name)])}
<h1>Restore plan</h1>
<p class="faint">${definition.title.one} ${nameHtml(name)}, back to run ${wanted.run}, ${timeHtml(wanted.at)}.</p>`;
  const page = (...content: readonly HtmlPart[]): RestoreContent => ({
    content: { title, body: markup`${head}${content}` },
    command: null,
  });
  const { never } = definition.restore;
  if (never !== null) return page(emptyHtml('This kind is never written:', `${never}.`));
  if (wanted.revision === undefined)
    return page(emptyHtml('No version then.', `The record was first seen after run ${wanted.run}.`));
  const isRemoval = wanted.body === undefined;
  const place = placeFilter(mirror, row);
  const plan = async (intro: string, rest: HtmlPart = NOTHING): Promise<RestoreContent> => {
    const planned = await plannedHtml(facts, source, {
      reference: `run:${wanted.run}`,
      filter: { kinds: [kind], ids: [row.id], ...place },
      removals: isRemoval ? 1 : 0,
    });
    const args = versionArgs(row, place, own.id, wanted.run, isRemoval && planned.isRemoving);
    const lead = intro === '' ? head : [head, markup`<p>${intro}</p>`];
    return planContent(planned, asked, { title, head: lead, source, args, rest });
  };
  if (wanted.body === undefined)
    return current.body === undefined
      ? page(emptyHtml('Nothing to restore:', 'the record was removed then, and still is.'))
      : await plan('The record was removed then: this removes it from the service.');
  if (current.body === undefined) return await plan('The record was removed.');
  if (mirror.runs.heldSince(row) !== undefined) return await plan('The service no longer shows the record.');
  const all = compareBodies(definition, current.body, wanted.body, 'default');
  if (all.length === 0)
    return page(emptyHtml('Nothing to restore:', `the record is now as it was in run ${wanted.run}.`));
  const managed = compareBodies(definition, current.body, wanted.body, 'managed');
  const sets = new Set(managed.map(fieldPlace));
  const unset = all.filter((field) => !sets.has(fieldPlace(field)));
  const rest =
    unset.length === 0
      ? NOTHING
      : markup`<section><h2>Not sent</h2><p class="faint">Only the service sets these, or the profile does not say that requests may.</p>
${fieldListHtml(maskedFields(unset, definition), 0)}</section>`;
  if (managed.length === 0)
    return page(emptyHtml('No writable field differs.', 'See below what does.'), rest);
  return await plan('', rest);
}

/** Distinguishes the record from others of its kind with the same id; empty if there are none. */
function placeFilter(
  mirror: Mirror,
  { kind, source, scope, id }: RecordRow,
): Pick<StateFilter, 'organizations' | 'projects'> {
  if (mirror.records.find(kind, id, { sources: [source] }).length <= 1) return {};
  const { organization_id: organization, project_id: project } = scope;
  return {
    ...(organization === undefined ? {} : { organizations: [organization] }),
    ...(project === undefined ? {} : { projects: [project] }),
  };
}

function versionArgs(
  { kind, source }: RecordRow,
  { organizations = [], projects = [] }: Pick<StateFilter, 'organizations' | 'projects'>,
  shownId: string,
  run: number,
  isRemoval: boolean,
): string[] {
  return [
    `run:${run}`,
    `--source=${source}`,
    `--kind=${kind}`,
    ...optionsOf('organization', organizations),
    ...optionsOf('project', projects),
    `--id=${shownId}`,
    ...(isRemoval ? ['--prune', '--max-removals=1'] : []),
  ];
}
