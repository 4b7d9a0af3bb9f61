/** `tidemark snapshots`: lists, pins and unpins runs under names, and chooses the baseline among them. */
import { commandActor } from '../core/actor.ts';
import { systemClock } from '../core/clock.ts';
import type { Config } from '../config/config.ts';
import { mirrorConfigs } from '../config/mirrors.ts';
import { asTidemarkError, EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { NoMirror } from '../mirror/open.ts';
import { checkSnapshotName, type CheckedSnapshot, pinningText } from '../mirror/snapshots.ts';
import { byText, nameText } from '../report/value-text.ts';
import { collectionsNotIn, pinBaseline, sourcesNotIn, unreadNote } from '../state/pin-baseline.ts';
import { resolvedStateOf } from '../state/resolved-state.ts';
import { OF_MIRROR, parseReference, type Reference } from '../state/reference.ts';
import { type BaselineRow, reportBaselines } from './baselines.ts';
import { snapshotNames } from './state-opener.ts';
import { openConfiguredMirror, readConfig, readLoadedConfig } from '../wire.ts';
import { print, printNote, toRun, type CommandContext, terminalWidth, printJson } from './context.ts';
import { openExistingMirror, openForChange } from './when-free.ts';
import { renderTable } from '../report/table.ts';
import { alteredLogLines } from '../state/intact.ts';
import { printAltered } from './verification-note.ts';
import { localTime } from '../core/wording.ts';

/** Lists the snapshots. Exit code 1 if another program altered them. */
export async function snapshots(context: CommandContext): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  using mirror = openConfiguredMirror(config, 'read', 'snapshots', context.pid);
  const all = mirror.snapshots.checked();
  const text = (): string =>
    all.length === 0
      ? 'no snapshots: `tidemark snapshots pin NAME` pins the latest run, so that retention keeps it'
      : renderSnapshots(mirror, all, terminalWidth(context));
  return await answer(context, mirror, text, { isRead: true });
}

/** Pins a state under a name, by default the latest; with `--baseline` it becomes the baseline. */
export async function pinSnapshot(
  context: CommandContext,
  options: {
    readonly name: string;
    readonly reference?: string;
    readonly as?: string;
    readonly baseline?: boolean;
  },
): Promise<ExitCode> {
  const wanted = parseReference(options.reference ?? 'latest', systemClock.now(), {
    ...OF_MIRROR,
    snapshots: snapshotNames(context),
  });
  if (wanted.form === 'time' && wanted.isAhead) {
    throw new TidemarkError('usage', `${wanted.text} is in the future: there is no state to pin yet`, {
      hint: 'leave it out to pin the latest run',
    });
  }
  refuseReference(options.name);
  if (options.baseline === true) {
    const isExact = options.reference !== undefined;
    return await pinBaselines(context, { name: options.name, reference: wanted, isExact, as: options.as });
  }
  return await change(context, { command: 'snapshots pin', as: options.as }, (mirror) => {
    const { source } = context.options;
    const resolvedState = resolvedStateOf(
      mirror,
      wanted,
      source?.length === 1 && source[0] !== undefined ? { source: source[0] } : {},
    );
    if (resolvedState.note !== undefined) printNote(context, [resolvedState.note]);
    const { name, run } = mirror.snapshots.pin(options.name, resolvedState.run);
    noteUnread(context, mirror, run);
    return `${name} is pinned to run ${run} (${localTime(resolvedState.at)}): use it as snapshot:${name}`;
  });
}

/** @throws TidemarkError `usage` if a snapshot cannot have this name */
export function requireSnapshotName(name: string): void {
  checkSnapshotName(name);
  refuseReference(name);
}

/**
 * Pins a state and makes it the baseline, in every mirror of the configuration or in those of `--source`. If it is not possible
 * in one mirror, the others get it nevertheless. If another process is writing a mirror, it is tried again for a while.
 * @throws TidemarkError `usage`, and any error if there is only one mirror
 */
