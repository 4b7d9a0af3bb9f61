import { expect, it } from 'vitest';
import type { AuditSubject } from '../../src/mirror/audit-entries.ts';
import { detailText, type ShownEntry, subjectText } from '../../src/report/audit-report.ts';

const shown = (action: string, subject: object): [string, string] => {
  const entry = { action, subject, recordName: null, fromRun: null } as unknown as ShownEntry;
  return [subjectText(entry), detailText(entry, (at) => at)];
};

it('says that a restore was killed, and who recorded its end', () => {
  const killed = { about: 'restore', restore: 1, outcome: 'interrupted', finishedAt: null };
  expect(shown('end', killed)).toEqual([
    'restore 1',
    'interrupted: its process died; recorded by the process that noticed it',
  ]);
  expect(shown('end', { ...killed, finishedAt: '2026-03-01T12:00:00Z' })[1]).toBe('interrupted');
  expect(shown('abandon', { ...killed, outcome: 'failed' })[1]).toBe('failed');
  expect(shown('look_up', { ...killed, outcome: 'partial' })[1]).toBe('before an undo: partial');
});

it('says of what a moved mirror was made, and what was left there', () => {
  const move = { about: 'forget', forget: 2, isMove: true, sources: ['acme', 'beta'] };
  expect(shown('move', { ...move, runs: [], runCount: 0 })).toEqual([
    'mirror',
    'made of a mirror of acme, beta',
  ]);
  expect(shown('move', { ...move, runs: [[1, 3]], runCount: 3 })[1]).toBe(
    'made of a mirror of acme, beta, without 3 runs: 1–3',
  );
});

it('says which runs were forgotten, and that none of those that came with a move was', () => {
  const said = (runs: readonly (readonly [number, number])[], runCount: number): string => {
    const subject = { about: 'forget', forget: 1, runs, runCount } as unknown as AuditSubject;
    return detailText({ action: 'forget', subject } as unknown as ShownEntry, (at) => at);
  };
  expect(
    said(
      [
        [1, 3],
        [5, 5],
      ],
      4,
    ),
  ).toBe('4 runs: 1–3, 5');
  expect(said([], 0)).toBe('no runs');
});
