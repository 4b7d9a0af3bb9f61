/** `tidemark fleet runs`, `changes`, `drift`, `sql` and `drain`: what the registry knows about all cells. */
import { SEVERITIES, type Severity } from '../catalog/definition.ts';
import type { FleetConfig } from '../config/config.ts';
import { parseDuration } from '../config/schema.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, type ExitCode, TidemarkError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import { didYouMean } from '../core/suggest.ts';
import { duration, elapsed, formatInteger, localMinute, localTime, plural } from '../core/wording.ts';
import { chosenCells, chosenNames, requireOrganizations } from '../fleet/chosen-cells.ts';
import type { CellOverview } from '../fleet/registry/overview.ts';
import type { ChangeSummary, Since } from '../fleet/registry/results.ts';
import {
  cellsNotRead,
  fleetChangesDocument,
  fleetDriftDocument,
  fleetRunsDocument,
} from '../fleet/serve/documents.ts';
import { Registry } from '../fleet/registry/registry.ts';
import { parseReference } from '../state/reference.ts';
import { readLoadedConfig } from '../wire.ts';
import { print, printJson, printNote, printReason, type CommandContext, terminalWidth } from './context.ts';
import { renderTable } from '../report/table.ts';

/** Options of commands about some cells. */
export interface CellOptions {
  readonly cell?: readonly string[];
  readonly limit?: number;
}

/**
 * The fleet's configuration and its database.
 * @throws TidemarkError `config_missing` if no database is configured, or its URL could not be read
 */
export function fleetConfig(context: CommandContext): FleetConfig & { readonly database: Secret } {
  const { fleet } = readLoadedConfig(context, context.options, 'unused');
  const { database, databaseProblem } = fleet;
  if (database !== null) return { ...fleet, database };
  throw new TidemarkError('config_missing', databaseProblem ?? 'fleet.database is not configured', {
    hint: 'set fleet.database (or TIDEMARK_FLEET_DATABASE) to postgresql://USER:PASSWORD@HOST/DATABASE',
  });
}

/** Opens the registry, and closes it after `work`. */
export async function withRegistry<T>(
  context: CommandContext,
  work: (registry: Registry) => Promise<T>,
): Promise<T> {
  const registry = await Registry.open(fleetConfig(context).database, { maxConnections: 2 });
  try {
    return await work(registry);
  } finally {
    await registry.close();
  }
}

/** Cells that a reason lists. */
export const REASONS_SHOWN = 10;

/** Always exit 0: `fleet status` says whether something is wrong. */
export async function fleetRuns(
  context: CommandContext,
  options: CellOptions & { readonly failing?: boolean },
): Promise<ExitCode> {
  return withRegistry(context, async (registry) => {
    const cells = await chosenNames(registry, options.cell);
    const limit = options.limit ?? 50;
    const runs = await registry.runs({ cells, limit, isFailing: options.failing === true });
    if (context.options.json === true) {
      await printJson(context, fleetRunsDocument(runs));
      return EXIT.done;
    }
    const counted = ['requests', 'added', 'changed', 'removed'];
    const table = renderTable(
      ['cell', 'run', 'outcome', 'started', 'took', ...counted, 'worker', 'error'],
      runs.map((run) => [
        run.cell,
        String(run.run),
        run.outcome,
        localTime(run.startedAt),
        duration(Date.parse(run.finishedAt) - Date.parse(run.startedAt)),
        formatInteger(run.requests),
        ...[run.added, run.changed, run.removed].map((value) => (value === 0 ? '·' : formatInteger(value))),
        run.worker,
        run.error ?? run.errorCode ?? '',
      ]),
      ['left', 'right', 'left', 'left', 'right', 'right', 'right', 'right', 'right', 'left', 'left'],
      { width: terminalWidth(context), least: ['worker', 'took'] },
    );
    await print(context, runs.length === 0 ? 'no runs\n' : `${table}\n`);
    return EXIT.done;
  });
}

interface ChangesOptions extends CellOptions {
  readonly since?: string;
  readonly kind?: readonly string[];
  readonly organization?: readonly string[];
}

/** Changes of one kind in a run, such as session recordings, that are listed without --verbose; more are summarized in one line. */
const CHANGES_LISTED = 10;

