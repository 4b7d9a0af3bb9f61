/** `tidemark fleet baseline`: sets the baseline of many cells. The workers do it, with their next job on each cell. */
import { commandActor } from '../core/actor.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, type ExitCode, TidemarkError } from '../core/errors.ts';
import { CELL_MIRROR_HINT } from '../core/hints.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { chosenCells } from '../fleet/chosen-cells.ts';
import type { CellOverview } from '../fleet/registry/overview.ts';
import type { Registry } from '../fleet/registry/registry.ts';
import { problemOf } from '../fleet/serve/health.ts';
import { renderTable } from '../report/table.ts';
import { OF_MIRROR, parseReference } from '../state/reference.ts';
import { type BaselineRow, reportBaselines } from './baselines.ts';
import { type CommandContext, print, printJson, printNote, printReason, terminalWidth } from './context.ts';
import { withRegistry } from './fleet.ts';
import { requireSnapshotName } from './snapshots.ts';

interface BaselineOptions {
  readonly name?: string;
  readonly reference?: string;
  readonly cell?: readonly string[];
  readonly owner?: readonly string[];
  readonly wait?: boolean;
  readonly as?: string;
}

const SCHEMA = 'tidemark.fleet-baseline/1';
/** How long the command waits for the workers; the same as for a checkout. */
const WAIT_MS = 15 * 60_000;
const POLL_MS = 1_000;
/** A worker without a sign of life for longer is not waited for. */
const SILENT_MS = 120_000;

/** Exit codes of `reportBaselines`. Without a name lists the baselines: exit 0 if all cells have one, 3 if some do not, 1 if none has one. */
export async function fleetBaseline(context: CommandContext, options: BaselineOptions): Promise<ExitCode> {
  const { name, reference, wait = true, as } = options;
  const time = reference === undefined ? null : timeOf(reference);
  if (name !== undefined) requireSnapshotName(name);
  const { by } = commandActor(as);
  return withRegistry(context, async (registry) => {
    const cells = await selected(registry, options);
    if (name === undefined) return list(context, cells);
    const rows = new Map(cells.map((cell) => [cell.name, rowBefore(cell, name, time)]));
    const open = cells.filter((cell) => rows.get(cell.name)?.outcome === 'asked');
    const namesOf = (some: readonly CellOverview[]): string[] => some.map((cell) => cell.name);
    // The same order is not given twice.
    const ordered = open.filter(({ baselineOrder }) => !isSame(baselineOrder, name, time));
    if (ordered.length > 0) await registry.orderBaseline(namesOf(ordered), { name, time, by });
    if (wait && open.length > 0)
      for (const row of await waitFor(context, registry, namesOf(open), name)) rows.set(row.name, row);
    return reportBaselines(context, name, [...rows.values()], { one: 'cell', schema: SCHEMA });
  });
}

/** Null for the newest run. @throws TidemarkError `usage` if the text does not name a state of every cell */
function timeOf(text: string): string | null {
  const reference = parseReference(text, systemClock.now(), OF_MIRROR);
  if (reference.form === 'latest') return null;
  if (reference.form === 'time' && !reference.isAhead) return reference.at;
  throw new TidemarkError('usage', `${text} does not name a state of every cell`, {
    hint: 'write a time that is past, such as 2026-03-01T12:00Z or 24h, or leave it out for the newest run of each cell',
  });
}

async function selected(
  registry: Registry,
  { cell, owner }: Pick<BaselineOptions, 'cell' | 'owner'>,
): Promise<readonly CellOverview[]> {
  const cells = (await chosenCells(registry, cell)).filter(
    (each) => owner === undefined || (each.owner !== null && owner.includes(each.owner)),
  );
  if (cells.length > 0) return cells.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  throw new TidemarkError(
    'not_found',
    owner === undefined ? 'there are no cells' : 'no cell has that owner',
    {
      hint: '`tidemark fleet status` lists them with their owners',
    },
  );
}

function isSame(order: CellOverview['baselineOrder'], name: string, time: string | null): boolean {
  return order !== null && order.name === name && order.time === time;
}

/** The row of a cell before anything is ordered: `asked` if the baseline can be. */
function rowBefore(cell: CellOverview, name: string, time: string | null): BaselineRow {
  const row = { name: cell.name, run: null, reason: null };
  const impossible = (reason: string): BaselineRow => ({ ...row, outcome: 'not_possible', reason });
  if (cell.state === 'retired') return impossible('retired');
  if (cell.root === null) return impossible('no run was published yet');
  if (cell.state === 'checked_out') return impossible(`checked out by ${cell.checkoutHolder ?? 'a person'}`);
  // After an error, only the mirror of a worker may have the baseline, not the one in storage.
  const isOpen = cell.baselineOrder !== null || cell.baselineError !== null;
  const isThere = cell.baseline === name && time === null && !isOpen;
  return isThere ? { ...row, outcome: 'already', run: cell.baselineRun } : { ...row, outcome: 'asked' };
}

