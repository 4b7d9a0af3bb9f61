/** A removal whose request was journaled and perhaps never sent is looked at again like any other (invariant 5 and 7). */
import { expect, it } from 'vitest';
import type { WriteClient } from '../../src/api/write-client.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { readResumable } from '../../src/restore/apply/resume.ts';
import { nativeWorld, startRig } from './apply-rig.ts';
import { SOURCE } from './apply-source.ts';
import { interceptedMirror } from './mirror-proxy.ts';

/** Everything that is asked of it fails once `isDead` says so; what `kills` names makes it so. */
function mortal<T extends object>(target: T, state: { isDead: boolean }, kills: readonly string[]): T {
  return new Proxy(target, {
    get: (own, name) => {
      const value: unknown = Reflect.get(own, name, own);
      if (typeof value !== 'function') return value;
      return (...given: unknown[]): unknown => {
        if (kills.includes(String(name))) state.isDead = true;
        if (state.isDead) throw new Error('killed');
        return Reflect.apply(value, own, given);
      };
    },
  });
}

it('what came into a record before the restore went on keeps it from going', async () => {
  const rig = await startRig();
  await nativeWorld(rig);
  const { call } = rig.running;
  const organization = rig.live().find(({ kind }) => kind === 'organizations')!.id;
  const roles = `/api/organizations/${organization}/roles/`;
  const { id: role } = (await call('POST', roles, { name: 'extra role' })).json as { id: string };
  const desired = rig.live().filter(({ id, scope }) => id !== role && scope.role_id !== role);
  const plan = rig.plan(desired, { options: { prune: { maxRemovals: 5 } } });
  expect(plan.steps.map(({ action, kind }) => `${action} ${kind}`)).toEqual(['remove roles']);

  const state = { isDead: false };
  const client: WriteClient = mortal(rig.client(), state, ['remove']);
  const mirror = interceptedMirror(rig.mirror(), ({ run }) => {
    if (state.isDead) throw new Error('killed');
    return run();
  });
  await expect(rig.apply(plan, { client, mirror })).rejects.toThrow('killed');

  const member = rig.live().find(({ kind }) => kind === 'members')!;
  const { uuid } = (member.body as JsonObject)['user'] as { uuid: string };
  expect((await call('POST', `${roles}${role}/role_memberships/`, { user_uuid: uuid })).status).toBe(201);

  const again = rig.reopen();
  const found = readResumable(again, SOURCE.name);
  expect(again.restores.steps(found.row.restore).map(({ outcome }) => outcome)).toEqual(['sent']);
  const report = await rig.apply(found.plan, { mirror: again, restore: found.row.restore });
  expect(report.steps[0]).toMatchObject({ outcome: 'failed', error: { code: 'moved' } });
  expect(rig.live().some(({ id }) => id === role)).toBe(true);
});
