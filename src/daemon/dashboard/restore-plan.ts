/** What a restore of selected records, or of a version of one, would send back, and the command that does it. */
import type { Scope } from '../../catalog/definition.ts';
import type { RecordKey } from '../../catalog/order.ts';
import type { Config } from '../../config/config.ts';
import { maskedMessage } from '../../config/known-secrets.ts';
import { definitionsFor, type Present, presentIn } from '../../config/source.ts';
import { TidemarkError } from '../../core/errors.ts';
import { shellWord } from '../../core/hints.ts';
import { count, plural } from '../../core/wording.ts';
import { type RecordChange, recordName } from '../../diff/change.ts';
import { compareBodies, placeOf as fieldPlace } from '../../diff/compare.ts';
import { continuedIds } from '../../diff/found-again.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RecordRow } from '../../mirror/records.ts';
import { contradictionText } from '../../report/drift-document.ts';
import { maskedFields, maskedId, withMaskedId } from '../../report/mask.ts';
import { maskedPlan } from '../../report/plan-mask.ts';
import {
  acceptedLines,
  adoptionLines,
  lackingTexts,
  planSummary,
  REFERRING,
  referringText,
  secretLines,
  SECRETS_INTRO,
  sentItems,
  unselectedText,
} from '../../report/plan-report.ts';
import { recordHtml } from '../../report/render-html.ts';
import { nameText } from '../../report/value-text.ts';
import { makePlan } from '../../restore/plan/make.ts';
import { type Plan, isExecutable } from '../../restore/plan/plan.ts';
import { otherProfile } from '../../restore/plan/settings.ts';
import { type SourceDrift, acceptedBetween, ignoredIn } from '../../state/drift.ts';
import { openMirrorState } from '../../state/mirror-diff.ts';
import { firstHeld, heldBelowTest } from '../../state/held-names.ts';
import { parentNames } from '../../state/parent-names.ts';
import { resolveState } from '../../state/resolved-state.ts';
import { recordHistory } from '../../state/record-history.ts';
import { lastReadings } from '../../state/runs.ts';
import type { StateFilter } from '../../state/filter.ts';
import { type LoadedState, stateOfRecords } from '../../state/state.ts';
import type { RestoreCommand } from '../http/restores.ts';
import { actionForm } from './actions.ts';
import {
  type DefinitionOf,
  capital,
  emptyHtml,
  fieldListHtml,
  nameHtml,
  recordPath,
  timeHtml,
  withCommands,
} from './components.ts';
import { driftArticles, KEEP_ACCEPTED, keepHtml, selectionOf } from './drift.ts';
import { type Html, type HtmlPart, markup, NOTHING, trusted } from './html.ts';
import type { PageContent } from './layout.ts';
import { type Version, versionAt } from './versions.ts';

/** A plan for people, and the arguments of the `tidemark restore` that makes it; null if there is nothing to plan. */
export interface RestoreContent {
  readonly content: PageContent;
  readonly command: RestoreCommand | null;
}

/** What the page was asked for. */
interface Asked {
  readonly query: URLSearchParams;
  /** True where the plan can be made and applied in the dashboard. */
  readonly canApply: boolean;
}

interface SelectionFacts {
  readonly mirror: Mirror;
  readonly config: Config;
  readonly drift: SourceDrift | null;
  /** Values of `selectionOf`. */
  readonly selected: readonly string[];
  readonly asked: Asked;
  readonly now: number;
}

