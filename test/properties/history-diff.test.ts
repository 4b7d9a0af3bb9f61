/** A diff of two runs says what the service really did between them, and costs what it says; so does the history of a record. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { definitionOf, scopeKey } from '../../src/catalog/catalog.ts';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { type ResourceDefinition, changedDefinition } from '../../src/catalog/resource-definition.ts';
import { volatileFields } from '../../src/catalog/volatile-names.ts';
import { historyPieces } from '../../src/cli/export-history.ts';
import { type JsonValue, parseLossless } from '../../src/core/json.ts';
import type { DiffDocument } from '../../src/diff/change.ts';
import { compareBodies, type ComparisonMode } from '../../src/diff/compare.ts';
import { recordLog } from '../../src/diff/history.ts';
import { type State } from '../../src/diff/states.ts';
import { diffStates } from '../diff/diff-states.ts';
import { type Mirror } from '../../src/mirror/mirror.ts';
import { patchOperations } from '../../src/report/patch.ts';
import { diffRuns } from '../../src/state/mirror-diff.ts';
import { recordHistory } from '../../src/state/record-history.ts';
import { isSameContent } from '../../src/sync/content.ts';
import { applyPatch } from '../diff/json-patch.ts';
import { begin, open, scan, sweep, sync, VOLATILE } from '../mirror/fixture.ts';

/** `latest_runs` of a batch export is volatile, a role's fields are not documented, `teams` has elements with ids. */
const PLACES: readonly (readonly [Kind, Scope])[] = [
  ['organizations', {}],
  ['roles', { organization_id: 'a' }],
  ['roles', { organization_id: 'a!' }],
  ['batch_exports', { organization_id: 'a' }],
];

const text = fc.constantFrom(
  '1',
  '1.0',
  '1.10',
  '"x"',
  '"ü😀"',
  'null',
  '[]',
  '{}',
  '12345678901234567890',
  'true',
);
const teams = fc
  .uniqueArray(fc.tuple(fc.integer({ min: 1, max: 4 }), text), { maxLength: 3, selector: ([id]) => id })
  .map((all) => `[${all.map(([id, name]) => `{"id":${id},"name":${name}}`).join(',')}]`);
const member = fc.oneof(
  fc.tuple(fc.constantFrom('name', 'paused', 'latest_runs', 'extra', 'a/b~'), text),
  fc.tuple(fc.constant('teams'), teams),
);
const members = fc.uniqueArray(member, { maxLength: 4, selector: ([name]) => name });

/** One edit of the service: a record becomes this, or goes. */
const edit = fc.record({
  place: fc.nat({ max: PLACES.length - 1 }),
  id: fc.constantFrom('1', '2', 'B', 'ü', '😀', 'ﬀ'),
  members: fc.option(members, { freq: 4 }),
});
const history = fc.array(fc.array(edit, { maxLength: 6 }), { minLength: 1, maxLength: 6 });

/** Bodies by place and id. */
type World = ReadonlyMap<string, string>;

function nameOf(kind: Kind, scope: Scope, id: string): string {
  return `${kind} ${scopeKey(scope)} ${id}`;
}

function edited(
  world: World,
  edits: readonly (typeof edit extends fc.Arbitrary<infer E> ? E : never)[],
): World {
  const next = new Map(world);
  for (const { place, id, members: fields } of edits) {
    const [kind, scope] = PLACES[place]!;
    if (fields === null) next.delete(nameOf(kind, scope, id));
    else {
      const body = [['id', JSON.stringify(id)], ...fields].map(
        ([name, value]) => `${JSON.stringify(name)}:${value}`,
      );
      next.set(nameOf(kind, scope, id), `{${body.join(',')}}`);
    }
  }
  return next;
}

/** One run that finds the service like this. */
async function syncWorld(mirror: Mirror, world: World): Promise<void> {
  const run = begin(mirror, { isEqual: (kind, one, other) => isSameContent(definitionOf(kind), one, other) });
  const sweeps = PLACES.map(([kind, scope]) => {
    const prefix = nameOf(kind, scope, '');
    const bodies = [...world].flatMap(([name, body]) => (name.startsWith(prefix) ? [body] : []));
    const stage = run.stage(kind, scope);
    stage.accept(bodies.map((body) => scan(kind, body)));
    for (const { id } of stage.absent()) stage.remove(id);
    return sweep(kind, scope, bodies.length);
  });
  await run.publish({ outcome: 'complete', sweeps, requests: 1, retries: 0 });
}

