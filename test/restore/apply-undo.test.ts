import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { Secret } from '../../src/core/secret.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { isExecutable, type SecretLookup } from '../../src/restore/plan/plan.ts';
import { seededRandom } from '../faults/seeded-random.ts';
import { SOURCE } from './apply-source.ts';
import { altered, counts, nativeWorld, startRig, without } from './apply-rig.ts';
import { posthog, svc } from './states.ts';
import { undoPlan } from './undo-plan.ts';

const managed = (records: readonly ParsedRecord[]): string[] =>
  records
    .map(({ kind, body }) => {
      const { name, timezone, paused, enforce_2fa: twofa } = body as JsonObject;
      return `${kind} ${JSON.stringify([name, timezone, paused, twofa])}`;
    })
    .sort();

describe('undo', () => {
  it('takes back what a restore created, changed and did, and nothing else; twice is nothing', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const live = altered(
      without(native, ({ kind }) => kind === 'roles' || kind === 'proxy_records'),
      ({ kind }) => kind === 'projects',
      { timezone: 'X' },
    );
    const paused = altered(live, ({ kind }) => kind === 'batch_exports', { paused: true });
    rig.put(paused);
    const before = managed(rig.live());
    const report = await rig.apply(rig.plan(native));
    expect(report.outcome).toBe('complete');
    const plan = undoPlan(rig, report.restore, false, { readsAll: true });
    expect(plan.summary).toMatchObject({ create: 0, blocked: 0 });
    expect(plan.summary.remove).toBeGreaterThan(3);
    expect(plan.summary.update).toBeGreaterThan(0);
    const undone = await rig.apply(plan, { undoes: report.restore });
    expect(undone).toMatchObject({ outcome: 'complete', undoes: report.restore });
    expect(managed(rig.live())).toEqual(before);
    expect(undoPlan(rig, report.restore, false, { readsAll: true }).steps).toEqual([]);
  });

  it('names the secrets that the restore sent over others, which stay', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const one = native.find(({ kind }) => kind === 'batch_exports')!;
    const at = (bucket: string): ParsedRecord[] => {
      const destination = {
        type: 'S3',
        config: {
          bucket_name: bucket,
          region: 'eu-central-1',
          prefix: 'p/',
          compression: null,
          encryption: null,
          file_format: 'JSONLines',
        },
      };
      return altered(native, ({ id }) => id === one.id, { destination });
    };
    rig.put(at('evil'));
    const secrets: SecretLookup = {
      find: (_record, pointer) => (pointer.includes('/aws_') ? new Secret('sent') : undefined),
    };
    const plan = rig.plan(at('good'), { definitions: svc, secrets });
    const { restore, steps } = await rig.apply(plan, {
      secrets,
      source: { ...SOURCE, definitions: SOURCE.definitions.map(({ kind }) => svc(kind)) },
    });
    expect(steps).toMatchObject([{ outcome: 'applied', verified: true, error: null }]);
    const places = ['aws_access_key_id', 'aws_secret_access_key'].map(
      (name) => `/destination/config/${name}`,
    );
    for (const definitions of [{}, { definitions: posthog }]) {
      const { left } = undoPlan(rig, restore, false, { readsAll: true, ...definitions });
      // Not also that they are not sent, as the service keeps those that it has.
      expect(left.map(({ reason }) => reason)).toEqual([
        expect.stringContaining(`the secrets at ${places.join(', ')} stay as the restore sent them`),
      ]);
    }
    // With the secrets in the configuration they would go to what the restore had replaced.
    const sending = undoPlan(rig, restore, false, { readsAll: true, definitions: svc, secrets });
    expect(sending.warnings).toEqual([
      `the configured secrets at ${places.join(', ')} are sent to batch export ${JSON.stringify(sending.steps[0]?.name)}, with /destination/config/bucket_name "evil", which the restore had replaced: apply this only if they are meant for it`,
    ]);
    expect(undoPlan(rig, restore, false, { readsAll: true, secrets }).warnings).toBeUndefined();
  });

  it('refuses what was changed since, unless forced', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    rig.put(altered(native, ({ kind }) => kind === 'projects', { timezone: 'X' }));
    const report = await rig.apply(rig.plan(native));
    const [one, ...others] = native.filter(({ kind }) => kind === 'projects');
    await rig.running.call('PATCH', `/api/organizations/${native[0]?.id}/projects/${one?.id}/`, {
      timezone: 'Y',
    });
    const plan = undoPlan(rig, report.restore, false, { readsAll: true });
    expect(plan.steps.filter((step) => !isExecutable(step))).toMatchObject([
      { id: one?.id, obstacle: 'changed_since' },
    ]);
    expect(plan.summary.update).toBe(others.length);
    expect(undoPlan(rig, report.restore, true, { readsAll: true }).summary).toMatchObject({
      blocked: 0,
      update: others.length + 1,
    });
  });

  it('names the later restore that changed a record, which is undone first', async () => {
    const rig = await startRig();
    const native = (await nativeWorld(rig)).filter(({ kind }) => kind !== 'role_memberships');
    const role = native.find(({ kind }) => kind === 'roles')!;
    const damaged = without(native, ({ id }) => id === role.id);
    rig.put(damaged);
    const first = await rig.apply(rig.plan(native));
    const newId = first.steps[0]?.new_id;
    const renamed = altered(native, ({ id }) => id === role.id, { name: 'Renamed' });
    const second = await rig.apply(rig.plan(renamed));
    expect(second.summary).toMatchObject({ applied: 1, blocked: 0 });
    expect(undoPlan(rig, first.restore).steps).toMatchObject([
      {
        ...{ action: 'blocked', id: newId, name: 'Renamed' },
        reason: `restore ${second.restore} changed it since: undo that first (\`tidemark undo ${second.restore}\`); or add --force-changed to undo it anyway`,
      },
    ]);
    const undoSecond = await rig.apply(undoPlan(rig, second.restore), { undoes: second.restore });
    expect(undoSecond.outcome).toBe('complete');
    const undoFirst = await rig.apply(undoPlan(rig, first.restore), { undoes: first.restore });
    expect(undoFirst.outcome).toBe('complete');
    expect(managed(rig.live())).toEqual(managed(damaged));
  });

  it('makes again what a restore had removed', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const lesser = without(native, ({ kind }) => kind === 'roles');
    const prune = { prune: { maxRemovals: 100 } };
    const report = await rig.apply(rig.plan(lesser, { options: prune }));
    expect(counts(rig.live())['roles']).toBeUndefined();
    await rig.apply(undoPlan(rig, report.restore, false, { readsAll: true }), { undoes: report.restore });
    expect(counts(rig.live())).toEqual(counts(native));
    expect(rig.plan(native).steps.filter(isExecutable)).toEqual([]);
  });
});

