/** `tidemark fleet status`: the state of every cell and worker, and what is wrong. */
import { withConfigOption } from '../core/hints.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { duration, elapsed, formatInteger, plural } from '../core/wording.ts';
import { chosenCells } from '../fleet/chosen-cells.ts';
import { MOST_PROJECTED } from '../fleet/cell.ts';
import { storageError } from '../fleet/cell-storage.ts';
import type { CellOverview, WorkerOverview } from '../fleet/registry/overview.ts';
import {
  driftText,
  HEALTH_TEXT,
  isStarting,
  isWrong,
  lacksWorkers,
  problemOf,
  severitiesText,
} from '../fleet/serve/health.ts';
import { fleetStatusDocument } from '../fleet/serve/documents.ts';
import { renderTable } from '../report/table.ts';
import { print, printJson, printReason, type CommandContext, terminalWidth } from './context.ts';
import { errorDocument } from './failure.ts';
import { type CellOptions, fleetConfig, REASONS_SHOWN, withRegistry } from './fleet.ts';

/** Exit 0 if every cell is fine; 3 if one is not, no worker is alive or the storage is missing; 1 if nothing was ever published. */
export async function fleetStatus(
  context: CommandContext,
  options: CellOptions & { readonly failing?: boolean },
): Promise<ExitCode> {
  const { storage, heartbeatMs } = fleetConfig(context);
  return withRegistry(context, async (registry) => {
    const cells = await chosenCells(registry, options.cell);
    const hasMirrors = cells.some(({ storedAt }) => storedAt !== null);
    const away = storage?.type === 'directory' ? storageError(storage.path, hasMirrors) : null;
    const workers = await registry.workers();
    // While the storage is missing, also a cell whose newest mirror is not in it, which is otherwise wrong only after some time.
    const isFailing = (cell: CellOverview): boolean => isWrong(cell) || (away !== null && !cell.isStored);
    const shown = options.failing === true ? cells.filter(isFailing) : cells;
    if (context.options.json === true) {
      const document = fleetStatusDocument(shown, workers);
      await printJson(context, { ...document, storage_error: errorDocument(away) });
    } else {
      const text = statusText(context, { cells, shown, workers, heartbeatMs, limit: options.limit ?? 50 });
      await print(context, withConfigOption(text, context.options.config));
    }
    const known = statusCode(cells, workers);
    const code = known === EXIT.done && away !== null ? EXIT.partial : known;
    const lines = away === null ? [] : [`${away.message}: ${away.hint ?? ''}`];
    if (code !== EXIT.done) printReason(context, [...lines, ...statusReason(cells, workers)]);
    return code;
  });
}

function statusCode(cells: readonly CellOverview[], workers: readonly WorkerOverview[]): ExitCode {
  const own = cells.filter(({ health }) => health !== 'retired');
  if (own.length === 0) return EXIT.done;
  if (own.every(({ publishedAt }) => publishedAt === null)) return EXIT.failed;
  return own.some(isWrong) || lacksWorkers(own, workers) ? EXIT.partial : EXIT.done;
}

function statusReason(cells: readonly CellOverview[], workers: readonly WorkerOverview[]): string[] {
  const wrong = cells.filter(isWrong);
  if (wrong.length > 0 && wrong.every(isStarting) && !lacksWorkers(cells, workers))
    return [
      `starting: the first ${wrong.length === 1 ? 'sync runs' : 'syncs run'} (${plural(wrong.length, 'cell')})`,
    ];
  const lines = wrong
    .slice(0, REASONS_SHOWN)
    .map((cell) => `  ${cell.name}: ${problemOf(cell, { most: Infinity })}`);
  const more = wrong.length - lines.length;
  const isOne = wrong.length === 1;
  return [
    ...(lacksWorkers(cells, workers) ? ['no worker is alive: no cell is synced'] : []),
    ...(wrong.length === 0
      ? []
      : [
          `${plural(wrong.length, 'cell')} of ${formatInteger(cells.length)} ${isOne ? 'is' : 'are'} not as ${isOne ? 'it' : 'they'} should be`,
        ]),
    ...lines,
    ...(more > 0 ? [`  and ${formatInteger(more)} more: \`tidemark fleet status --failing\``] : []),
  ];
}

