/** What the mirror's tests share: temporary directories, a clock that is moved, records and short runs. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import type { Clock } from '../../src/core/clock.ts';
import { type ScannedRecord, scanRecord } from '../../src/core/json-scan.ts';
import { parseLossless } from '../../src/core/json.ts';
import { CATALOG, definitionOf } from '../../src/catalog/catalog.ts';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { volatileFields } from '../../src/catalog/volatile-names.ts';
import { type Mirror } from '../../src/mirror/mirror.ts';
import { openMirror } from '../../src/mirror/open.ts';
import type { RunOptions, RunWriter } from '../../src/mirror/run-writer.ts';
import type { SweepResult } from '../../src/mirror/sweep-result.ts';

const START = Date.UTC(2026, 2, 1, 12);

export interface TestClock extends Clock {
  move(ms: number): void;
}

export function testClock(): TestClock {
  let now = START;
  return {
    now: () => now,
    monotonicMs: () => now,
    sleep: () => Promise.reject(new Error('nothing here sleeps')),
    move: (ms) => {
      now += ms;
    },
  };
}

const directories: string[] = [];
const mirrors: Mirror[] = [];

afterEach(() => {
  for (const mirror of mirrors.splice(0)) mirror.close();
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true });
});

/** A directory that is removed after the test. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-mirror-'));
  directories.push(directory);
  return directory;
}

/** A mirror that is closed after the test; a new one unless a path is given. */
export function open(
  options: {
    path?: string;
    mode?: 'read' | 'write';
    clock?: Clock;
    command?: string;
    mayCreate?: boolean;
  } = {},
): Mirror {
  const mirror = openMirror(options.path ?? join(temporaryDirectory(), 'mirror.db'), {
    mode: options.mode ?? 'write',
    command: options.command ?? 'test',
    clock: options.clock ?? testClock(),
    mayCreate: options.mayCreate ?? true,
    host: 'here',
    pid: 4711,
    actor: { by: 'ann@here', via: 'ann@here' },
  });
  mirrors.push(mirror);
  return mirror;
}

export const VOLATILE: ReadonlyMap<Kind, ReadonlySet<string>> = new Map(
  CATALOG.map((definition) => [definition.kind, volatileFields(definition)]),
);

/** The body as a list would hold it. */
export function scan(kind: Kind, body: string, volatile = VOLATILE): ScannedRecord {
  return scanRecord(body, { idPath: definitionOf(kind).idPath, volatile: volatile.get(kind) ?? new Set() });
}

/** Equal by value: numbers as doubles, key order ignored, volatile members ignored. */
export function isEqual(kind: Kind, one: string, other: string): boolean {
  return canonical(kind, one) === canonical(kind, other);
}

function canonical(kind: Kind, text: string): string {
  const left = VOLATILE.get(kind);
  const order = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(order);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, inner]) => [key, order(inner)]),
    );
  };
  const parsed = JSON.parse(text) as Record<string, unknown>;
  return JSON.stringify(
    order(Object.fromEntries(Object.entries(parsed).filter(([key]) => left?.has(key) !== true))),
  );
}

export const ORG: Scope = { organization_id: 'o1' };
export const PROJECT: Scope = { project_id: '1' };

export function begin(mirror: Mirror, options: Partial<RunOptions> = {}): RunWriter {
  return mirror.runs.begin({
    source: { name: 'production', baseUrl: 'https://svc.example.com' },
    trigger: 'sync',
    volatileFields: VOLATILE,
    definitions: CATALOG,
    isEqual,
    ...options,
  });
}

export function sweep(
  kind: Kind,
  scope: Scope,
  records: number,
  rest: Partial<SweepResult> = {},
): SweepResult {
  return {
    kind,
    scope,
    outcome: 'complete',
    mode: 'full',
    pages: 1,
    count: records,
    records,
    error: null,
    ...rest,
  };
}

/** One run that sees exactly these bodies of one collection; what is absent is removed. */
export async function sync(
  mirror: Mirror,
  kind: Kind,
  scope: Scope,
  bodies: readonly string[],
  options: Partial<RunOptions> = {},
): ReturnType<RunWriter['publish']> {
  const run = begin(mirror, options);
  const stage = run.stage(kind, scope);
  stage.accept(bodies.map((body) => scan(kind, body, options.volatileFields ?? VOLATILE)));
  for (const { id } of stage.absent()) stage.remove(id);
  return await run.publish({
    outcome: 'complete',
    sweeps: [sweep(kind, scope, bodies.length)],
    requests: 1,
    retries: 0,
  });
}

/** Current bodies by id. */
export function bodies(mirror: Mirror, kind: Kind, at?: number): Record<string, string> {
  const filter = { kinds: [kind] };
  const records = [...(at === undefined ? mirror.records.read(filter) : mirror.records.readAt(at, filter))];
  const keys = [...(at === undefined ? mirror.records.keys(filter) : mirror.records.keysAt(at, filter))];
  // Both ways of reading tell of the same records, in the same order.
  expect(keys).toEqual(records.map(({ source, kind: own, scope, id }) => ({ source, kind: own, scope, id })));
  return Object.fromEntries(records.map(({ id, body }) => [id, body]));
}

/** What a lossless reader gets from a body: for comparisons by value. */
export const parsed = parseLossless;