function stateOf(mirror: Mirror, run: number): State {
  return { reference: { ref: `run:${run}`, run }, records: mirror.records.readAt(run) };
}

const point = (run: number): { ref: string; run: number } => ({ ref: `run:${run}`, run });

function valueOf(body: string | undefined): JsonValue | undefined {
  return body === undefined ? undefined : parseLossless(body);
}

/** Which records two states of the service differ in, told by comparing every one of them. */
function reallyDiffer(from: World, to: World): string[] {
  return [...new Set([...from.keys(), ...to.keys()])]
    .filter((name) => {
      const [one, other] = [valueOf(from.get(name)), valueOf(to.get(name))];
      if (one === undefined || other === undefined) return true;
      return compareBodies(definitionOf(name.split(' ')[0] as Kind), one, other, 'default').length > 0;
    })
    .sort();
}

function expectPatched(document: DiffDocument, from: World, to: World): void {
  for (const change of document.changes) {
    const { kind, scope, id } = change;
    const name = nameOf(kind, scope, id);
    const definition = definitionOf(kind);
    const result = applyPatch(valueOf(from.get(name)) ?? null, patchOperations(change));
    const wanted = valueOf(to.get(name));
    if (wanted === undefined) expect(result).toBeUndefined();
    else expect(compareBodies(definition, result!, wanted, 'default')).toEqual([]);
  }
}

describe('the diff of two runs', () => {
  it('equals the full comparison, byte for byte, and what the service really did', async () => {
    await fc.assert(
      fc.asyncProperty(
        history,
        fc.nat(),
        fc.nat(),
        fc.constantFrom<ComparisonMode>('default', 'managed', 'all'),
        fc.constantFrom<readonly string[]>([], ['/name'], ['/teams/0/name', '/extra']),
        async (edits, first, second, mode, fields) => {
          const mirror = open();
          const worlds: World[] = [new Map()];
          for (const step of edits) {
            worlds.push(edited(worlds.at(-1)!, step));
            await syncWorld(mirror, worlds.at(-1)!);
          }
          const from = first % worlds.length;
          const to = second % worlds.length;
          const options = { mode, fields };
          const quick = diffRuns(mirror, point(from), point(to), { ...options, filter: {} });
          const full = diffStates(stateOf(mirror, from), stateOf(mirror, to), options);
          expect(JSON.stringify(quick)).toBe(JSON.stringify(full));

          const whole = diffRuns(mirror, point(from), point(to), { mode: 'default', filter: {} });
          expect(whole.changes.map(({ kind, scope, id }) => nameOf(kind, scope, id)).sort()).toEqual(
            reallyDiffer(worlds[from]!, worlds[to]!),
          );
          expect(whole.compared.records).toBe(new Set([...worlds[from]!.keys(), ...worlds[to]!.keys()]).size);
          expectPatched(whole, worlds[from]!, worlds[to]!);

          const same = diffRuns(mirror, point(to), point(to), { mode: 'all', filter: {} });
          expect(same.changes).toEqual([]);
          expect(same.summary.unchanged).toBe(worlds[to]!.size);
          mirror.close();
        },
      ),
      { numRuns: 40 },
    );
  });

  it('equals the full comparison under every filter, and with what was skipped', async () => {
    const filters = [
      { ids: ['1', 'ü'] },
      { kinds: ['roles' as const] },
      { organizations: ['a!'] },
      { sources: ['production'] },
    ];
    const skipped = [{ kind: 'roles' as const, scope: { organization_id: 'a' }, reason: 'denied' }];
    await fc.assert(
      fc.asyncProperty(
        history,
        fc.constantFrom(...filters),
        fc.boolean(),
        fc.constantFrom('added', 'removed', 'neither'),
        async (edits, filter, isSkipping, unknown) => {
          const mirror = open();
          let world: World = new Map();
          for (const step of edits) {
            world = edited(world, step);
            await syncWorld(mirror, world);
          }
          const options = {
            mode: 'default' as const,
            ...(isSkipping ? { skipped } : {}),
            ...(unknown === 'neither'
              ? {}
              : {
                  isUnknown: ({ id }: { readonly id: string }, change: string): boolean =>
                    change === unknown && id !== '1',
                }),
          };
          for (const [from, to] of [[1, edits.length] as const, [edits.length, 0] as const]) {
            const quick = diffRuns(mirror, point(from), point(to), { ...options, filter });
            const full = diffStates(
              { reference: point(from), records: mirror.records.readAt(from, filter) },
              { reference: point(to), records: mirror.records.readAt(to, filter) },
              options,
            );
            expect(JSON.stringify(quick)).toBe(JSON.stringify(full));
          }
          mirror.close();
        },
      ),
      { numRuns: 15 },
    );
  });

  it('stays what it was between the runs that retention keeps', async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.integer({ min: 1, max: 4 }), async (edits, last) => {
        const mirror = open();
        let world: World = new Map();
        for (const step of [...edits, ...edits.toReversed()]) {
          world = edited(world, step);
          await syncWorld(mirror, world);
        }
        const kept = mirror.runs.list({ limit: last }).map(({ run }) => run);
        const pairs = kept.flatMap((from) => kept.map((to) => [from, to] as const));
        const told = (): string[] =>
          pairs.map(([from, to]) =>
            JSON.stringify(diffRuns(mirror, point(from), point(to), { mode: 'default', filter: {} })),
          );
        const before = told();
        await mirror.retention.forget({
          policy: { last },
          isEqual: (_source, kind, one, other) => isSameContent(definitionOf(kind), one, other),
        });
        expect(mirror.runs.list()).toHaveLength(kept.length);
        expect(told()).toEqual(before);
        expect((await mirror.verify()).problems).toEqual([]);
        mirror.close();
      }),
      { numRuns: 10 },
    );
  });
});

