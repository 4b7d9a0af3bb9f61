/** The writer's turn while another process works on the mirror for this one. */
import { describe, expect, it } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { MirrorConnections } from '../../src/daemon/mirror-access.ts';
import { ActiveProblems } from '../../src/daemon/problems.ts';
import { type Mirror } from '../../src/mirror/mirror.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { Rig } from './rig.ts';

interface World {
  readonly rig: Rig;
  readonly mirrorAccess: MirrorConnections;
  readonly signal: AbortSignal;
  readonly openElsewhere: () => Mirror;
}

async function world(): Promise<World> {
  const rig = await Rig.create({});
  const effects = rig.effects();
  const config: Config = effects.loadConfig();
  const mirrorAccess = new MirrorConnections(
    effects,
    new ActiveProblems(rig.clock, effects.log),
    () => config,
  );
  const { signal } = new AbortController();
  const { clock, mirrorPath } = rig;
  return {
    rig,
    mirrorAccess,
    signal,
    openElsewhere: () => openMirror(mirrorPath, { mode: 'write', command: 'sync', clock }),
  };
}

describe('a lease that is lent', () => {
  it('gives the lock away and keeps the turn', async () => {
    const { mirrorAccess, signal, openElsewhere } = await world();
    const lease = await mirrorAccess.lease('daemon sync', true, signal);
    expect(openElsewhere).toThrow(/in use|locked|held/);
    lease.suspend();
    expect(() => lease.mirror).toThrow();
    openElsewhere().close();
    expect(mirrorAccess.leaseNow('daemon')).toBeNull();
    const order: string[] = [];
    const next = mirrorAccess.lease('daemon notices', false, signal).then((other) => {
      order.push('next');
      other.release();
    });
    await lease.resume('daemon sync', signal);
    order.push('regained');
    expect(lease.mirror.mode).toBe('write');
    lease.release();
    await next;
    expect(order).toEqual(['regained', 'next']);
  });

  it('is regained when whoever slipped in has let go, which is reported', async () => {
    const { rig, mirrorAccess, signal, openElsewhere } = await world();
    const lease = await mirrorAccess.lease('daemon sync', true, signal);
    lease.suspend();
    const other = openElsewhere();
    const regained = lease.resume('daemon sync', signal);
    await rig.advance(20_000);
    expect(rig.loud()).toEqual([expect.stringContaining('waiting for it')]);
    other.close();
    await rig.advance(5_000);
    await regained;
    lease.mirror.daemon.schedules();
    lease.release();
    openElsewhere().close();
  });

  it('lets the next one have it also where it was never regained, once', async () => {
    const { mirrorAccess, signal } = await world();
    const lease = await mirrorAccess.lease('daemon sync', true, signal);
    lease.suspend();
    lease.release();
    const next = mirrorAccess.leaseNow('daemon');
    expect(next?.mirror.mode).toBe('write');
    lease.release();
    expect(mirrorAccess.leaseNow('daemon')).toBeNull();
    next?.release();
  });
});
