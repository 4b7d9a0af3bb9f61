/** Resolves references to states of the mirror: finds the published run that a reference means. */
import { defined } from '../core/defined.ts';
import { TidemarkError } from '../core/errors.ts';
import { NEW_BASELINE_HINT } from '../core/hints.ts';
import { didYouMean } from '../core/suggest.ts';
import { localTime, plural } from '../core/wording.ts';
import { AuditLogContradicted } from '../mirror/audited-rows.ts';
import { damagedMirror } from '../mirror/database.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { MovedRunRow, RetentionStore } from '../mirror/retention-store.ts';
import type { RunFilter, RunRow } from '../mirror/run-rows.ts';
import type { RunStore } from '../mirror/run-store.ts';
import { pinningText, type SnapshotContradiction, type SnapshotStore } from '../mirror/snapshots.ts';
import { type ForgottenRuns, forgottenAfter, forgottenInto, forgottenText, isPublished } from './runs.ts';
import { requireNewest } from './intact.ts';
import { BASELINE, OF_MIRROR, type Reference, STORED_STATE_FORMS, parseReference } from './reference.ts';

/** A state of the mirror: its content right after that run was published. */
export interface ResolvedState {
  /** As the user wrote it. */
  readonly ref: string;
  readonly run: number;
  /** When the run ended, ISO 8601 in UTC. */
  readonly at: string;
  /** True if no later run was published: the current rows are this state. */
  readonly isLatest: boolean;
  /** What was assumed about the reference; one line for stderr. */
  readonly note?: string;
  /** Given for a time next to dropped runs: the state may have been another one then. */
  readonly forgotten?: ForgottenRuns;
}

interface ResolveOptions {
  /** The source whose runs the reference is about; by default all sources. */
  readonly source?: string;
  /** True for commands that show an altered mirror as it is, and report what was altered: then its newest run is accepted. */
  readonly isEvidence?: boolean;
}

const BASELINE_UNUSABLE = 'the baseline cannot be used: ';

interface ResolvingMirror {
  readonly path: string;
  readonly runs: Pick<RunStore, 'list' | 'get' | 'unlikeSealed' | 'hidden' | 'brokenChain'>;
  readonly snapshots: Pick<SnapshotStore, 'list' | 'baseline' | 'contradiction'>;
  readonly retention: Pick<
    RetentionStore,
    'forgottenRun' | 'movedRun' | 'forgottenBefore' | 'sourcesForgottenAt'
  >;
}

/**
 * The run that a reference to a state of the mirror means. A time means the last run that was published at or before it.
 * @throws TidemarkError `reference_unknown` if it has no known form, or if the mirror has no state of the named run,
 * snapshot, baseline or time; `usage` for `live` and `file:`, which are not states of the mirror; `not_found` if nothing was
 * published yet; `mirror_corrupt` for a snapshot, or a baseline, that contradicts the audit log, and if it is uncertain
 * which run is the newest
 */
export function resolveState(
  mirror: ResolvingMirror,
  text: string,
  { now, ...choice }: ResolveOptions & { readonly now: number },
): ResolvedState {
  const snapshots = (): string[] => mirror.snapshots.list().map(({ name }) => name);
  return resolvedStateOf(mirror, parseReference(text, now, { ...OF_MIRROR, snapshots }), choice);
}