/** What a restore of the selected records would send, as far as the mirror knows, and what it could not. */
export async function restorePage({
  mirror,
  config,
  drift,
  selected,
  asked,
  now,
}: SelectionFacts): Promise<RestoreContent> {
  const title = 'Restore plan';
  const crumbs = markup`<p class="crumbs faint"><a href="/drift">Drift</a></p><h1>${title}</h1>`;
  const changes = (drift?.document.changes ?? []).filter((each) => selected.includes(selectionOf(each)));
  if (drift === null || changes.length === 0) {
    const hint = 'Select findings on the drift page, then plan their restore.';
    return {
      content: { title, body: markup`${crumbs}${emptyHtml('Nothing is selected.', hint)}` },
      command: null,
    };
  }
  const baseline = mirror.snapshots.baseline();
  const drifted = new Set(drift.open.map(selectionOf)).size;
  const part =
    changes.length < drifted
      ? `: ${count(changes.length)} of the ${plural(drifted, 'record')} with drift`
      : '';
  const articles = driftArticles(mirror, drift, { only: selected });
  const planned = await plannedHtml({ mirror, config, now, asked }, drift.source, {
    reference: 'baseline',
    filter: { kinds: [...new Set(changes.map(({ kind }) => kind))], ids: changes.map(({ id }) => id) },
    removals: changes.filter(({ change }) => change === 'added').length,
  });
  const args = withBoxes(restoreArgs(drift.source, changes, planned), asked);
  const body = markup`${crumbs}
<p class="faint">Back to ${baseline?.name ?? 'the baseline'}, run ${baseline?.run ?? 0}${part}.</p>
${planned.html}${planned.below}
${applyHtml(planned, args, asked)}
<section><h2>What drifted</h2>${articles}</section>`;
  return { content: { title, body }, command: { source: drift.source, args } };
}

/** Of records whose removals are held. */
export async function heldPlanPage(
  facts: Omit<SelectionFacts, 'drift'>,
  source: string,
): Promise<RestoreContent> {
  const { mirror, config, selected, asked } = facts;
  const definitions = definitionsFor(config, source);
  const all = firstHeld(mirror, source, definitions, Infinity);
  const held = all.filter((each) => selected.includes(selectionOf(each)));
  const title = 'Restore plan';
  const crumbs = markup`<p class="crumbs faint"><a href="/drift">Drift</a></p><h1>${title}</h1>`;
  if (held.length === 0) {
    const hint = 'Select held removals on the drift page, then plan their restore.';
    return {
      content: { title, body: markup`${crumbs}${emptyHtml('Nothing is selected.', hint)}` },
      command: null,
    };
  }
  const kinds = [...new Set(held.map(({ kind }) => kind))];
  const ids = [...new Set(held.map(({ id }) => id))];
  const args = [
    'latest',
    `--source=${source}`,
    ...kinds.map((kind) => `--kind=${kind}`),
    ...ids.map((id) => `--id=${id}`),
  ];
  const command = { source, args: withBoxes(args, asked) };
  const planned = await plannedHtml(facts, source, {
    reference: 'latest',
    filter: { kinds, ids },
    removals: 0,
  });
  const what =
    held.length === all.length
      ? `The service no longer shows ${plural(held.length, 'record')}, of which the mirror has the last state.`
      : `This plan has ${count(held.length)} of the ${plural(all.length, 'record')} that the service no longer shows; the mirror has their last state.`;
  const body = markup`${crumbs}<p>${what}</p>
${planned.html}${planned.below}${applyHtml(planned, command.args, asked)}`;
  return { content: { title, body }, command };
}

/**
 * The command, to be copied; and where it is allowed, the form that makes the plan here. Nothing for a plan that does nothing,
 * unless invites are what it lacks: then the command that sends them.
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

/** More are folded: what the page is about comes first. */
const IDS_SHOWN = 10;

/** The command, to be copied. */
export function commandPart(args: readonly string[]): Html {
  const command = markup`<pre class="body command" tabindex="0">${commandHtml(args)}</pre>`;
  const ids = args.filter((arg) => arg.startsWith('--id=')).length;
  return ids <= IDS_SHOWN
    ? command
    : markup`<details class="rest"><summary>The command, with ${plural(ids, 'id')}</summary>${command}</details>`;
}

/** As a person would type it; no line ends within an option. */
function commandHtml(args: readonly string[]): Html {
  const words = args.map((arg) => {
    const [, option, value] = /^(--[\w-]+)=([^-].*)$/s.exec(arg) ?? [];
    const word =
      option === undefined || value === undefined ? shellWord(arg) : `${option} ${shellWord(value)}`;
    return markup` <span class="word">${word}</span>`;
  });
  return markup`tidemark restore${words}`;
}

/** What the command of the page restores. */
interface Wanted {
  /** Names the desired state. */
  readonly reference: string;
  readonly filter: StateFilter;
  /** How many records it may remove. */
  readonly removals: number;
}

type PlanFacts = Pick<SelectionFacts, 'mirror' | 'config' | 'asked' | 'now'>;