/** Waits until the workers have set the baseline, or cannot. */
async function waitFor(
  context: CommandContext,
  registry: Registry,
  names: readonly string[],
  baseline: string,
): Promise<readonly BaselineRow[]> {
  const until = systemClock.monotonicMs() + WAIT_MS;
  const isNoWorker = (await registry.workers()).every(({ seenAgeMs }) => seenAgeMs > SILENT_MS);
  if (!isNoWorker) {
    printNote(context, [
      `waiting for the workers to set it in ${plural(names.length, 'cell')}, for 15 min at most; stopping this command does not stop them`,
    ]);
  }
  for (;;) {
    const cells = await registry.overview({ cells: names });
    const isOpen = cells.some(
      ({ baselineOrder, groupCheckedOutBy, holder, overdueMs }) =>
        baselineOrder !== null && groupCheckedOutBy === null && (holder !== null || (overdueMs ?? -1) >= 0),
    );
    if (!isOpen || isNoWorker || systemClock.monotonicMs() > until)
      return cells.map((cell) => rowAfter(cell, baseline, isNoWorker));
    await systemClock.sleep(POLL_MS, context.signal);
  }
}

function rowAfter(cell: CellOverview, baseline: string, isNoWorker: boolean): BaselineRow {
  const { name, baselineOrder, baselineError, baselineRun } = cell;
  if (baselineOrder !== null)
    return { name, outcome: 'waiting', run: null, reason: whyWaiting(cell, isNoWorker) };
  if (baselineError === null && cell.baseline === baseline)
    return { name, outcome: 'set', run: baselineRun, reason: null };
  const reason = baselineError ?? 'it was changed meanwhile';
  const wayOut = isUnsound(cell) ? `; ${CELL_MIRROR_HINT}` : '';
  return { name, outcome: 'not_possible', run: null, reason: `${reason}${wayOut}` };
}

function whyWaiting(cell: CellOverview, isNoWorker: boolean): string {
  const { groupCheckedOutBy, holder } = cell;
  if (groupCheckedOutBy !== null) return `its key is in use by a checkout of ${groupCheckedOutBy}`;
  if (isNoWorker) return 'no worker is running (`tidemark fleet work` starts one)';
  if (holder !== null) return `worker ${holder} is working on it`;
  return problemOf(cell) || 'no worker has taken it yet';
}

/** True if the mirror is damaged, or another program altered its baseline: no other baseline can be set. */
function isUnsound({ errorCode }: CellOverview): boolean {
  return errorCode === 'mirror_corrupt';
}

async function list(context: CommandContext, cells: readonly CellOverview[]): Promise<ExitCode> {
  const own = cells.filter(({ state }) => state !== 'retired');
  if (context.options.json === true) {
    await printJson(context, {
      schema: SCHEMA,
      name: null,
      cells: own.map(({ name, baseline, baselineRun, baselineOrder, baselineError }) => ({
        ...{ cell: name, baseline, run: baselineRun },
        asked_for: baselineOrder?.name ?? null,
        error: baselineError,
      })),
    });
  } else {
    const table = renderTable(
      ['cell', 'baseline', 'run', 'note'],
      own.map(({ name, baseline, baselineRun, baselineOrder, baselineError }) => [
        name,
        baseline ?? 'none',
        baselineRun === null ? '' : String(baselineRun),
        baselineOrder === null ? (baselineError ?? '') : `asked for: ${baselineOrder.name}`,
      ]),
      ['left', 'left', 'right', 'left'],
      { width: terminalWidth(context) },
    );
    await print(context, `${table}\n`);
  }
  const without = own.filter(({ baseline }) => baseline === null);
  if (without.length === 0) return EXIT.done;
  const unsound = without.filter(isUnsound);
  const unset = without.filter((cell) => !isUnsound(cell));
  const counted = (cells: readonly CellOverview[]): string =>
    `${plural(cells.length, 'cell')} of ${formatInteger(own.length)} ${cells.length === 1 ? 'has' : 'have'}`;
  printReason(context, [
    ...(unset.length === 0
      ? []
      : [`${counted(unset)} no baseline: \`tidemark fleet baseline NAME\` sets one`]),
    ...(unsound.length === 0
      ? []
      : [
          `${counted(unsound)} a mirror that is damaged or altered, and takes no baseline: ${CELL_MIRROR_HINT}`,
        ]),
  ]);
  return without.length === own.length ? EXIT.failed : EXIT.partial;
}