/** The same for a parsed reference. */
export function resolvedStateOf(
  mirror: ResolvingMirror,
  reference: Reference,
  choice: ResolveOptions = {},
): ResolvedState {
  const { text } = reference;
  switch (reference.form) {
    case 'live':
    case 'file':
      throw new TidemarkError('usage', `${text} does not name a state of the mirror`, {
        hint: `name a state of the mirror: ${STORED_STATE_FORMS}; \`tidemark diff\` compares live and file:PATH`,
      });
    case 'run': {
      const moved = mirror.retention.movedRun(reference.run);
      if (moved?.wasPublished === true) return stateBesideMoved(mirror, text, moved, choice);
      return resolvedStateAt(mirror, text, publishedRun(mirror, text, reference.run), choice, true);
    }
    case 'earlier_run': {
      requireNewestOf(mirror, choice);
      const runs = published(mirror, choice, { limit: reference.back + 1 });
      const run = runs[reference.back];
      if (run !== undefined) return resolvedStateAt(mirror, text, run, choice);
      const oldest = oldestPublished(mirror, choice);
      throw new TidemarkError(
        'reference_unknown',
        `${text} goes back further than the mirror: it keeps ${plural(runs.length, 'published run')}`,
        { hint: `the oldest one is run:${oldest.run}; \`tidemark runs\` lists them` },
      );
    }
    case 'snapshot': {
      const { name } = reference;
      const pinned = mirror.snapshots.list();
      requireAsPinned(mirror.snapshots.contradiction(name));
      const found = pinned.find((snapshot) => snapshot.name === name);
      if (found === undefined) {
        const names = pinned.map((snapshot) => snapshot.name);
        throw new TidemarkError(
          'reference_unknown',
          `there is no snapshot ${JSON.stringify(name)}${didYouMean(name, names, (near) => `snapshot:${near}`)}`,
          { hint: '`tidemark snapshots` lists them; `tidemark snapshots pin NAME` makes one' },
        );
      }
      return resolvedStateAt(mirror, text, pinnedRun(mirror, text, found.run), choice);
    }
    case 'baseline': {
      const baseline = mirror.snapshots.baseline();
      if (baseline === undefined) {
        throw new TidemarkError('reference_unknown', 'no baseline is set', {
          hint: 'set it with `tidemark snapshots baseline NAME` on a pinned snapshot, or name another state',
        });
      }
      requireAsPinned(baseline.contradiction ?? null, BASELINE_UNUSABLE);
      return resolvedStateAt(mirror, text, pinnedRun(mirror, text, baseline.run), choice);
    }
    case 'latest': {
      requireNewestOf(mirror, choice);
      const [latest] = published(mirror, choice, { limit: 1 });
      if (latest === undefined) throw nothingPublished(mirror, choice);
      return { ...resolvedStateOfRun(text, latest), isLatest: true };
    }
    case 'time': {
      const { at, note } = reference;
      const [run] = published(mirror, choice, { endedBy: at, limit: 1 });
      const [newest] = published(mirror, choice, { limit: 1 });
      if (run?.run === newest?.run) requireNewestOf(mirror, choice);
      if (run === undefined) {
        const first = oldestPublished(mirror, choice);
        const gone = forgottenInto(mirror, first.run);
        const ended = localTime(first.finishedAt ?? first.startedAt);
        throw new TidemarkError(
          'reference_unknown',
          gone === undefined
            ? `the mirror holds nothing as of ${localTime(at)}: its first run ended at ${ended}`
            : `the mirror holds nothing as of ${localTime(at)}: the first run that it keeps ended at ` +
                `${ended}; ${forgottenText(gone)}`,
          { hint: `name a later time, or run:${first.run} for the oldest state` },
        );
      }
      const resolvedState = resolvedStateAt(mirror, text, run, choice);
      const ahead =
        reference.isAhead && reference.firstAt > resolvedState.at
          ? `${text} is in the future: the latest state, run ${run.run} of ${localTime(resolvedState.at)}, is taken`
          : undefined;
      const forgotten = forgottenAfter(mirror, run, { at, source: choice.source });
      const gap =
        forgotten === undefined
          ? undefined
          : `shown is run ${run.run}, the last one kept before then: ${forgottenText(forgotten)}`;
      const notes = [note, ahead, resolvedState.note, gap].filter((one) => one !== undefined).join('; ');
      return { ...resolvedState, ...defined({ note: notes === '' ? undefined : notes, forgotten }) };
    }
  }
}

/** A run that is the newest only because the row of a later one was altered would hide what changed since. */
function requireNewestOf(mirror: ResolvingMirror, { source, isEvidence }: ResolveOptions): void {
  if (isEvidence !== true) requireNewest(mirror, source ?? null);
}

/** A state that another program may have chosen is not used. */
function requireAsPinned(contradiction: SnapshotContradiction | null, what = ''): void {
  if (contradiction !== null) throw contradictedSnapshot(contradiction, what);
}

/** An error for each snapshot that cannot be used, because it contradicts the audit log or is gone; with what to do. */
export function contradictedSnapshots({ snapshots }: Pick<Mirror, 'snapshots'>): AuditLogContradicted[] {
  const baseline = snapshots.baseline();
  return snapshots
    .contradictions()
    .map((each) =>
      baseline?.contradiction?.name === each.name
        ? contradictedSnapshot(baseline.contradiction, BASELINE_UNUSABLE)
        : contradictedSnapshot(each),
    );
}

/** The hint says how to name the state that the log has. @param what precedes the message */
function contradictedSnapshot(contradiction: SnapshotContradiction, what = ''): AuditLogContradicted {
  const { line, recordedRun } = contradiction;
  const pinning = pinningText(contradiction);
  const ways = [
    ...(recordedRun === null
      ? []
      : [
          `\`run:${recordedRun}\` names the state that the audit log has (\`tidemark drift --from run:${recordedRun}\`)`,
        ]),
    ...(pinning === null ? [] : [pinning]),
  ];
  return new AuditLogContradicted(`${what}${line}`, ways.length === 0 ? null : ways.join('; '));
}