/** A run that finds the record with these values, `enforce_2fa` volatile or not; `member_count` always is. */
const visit = fc.record({ isVolatile: fc.boolean(), value: fc.nat({ max: 2 }), members: fc.nat({ max: 1 }) });

function organizationsWith(isVolatile: boolean): ResourceDefinition {
  const definition = definitionOf('organizations');
  const fields = definition.fields.map((field) =>
    field.name === 'enforce_2fa' ? { ...field, isVolatile } : field,
  );
  return changedDefinition(definition, { fields });
}

describe('the history of a record with a field that is volatile at times', () => {
  it('has the changes that log and a diff of each run with the one before show, and the body of now', async () => {
    const visits = fc.array(visit, { minLength: 1, maxLength: 7 });
    await fc.assert(
      fc.asyncProperty(visits, fc.boolean(), async (all, isVolatileNow) => {
        const mirror = open();
        let body = '';
        for (const { isVolatile, value, members: count } of all) {
          const definition = organizationsWith(isVolatile);
          body = `{"id":"o1","name":"O","enforce_2fa":${value},"member_count":${count}}`;
          await sync(mirror, 'organizations', {}, [body], {
            volatileFields: new Map([...VOLATILE, ['organizations', volatileFields(definition)]]),
            isEqual: (_kind, one, other) => isSameContent(definition, one, other),
          });
        }
        const definition = organizationsWith(isVolatileNow);
        const definitions = (): ResourceDefinition => definition;
        const pieces = historyPieces(mirror, {}, 'ndjson', {
          definitions: () => definitions,
          count: () => undefined,
        });
        const rows = [...pieces].map((line) => JSON.parse(String(line)) as { run: number; changes: unknown });
        expect(rows.at(-1)).toMatchObject({ body: JSON.parse(body) as object });

        const changed = rows.slice(1).map(({ run, changes }) => ({ run, fields: changes }));
        const [row] = mirror.records.find('organizations', 'o1');
        const { revisions } = recordHistory(mirror, row!, all.length, definitions);
        const log = recordLog(definition, revisions, { mode: 'default', sightingBefore: () => null });
        const logged = log.slice(0, -1).reverse();
        expect(changed).toEqual(logged.map(({ run, fields }) => ({ run, fields })));
        // A value that a later run replaced in place is of no run: here none is.
        if (!all.some(({ isVolatile }, index) => isVolatile && all[index - 1]?.isVolatile)) {
          const diffs = all.slice(1).flatMap((_, index) => {
            const ends = [point(index + 1), point(index + 2)] as const;
            const [change] = diffRuns(mirror, ...ends, {
              mode: 'default',
              filter: {},
              definitions,
            }).changes;
            return change === undefined ? [] : [{ run: index + 2, fields: change.fields }];
          });
          expect(changed).toEqual(diffs);
        }
        mirror.close();
      }),
      {
        numRuns: 25,
        // Kept, volatile, and kept again with the value that it had first.
        examples: [
          [[0, 1, 1, 0].map((value, index) => ({ isVolatile: index === 1, value, members: 0 })), false],
        ],
      },
    );
  });
});
