import Database from 'better-sqlite3';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { DriftAcceptance } from '../../src/mirror/acceptances.ts';
import { commandTrigger } from '../../src/core/actor.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { ORG, PROJECT, begin, open, sync, temporaryDirectory, testClock } from './fixture.ts';
import { alterFile } from '../tools/alter.ts';

const accepted: DriftAcceptance = {
  source: 'production',
  fingerprint: 'f1',
  kind: 'roles',
  scope: ORG,
  id: 'r1',
  path: '/name',
  reason: 'renamed on purpose, says "Ann"',
  acceptedAt: '2026-03-01T12:00:00.000Z',
  by: 'ann@here',
  via: 'ann@here',
};

it('has no password of a URL in the name of a person, nor has the log or a run', async () => {
  const actor = { by: 'https://u:NAMEPW@h/', via: 'root@vm' };
  const path = join(temporaryDirectory(), 'mirror.db');
  const mirror = openMirror(path, { mode: 'write', command: 'test', clock: testClock(), actor });
  mirror.acceptances.add(accepted);
  await sync(mirror, 'roles', ORG, [], { trigger: commandTrigger(actor) });
  mirror.snapshots.pin('one', 1);
  expect(mirror.acceptances.list()[0]?.by).toBe('https://u:[secret]@h/');
  expect(mirror.snapshots.list()[0]).toMatchObject({ by: 'https://u:[secret]@h/', via: 'root@vm' });
  expect(mirror.runs.get(1)?.trigger).toBe('command of https://u:[secret]@h/ (root@vm)');
  mirror.close();
  expect(readFileSync(path).includes('NAMEPW')).toBe(false);
});

it('has no password of a URL in a reason, nor has the log', () => {
  const mirror = open();
  const reason = 'as in https://ann:PW@wiki.example/1';
  expect(mirror.acceptances.add({ ...accepted, reason }).reason).toBe(
    'as in https://ann:[secret]@wiki.example/1',
  );
  expect(JSON.stringify([mirror.acceptances.list(), [...mirror.auditLog()]])).not.toContain('PW@');
});

describe('the key of fingerprints', () => {
  it('is made once per mirror, whoever opens it', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    open({ path }).close();
    const read = open({ path, mode: 'read' });
    const key = Buffer.from(read.acceptances.fingerprintKey());
    expect(key).toHaveLength(32);
    const writing = open({ path });
    expect(Buffer.from(writing.acceptances.fingerprintKey())).toEqual(key);
    expect(Buffer.from(open().acceptances.fingerprintKey())).not.toEqual(key);
  });

  it('is missed where it is gone, and no other one takes its place', () => {
    const mirror = open();
    mirror.close();
    alterFile(mirror.path, 'DELETE FROM fingerprint_key');
    for (const mode of ['read', 'write'] as const)
      expect(() => open({ path: mirror.path, mode }).acceptances.fingerprintKey()).toThrow(
        expect.objectContaining({
          code: 'mirror_corrupt',
          message:
            'accepted and redacted values cannot be compared: the key of the drift fingerprints is gone from the mirror',
        }),
      );
  });

  it.each(["x'00'", "'text'", '7', 'zeroblob(32)'])('is refused where it was altered: %s', (value) => {
    const mirror = open();
    alterFile(mirror.path, `UPDATE fingerprint_key SET key = ${value}`);
    expect(() => mirror.acceptances.fingerprintKey()).toThrow(
      expect.objectContaining({ code: 'mirror_corrupt' }),
    );
  });
});

describe('accepted drift', () => {
  it('comes back as it was, by source, with and without an end', () => {
    const mirror = open();
    const ending = { ...accepted, path: '', fingerprint: 'f2', until: '2026-04-01T00:00:00.000Z' };
    const elsewhere = { ...accepted, source: 'other', scope: PROJECT, kind: 'session_recordings' as const };
    for (const one of [accepted, elsewhere, ending]) mirror.acceptances.add(one);
    expect(mirror.acceptances.list()).toEqual([elsewhere, ending, accepted]);
    expect(mirror.acceptances.list('production')).toEqual([ending, accepted]);
    expect(mirror.acceptances.list('nobody')).toEqual([]);
  });

  it('is replaced by another of the same place', () => {
    const mirror = open();
    mirror.acceptances.add({ ...accepted, until: '2026-04-01T00:00:00.000Z' });
    mirror.acceptances.add({ ...accepted, fingerprint: 'f9', scope: { ...ORG } });
    expect(mirror.acceptances.list()).toEqual([{ ...accepted, fingerprint: 'f9' }]);
  });

  it('is withdrawn by source and fingerprint', () => {
    const mirror = open();
    mirror.acceptances.add(accepted);
    expect(mirror.acceptances.withdraw('other', 'f1')).toBeUndefined();
    expect(mirror.acceptances.withdraw('production', 'f0')).toBeUndefined();
    expect(mirror.acceptances.withdraw('production', 'f1')).toEqual(accepted);
    expect(mirror.acceptances.list()).toEqual([]);
  });

  it('needs a mirror that is open for writing, between publications', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"r1"}']);
    const reader = open({ path: mirror.path, mode: 'read' });
    expect(() => reader.acceptances.add(accepted)).toThrow(expect.objectContaining({ code: 'internal' }));
    const run = begin(mirror);
    mirror.acceptances.add(accepted);
    const publishing = run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    expect(() => mirror.acceptances.add(accepted)).toThrow(
      expect.objectContaining({ code: 'mirror_locked' }),
    );
    await publishing;
    expect(reader.acceptances.list()).toEqual([accepted]);
  });

  it('goes where a copy of the mirror goes, snapshots too', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"r1"}']);
    mirror.acceptances.add(accepted);
    mirror.snapshots.pin('golden', 1);
    mirror.snapshots.setBaseline('golden');
    const copy = join(temporaryDirectory(), 'copy.db');
    const file = new Database(mirror.path, { readonly: true });
    await file.backup(copy);
    file.close();
    const copied = open({ path: copy, mode: 'read' });
    expect(copied.acceptances.list()).toEqual([accepted]);
    expect(copied.snapshots.baseline()).toMatchObject({ name: 'golden', run: 1 });
  });
});

it.each([
  ['kind', `'["production","nothing","{}","r1","/name"]'`, 'there is no kind "nothing"'],
  ['scope', `'["production","roles","{","r1","/name"]'`, 'there is no scope "{"'],
  ['key', `'['`, 'there is no kind ""'],
])(
  'of one whose %s the audit log has otherwise, a line says so, and the others are read',
  (_what, member, why) => {
    const mirror = open();
    mirror.acceptances.add(accepted);
    mirror.acceptances.add({ ...accepted, id: 'r2', fingerprint: 'f2' });
    const file = new Database(mirror.path);
    file.exec(`UPDATE audit_log SET member = ${member} WHERE member LIKE '%"r1"%'`);
    file.close();
    expect(mirror.acceptances.checked().map(({ id }) => id)).toEqual(expect.arrayContaining(['r1', 'r2']));
    expect(mirror.acceptances.unreadable().join()).toContain(`cannot be read: ${why}`);
  },
);