describe('for any damage', () => {
  it('apply(plan) makes live equal to desired on managed fields, a second plan is empty, the rest is untouched', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const damage = fc.record({ seed: fc.nat(), share: fc.integer({ min: 1, max: 5 }) });
    await fc.assert(
      fc.asyncProperty(damage, async ({ seed, share }) => {
        const random = seededRandom(seed + 1);
        const hit = (): boolean => random() < share / 10;
        const safe = new Set(['organizations', 'members', 'domains']);
        const live = altered(
          altered(
            without(native, ({ kind }) => !safe.has(kind) && hit()),
            ({ kind }) => kind === 'projects' && hit(),
            {
              timezone: 'X',
            },
          ),
          ({ kind }) => kind === 'batch_exports' && hit(),
          { interval: 'week', paused: true },
        );
        rig.put(live);
        const plan = rig.plan(native);
        const before = rig.live();
        const report = await rig.apply(plan);
        expect(report.summary.failed + report.summary.skipped + report.summary.unverified).toBe(0);
        const after = rig.live();
        expect(counts(after)).toEqual(counts(native));
        expect(rig.plan(native).steps.filter(isExecutable)).toEqual([]);
        const planned = new Set(plan.steps.map(({ id }) => id));
        for (const record of before) {
          if (planned.has(record.id) || record.kind === 'organizations' || record.kind === 'roles') continue;
          expect(after).toContainEqual(record);
        }
      }),
      { numRuns: 12 },
    );
  });
});
