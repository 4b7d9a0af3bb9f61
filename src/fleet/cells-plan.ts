/** The plan of `fleet apply`: compares the cells that a file declares with the registered ones. Pure. */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { CellDeclaration } from '../config/cells.ts';
import { TidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import type { CellState } from './registry/schema.ts';

/** A cell as the registry has it. */
export interface RegisteredCell extends CellDeclaration {
  readonly state: CellState;
  readonly checkoutHolder: string | null;
}

interface CellField {
  readonly field: string;
  /** Null if there is nothing. */
  readonly from: unknown;
  readonly to: unknown;
}

/** `return`: a retired cell is declared again and continues with its history. `blocked`: a person has checked it out. */
export interface CellStep {
  readonly action: 'add' | 'return' | 'change' | 'retire' | 'blocked';
  readonly name: string;
  readonly fields: readonly CellField[];
  readonly reason: string | null;
  /** Null for a retirement. */
  readonly declared: CellDeclaration | null;
}

export interface CellsPlan {
  /** In the order of the file, then the retired cells by name. */
  readonly steps: readonly CellStep[];
  /** Number of cells that are as declared. */
  readonly unchanged: number;
  /** Number of registered cells that are not retired. */
  readonly known: number;
  /** Of the steps, in hex: it differs if the registry or the file changes. */
  readonly hash: string;
}

const FIELDS = [
  'address',
  'profile',
  'organizations',
  'secret',
  'owner',
  'schedule',
  'showsValues',
] as const satisfies readonly (keyof CellDeclaration)[];

/** Compares what a file declares with the registry. */
export function planCells(
  declared: readonly CellDeclaration[],
  registered: readonly RegisteredCell[],
): CellsPlan {
  const known = new Map(registered.map((cell) => [cell.name, cell]));
  const names = new Set(declared.map(({ name }) => name));
  const steps = declared.flatMap((cell) => stepFor(cell, known.get(cell.name)) ?? []);
  const retired = registered
    .filter(({ name, state }) => state !== 'retired' && !names.has(name))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map((cell): CellStep => {
      const blocked = blockOf(cell);
      const action = blocked === null ? 'retire' : 'blocked';
      return { action, name: cell.name, fields: [], reason: blocked, declared: null };
    });
  const all = [...steps, ...retired];
  return {
    steps: all,
    unchanged: declared.length - steps.length,
    known: registered.filter(({ state }) => state !== 'retired').length,
    hash: createHash('sha256').update(JSON.stringify(all)).digest('hex'),
  };
}

function stepFor(declared: CellDeclaration, registered: RegisteredCell | undefined): CellStep | null {
  const { name } = declared;
  const fields = differences(declared, registered);
  if (registered === undefined) return { action: 'add', name, fields, reason: null, declared };
  if (registered.state === 'retired') return { action: 'return', name, fields, reason: null, declared };
  if (fields.length === 0) return null;
  const blocked = blockOf(registered);
  return { action: blocked === null ? 'change' : 'blocked', name, fields, reason: blocked, declared };
}

function blockOf({ state, checkoutHolder }: RegisteredCell): string | null {
  return state === 'checked_out' ? `checked out by ${checkoutHolder ?? 'somebody'}` : null;
}

function differences(declared: CellDeclaration, registered: RegisteredCell | undefined): CellField[] {
  const own = FIELDS.map((field) => ({ field, from: registered?.[field] ?? null, to: declared[field] }));
  const sections = ['source', 'schedules', 'retention', 'drift'] as const;
  const further = sections.map((field) => ({
    field,
    from: registered?.document[field] ?? null,
    to: declared.document[field] ?? null,
  }));
  return [...own, ...further].filter(({ from, to }) => !isDeepStrictEqual(plain(from), plain(to)));
}

/** The value as the registry would return it. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown;
}

/** A plan that retires more than ten cells, and more than a tenth of all, needs `--max-retire`: the file may be incomplete. */
const MOST_RETIRED = 10;
const MOST_RETIRED_SHARE = 0.1;

/** @throws TidemarkError `unsafe_plan` for a plan that retires more cells than the limit */
export function checkRetirements({ steps, known }: CellsPlan, limit: number | undefined): void {
  const retired = steps.filter(({ action }) => action === 'retire').length;
  const most = limit ?? Math.max(MOST_RETIRED, Math.floor(known * MOST_RETIRED_SHARE));
  if (retired <= most) return;
  throw new TidemarkError(
    'unsafe_plan',
    `the plan retires ${retired} of ${plural(known, 'cell')}; the limit is ${most}`,
    { hint: `check that the file is complete; if they are to go, add --max-retire ${retired}` },
  );
}