function statusText(
  context: CommandContext,
  {
    cells,
    shown,
    workers,
    heartbeatMs,
    limit,
  }: Record<'cells' | 'shown', readonly CellOverview[]> &
    Record<'heartbeatMs' | 'limit', number> & { readonly workers: readonly WorkerOverview[] },
): string {
  const byHealth = Map.groupBy(cells, ({ health }) => health);
  const counts = [...byHealth].map(([health, own]) => {
    // Not a status of its own before some time has passed.
    const unstored = health === 'fine' ? own.filter(({ isStored }) => !isStored).length : 0;
    const more = unstored === 0 ? '' : ` (${formatInteger(unstored)} not in storage)`;
    return `${formatInteger(own.length)} ${HEALTH_TEXT[health]}${more}`;
  });
  const records = cells.reduce((sum, cell) => sum + cell.records, 0);
  const findings = cells.reduce((sum, cell) => sum + (cell.findings ?? 0), 0);
  const severities = severitiesText(cells);
  const head =
    cells.length === 0
      ? 'no cells: `tidemark fleet apply FILE` registers them'
      : `${plural(cells.length, 'cell')}: ${counts.join(', ')}; ${plural(records, 'record')}, ${plural(findings, 'open finding')}${severities === '' ? '' : `: ${severities}`}`;
  const rows = shown.slice(0, limit);
  const table = renderTable(
    ['cell', 'status', 'last run', 'outcome', 'published', 'next', 'records', 'drift', 'owner', 'problem'],
    rows.map((cell) => [
      cell.name,
      cell.health === 'checked_out'
        ? `checked out by ${cell.checkoutHolder ?? ''}`
        : HEALTH_TEXT[cell.health],
      cell.lastRun === null ? '' : String(cell.lastRun),
      cell.lastOutcome ?? '',
      ago(cell.publishedAgeMs),
      next(cell),
      formatInteger(cell.records),
      driftText(cell),
      cell.owner ?? '',
      problemOf(cell),
    ]),
    ['left', 'left', 'right', 'left', 'left', 'left', 'right', 'right', 'left', 'left'],
    { width: terminalWidth(context), least: ['owner', 'last run'] },
  );
  const more = shown.length - rows.length;
  // A damaged mirror is a problem of its own, and the reason why a smaller cell may be unlisted.
  const unlisted = cells.filter(
    ({ isProjected, health, records: own, errorCode }) =>
      !isProjected && health !== 'retired' && own > MOST_PROJECTED && errorCode !== 'mirror_corrupt',
  );
  return [
    head,
    ...(rows.length === 0 ? [] : ['', table]),
    ...(more > 0 ? [`… ${plural(more, 'more cell')} (--limit ${shown.length})`] : []),
    ...(unlisted.length > 0 ? [unlistedText(unlisted)] : []),
    '',
    ...workerLines(workers, heartbeatMs),
    '',
  ].join('\n');
}

function unlistedText(cells: readonly CellOverview[]): string {
  const names = cells.slice(0, REASONS_SHOWN).map(({ name }) => name);
  const more = cells.length > names.length ? ', …' : '';
  return `too many records to be listed in the registry: ${names.join(', ')}${more} (\`tidemark fleet checkout CELL\` has them)`;
}

function next({ holder, overdueMs, state }: CellOverview): string {
  if (state === 'checked_out' || state === 'retired') return '';
  if (holder !== null) return `at work: ${holder}`;
  if (overdueMs === null) return 'never';
  return overdueMs >= 0 ? 'due' : `in ${duration(-overdueMs)}`;
}

function ago(ms: number | null): string {
  if (ms === null) return 'not yet';
  return ms < 10_000 ? 'just now' : `${elapsed(ms)} ago`;
}

/** A worker that is silent for longer than the heartbeat may have died: others take its cells, although it still counts as alive for some time. */
function workerLines(workers: readonly WorkerOverview[], heartbeatMs: number): string[] {
  if (workers.length === 0) return ['no worker: `tidemark fleet work` starts one'];
  const lines = workers.map((worker) => {
    const isHeard = worker.isAlive && worker.seenAgeMs <= heartbeatMs;
    const silent = isHeard ? '' : `, not heard of for ${duration(worker.seenAgeMs)}`;
    const draining = worker.isDraining ? ', draining' : '';
    return `worker ${worker.name} on ${worker.host}, version ${worker.version}: ${plural(worker.groups, 'job')}${draining}${silent}`;
  });
  return workers.some(({ isAlive }) => isAlive)
    ? lines
    : [...lines, 'no worker is alive: `tidemark fleet work` starts one'];
}
