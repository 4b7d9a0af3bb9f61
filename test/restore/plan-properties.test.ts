import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isMask } from '../../src/catalog/masks.ts';
import { type JsonObject, type JsonValue, isJsonObject } from '../../src/core/json.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { canonicalText } from '../../src/diff/canonical.ts';
import { idText } from '../../src/diff/match-records.ts';
import { textsWhere, topMember } from '../../src/restore/places.ts';
import { isExecutable } from '../../src/restore/plan/plan.ts';
import { planRestore } from '../../src/restore/plan/planner.ts';
import { creatableFields, writableFields } from '../../src/restore/plan/settings.ts';
import { applyPlan } from './applier.ts';
import { events, happened, state } from './random-states.ts';
import { inputOf, posthog, stateOf } from './states.ts';

const LOOSE = { maxShare: 1, minRecords: 1_000_000 };
const world = fc.tuple(state, events, fc.boolean()).map(([desired, list, isPruned]) => {
  const live = happened(desired, list);
  const options = {
    limits: LOOSE,
    ownUserId: 'nobody',
    prune: isPruned ? { maxRemovals: 1000 } : null,
  };
  return { desired, live, input: inputOf(stateOf(desired), stateOf(live), { options }) };
});

const text = (value: JsonValue | undefined): string => idText(value ?? null);

/** What of a record restore answers for, with ids replaced by what they name: equal in two states that are the same. */
function meaning(record: ParsedRecord, all: readonly ParsedRecord[]): string {
  const nameOf = (kind: string, id: JsonValue | undefined): string => {
    const found = all.find((each) => each.kind === kind && each.id === text(id));
    return found === undefined ? `lost ${kind}` : text((found.body as JsonObject)['name']);
  };
  const body = record.body as JsonObject;
  const managed: JsonObject = {};
  for (const { name } of writableFields(posthog(record.kind))) {
    if (Object.hasOwn(body, name)) managed[name] = body[name]!;
  }
  if ('team_id' in body) managed['team_id'] = nameOf('projects', body['team_id']);
  const access = managed['private_project_access'];
  if (Array.isArray(access))
    managed['private_project_access'] = access.map((each) => nameOf('projects', (each as JsonObject)['id']));
  const role = record.scope.role_id === undefined ? '' : nameOf('roles', record.scope.role_id);
  const user = isJsonObject(body['user']) ? text(body['user']['email']) : '';
  return `${record.kind} ${record.scope.organization_id ?? record.id} ${role} ${user} ${canonicalText(managed)}`;
}

describe('for any two states', () => {
  it('apply(plan(desired, live), live) equals desired, and a second plan is empty', () => {
    let restored = 0;
    fc.assert(
      fc.property(world, ({ desired, live, input }) => {
        const plan = planRestore(input);
        const applied = applyPlan(plan, input);
        const stopped = new Set(
          plan.steps.filter((step) => !isExecutable(step)).map(({ desired: is }) => `${is?.kind} ${is?.id}`),
        );
        const after = new Set(applied.live.map((each) => meaning(each, applied.live)));
        for (const record of desired) {
          if (stopped.has(`${record.kind} ${record.id}`)) continue;
          // A role whose name could not be put back names its memberships otherwise.
          if (stopped.has(`roles ${record.scope.role_id}`)) continue;
          restored += live.some((each) => each.id === record.id) ? 0 : 1;
          expect(after).toContain(meaning(record, desired));
        }
        if (input.options.prune !== null && stopped.size === 0) {
          expect([...after].sort()).toEqual(
            [...new Set(desired.map((each) => meaning(each, desired)))].sort(),
          );
        }
        const second = planRestore({ ...input, live: stateOf(applied.live) });
        expect(second.steps.filter(isExecutable)).toEqual([]);
      }),
      { numRuns: 250 },
    );
    expect(restored).toBeGreaterThan(100);
  });

  it('nothing outside the plan changes, nothing is removed unasked, and nobody else but the plan says what', () => {
    fc.assert(
      fc.property(world, ({ live, input }) => {
        const plan = planRestore(input);
        const applied = applyPlan(plan, input);
        const planned = new Set(plan.steps.filter(isExecutable).map(({ id }) => id));
        for (const before of live) {
          const after = applied.live.find(({ kind, id }) => kind === before.kind && id === before.id);
          if (!planned.has(before.id)) expect(after).toEqual(before);
          else if (input.options.prune === null) expect(after).toBeDefined();
        }
        expect(applied.live.length - live.length).toBe(plan.summary.create - plan.summary.remove);
      }),
      { numRuns: 120 },
    );
  });

  it('no step writes a server-owned or masked value, or more than what differs', () => {
    fc.assert(
      fc.property(world, ({ input }) => {
        for (const { step, body } of applyPlan(planRestore(input), input).sent) {
          if (body === null || step.action === 'act') continue;
          const definition = posthog(step.request!.kind);
          const allowed = step.action === 'create' ? creatableFields(definition) : writableFields(definition);
          const names = allowed.map(({ name }) => name);
          expect([...names, 'send_email']).toEqual(expect.arrayContaining(Object.keys(body as JsonObject)));
          expect(textsWhere(body, (text) => isMask(text) || text === '[secret]')).toEqual([]);
          if (step.action !== 'update') continue;
          const changed = step.fields.map(({ path }) => path.split('/')[1]);
          const moved = step.precondition?.state === 'after' ? ['last_paused_at'] : [];
          expect([...changed, ...moved]).toEqual(expect.arrayContaining(Object.keys(body as JsonObject)));
        }
      }),
      { numRuns: 120 },
    );
  });

  it('levels rise along what steps need, and numbers too', () => {
    fc.assert(
      fc.property(world, ({ input }) => {
        const { steps } = planRestore(input);
        for (const [index, step] of steps.entries()) {
          expect(step.n).toBe(index + 1);
          for (const need of step.after) {
            expect(need).toBeLessThan(step.n);
            expect(steps[need - 1]!.level).toBeLessThan(step.level);
            if (isExecutable(step)) expect(isExecutable(steps[need - 1]!)).toBe(true);
          }
        }
      }),
      { numRuns: 80 },
    );
  });

  it('the hash is that of the content: the order of the records, of keys and the time take no part', () => {
    fc.assert(
      fc.property(world, fc.nat(), ({ desired, live, input }, later) => {
        const plan = planRestore(input);
        const turned = desired.toReversed().map((each) => ({ ...each, body: reversed(each.body) }));
        const again = planRestore({
          ...input,
          desired: stateOf(turned),
          live: stateOf(live.toReversed()),
          now: input.now + later,
        });
        expect(again.hash).toBe(plan.hash);
        const step = plan.steps.find(({ action, fields }) => action === 'update' && fields.length > 0);
        if (step === undefined) return;
        const moved = live.map((each) =>
          each.id === step.id && each.kind === step.kind
            ? { ...each, body: { ...(each.body as JsonObject), [topMember(step.fields[0]!.path)]: 'moved' } }
            : each,
        );
        expect(planRestore({ ...input, live: stateOf(moved) }).hash).not.toBe(plan.hash);
      }),
      { numRuns: 80 },
    );
  });
});

function reversed(value: JsonValue): JsonValue {
  return isJsonObject(value) ? Object.fromEntries(Object.entries(value).reverse()) : value;
}
