/** Who of this process may write next, and how it waits for other processes. */
import { describe, expect, it } from 'vitest';
import { onlyMirrorConfig } from '../../src/config/mirrors.ts';
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
  const config: Config = onlyMirrorConfig(effects.loadConfig());
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

describe('the turn to write', () => {
  it('keeps others of this process waiting, but no other process between two writes', async () => {
    const { mirrorAccess, signal, openElsewhere } = await world();
    const turn = await mirrorAccess.turn(signal);
    const create = (mirror: Mirror): void => {
      expect(mirror.mode).toBe('write');
      expect(openElsewhere).toThrow(/in use|locked|held/);
    };
    await turn.write('daemon sync', signal, create, true);
    openElsewhere().close();
    expect(mirrorAccess.writeNow('daemon', null, () => undefined)).toBe(false);
    const order: string[] = [];
    const next = mirrorAccess.write('daemon notices', signal, () => order.push('next'));
    await turn.write('daemon sync', signal, () => order.push('own'));
    turn.release();
    await next;
    expect(order).toEqual(['own', 'next']);
    expect(mirrorAccess.writeNow('daemon', null, () => order.push('now'))).toBe(true);
    expect(order).toEqual(['own', 'next', 'now']);
  });

  it('waits for another process that has the lock, and reports it', async () => {
    const { rig, mirrorAccess, signal, openElsewhere } = await world();
    const turn = await mirrorAccess.turn(signal);
    await turn.write('daemon sync', signal, () => undefined, true);
    const other = openElsewhere();
    expect(mirrorAccess.writeNow('daemon', turn, () => undefined)).toBe(false);
    const written = turn.write('daemon sync', signal, ({ daemon }) => daemon.schedules().length);
    await rig.advance(20_000);
    expect(rig.loud()).toEqual([expect.stringContaining('waiting for it')]);
    other.close();
    await rig.advance(5_000);
    expect(await written).toBe(0);
    turn.release();
    openElsewhere().close();
  });

  it('passes on once, also from a waiter that was cancelled', async () => {
    const { mirrorAccess, signal } = await world();
    const first = await mirrorAccess.turn(signal);
    const stop = new AbortController();
    const cancelled = mirrorAccess.turn(stop.signal);
    const third = mirrorAccess.turn(signal);
    stop.abort(new Error('enough'));
    await expect(cancelled).rejects.toThrow('enough');
    first.release();
    const held = await third;
    first.release();
    expect(mirrorAccess.writeNow('daemon', null, () => undefined)).toBe(false);
    held.release();
  });
});
