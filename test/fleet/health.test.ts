import { expect, it } from 'vitest';
import { CELL_HEALTHS, type CellOverview } from '../../src/fleet/registry/overview.ts';
import { isStarting, isWrong, problemOf } from '../../src/fleet/serve/health.ts';

const KEY_MISSING = 'this worker has no variable ORG_21_KEY';

function problem(facts: Partial<CellOverview>, how?: { most: number }): string {
  const usual = {
    failures: 0,
    errorCode: null,
    error: null,
    overdueMs: null,
    lastOutcome: null,
    runErrorCode: null,
    runError: null,
    isStored: true,
    unstoredAgeMs: null,
    lastWorker: 'w1',
    isLastWorkerAlive: true,
  };
  return problemOf({ ...usual, ...facts } as CellOverview, how);
}

it('is starting while nothing is known that holds the first sync up', () => {
  const isOf = (facts: Partial<CellOverview>): boolean =>
    isStarting({ health: 'new', errorCode: null, error: null, overdueMs: 60_000, ...facts } as CellOverview);
  expect(isOf({})).toBe(true);
  for (const other of [{ error: KEY_MISSING }, { overdueMs: 1_200_000 }, { health: 'failing' } as const])
    expect(isOf(other)).toBe(false);
});

it('says why a cell has no run yet, is late, or waits although it is fine', () => {
  expect(problem({ health: 'new' })).toBe('no run yet');
  expect(problem({ health: 'new', error: KEY_MISSING })).toBe(`no run yet: ${KEY_MISSING}`);
  expect(problem({ health: 'late', overdueMs: 1_200_000, error: KEY_MISSING })).toBe(
    `due for 20 min: ${KEY_MISSING}`,
  );
  expect(problem({ health: 'partial', lastOutcome: 'partial', error: KEY_MISSING })).toBe(
    `the last run was partial: ${KEY_MISSING}`,
  );
  const partial = { health: 'partial', lastOutcome: 'partial', runError: 'roles: denied' } as const;
  expect(problem(partial)).toBe('the last run was partial: roles: denied');
  expect(problem({ ...partial, error: KEY_MISSING })).toBe(`the last run was partial: ${KEY_MISSING}`);
  expect(problem({ ...partial, name: 'acme', runErrorCode: 'removals_held' })).toBe(
    'the last run was partial: roles: denied (to decide on removals: `tidemark fleet checkout acme`)',
  );
  expect(problem({ health: 'fine', overdueMs: 1000, error: KEY_MISSING })).toBe(KEY_MISSING);
  expect(problem({ health: 'fine', overdueMs: -1000, error: KEY_MISSING })).toBe('');
  const waits = { errorCode: 'throttled', error: 'used up', overdueMs: -60_000 };
  expect(problem({ ...waits, health: 'fine' })).toBe('used up');
  expect(problem({ ...waits, health: 'late', overdueMs: -600_000 })).toBe('waits another 10 min: used up');
  expect(problem({ ...waits, health: 'new' })).toBe('no run yet: used up');
  for (const health of ['fine', 'late', 'new'] as const)
    expect(problem({ ...waits, health, overdueMs: 60_000 }), 'once it is over').not.toContain('used up');
  expect(problem({ health: 'fine', isStored: false })).toBe(
    'not in storage: only the worker that made the last run has it',
  );
});

it('says why a cell counts as not in storage', () => {
  const health = 'not_stored';
  expect(problem({ health, isStored: false, unstoredAgeMs: 7_200_000 })).toBe(
    'not in storage for 2 h: only worker w1 has it',
  );
  expect(problem({ health, isStored: false, unstoredAgeMs: 60_000, isLastWorkerAlive: false })).toBe(
    'not in storage: only worker w1 has it, which is not alive',
  );
  expect(problem({ health, isStored: false, overdueMs: 1000, error: 'storage lacks it' })).toBe(
    'storage lacks it',
  );
});

it('says besides what else is wrong that a cell is not in storage', () => {
  const facts = { failures: 1, isStored: false, error: 'altered' };
  expect(problem({ ...facts, health: 'failing' })).toBe(
    'failing, 1 failure in a row, not in storage: altered',
  );
  expect(problem({ ...facts, health: 'late', overdueMs: 1_200_000 })).toBe(
    'due for 20 min, not in storage: altered',
  );
  expect(problem({ ...facts, health: 'partial', lastOutcome: 'partial' })).toBe(
    'the last run was partial, not in storage: altered',
  );
});

it('is one line of a length that a table can show', () => {
  expect(problem({ health: 'new', error: 'first\nsecond' })).toBe('no run yet: first');
  expect(problem({ health: 'new', error: 'x'.repeat(1000) })).toBe(`no run yet: ${'x'.repeat(200)}…`);
  expect(problem({ health: 'new', error: 'x'.repeat(1000) }, { most: Infinity })).toBe(
    `no run yet: ${'x'.repeat(1000)}`,
  );
});

it('counts no cell as wrong that is fine, that a person has, or that is retired', () => {
  const wrong = CELL_HEALTHS.filter((health) => isWrong({ health } as CellOverview));
  expect(wrong).toEqual(['quarantined', 'failing', 'not_stored', 'late', 'new', 'partial']);
});