interface Planned {
  readonly html: Html;
  /** True where it would send and record nothing. */
  readonly isIdle: boolean;
  /** True where `--invite-missing` would send more. */
  readonly isInviting: boolean;
  /** False where it removes nothing: then its command allows no removal. */
  readonly isRemoving: boolean;
  /** Says what was lost below what it creates, and is not in it, with the button that adds that. */
  readonly below: HtmlPart;
}

/** The steps of the plan from the newest run of the mirror: those that are sent, and those that are not, with the reason. */
async function plannedHtml(facts: PlanFacts, source: string, wanted: Wanted): Promise<Planned> {
  const definitions = definitionsFor(facts.config, source);
  try {
    const plan = maskedPlan(await mirrorPlan(facts, source, wanted), definitions);
    const sent = [...sentArticles(plan, facts.mirror, source, definitions).values()];
    const more = sent.length - SENT_SHOWN;
    const rest = more > 0 ? markup`<p class="faint">and ${plural(more, 'more step')}</p>` : NOTHING;
    const unsent = unsentItems(plan, definitions);
    const left = plan.left.map(
      ({ kind, count, reason }) =>
        markup`<li><span class="tag">left</span> ${plural(count, definitions(kind).title.one, definitions(kind).title.many)}: ${reason}</li>`,
    );
    const again = adoptionLines(plan, { definitions, isWhole: true }).map(
      (line) => markup`<li><span class="tag">new id</span> ${line}</li>`,
    );
    const why =
      continuedIds(plan) === 0
        ? NOTHING
        : markup` Drift lists these as added and removed until the restore records that they are the same.`;
    const html = markup`<section><h2>What it would do</h2>
<p>From the newest run of the mirror: ${planSummary(plan)}.${why}</p>${sent.slice(0, SENT_SHOWN)}${rest}<ul class="steps">${unsent}${left}${again}</ul>${profileHtml(facts.config, source, plan)}${secretsHtml(plan, definitions, presentIn(facts.config, source))}${lackingHtml(plan, definitions)}${warningsHtml(plan, facts.asked)}</section>`;
    const isIdle = !plan.steps.some(isExecutable) && continuedIds(plan) === 0;
    const isInviting = plan.steps.some(({ obstacle }) => obstacle === 'not_creatable');
    const form = withChildrenHtml(facts.asked.query);
    const below = unselectedHtml(plan, definitions, form);
    return { html, isIdle, isInviting, isRemoving: plan.summary.remove > 0, below };
  } catch (error) {
    if (!(error instanceof TidemarkError)) throw error;
    const html = markup`<p class="warning" role="note">! It is not known here what can be sent: ${maskedMessage(error.message, facts.config.knownSecrets)}</p>`;
    return { html, isIdle: false, isInviting: false, isRemoving: true, below: NOTHING };
  }
}

/** Those that send nothing: the records of one kind with the same reason together. */
function unsentItems(plan: Plan, definitions: DefinitionOf): Html[] {
  const groups = Map.groupBy(
    plan.steps.filter((step) => !isExecutable(step)),
    (step) => JSON.stringify([step.action, step.kind, step.reason, acceptedLines(step)]),
  );
  return [...groups.values()].flatMap((steps) => {
    const [step] = steps;
    if (step === undefined) return [];
    const { one, many } = definitions(step.kind).title;
    const why = [...(step.reason === null ? [] : [step.reason]), ...acceptedLines(step)].join('; ');
    const title = steps.length === 1 ? one : plural(steps.length, one, many);
    const names = steps
      .slice(0, NAMES_SHOWN)
      .map(({ name }) => nameText(name))
      .join(', ');
    const more = steps.length > NAMES_SHOWN ? ` and ${steps.length - NAMES_SHOWN} more` : '';
    return markup`<li><span class="tag high">${step.action}</span> ${title} <strong>${nameHtml(names)}</strong>${more}${why === '' ? '' : `: ${why}`}</li>`;
  });
}

function profileHtml(config: Config, source: string, plan: Plan): Html[] {
  const configured = config.sources.find(({ name }) => name === source);
  const lines = configured === undefined ? [] : otherProfile(configured, plan);
  return lines.map((line) => markup`<p class="hint">${withCommands(line)}</p>`);
}