/** @param isRunNamed true for a reference to the run itself: a note says so if it is of another source than the chosen one */
function resolvedStateAt(
  mirror: ResolvingMirror,
  ref: string,
  run: RunRow,
  choice: ResolveOptions,
  isRunNamed = false,
): ResolvedState {
  const gone = forgottenSources(mirror, run.run, choice);
  let ofOther: string | undefined;
  if (choice.source !== undefined && choice.source !== run.source) {
    const [own] = published(mirror, choice, { upTo: run.run, limit: 1 });
    if (own === undefined) {
      const first = oldestPublished(mirror, choice);
      throw new TidemarkError(
        'reference_unknown',
        `${isRunNamed ? `run ${run.run} is of source ${run.source}, and ` : ''}the mirror held nothing of source ${choice.source} as of run ${run.run}: its first run is ${first.run}`,
        { hint: laterHint(ref, choice.source, first.run) },
      );
    }
    if (isRunNamed)
      ofOther = `run ${run.run} is of source ${run.source}: the state of ${choice.source} then, of its run ${own.run}, is taken`;
  }
  const dropped = `retention dropped what ${gone.join(', ')} held as of run ${run.run}: only what was there before is shown`;
  return {
    ...defined({ note: gone.length > 0 ? dropped : ofOther }),
    ...resolvedStateOfRun(ref, run),
    // Read on demand: showing one old record does not need it.
    get isLatest() {
      // A later run of another source does not change the rows of this source.
      const [latest] = published(mirror, choice, { limit: 1 });
      const isNewest = latest === undefined || latest.run <= run.run;
      // If the row of a run is hidden, the current rows may be those of that run.
      return isNewest && mirror.runs.hidden(choice.source ?? null).length === 0;
    },
  };
}

/**
 * The sources whose state as of that run retention dropped; none if a source was chosen.
 * @throws TidemarkError `reference_unknown` if the chosen source is one of them
 */
function forgottenSources(mirror: ResolvingMirror, run: number, { source }: ResolveOptions): string[] {
  const gone = mirror.retention.sourcesForgottenAt(run);
  if (source === undefined) return gone;
  if (gone.includes(source)) throw stateDropped(source, run);
  return [];
}

function stateDropped(source: string, run: number): TidemarkError {
  return new TidemarkError(
    'reference_unknown',
    `what source ${source} held as of run ${run} was dropped by retention`,
    { hint: `name a run of its own: \`tidemark runs --source ${source}\` lists those that are kept` },
  );
}

/** For a run that is now in the mirror of another source: the state of the sources of this mirror at that time. */
function stateBesideMoved(
  mirror: ResolvingMirror,
  ref: string,
  moved: MovedRunRow,
  choice: ResolveOptions,
): ResolvedState {
  const [gone] = forgottenSources(mirror, moved.run, choice);
  if (gone !== undefined) throw stateDropped(gone, moved.run);
  const [own] = published(mirror, choice, { upTo: moved.run, limit: 1 });
  if (own === undefined) {
    const first = oldestPublished(mirror, choice);
    const of = choice.source === undefined ? '' : ` of source ${choice.source}`;
    throw new TidemarkError(
      'reference_unknown',
      `${movedText(moved)}, and the mirror held nothing${of} as of run ${moved.run}: its first run is ${first.run}`,
      { hint: `run:${first.run} is its oldest state` },
    );
  }
  const of = choice.source ?? 'this mirror';
  const note = `${movedText(moved)}: the state of ${of} then, of its run ${own.run}, is taken`;
  return { ...resolvedStateAt(mirror, ref, own, choice), note };
}

function movedText({ run, at }: MovedRunRow): string {
  return `run ${run} was of another source (\`mirror move\` separated them at ${localTime(at)})`;
}

/** What to name instead of a state that is older than the source. @param run the oldest run of the source */
function laterHint(ref: string, source: string, run: number): string {
  return ref === BASELINE.text
    ? `\`tidemark drift --source ${source} --from run:${run}\` compares with its oldest state; ${NEW_BASELINE_HINT}`
    : `run:${run} is its oldest state; or name another source with --source`;
}

function resolvedStateOfRun(ref: string, run: RunRow): Omit<ResolvedState, 'isLatest'> {
  return { ref, run: run.run, at: run.finishedAt ?? run.startedAt };
}

