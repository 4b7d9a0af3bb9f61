/** `tidemark fleet apply FILE`: makes the cells of a fleet those that a file declares; without `--yes` only shows the plan. */
import { resolve } from 'node:path';
import { type CellDeclaration, readCells } from '../config/cells.ts';
import { namesOf } from '../config/mirrors.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { type CellStep, type CellsPlan, checkRetirements, planCells } from '../fleet/cells-plan.ts';
import { Registry } from '../fleet/registry/registry.ts';
import { print, printJson, printNote, printReason, type CommandContext } from './context.ts';
import { fleetConfig } from './fleet.ts';

interface ApplyOptions {
  readonly file: string;
  readonly yes?: boolean;
  readonly maxRetire?: number;
}

/** Exit 0 nothing to do, or done; 2 something to do without `--yes`; 3 a step is blocked; 6 more retirements than allowed. */
export async function fleetApply(context: CommandContext, options: ApplyOptions): Promise<ExitCode> {
  const declared = readCells(resolve(context.cwd, options.file));
  const { database } = fleetConfig(context);
  printNote(context, readTwice(declared));
  const { version, latest } = await Registry.schema(database);
  if (version < latest && options.yes !== true) {
    printNote(context, [tablesNote(version, latest)]);
    // An older registry cannot be read before it is upgraded.
    if (version === 0) await show(context, planCells(declared, []), false);
    return EXIT.differences;
  }
  const registry = await Registry.open(database, { maxConnections: 2, migrates: options.yes === true });
  try {
    const { migrated } = registry;
    if (migrated !== null && migrated.to > migrated.from)
      printNote(context, [
        migrated.from === 0
          ? `created the tables of the registry in ${registry.place}`
          : `upgraded the registry in ${registry.place} from schema ${migrated.from} to ${migrated.to}`,
      ]);
    return await applyTo(context, registry, declared, options);
  } finally {
    await registry.close();
  }
}

/** Groups of cells that a note lists. */
const TWICE_NAMED = 5;

/** Notes for cells that read the same under different names, which works, but is seldom intended. */
function readTwice(declared: readonly CellDeclaration[]): string[] {
  const byPlace = Map.groupBy(declared, ({ address, secret, organizations, document }) =>
    JSON.stringify([address, secret, organizations?.toSorted() ?? null, document.source ?? {}]),
  );
  const same = [...byPlace.values()].filter((cells) => cells.length > 1);
  const lines = same
    .slice(0, TWICE_NAMED)
    .map(
      (cells) =>
        `${namesOf(cells.map(({ name }) => name))} have the same address, key and organizations: their records are read and stored ${plural(cells.length, 'time')}`,
    );
  return same.length > lines.length
    ? [...lines, `and ${same.length - lines.length} more such groups`]
    : lines;
}

function tablesNote(version: number, latest: number): string {
  return version === 0
    ? 'the registry has no tables yet: --yes creates them'
    : `the registry has schema ${version}: --yes upgrades it to ${latest}, then compares`;
}

async function applyTo(
  context: CommandContext,
  registry: Registry,
  declared: readonly CellDeclaration[],
  { yes, maxRetire }: ApplyOptions,
): Promise<ExitCode> {
  const plan = planCells(declared, await registry.registeredCells());
  const isDone = yes === true && plan.steps.some(({ action }) => action !== 'blocked');
  if (!isDone) await show(context, plan, false);
  checkRetirements(plan, maxRetire);
  if (isDone) {
    await registry.applyCells(declared, plan);
    await show(context, plan, true);
  }
  const blocked = plan.steps.filter(({ action }) => action === 'blocked');
  if (blocked.length > 0) {
    printReason(context, [
      `${plural(blocked.length, 'cell')} could not be changed`,
      ...blocked.map(({ name, reason }) => `  ${name}: ${reason ?? ''}`),
    ]);
    return EXIT.partial;
  }
  return plan.steps.length > 0 && !isDone ? EXIT.differences : EXIT.done;
}

async function show(context: CommandContext, plan: CellsPlan, isDone: boolean): Promise<void> {
  if (context.options.json === true) {
    await printJson(context, {
      schema: 'tidemark.fleet-plan/1',
      plan: plan.hash,
      is_done: isDone,
      steps: plan.steps.map(({ action, name, fields, reason }) => ({ action, cell: name, fields, reason })),
      unchanged: plan.unchanged,
    });
    return;
  }
  const counts = (['add', 'return', 'change', 'retire', 'blocked'] as const).flatMap((action) => {
    const own = plan.steps.filter((step) => step.action === action).length;
    return own === 0 ? [] : [`${formatInteger(own)} ${SUMMARY[action][isDone ? 1 : 0]}`];
  });
  const unchanged = `${plural(plan.unchanged, 'cell')} unchanged`;
  const lines = [
    ...plan.steps.flatMap(stepLines),
    ...(plan.steps.length === 0 ? [] : ['']),
    plan.steps.length === 0 ? `nothing to do: ${unchanged}` : `${counts.join(', ')}; ${unchanged}`,
    ...(isDone || plan.steps.every(({ action }) => action === 'blocked')
      ? []
      : ['nothing was changed; add --yes to do this']),
  ];
  await print(context, `${lines.join('\n')}\n`);
}

const SUMMARY = {
  add: ['to add', 'added'],
  return: ['to return', 'returned'],
  change: ['to change', 'changed'],
  retire: ['to retire', 'retired'],
  blocked: ['blocked', 'blocked'],
} as const;

const SIGN = { add: '+', return: '+', change: '~', retire: '-', blocked: '!' } as const;

function stepLines({ action, name, fields, reason, declared }: CellStep): string[] {
  const head = `${SIGN[action]} ${name}`;
  switch (action) {
    case 'add':
      return [`${head}: ${declared?.address ?? ''}, key from ${declared?.secret ?? ''}`];
    case 'return':
      return [`${head}: was retired, continues its history`, ...fields.map(fieldLine)];
    case 'change':
      return [head, ...fields.map(fieldLine)];
    case 'retire':
      return [`${head}: no longer declared; its backups stay`];
    case 'blocked':
      return [`${head}: ${reason ?? ''}`, ...fields.map(fieldLine)];
  }
}

function fieldLine({ field, from, to }: CellStep['fields'][number]): string {
  const text = (value: unknown): string => {
    if (value === null) return field === 'organizations' ? 'all' : 'none';
    return typeof value === 'string' ? value : JSON.stringify(value);
  };
  return `    ${field === 'showsValues' ? 'values' : field}: ${text(from)} → ${text(to)}`;
}