/** Exit 0, as `changes`; 3 if no cell is known to have the organization, but one that was not read completely may. */
export async function fleetChanges(context: CommandContext, options: ChangesOptions): Promise<ExitCode> {
  const { cell, kind: kinds, organization: organizations, limit = 200 } = options;
  const since = sinceOf(options.since ?? '24h');
  const { json, verbose } = context.options;
  return withRegistry(context, async (registry) => {
    const filter = { cells: await chosenNames(registry, cell), since, kinds, organizations, limit };
    const cells = await registry.overview({ cells: filter.cells });
    await requireOrganizations(registry, filter, cells);
    if (json === true) {
      await printJson(context, fleetChangesDocument(await registry.changes(filter), cells));
      return EXIT.done;
    }
    const unread = cellsNotRead(cells);
    const most = verbose === true ? Number.MAX_SAFE_INTEGER : CHANGES_LISTED;
    const found = await registry.changeSummaries(filter, most);
    const table = renderTable(
      ['at', 'cell', 'run', 'change', 'kind', 'record', 'fields'],
      found.rows.map((row) => [
        localMinute(row.at),
        row.cell,
        String(row.run),
        ...('paths' in row
          ? [row.change, row.kind, row.name, fieldsText(row.paths)]
          : [summaryText(row), row.kind, '', '']),
      ]),
      ['left', 'left', 'right', 'left', 'left', 'left', 'left'],
      { width: terminalWidth(context), least: ['run'] },
    );
    const isSummed = found.rows.some((row) => !('paths' in row));
    const more = moreText({ shown: found.shown, total: found.total }, 'change');
    const hint = isSummed ? '(--verbose lists each change, --kind those of one kind)\n' : '';
    const none = unread.length === 0 ? 'no changes\n' : 'no changes in what could be read\n';
    await print(context, found.total === 0 ? none : `${table}\n${more}${hint}`);
    printNote(context, unreadLines(unread));
    return EXIT.done;
  });
}

/** A line for each cell of which changes may be missing, with its run. */
function unreadLines(cells: readonly CellOverview[]): string[] {
  const more = cells.length - REASONS_SHOWN;
  return [
    ...cells.slice(0, REASONS_SHOWN).map(({ name, lastRun, lastOutcome, runError, runErrorCode }) => {
      if (lastRun === null) return `nothing of ${name} was read yet`;
      const why = runError ?? runErrorCode;
      return `run ${lastRun} of ${name} is ${lastOutcome ?? 'unknown'}, changes may be missing${why === null ? '' : `: ${why}`}`;
    }),
    ...(more > 0 ? [`and ${plural(more, 'more cell')}: \`tidemark fleet status\` has all`] : []),
  ];
}

function summaryText(summary: ChangeSummary): string {
  return (['added', 'changed', 'removed'] as const)
    .flatMap((change) => (summary[change] === 0 ? [] : [`${formatInteger(summary[change])} ${change}`]))
    .join(', ');
}

/** @throws TidemarkError `reference_unknown` if the text is neither an age nor a time */
function sinceOf(text: string): Since {
  const ageMs = parseDuration(text);
  // PostgreSQL's clock decides what an age means.
  if (ageMs !== undefined) return { ageMs };
  const reference = parseReference(text, systemClock.now());
  if (reference.form === 'time') return { at: reference.at };
  throw new TidemarkError('reference_unknown', `${JSON.stringify(text)} is neither an age nor a time`, {
    hint: 'write an age such as 24h or 7d, or a time such as 2026-03-01T12:00Z',
  });
}

const FIELDS_SHOWN = 3;

function fieldsText(paths: readonly string[]): string {
  const more = paths.length - FIELDS_SHOWN;
  return [...paths.slice(0, FIELDS_SHOWN), ...(more > 0 ? [`${formatInteger(more)} more`] : [])].join(', ');
}

function moreText({ shown, total }: { readonly shown: number; readonly total: number }, one: string): string {
  return total > shown ? `… ${plural(total - shown, `more ${one}`)} (--limit ${total})\n` : '';
}

/**
 * Exit 0 no open findings of the severity, 2 with some, 3 if a cell was not compared with a baseline, or its mirror was found damaged or
 * altered since; 1 if that is so for all cells.
 */
