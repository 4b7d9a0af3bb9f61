/** Random edits between runs: what `diff`, its patches, `log` and `show --at` tell is what was done. */
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type World, world } from './comparison.ts';

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type Body = Record<string, Json>;
type Model = ReadonlyMap<string, Body>;

interface PatchRecord {
  readonly id: string;
  readonly change: string;
  readonly patch: readonly Operation[];
}
interface Operation {
  readonly op: string;
  readonly path: string;
  readonly value?: Json;
}

const KEYS = ['a', 'b/c', 'd~e', '', '__proto__', 'constructor', '0'];
const leaf = fc.constantFrom<Json>(null, '', 0, 1, 1.5, false, true, '1', '<b>', '\u202e', [], {});
const withIds = fc
  .uniqueArray(fc.integer({ min: 1, max: 6 }), { maxLength: 5 })
  .chain((ids) => fc.tuple(...ids.map((id) => leaf.map((v): Json => ({ id, v })))));
const value = fc.oneof(
  leaf,
  fc.array(leaf, { maxLength: 3 }),
  withIds as fc.Arbitrary<Json>,
  fc.dictionary(fc.constantFrom(...KEYS), fc.oneof(leaf, withIds as fc.Arbitrary<Json>), { maxKeys: 4 }),
);
const edit = fc.record({
  id: fc.constantFrom('e1', 'e2', 'e3', 'e4'),
  how: fc.constantFrom<'put' | 'remove'>('put', 'put', 'put', 'remove'),
  key: fc.constantFrom(...KEYS),
  value,
});
/** Some edits for each of three runs after the first. */
const edits = fc.array(fc.array(edit, { maxLength: 4 }), { minLength: 3, maxLength: 3 });

describe('a history of random edits', () => {
  it('is reported by diff, patch, log and show as it was', async () => {
    for (const script of fc.sample(edits, { seed: 20_260_301, numRuns: 2 })) {
      const it = await world();
      const states = await played(it, script);
      for (const [i, from] of states.entries())
        for (const [j, to] of states.entries())
          if (i !== j - 2) await compared(it, [i + 1, from], [j + 1, to]);
      await remembered(it, states);
    }
  });
});

/** Runs a sync after each lot of edits; the states that the service had. */
async function played(
  { service, expectRun }: World,
  script: readonly (readonly { id: string; how: string; key: string; value: Json }[])[],
): Promise<Model[]> {
  const states: Model[] = [];
  // One stays: a list that comes back empty is held, not believed.
  let now = new Map<string, Body>([['e0', export1('e0', {})]]);
  for (const lot of [[], ...script]) {
    now = new Map(now);
    for (const { id, how, key, value } of lot) {
      const settings = structuredClone((now.get(id)?.['destination'] ?? {}) as Body);
      own(settings, key, value);
      if (how === 'remove') now.delete(id);
      else now.set(id, export1(id, settings));
    }
    service.set('batch_exports', [...now.values()]);
    await expectRun(0, 'sync', '--quiet', '--kind', 'batch_exports');
    states.push(now);
  }
  return states;
}

const export1 = (id: string, destination: Body): Body => ({ id, name: `Export ${id}`, destination });

async function compared(
  { diff, expectRun }: World,
  [a, from]: readonly [number, Model],
  [b, to]: readonly [number, Model],
): Promise<void> {
  const expected = [...new Set([...from.keys(), ...to.keys()])].sort().flatMap((id) => {
    const before = from.get(id);
    const after = to.get(id);
    if (before === undefined) return [`${id} added`];
    if (after === undefined) return [`${id} removed`];
    return canonical(before) === canonical(after) ? [] : [`${id} changed`];
  });
  const code = expected.length === 0 ? 0 : 2;
  const pair = [`run:${a}`, `run:${b}`, '--kind', 'batch_exports'];
  const { changes, skipped, summary } = await diff(code, ...pair);
  expect(changes.map(({ id, change }) => `${id} ${change}`).sort()).toEqual(expected);
  expect(skipped).toEqual([]);
  expect((summary['added'] ?? 0) + (summary['removed'] ?? 0) + (summary['changed'] ?? 0)).toBe(
    expected.length,
  );

  const { stdout } = await expectRun(code, 'diff', ...pair, '--format', 'patch');
  const { records } = JSON.parse(stdout) as { records: readonly PatchRecord[] };
  expect(records).toHaveLength(expected.length);
  for (const { id, patch } of records) {
    const made = patched(from.get(id), patch);
    const wanted = to.get(id);
    expect(made === undefined ? null : canonical(made)).toBe(wanted === undefined ? null : canonical(wanted));
  }
}

/** `show --at` gives each state; `log` has one revision for each step that changed the record, and its window. */
async function remembered({ run, expectRun }: World, states: readonly Model[]): Promise<void> {
  for (const id of new Set(states.flatMap((state) => [...state.keys()]))) {
    const steps = states.flatMap((state, index) => {
      const before = states[index - 1]?.get(id);
      const after = state.get(id);
      if (canonical(before ?? null) === canonical(after ?? null)) return [];
      return [
        {
          run: index + 1,
          change: before === undefined ? 'added' : after === undefined ? 'removed' : 'changed',
        },
      ];
    });
    const { stdout } = await expectRun(0, 'log', 'batch_exports', id, '--json');
    const log = JSON.parse(stdout) as {
      revisions: { run: number; change: string; last_seen_before: { run: number } | null }[];
    };
    expect(log.revisions.map(({ run, change }) => ({ run, change }))).toEqual(steps.toReversed());
    for (const { run: changedBy, last_seen_before: before, change } of log.revisions)
      if (change !== 'added') expect(before?.run).toBe(changedBy - 1);
    for (const [index, state] of states.entries()) {
      const shown = await run('show', 'batch_exports', id, '--at', `run:${index + 1}`, '--json');
      const wanted = state.get(id);
      if (wanted === undefined) continue;
      expect(canonical((JSON.parse(shown.stdout) as { body: Json }).body)).toBe(canonical(wanted));
    }
  }
}

/** A member of an object, whatever it is called. */
function own(object: Body, key: string, value: Json): void {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

function canonical(value: Json): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  return `{${Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key] ?? null)}`)
    .join()}}`;
}

/** RFC 6902, as strict as it is written: what is replaced or removed has to be there. */
function patched(document: Json | undefined, patch: readonly Operation[]): Json | undefined {
  let root = document === undefined ? undefined : structuredClone(document);
  for (const { op, path, value } of patch) {
    const steps = path
      .split('/')
      .slice(1)
      .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
    const last = steps.pop();
    if (last === undefined) {
      root = op === 'remove' ? undefined : value;
      continue;
    }
    const parent = steps.reduce<Json | undefined>((at, step) => {
      if (at === null || typeof at !== 'object') throw new Error(`${path}: no parent`);
      if (!Object.hasOwn(at, step)) throw new Error(`${path}: no ${step}`);
      return (at as Body)[step];
    }, root);
    if (parent === null || typeof parent !== 'object') throw new Error(`${path}: no parent`);
    if (op !== 'add' && !Object.hasOwn(parent, last)) throw new Error(`${op} ${path}: not there`);
    if (Array.isArray(parent))
      parent.splice(Number(last), op === 'add' ? 0 : 1, ...(op === 'remove' ? [] : [value ?? null]));
    else if (op === 'remove') Reflect.deleteProperty(parent, last);
    else own(parent, last, value ?? null);
  }
  return root;
}
