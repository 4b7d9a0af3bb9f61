/**
 * What a logged-in user can do: start jobs, accept drift, pin runs, restore. Each action is a POST form. It uses the job queue, or the
 * functions that the commands use, and is logged with its user.
 */
import { Hono, type Context } from 'hono';
import type { Actor } from '../../core/actor.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { parseEnd } from '../../core/parse-time.ts';
import { plural } from '../../core/wording.ts';
import { placeOf } from '../../diff/compare.ts';
import { acceptedEarlier } from '../../diff/drift.ts';
import type { JobName } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { measuredOf } from '../../report/drift-document.ts';
import type { DriftNow } from '../health/drift-now.ts';
import { asRefusal, localPath, type Refusal, requestText } from '../http/request.ts';
import { type PageRestores, type RestoreCommand, WrongConfirmation } from '../http/restores.ts';
import { freeSources } from '../problems.ts';
import type { DaemonView } from '../view.ts';
import { hiddenInputs } from './components.ts';
import { type Html, type HtmlPart, markup } from './html.ts';
import { withSource } from './layout.ts';

interface ActionParts {
  readonly view: DaemonView;
  readonly drift: DriftNow;
  readonly clock: Clock;
  readonly log: Logger;
  /** Who acts. @throws Refusal for a user who may not, and for a form of another site */
  readonly actorOf: (context: Context) => Actor;
  readonly refused: (context: Context, refusal: Refusal) => Response;
  /** Shows the plan again, and why it was not confirmed. */
  readonly confirmAgain: (context: Context, wrong: WrongConfirmation) => Response;
  /** Null where restores are not allowed in the dashboard. */
  readonly restores: () => PageRestores | null;
  /** The source that the pages are about; null for all. */
  readonly source: () => string | null;
  /** The command that `/restore` shows for a query. */
  readonly commandOf: (query: URLSearchParams) => Promise<RestoreCommand | null>;
}

/** The jobs that a button starts. */
const JOBS = ['sync', 'drift', 'verify', 'drill', 'backup', 'git'] as const satisfies readonly JobName[];
const MOST_REASON = 500;

interface Action {
  readonly form: URLSearchParams;
  readonly actor: Actor;
}

/** What an action did, for the log. */
interface Done {
  /** The page that follows; left out, the one that the form names. */
  readonly to?: string;
  /** Why a part of it was refused: shown in place of the next page, although the rest was done. */
  readonly refusal?: TidemarkError;
  readonly [fact: string]: unknown;
}
type Act = (parts: ActionParts, action: Action) => Done | Promise<Done>;

const ACTIONS = {
  job: startJob,
  accept: acceptFindings,
  unaccept: withdrawAcceptance,
  pin: snapshotAction('snapshots pin', (snapshots, form) => snapshots.pin(textIn(form, 'name'), runIn(form))),
  unpin: snapshotAction('snapshots unpin', (snapshots, form) => snapshots.unpin(textIn(form, 'name'))),
  baseline: snapshotAction('snapshots baseline', (snapshots, form) =>
    snapshots.setBaseline(textIn(form, 'name')),
  ),
  plan: planRestore,
  apply: applyRestore,
} as const satisfies Readonly<Record<string, Act>>;

export function createActions(parts: ActionParts): Hono {
  const actions = new Hono();
  for (const [name, act] of Object.entries<Act>(ACTIONS)) {
    actions.post(`/actions/${name}`, async (context) => {
      try {
        const actor = parts.actorOf(context);
        const form = new URLSearchParams(await requestText(context));
        const done = await act(parts, { form, actor });
        const { refusal, ...facts } = done;
        parts.log.info({ action: name, ...actor, ...facts }, 'an action was taken in the dashboard');
        if (refusal !== undefined) throw refusal;
        const to = localPath(done.to ?? form.get('to') ?? undefined);
        return context.redirect(withSource(to, parts.source()), 303);
      } catch (error) {
        if (error instanceof WrongConfirmation) return parts.confirmAgain(context, error);
        const refusal = asRefusal(error, parts.view.config().knownSecrets);
        if (refusal.httpStatus === 500) throw error;
        return parts.refused(context, refusal);
      }
    });
  }
  return actions;
}

function snapshotAction(
  command: string,
  work: (snapshots: Mirror['snapshots'], form: URLSearchParams) => object,
): Act {
  return async ({ view }, { form, actor }) => ({
    ...(await view.change(command, actor, ({ snapshots }) => work(snapshots, form))),
  });
}

function startJob({ view, clock }: ActionParts, { form, actor }: Action): Done {
  const job = JOBS.find((each) => each === form.get('job'));
  if (job === undefined) throw new TidemarkError('usage', `job must be one of ${JOBS.join(', ')}`);
  const config = view.config();
  const { free, refused } = job === 'sync' ? freeSources(config, null, clock) : { free: null, refused: [] };
  const requests = free?.length === 0 ? [] : view.request(job, free, { actor });
  const done = { job, requests: requests.map(({ request }) => request) };
  const [first] = refused;
  if (first === undefined || free === null) return done;
  const lines = refused.map(({ error }) => error.message);
  const others = free.length === 0 ? [] : [`the sync of ${free.join(', ')} was requested`];
  const { code, hint } = first.error;
  const message = [...lines, ...others].join('; ');
  const refusal = new TidemarkError(code, message, hint === undefined ? {} : { hint });
  if (free.length === 0) throw refusal;
  return { ...done, refusal };
}