const SENT_SHOWN = 200;
const NAMES_SHOWN = 20;
/** Up to this number of steps, what a created record is to hold is seen at once. */
const UNFOLDED = 10;

/** What each step sends, by its number, as the report of the plan has it. @param plan masked */
export function sentArticles(
  plan: Plan,
  mirror: Mirror,
  source: string,
  definitions: DefinitionOf,
): ReadonlyMap<number | undefined, Html> {
  const items = sentItems(plan, { definitions, parentName: parentNames(mirror, source, definitions) });
  return new Map(
    items.map((item) => {
      const isFolded = item.change === 'added' && items.length > UNFOLDED;
      return [item.number, trusted(recordHtml(isFolded ? { ...item, isWholeRecord: true } : item))];
    }),
  );
}

/** What will lack something that no request can give it. */
export function lackingHtml(plan: Plan, definitions: DefinitionOf): Html[] {
  return lackingTexts(plan, { definitions }).map(
    ({ text, reason }) => markup`<p class="warning" role="note">! ${text}: ${withCommands(reason)}</p>`,
  );
}

/** What to add to the configuration, where secrets are missing. */
export function secretsHtml(plan: Plan, definitions: DefinitionOf, present: Present): HtmlPart {
  const lines = secretLines(plan.steps, { definitions, present });
  if (lines.length === 0) return NOTHING;
  const shown = lines.map(
    (line) => markup`${line}
`,
  );
  return markup`<p>T${SECRETS_INTRO.slice(1)}:</p><pre class="body" tabindex="0">${shown}</pre>`;
}

/** The warnings, and where the plan sets back drift that was accepted or is ignored, the box that leaves it. */
function warningsHtml(plan: Plan, { query }: Asked): HtmlPart {
  const isKept = query.has(KEEP_ACCEPTED);
  const warnings = (plan.warnings ?? []).map(
    (line) => markup`<p class="warning" role="note">! ${withCommands(line)}</p>`,
  );
  if (!isKept && plan.steps.every(({ accepted, ignored }) => (accepted ?? ignored) === undefined))
    return markup`${warnings}`;
  const hidden = [...query]
    .filter(([name]) => name !== KEEP_ACCEPTED)
    .map(([name, value]) => markup`<input type="hidden" name="${name}" value="${value}">`);
  return markup`${warnings}<form class="search" method="get" action="/restore">${hidden}${keepHtml(isKept)}<button>Update the plan</button></form>`;
}

/** The plan of the command below, with the newest run in place of what the service has now. */
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
    // Both sides are as the mirror holds them.
    redaction: null,
    now,
  });
  return plan;
}

/**
 * The newest run as the service showed it: the mirror keeps records that were missing from it while their removal is held, and with
 * them what is below.
 */
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

/** The arguments as the box and the button of the page have it. */
function withBoxes(args: readonly string[], { query }: Asked): string[] {
  return [
    ...args,
    ...(query.has(WITH_CHILDREN) ? ['--with-children'] : []),
    ...(query.has(KEEP_ACCEPTED) ? ['--keep-accepted'] : []),
  ];
}

/** Name of the mark, in a query, that a restore is also about what is below the selected records. */
export const WITH_CHILDREN = 'with_children';

/** The page again, with what is below what it plans to create. */
function withChildrenHtml(query: URLSearchParams): Html {
  const hidden = [...query].map(
    ([name, value]) => markup`<input type="hidden" name="${name}" value="${value}">`,
  );
  return markup`<form class="search" method="get" action="/restore">${hidden}<input type="hidden" name="${WITH_CHILDREN}" value="on"><button>${PLAN_THESE}</button></form>`;
}

export const PLAN_THESE = 'Plan these too';

/** What was lost below what the plan creates, or names it by its old id, and is not in it. @param form plans what was lost too */
export function unselectedHtml(
  { unselected = [], referring = [], summary }: Plan,
  definitions: DefinitionOf,
  form: HtmlPart,
): HtmlPart {
  const others =
    referring.length === 0
      ? NOTHING
      : markup`<div class="warning" role="note">! ${capital(REFERRING)}: ${referringText(referring, { definitions })}. Plan that when this is restored.</div>`;
  if (unselected.length === 0) return others;
  const isOne = unselected.length === 1 && unselected[0]?.count === 1;
  const [it, them] = [isOne ? 'it is' : 'they are', summary.create === 1 ? 'it' : 'them'];
  const text = `${unselectedText(unselected, definitions)} below ${them} ${isOne ? 'was' : 'were'} lost with ${them}: ${it} not in this plan.`;
  return [markup`<div class="warning" role="note">! ${text}${form}</div>`, others];
}