async function pinBaselines(
  context: CommandContext,
  {
    name,
    reference,
    isExact,
    as,
  }: {
    readonly name: string;
    readonly reference: Reference;
    readonly isExact: boolean;
    readonly as?: string | undefined;
  },
): Promise<ExitCode> {
  requireSnapshotName(name);
  const configs = mirrorConfigs(readLoadedConfig(context, context.options, 'unused'));
  const rows = new Map<string, BaselineRow>();
  if (configs.length < 2) {
    const { source } = context.options;
    const only = source?.length === 1 ? source[0] : undefined;
    return await change(context, { command: 'snapshots pin', as }, (mirror) => {
      const { outcome, run, instead } = pinBaseline(mirror, name, { reference, isExact, source: only });
      noteMissing(context, mirror, run);
      if (outcome === 'already') return `drift is measured from ${name} (run ${run}) already`;
      return `drift is measured from ${name} (run ${run})${instead === null ? '' : `, no longer ${instead}`}`;
    });
  }
  const attempt = (config: Config): boolean => {
    const source = config.sources[0]?.name ?? '';
    try {
      using mirror = openExistingMirror(context, config, 'snapshots pin', commandActor(as));
      const { outcome, run } = pinBaseline(mirror, name, { reference, isExact, source });
      noteUnread(context, mirror, run, `${source}: `);
      rows.set(source, { name: source, outcome, run, reason: null });
    } catch (thrown) {
      const error = asTidemarkError(thrown);
      const reason = thrown instanceof NoMirror ? 'there is no mirror yet' : error.message;
      rows.set(source, { name: source, outcome: 'not_possible', run: null, reason });
      return error.code !== 'mirror_locked';
    }
    return true;
  };
  const until = systemClock.monotonicMs() + LOCKED_MS;
  let left = configs.filter((config) => !attempt(config));
  while (left.length > 0 && systemClock.monotonicMs() < until) {
    await systemClock.sleep(LOCK_RETRY_MS, context.signal);
    left = left.filter((config) => !attempt(config));
  }
  return reportBaselines(context, name, [...rows.values()], {
    one: 'source',
    schema: 'tidemark.baselines/1',
  });
}

/** Notes collections that the mirror had not read as of the run: a partial run lacks what no earlier run had read. */
function noteUnread(context: CommandContext, mirror: Mirror, run: number, of = ''): void {
  const note = unreadNote(mirror, run);
  if (note !== undefined) printNote(context, [`${of}${note}`]);
}

/** Notes also sources of the mirror whose first run came after this run. */
function noteMissing(context: CommandContext, mirror: Mirror, run: number): void {
  noteUnread(context, mirror, run);
  const missing = sourcesNotIn(mirror, run);
  if (missing.length === 0) return;
  printNote(context, [
    `the mirror held nothing of ${missing.map(nameText).join(', ')} as of run ${run}: drift from this baseline fails for ${missing.length === 1 ? 'it' : 'them'}`,
  ]);
}

/** How long to try a mirror that another process is writing, such as the daemon. */
const LOCKED_MS = 60_000;
const LOCK_RETRY_MS = 1_000;

/** Refuses a name that is a reference to another state if it is typed without `snapshot:`. */
function refuseReference(name: string): void {
  let form: string;
  try {
    ({ form } = parseReference(name.toLowerCase(), systemClock.now()));
  } catch (error) {
    if (error instanceof TidemarkError && error.code === 'reference_unknown') return;
    throw error;
  }
  throw new TidemarkError(
    'usage',
    `${JSON.stringify(name)} is not a valid snapshot name: it reads as ${form === 'time' ? 'a time' : 'another reference'}`,
    { hint: 'add a word to it, like before-migration' },
  );
}

/** Unpins a snapshot; the baseline only with `--force`, since without a baseline no drift is reported. */
export async function unpinSnapshot(
  context: CommandContext,
  options: { readonly name: string; readonly force?: boolean; readonly as?: string },
): Promise<ExitCode> {
  return await change(context, { command: 'snapshots unpin', as: options.as }, (mirror) => {
    const current = mirror.snapshots.baseline();
    // A baseline that another program deleted cannot be unpinned even with --force: the store says what to do.
    const isThere = (current?.contradiction?.again ?? null) === null;
    if (options.force !== true && isThere && current?.name === options.name) {
      throw new TidemarkError('usage', `${options.name} is the baseline that drift is measured from`, {
        hint: 'make another one the baseline first (`tidemark snapshots baseline OTHER`), or use --force to have none',
      });
    }
    const { name, run, isBaseline } = mirror.snapshots.unpin(options.name);
    return `${name} is no longer pinned: retention may let run ${run} go${isBaseline ? '. There is no baseline now' : ''}`;
  });
}

