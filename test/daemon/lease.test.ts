/** The writer's turn while another process works on the mirror for this one. */
import { describe, expect, it } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { MirrorAccessControl } from '../../src/daemon/mirror-access.ts';
import { ActiveProblems } from '../../src/daemon/problems.ts';
import { type Mirror, openMirror } from '../../src/mirror/mirror.ts';
import { Rig } from './rig.ts';

interface World {
  readonly rig: Rig;
  readonly keeper: MirrorAccessControl;
  readonly signal: AbortSignal;
  readonly openElsewhere: () => Mirror;
}

async function world(): Promise<World> {
  const rig = await Rig.create({});
  const effects = rig.effects();
  const config: Config = effects.loadConfig();
  const keeper = new MirrorAccessControl(effects, new ActiveProblems(rig.clock, effects.log), () => config);
  const { signal } = new AbortController();
  const { clock, mirrorPath } = rig;
  return {
    rig,
    keeper,
    signal,
    openElsewhere: () => openMirror(mirrorPath, { mode: 'write', command: 'sync', clock }),
  };
}

describe('a lease that is lent', () => {
  it('gives the lock away and keeps the turn', async () => {
    const { keeper, signal, openElsewhere } = await world();
    const lease = await keeper.lease('daemon sync', true, signal);
    expect(openElsewhere).toThrow(/in use|locked|held/);
    lease.lend();
    expect(() => lease.mirror).toThrow();
    openElsewhere().close();
    expect(keeper.leaseNow('daemon')).toBeNull();
    const order: string[] = [];
    const next = keeper.lease('daemon notices', false, signal).then((other) => {
      order.push('next');
      other.release();
    });
    await lease.regain('daemon sync', signal);
    order.push('regained');
    expect(lease.mirror.mode).toBe('write');
    lease.release();
    await next;
    expect(order).toEqual(['regained', 'next']);
  });

  it('is regained when whoever slipped in has let go, which is told', async () => {
    const { rig, keeper, signal, openElsewhere } = await world();
    const lease = await keeper.lease('daemon sync', true, signal);
    lease.lend();
    const other = openElsewhere();
    const regained = lease.regain('daemon sync', signal);
    await rig.advance(20_000);
    expect(rig.loud()).toEqual([expect.stringContaining('waiting for it')]);
    other.close();
    await rig.advance(5_000);
    await regained;
    lease.mirror.daemonState().schedules();
    lease.release();
    openElsewhere().close();
  });

  it('lets the next one have it also where it was never regained, once', async () => {
    const { keeper, signal } = await world();
    const lease = await keeper.lease('daemon sync', true, signal);
    lease.lend();
    lease.release();
    const next = keeper.leaseNow('daemon');
    expect(next?.mirror.mode).toBe('write');
    lease.release();
    expect(keeper.leaseNow('daemon')).toBeNull();
    next?.release();
  });
});