function restoreArgs(
  source: string,
  changes: readonly RecordChange[],
  { isRemoving }: Pick<Planned, 'isRemoving'>,
): string[] {
  const added = changes.filter(({ change }) => change === 'added').length;
  const kinds = [...new Set(changes.map(({ kind }) => kind))];
  return [
    'baseline',
    `--source=${source}`,
    ...kinds.map((kind) => `--kind=${kind}`),
    ...changes.map(({ id }) => `--id=${id}`),
    ...(added === 0 || !isRemoving ? [] : ['--prune', `--max-removals=${added}`]),
  ];
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
  readonly asked: Asked;
  readonly now: number;
}

/** @throws TidemarkError `reference_unknown` for an unknown state */
export async function versionPlanPage({
  mirror,
  config,
  row,
  reference,
  asked,
  now,
}: VersionPlanFacts): Promise<RestoreContent> {
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
<p class="faint">${definition.title.one} ${nameHtml(nameText(own.name))}, back to run ${wanted.run}, ${timeHtml(wanted.at)}.</p>`;
  const page = (...content: readonly HtmlPart[]): RestoreContent => ({
    content: { title, body: markup`${crumbs}${content}` },
    command: null,
  });
  const { never } = definition.restore;
  if (never !== null) return page(emptyHtml('This kind is never written:', `${never}.`));
  if (wanted.revision === undefined)
    return page(emptyHtml('No version then.', `The record was first seen after run ${wanted.run}.`));
  const isRemoval = wanted.body === undefined;
  const place = placeFilter(mirror, row);
  const plan = async (intro: HtmlPart, ...content: readonly HtmlPart[]): Promise<RestoreContent> => {
    const planned = await plannedHtml({ mirror, config, asked, now }, row.source, {
      reference: `run:${wanted.run}`,
      filter: { kinds: [row.kind], ids: [row.id], ...place },
      removals: isRemoval ? 1 : 0,
    });
    const isPruning = isRemoval && planned.isRemoving;
    const args = withBoxes(versionArgs(row, place, own.id, wanted.run, isPruning), asked);
    const apply = applyHtml(planned, args, asked);
    return {
      ...page(intro, planned.html, planned.below, apply, content),
      command: { source: row.source, args },
    };
  };
  if (wanted.body === undefined)
    return current.body === undefined
      ? page(emptyHtml('Nothing to restore:', 'the record was removed then, and still is.'))
      : await plan(markup`<p>The record was removed then: this removes it from the service.</p>`);
  if (current.body === undefined) {
    return await plan(markup`<p>The record was removed.</p>`);
  }
  if (mirror.runs.heldSince(row) !== undefined) {
    return await plan(markup`<p>The service no longer shows the record.</p>`);
  }
  const all = compareBodies(definition, current.body, wanted.body, 'default');
  const managed = compareBodies(definition, current.body, wanted.body, 'managed');
  const sets = new Set(managed.map(fieldPlace));
  const others = maskedFields(
    all.filter((field) => !sets.has(fieldPlace(field))),
    definition,
  );
  if (all.length === 0)
    return page(emptyHtml('Nothing to restore:', `the record is now as it was in run ${wanted.run}.`));
  const rest =
    others.length === 0
      ? NOTHING
      : markup`<section><h2>Not sent</h2><p class="faint">Only the service sets these, or the profile does not say that requests may.</p>
${fieldListHtml(others, 0)}</section>`;
  if (managed.length === 0)
    return page(emptyHtml('No writable field differs.', 'See below what does.'), rest);
  return await plan(NOTHING, rest);
}

/** Distinguishes the record from others of its kind with the same id; empty if it has none. */
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
    ...organizations.map((organization) => `--organization=${organization}`),
    ...projects.map((project) => `--project=${project}`),
    `--id=${shownId}`,
    ...(isRemoval ? ['--prune', '--max-removals=1'] : []),
  ];
}
