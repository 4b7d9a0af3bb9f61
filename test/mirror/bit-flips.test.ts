/** A bit that flips on the disk is found by `verify`, or is nothing that anybody is shown. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import { ORG, PROJECT, begin, open, sync, temporaryDirectory } from './fixture.ts';

const FLIPS = 75;
const role = (id: string, name: string): string => `{"id":"${id}","name":"${name}"}`;

async function smallMirror(): Promise<Buffer> {
  const mirror = open();
  await sync(
    mirror,
    'roles',
    ORG,
    ['a', 'b', 'c'].map((id) => role(id, `role ${id}`)),
  );
  await sync(mirror, 'roles', ORG, [role('a', 'A2'), role('b', 'role b'), role('c', 'role c')]);
  await sync(mirror, 'roles', ORG, [role('a', 'A3'), role('b', 'role b')]);
  await sync(mirror, 'session_recordings', PROJECT, ['{"id":"r","click_count":1,"viewed":true}']);
  await begin(mirror).publish({ outcome: 'failed', sweeps: [], requests: 7, retries: 2 });
  begin(mirror).abandon({ code: 'unreachable', message: 'no answer' });
  mirror.snapshots.pin('before', 1);
  const accepted = {
    source: 'production',
    kind: 'roles',
    scope: ORG,
    path: '/name',
    reason: 'agreed',
  } as const;
  for (const [index, id] of ['a', 'b', 'c'].entries()) {
    const acceptedAt = `2026-03-0${index + 1}T12:00:00.000Z`;
    const until = index === 1 ? { until: '2026-04-01T00:00:00.000Z' } : {};
    mirror.acceptances.add({ ...accepted, ...until, id, acceptedAt, fingerprint: `fingerprint-${id}` });
  }
  mirror.close();
  return readFileSync(mirror.path);
}

/** What status, snapshots, accepted drift, export, log and diff are made of, as text. */
function shown(path: string): string {
  const mirror = open({ path, mode: 'read' });
  try {
    const records = [...mirror.records.read()];
    return JSON.stringify([
      mirror.runs.sources(),
      mirror.runs.list(),
      mirror.runs.list().map(({ run }) => mirror.runs.sweeps(run)),
      mirror.runs.collections(),
      mirror.snapshots.list(),
      records,
      [...mirror.records.readAt(1)],
      mirror.acceptances.list(),
      Buffer.from(mirror.acceptances.fingerprintKey()).toString('hex'),
      [...mirror.records.changesBetween(1, 3)],
      [...mirror.records.changesBetween(3, 1)],
      mirror.records.countsAt(2),
      ['a', 'b', 'c'].map((id) =>
        mirror.records.find('roles', id).map((row) => mirror.records.revisions(row)),
      ),
    ]);
  } finally {
    mirror.close();
  }
}

it(`${FLIPS} single flips, each found or harmless, and none told as a defect`, async () => {
  const whole = await smallMirror();
  const path = join(temporaryDirectory(), 'flipped.db');
  writeFileSync(path, whole);
  const before = shown(path);
  // Empty space says nothing: where something is written.
  const places = [...whole.keys()].filter((at) => whole[at] !== 0);
  let seed = 20_260_301;
  const next = (below: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return (seed >>> 8) % below;
  };
  const unseen: string[] = [];
  const defects: string[] = [];
  let found = 0;
  // One in each part of the file: no table or index is left to chance.
  const share = places.length / FLIPS;
  for (let flip = 0; flip < FLIPS; flip += 1) {
    const at = places[Math.floor(flip * share) + next(Math.floor(share))]!;
    const bytes = Buffer.from(whole);
    bytes[at]! ^= 1 << next(8);
    writeFileSync(path, bytes);
    const outcome = async (work: () => unknown): Promise<unknown> => {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof TidemarkError) || error.code === 'internal')
          defects.push(`${at}: ${String(error)}`);
        return 'refused';
      }
    };
    const isFound = await outcome(async () => {
      const mirror = open({ path, mode: 'read' });
      try {
        return (await mirror.verify()).problems.length > 0;
      } finally {
        mirror.close();
      }
    });
    const after = await outcome(() => shown(path));
    if (isFound !== false) found += 1;
    else if (after !== before) unseen.push(`${at}: ${bytes.subarray(at - 20, at + 20).toString('latin1')}`);
  }
  expect(unseen).toEqual([]);
  expect(defects).toEqual([]);
  expect(found).toBeGreaterThan(FLIPS / 10);
});
