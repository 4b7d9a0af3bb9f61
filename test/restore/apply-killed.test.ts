import { fork } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { WriteClient } from '../../src/api/write-client.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { readResumable } from '../../src/restore/apply/resume.ts';
import { type Plan, isExecutable } from '../../src/restore/plan/plan.ts';
import { packageFile } from '../../src/core/package-root.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { seededRandom } from '../faults/seeded-random.ts';
import { KEY } from '../server/running-sandbox.ts';
import { childProgram } from '../tools/child-program.ts';
import { SOURCE } from './apply-source.ts';
import { interceptedMirror } from './mirror-proxy.ts';
import { altered, counts, nativeWorld, startRig, without, type Rig } from './apply-rig.ts';

/** How long a life lasts: so many events, or until one of that name. */
type Life = number | string;

/** Dies at an event: from then on, nothing of this process does anything any more. */
class Killer {
  readonly #life: Life;
  #events = 0;
  isDead = false;
  /** The event at which it died, e.g. `before restores.journal`. */
  diedAt = '';

  constructor(life: Life) {
    this.#life = life;
  }

  event(name: string): void {
    if (this.isDead) throw new Error('killed');
    this.#events += 1;
    if (name !== this.#life && this.#events !== this.#life) return;
    this.isDead = true;
    this.diedAt = name;
    throw new Error('killed');
  }
}

/** Counts before and after each write to the journal. */
function mortalMirror(mirror: Mirror, killer: Killer): Mirror {
  const names = new Set(
    ['begin', 'journal', 'settled', 'finish', 'resume'].map((name) => `restores.${name}`),
  );
  return interceptedMirror(mirror, ({ name, run }) => {
    if (names.has(name)) killer.event(`before ${name}`);
    const result = run();
    if (names.has(name)) killer.event(`after ${name}`);
    return result;
  });
}

/** Counts before each request leaves and after its answer came. */
function mortalClient(client: WriteClient, killer: Killer): WriteClient {
  const names = new Set(['create', 'update', 'act', 'remove']);
  return new Proxy(client, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (!names.has(String(name)) || typeof value !== 'function') return value;
      return async (...given: unknown[]): Promise<unknown> => {
        killer.event(`before ${String(name)}`);
        const result: unknown = await Reflect.apply(value, target, given);
        killer.event(`after ${String(name)}`);
        return result;
      };
    },
  });
}

async function scene(): Promise<{ rig: Rig; native: ParsedRecord[]; live: ParsedRecord[] }> {
  const rig = await startRig();
  const native = await nativeWorld(rig);
  const [role] = native.filter(({ kind }) => kind === 'role_memberships').map(({ scope }) => scope.role_id);
  const [one] = native.filter(({ kind }) => kind === 'batch_exports');
  const lost = new Set([role, one?.id]);
  const live = altered(
    without(native, ({ id }) => lost.has(id)),
    ({ kind }) => kind === 'projects',
    { timezone: 'X' },
  );
  return { rig, native, live };
}

function expectOnce(rig: Rig, native: readonly ParsedRecord[]): void {
  expect(counts(rig.live())).toEqual(counts(native));
  expect(rig.plan(native).steps.filter(isExecutable)).toEqual([]);
}

/** Where it can die. */
const EVENTS = [
  'act',
  'create',
  'update',
  ...['begin', 'finish', 'journal', 'resume', 'settled'].map((name) => `restores.${name}`),
]
  .flatMap((name) => [`after ${name}`, `before ${name}`])
  .sort();

describe('killed', () => {
  it('at any event of a restore and of its resumes: the same end, nothing twice', async () => {
    const { rig, native, live } = await scene();
    const random = seededRandom(5);
    let kills = 0;
    const diedAt = new Set<string>();
    const attempt = async (plan: Plan, last: number, life: Life, concurrency: number): Promise<boolean> => {
      const killer = new Killer(life);
      const mirror = rig.mirror();
      const [latest] = mirror.restores.list({ source: SOURCE.name, limit: 1 });
      const isOpen = latest !== undefined && latest.restore > last;
      // It died right after its last word.
      if (isOpen && latest.outcome === 'complete') return true;
      try {
        const report = await rig.apply(isOpen ? readResumable(mirror, SOURCE.name).plan : plan, {
          mirror: mortalMirror(mirror, killer),
          client: mortalClient(rig.client(new FakeClock(), rig.running.url), killer),
          concurrency,
          ...(isOpen ? { restore: latest.restore } : {}),
        });
        expect(report.steps.filter(({ verified }) => verified !== true)).toEqual([]);
        expect(report.outcome).toBe('complete');
        return true;
      } catch (error) {
        if (!killer.isDead) throw error;
        kills += 1;
        diedAt.add(killer.diedAt);
        rig.reopen();
        return false;
      }
    };
    // A round for each kind of event: a life ends there, and the others are about as long as it takes to get a few steps
    // further, or to die before the first.
    for (const [round, event] of EVENTS.entries()) {
      rig.put(live);
      const plan = rig.plan(native);
      expect(plan.steps.length).toBeGreaterThan(4);
      const last = rig.mirror().restores.list({ limit: 1 })[0]?.restore ?? 0;
      const concurrency = round % 2 === 0 ? 1 : 3;
      diedAt.clear();
      // Only a second life resumes.
      let life: Life = event.endsWith('resume') ? 7 : event;
      while (!(await attempt(plan, last, life, concurrency)))
        life = diedAt.has(event) ? 1 + Math.floor(random() * 16) : event;
      expect(diedAt).toContain(event);
      expectOnce(rig, native);
    }
    expect(kills).toBeGreaterThan(100);
  });

  it('by the operating system: a child that applies is killed, the journal is readable, the rest follows', async () => {
    const { rig, native, live } = await scene();
    const program = await childProgram(packageFile('test/restore/apply-child.ts'));
    let kills = 0;
    for (let round = 0; round < 6; round += 1) {
      rig.put(live);
      const plan = rig.plan(native);
      rig.mirror().close();
      const child = fork(program, [rig.mirrorPath, rig.running.url, KEY], {
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      });
      child.send(JSON.parse(JSON.stringify(plan)) as object);
      let seen = 0;
      child.on('message', () => {
        seen += 1;
        if (seen === 1 + round * 3) child.kill('SIGKILL');
      });
      const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
      if (signal === 'SIGKILL') kills += 1;
      const mirror = rig.reopen();
      const [row] = mirror.restores.list();
      if (row !== undefined && row.outcome !== 'complete') {
        expect(row.outcome).toBe('interrupted');
        expect(mirror.restores.steps(row.restore)).toHaveLength(plan.steps.length);
        await rig.apply(readResumable(mirror, SOURCE.name).plan, { restore: row.restore });
      }
      expectOnce(rig, native);
    }
    expect(kills).toBeGreaterThan(4);
  });
});