async function planRestore(parts: ActionParts, { form, actor }: Action): Promise<Done> {
  const restores = allowedRestores(parts);
  const query = textIn(form, 'query');
  const command = await parts.commandOf(new URLSearchParams(query));
  if (command === null) throw new TidemarkError('usage', 'there is nothing to restore');
  const { id } = restores.plan({ ...command, query }, actor);
  return { ...command, to: `/restores/plans/${id}` };
}

function applyRestore(parts: ActionParts, { form, actor }: Action): Done {
  const { id, args, source } = allowedRestores(parts).apply(
    textIn(form, 'plan'),
    textIn(form, 'confirm'),
    actor,
  );
  return { source, args, to: `/restores/plans/${id}` };
}

function allowedRestores({ restores }: ActionParts): PageRestores {
  const allowed = restores();
  if (allowed !== null) return allowed;
  throw new TidemarkError('forbidden', 'restores are not allowed in the dashboard', {
    hint: 'run the command that the page shows, or set http.allowRestore',
  });
}

async function acceptFindings({ view, drift, clock }: ActionParts, { form, actor }: Action): Promise<Done> {
  const source = textIn(form, 'source');
  const now = clock.now();
  const reason = textIn(form, 'reason').slice(0, MOST_REASON);
  const until = untilIn(form, now);
  const found = await drift.of(view.mirror(), view.config(), source, now);
  const wanted = new Set(form.getAll('fingerprint'));
  const findings = (found?.open ?? []).filter(({ fingerprint }) => wanted.has(fingerprint));
  if (findings.length === 0) {
    throw new TidemarkError('not_found', 'this finding is not open any more', {
      hint: 'the drift page shows what is',
    });
  }
  await view.change('drift accept', actor, (mirror) => {
    const baseline = mirror.snapshots.baseline();
    for (const finding of findings) {
      const { fingerprint, kind, scope, id } = finding;
      const accepted = { source, fingerprint, kind, scope, id, path: placeOf(finding), reason };
      mirror.acceptances.add(
        { ...accepted, acceptedAt: isoTime(now), ...(until === undefined ? {} : { until }) },
        found === null ? undefined : acceptedEarlier(found, finding),
        found === null ? undefined : measuredOf(found, finding, baseline),
      );
    }
  });
  const page = new URL(localPath(form.get('to') ?? undefined), 'http://here.invalid');
  if (page.pathname === '/drift') page.searchParams.set('accepted', String(findings.length));
  const to = `${page.pathname}${page.search}`;
  return { source, fingerprints: findings.map(({ fingerprint }) => fingerprint), to };
}

async function withdrawAcceptance({ view }: ActionParts, { form, actor }: Action): Promise<Done> {
  const [source, fingerprint] = [textIn(form, 'source'), textIn(form, 'fingerprint')];
  const withdrawn = await view.change('drift unaccept', actor, (mirror) =>
    mirror.acceptances.withdraw(source, fingerprint),
  );
  if (withdrawn === undefined)
    throw new TidemarkError('not_found', 'this acceptance was withdrawn already', {
      hint: 'the drift page shows what is accepted',
    });
  return { source, fingerprint };
}

function textIn(form: URLSearchParams, name: string): string {
  const text = form.get(name)?.trim() ?? '';
  if (text !== '') return text;
  throw new TidemarkError('usage', `${name} is missing`, { hint: 'go back and fill in the form' });
}

function runIn(form: URLSearchParams): number {
  const text = textIn(form, 'run');
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new TidemarkError('usage', 'run is not a number', { hint: 'go back and fill in the form' });
}

/** ISO 8601; undefined for no end. */
function untilIn(form: URLSearchParams, now: number): string | undefined {
  const text = form.get('until')?.trim() ?? '';
  if (text === '') return undefined;
  const time = parseEnd(text);
  if (time !== undefined && time.epochMs > now) return isoTime(time.epochMs);
  throw new TidemarkError('usage', 'until is over already, or no date', { hint: 'write it like 2027-06-30' });
}

// Forms.

/** A form that posts hidden values, and what else is in it. */
export function actionForm(
  action: keyof typeof ACTIONS,
  hidden: readonly (readonly [string, string])[],
  ...content: readonly HtmlPart[]
): Html {
  return markup`<form class="action" method="post" action="/actions/${action}">${hiddenInputs(hidden)}${content}</form>`;
}

/** A button that starts a job. @param to the page that follows */
export function jobForm(job: (typeof JOBS)[number], to: string, label: string): Html {
  const hidden = [
    ['job', job],
    ['to', to],
  ] as const;
  return actionForm('job', hidden, markup`<button>${label}</button>`);
}

/** A folded form that accepts findings, with a reason and perhaps an end date. @param to the page that follows */
export function acceptForm(source: string, fingerprints: readonly string[], to: string): Html {
  const hidden = fingerprints.map((each) => ['fingerprint', each] as const);
  const form = actionForm(
    'accept',
    [['source', source], ['to', to], ...hidden],
    markup`<label class="grow">Reason<input name="reason" required maxlength="${MOST_REASON}"></label>
<label>Through the end of (UTC, optional)<input type="date" name="until"></label><button>Accept</button>`,
  );
  const what = fingerprints.length === 1 ? 'Accept…' : `Accept ${plural(fingerprints.length, 'finding')}…`;
  return markup`<details class="act"><summary>${what}</summary>${form}</details>`;
}
