import { describe, expect, it } from 'vitest';
import type { AuditSubject } from '../../src/mirror/audit-entries.ts';
import { detailText, type ShownEntry, subjectText } from '../../src/report/audit-report.ts';
import type { Finding } from '../../src/diff/drift.ts';
import { measuredOf, measuredText } from '../../src/report/drift-document.ts';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { changedDefinition } from '../../src/catalog/resource-definition.ts';
import { emptyDiff } from './sample.ts';

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

describe('what an entry of an acceptance keeps', () => {
  const document = { ...emptyDiff(), from: { ref: 'baseline', run: 2 }, to: { ref: 'live' } };
  const summary = { ...document.summary, below_threshold: 0, accepted: 0, ignored: 0, reshaped: 0 };
  const drift = { definitions: definitionOf, document: { ...document, summary } };
  const approved = { name: 'approved', run: 2 };
  const finding: Finding = {
    ...{ fingerprint: 'f', severity: 'low', kind: 'batch_exports', scope: {}, id: 'b', name: 'b' },
    ...{ change: 'changed', path: '/destination' },
  };

  it('is masked first, and then shortened to what differs, with a sign of it', () => {
    const config = { password: 'hidden', url: 'postgres://ann:hidden@db/x', prefix: 'x'.repeat(2_000) };
    const sides = { from: { config }, to: { config: { ...config, table: 't' } } };
    const measured = measuredOf(drift, { ...finding, ...sides }, approved);
    expect(measured).toMatchObject({
      shortened: true,
      baseline: { ref: 'baseline', run: 2, name: 'approved' },
      state: { ref: 'live' },
    });
    expect(measured.from).toMatch(/^… 2,\d+ equal characters … x+"\}\}$/);
    expect(measured.to).toMatch(/^… 2,\d+ equal characters … x+","table":"t"\}\}$/);
    expect(measuredText(measured, '/destination')).toContain('"table":"t"');
    const whole = { [`/destination`]: { config }, '/name': 'b' };
    const added = measuredOf(drift, { ...finding, change: 'added', path: '', to: whole }, approved);
    expect(added.to).toMatch(/"password":"\[secret\]".* … 1,\d+ more characters … x+"\}\},"\/name":"b"\}$/);
    for (const each of [measured, added]) {
      expect(JSON.stringify(each)).not.toContain('hidden');
      expect(JSON.stringify(each).length).toBeLessThan(2_300);
    }
  });

  it('has no value of a field that is declared a secret, and names no baseline that it was not measured from', () => {
    const { document } = drift;
    const row = definitionOf('batch_exports');
    const name = row.fields.find((field) => field.name === 'name');
    if (name === undefined) throw new Error('batch_exports have no name');
    const definition = changedDefinition(row, { fields: [{ ...name, isSecret: true }] });
    const definitions = (): typeof definition => definition;
    const from = { ...drift, definitions, document: { ...document, from: { ref: 'run:2' } } };
    const found = { ...finding, path: '/name', from: 'hidden', to: 'other' };
    expect(measuredOf(from, found, approved)).toEqual({
      ...{ change: 'changed', from: '[secret]', to: '[secret]' },
      ...{ baseline: { ref: 'run:2' }, state: { ref: 'live' } },
    });
    // Another one was made the baseline after the comparison.
    expect(measuredOf(drift, found, { name: 'newer', run: 3 }).baseline).toEqual({ ref: 'baseline', run: 2 });
  });
});