/** Makes a pinned snapshot the baseline; without a name, prints the baseline. */
export async function baseline(
  context: CommandContext,
  options: { readonly name?: string; readonly as?: string },
): Promise<ExitCode> {
  const { name } = options;
  if (name !== undefined) {
    return await change(context, { command: 'snapshots baseline', as: options.as }, (mirror) => {
      const before = mirror.snapshots.baseline();
      const { run } = mirror.snapshots.setBaseline(name);
      noteMissing(context, mirror, run);
      const instead = before === undefined || before.name === name ? '' : `, no longer ${before.name}`;
      return `drift is measured from ${name} (run ${run})${instead}`;
    });
  }
  const config = readConfig(context, context.options, 'unused');
  using mirror = openConfiguredMirror(config, 'read', 'snapshots baseline', context.pid);
  const current = mirror.snapshots.baseline();
  if (current === undefined) {
    throw new TidemarkError('not_found', 'there is no baseline', {
      hint: 'pin a state with `tidemark snapshots pin NAME`, then `tidemark snapshots baseline NAME`',
    });
  }
  const text = (): string => renderSnapshots(mirror, [current], terminalWidth(context));
  return await answer(context, mirror, text, { isRead: true, only: [current] });
}

/** Makes a change under the writer lock, and prints the line that `work` returns. */
async function change(
  context: CommandContext,
  { command, as }: { readonly command: string; readonly as: string | undefined },
  work: (mirror: Mirror) => string,
): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  using mirror = await openForChange(context, config, command, as);
  const line = work(mirror);
  return await answer(context, mirror, () => line);
}

/**
 * Prints the text, or the document of all snapshots or of `only`, with warnings about snapshots that contradict the audit log.
 * With `isRead`, warnings mean exit code 1.
 */
async function answer(
  context: CommandContext,
  mirror: Mirror,
  text: () => string,
  { only, isRead = false }: { readonly only?: readonly CheckedSnapshot[]; readonly isRead?: boolean } = {},
): Promise<ExitCode> {
  const contradictions =
    only?.flatMap(({ contradiction }) => contradiction ?? []) ?? mirror.snapshots.contradictions();
  const rowWarnings = contradictions.map((contradiction) =>
    [contradiction.line, pinningText(contradiction)].filter((text) => text !== null).join('; '),
  );
  // If another program deleted a snapshot with its entries, only the audit log itself shows that something is missing.
  const warnings = isRead ? [...rowWarnings, ...alteredLogLines(mirror, rowWarnings)] : rowWarnings;
  const exit = isRead ? printAltered(context, warnings) : EXIT.done;
  if (!isRead) printNote(context, warnings);
  if (context.options.json !== true) {
    await print(context, `${text()}\n`);
    return exit;
  }
  const rows = (only ?? mirror.snapshots.checked()).map(
    ({ name, run, pinnedAt, by, via, isBaseline, contradiction }) => ({
      name,
      run,
      source: mirror.runs.get(run)?.source ?? null,
      at: mirror.runs.get(run)?.finishedAt ?? null,
      pinned_at: pinnedAt,
      by,
      via,
      is_baseline: isBaseline,
      is_altered: contradiction !== undefined,
      collections_not_in_it: collectionsNotIn(mirror, run).length,
    }),
  );
  const document = {
    schema: 'tidemark.snapshots/1',
    snapshots: rows,
    warnings: warnings.map((line) => toRun(line, context.options)),
  };
  await printJson(context, document);
  return exit;
}

function renderSnapshots(
  mirror: Mirror,
  rows: readonly CheckedSnapshot[],
  width: number | undefined,
): string {
  return renderTable(
    ['snapshot', 'run', 'state of', 'pinned', 'by', ''],
    rows.map(({ name, run, pinnedAt, by, via, isBaseline, contradiction }) => [
      name,
      String(run),
      localTime(mirror.runs.get(run)?.finishedAt ?? ''),
      localTime(pinnedAt),
      byText({ by, via }),
      [
        ...(isBaseline ? ['baseline'] : []),
        ...(collectionsNotIn(mirror, run).length === 0 ? [] : ['partial']),
        ...(contradiction === undefined ? [] : [contradiction.state]),
      ].join(', '),
    ]),
    ['left', 'right'],
    { width },
  );
}