/** Published runs, newest first. */
function published(
  mirror: ResolvingMirror,
  { source }: ResolveOptions,
  filter: Pick<RunFilter, 'endedBy' | 'upTo' | 'limit'> = {},
): RunRow[] {
  return mirror.runs.list({ ...filter, ...(source === undefined ? {} : { source }), isPublished: true });
}

/** @throws TidemarkError `not_found` if nothing was published */
function oldestPublished(mirror: ResolvingMirror, choice: ResolveOptions): RunRow {
  const oldest = published(mirror, choice).at(-1);
  if (oldest === undefined) throw nothingPublished(mirror, choice);
  return oldest;
}

/** @throws TidemarkError `mirror_corrupt` if the row of the pinned run is gone, or says that it was not published */
function pinnedRun(mirror: ResolvingMirror, text: string, number: number): RunRow {
  const run = mirror.runs.get(number);
  if (run === undefined || !isPublished(run)) {
    const [altered] = mirror.runs.unlikeSealed({ from: number, upTo: number });
    if (altered !== undefined) throw damagedMirror(mirror.path, `${altered.line}, and ${text} is that run`);
  }
  return publishedRun(mirror, text, number);
}

function publishedRun(mirror: ResolvingMirror, text: string, number: number): RunRow {
  const run = mirror.runs.get(number);
  if (run !== undefined && isPublished(run)) return run;
  const [latest] = published(mirror, {}, { limit: 1 });
  if (latest === undefined) throw nothingPublished(mirror, {});
  if (run === undefined) throw missingRun(mirror, number, ` (${text})`);
  throw new TidemarkError('reference_unknown', `run ${number} was never published: it holds no state`, {
    hint: `\`tidemark runs\` lists them; the latest one is run:${latest.run}`,
  });
}

/**
 * The error that says why the mirror has no such run (retention dropped it, another program deleted it, or it never existed)
 * and which runs it has; `mirror_corrupt` if another program deleted or altered its row.
 * @param named how the user named it, after its number
 */
export function missingRun(
  mirror: Pick<ResolvingMirror, 'runs' | 'retention'>,
  number: number,
  named = '',
): TidemarkError {
  const runs = mirror.runs.list();
  const [latest, oldest] = [runs[0], runs.at(-1)];
  const kept =
    latest === undefined || oldest === undefined
      ? 'the mirror has no run: `tidemark sync` makes one'
      : `\`tidemark runs\` lists what is kept: the oldest one is run:${oldest.run}, the latest one is run:${latest.run}`;
  const moved = mirror.retention.movedRun(number);
  if (moved !== undefined) return new TidemarkError('reference_unknown', movedText(moved), { hint: kept });
  const forgotten = mirror.retention.forgottenRun(number);
  if (forgotten !== undefined) {
    const { at, into } = forgotten;
    const where = into === null ? 'it was never published' : `what it changed is part of run:${into} now`;
    return new TidemarkError('reference_unknown', `run ${number} was dropped by retention on ${at}`, {
      hint: `${where}; ${kept}`,
    });
  }
  const [unlike] = mirror.runs.unlikeSealed({ from: number, upTo: number });
  // A run without a seal may have left only what it read.
  const hidden = unlike === undefined && number > (latest?.run ?? 0) ? mirror.runs.hidden(null) : [];
  const altered =
    unlike?.isGone === true
      ? `run ${number} was deleted by another program: its hash is left`
      : (unlike?.line ?? hidden[0]);
  if (altered !== undefined)
    return new TidemarkError('mirror_corrupt', altered, {
      hint: `\`tidemark verify\` names everything that was changed; ${kept}`,
    });
  // If its seal was deleted as well, there is a gap in the numbers; so there is after a join of mirrors (`mirror move`).
  const isGap = latest !== undefined && number > 0 && number < latest.run;
  return new TidemarkError('reference_unknown', `there is no run ${number}${named}`, {
    hint: isGap
      ? `retention did not drop it: \`tidemark verify\` names it if another program deleted it; after a join of mirrors, numbers have gaps; ${kept}`
      : kept,
  });
}

/** The error for a mirror, or a source, without a state; the hint names the sync that makes one. */
export function nothingPublished(
  mirror: Pick<ResolvingMirror, 'runs'>,
  { source }: ResolveOptions,
): TidemarkError {
  const hasOthers = source !== undefined && mirror.runs.list({ isPublished: true, limit: 1 }).length > 0;
  return new TidemarkError(
    'not_found',
    `the mirror holds no published run${source === undefined ? '' : ` of source ${source}`} yet`,
    { hint: `run \`tidemark sync${hasOthers ? ` --source ${source}` : ''}\` first` },
  );
}
