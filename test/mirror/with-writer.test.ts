/** What is under way in a mirror, and what its process left behind. */
import { describe, expect, it } from 'vitest';
import { acquireWriterLock, withWriter } from '../../src/mirror/lock.ts';
import { withInterrupted } from '../../src/state/runs.ts';
import { begin, open } from './fixture.ts';

describe('a run without an end', () => {
  it('is at work while its lock is held, has ended if it did before the lock was looked at, and died otherwise', () => {
    const writer = open();
    const run = begin(writer);
    const mirror = open({ path: writer.path, mode: 'read' });
    const rows = mirror.runs.list({});
    const look = (): ReturnType<typeof withWriter> =>
      withWriter(mirror.path, rows, ({ run: number }) => mirror.runs.get(number));
    expect(look()).toMatchObject({ rows: [{ outcome: 'running' }], writer: { command: 'test', pid: 4711 } });
    expect(withInterrupted(mirror, rows)).toEqual(rows);

    run.abandon({ code: 'unreachable', message: 'down' });
    writer.close();
    expect(look()).toMatchObject({ rows: [{ outcome: 'failed', errorCode: 'unreachable' }] });
    expect(withInterrupted(mirror, rows)).toMatchObject([{ outcome: 'failed', errorCode: 'unreachable' }]);
    // Another process has the lock by now: it does not work on this run.
    const holder = { command: 'restore', pid: 1, host: 'here', since: '2026-03-01T12:00:00.000Z' };
    const lock = acquireWriterLock(mirror.path, holder);
    expect(look()).toMatchObject({ rows: [{ outcome: 'failed', errorCode: 'unreachable' }] });
    expect(withInterrupted(mirror, rows)).toMatchObject([{ outcome: 'failed', errorCode: 'unreachable' }]);
    lock.release();
  });

  it('died where its lock is free', () => {
    const writer = open();
    begin(writer);
    const mirror = open({ path: writer.path, mode: 'read' });
    const rows = mirror.runs.list({});
    writer.close();
    expect(withWriter(mirror.path, rows, ({ run }) => mirror.runs.get(run))).toMatchObject({
      rows: [{ outcome: 'running' }],
      writer: null,
    });
    expect(withInterrupted(mirror, rows)).toMatchObject([{ outcome: 'failed', errorCode: 'interrupted' }]);
  });
});