export async function fleetDrift(
  context: CommandContext,
  options: CellOptions & { readonly severity?: Severity },
): Promise<ExitCode> {
  return withRegistry(context, async (registry) => {
    const cells = (await chosenCells(registry, options.cell)).filter(({ health }) => health !== 'retired');
    const severities = SEVERITIES.slice(0, SEVERITIES.indexOf(options.severity ?? 'low') + 1);
    const limit = options.limit ?? 200;
    const names = options.cell === undefined ? undefined : cells.map(({ name }) => name);
    const found = await registry.findings({ cells: names, severities, limit });
    const unknown = cells.filter(({ findings }) => findings === null).map(({ name }) => name);
    if (context.options.json === true) {
      await printJson(context, fleetDriftDocument(found, cells));
    } else {
      const table = renderTable(
        ['severity', 'cell', 'kind', 'record', 'change', 'field', 'since', 'from', 'to'],
        found.rows.map((row) => [
          row.severity,
          row.cell,
          row.kind,
          row.name,
          row.change,
          row.path,
          localMinute(row.since),
          valueText(row.before),
          valueText(row.after),
        ]),
        [],
        { width: terminalWidth(context), least: ['since'] },
      );
      const least = severities.at(-1);
      const all = cells.reduce((sum, { findings }) => sum + (findings ?? 0), 0);
      const below =
        least === 'low' || all === 0 ? '' : ` of severity ${least} or higher, ${formatInteger(all)} below it`;
      await print(
        context,
        found.total === 0
          ? `no open findings${below}\n`
          : `${table}\n${moreText({ shown: found.rows.length, total: found.total }, 'finding')}`,
      );
    }
    if (unknown.length > 0) {
      const more = unknown.length > REASONS_SHOWN ? '…' : '';
      printReason(context, [
        `${plural(unknown.length, 'cell')} of ${formatInteger(cells.length)} ${unknown.length === 1 ? 'was' : 'were'} not compared: no run yet, no baseline, or a mirror that is damaged or altered (\`tidemark fleet status\` says which)`,
        `  ${unknown.slice(0, REASONS_SHOWN).join(', ')}${more}`,
      ]);
      return unknown.length === cells.length ? EXIT.failed : EXIT.partial;
    }
    return found.total > 0 ? EXIT.differences : EXIT.done;
  });
}

const VALUE_CHARACTERS = 60;

function valueText(value: unknown): string {
  if (value === undefined || value === null) return '';
  const text = JSON.stringify(value);
  return text.length > VALUE_CHARACTERS ? `${text.slice(0, VALUE_CHARACTERS)}…` : text;
}

/** One SELECT over the views of the registry; always exit 0. @throws TidemarkError as `Registry.sql` */
export async function fleetSql(
  context: CommandContext,
  { query, limit = 1000 }: { readonly query: string; readonly limit?: number },
): Promise<ExitCode> {
  return withRegistry(context, async (registry) => {
    const { columns, rows, isCut } = await registry.sql(query, limit);
    if (context.options.json === true) {
      await printJson(context, { schema: 'tidemark.fleet-sql/1', columns, rows, is_cut: isCut });
    } else {
      const cells = rows.map((row) => row.map((cell) => cell ?? 'NULL'));
      const table = renderTable(columns, cells, [], { width: terminalWidth(context) });
      await print(context, `${table}\n(${plural(rows.length, 'row')})\n`);
    }
    if (isCut) printNote(context, [`only the first ${formatInteger(rows.length)} rows are shown (--limit)`]);
    return EXIT.done;
  });
}

/** Exit 0 if the worker will leave after its jobs, or gives no sign of life. */
export async function fleetDrain(
  context: CommandContext,
  { worker }: { readonly worker: string },
): Promise<ExitCode> {
  return withRegistry(context, async (registry) => {
    const found = await registry.drain(worker);
    const workers = await registry.workers();
    if (found !== null) {
      const taken = workers.some(({ name, isAlive }) => isAlive && name !== worker)
        ? 'its cells are taken by the others'
        : 'no other worker is alive to take its cells: `tidemark fleet work` starts one';
      const line = found.isAlive
        ? 'ends the cells under way, then leaves'
        : `was last heard of ${elapsed(found.seenAgeMs)} ago: nothing to drain; ${taken}`;
      await print(context, `worker ${worker} ${line}\n`);
      return EXIT.done;
    }
    const names = workers.map(({ name }) => name);
    throw new TidemarkError('usage', `there is no worker ${worker}${didYouMean(worker, names)}`, {
      hint: names.length === 0 ? 'no worker is running' : `workers are: ${names.join(', ')}`,
    });
  });
}
