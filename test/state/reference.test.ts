import { describe, expect, it } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import { parseTime } from '../../src/core/parse-time.ts';
import { parseReference } from '../../src/state/reference.ts';

const NOW = Date.parse('2026-03-05T08:30:00.000Z');

function refusal(work: () => unknown): TidemarkError {
  try {
    work();
  } catch (error) {
    if (error instanceof TidemarkError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('a reference', () => {
  it.each([
    ['latest', { form: 'latest' }],
    ['live', { form: 'live' }],
    ['baseline', { form: 'baseline' }],
    ['run:12', { form: 'run', run: 12 }],
    ['snapshot:before migration', { form: 'snapshot', name: 'before migration' }],
    ['snapshot:a:b', { form: 'snapshot', name: 'a:b' }],
    ['file:./a b.ndjson', { form: 'file', path: './a b.ndjson' }],
    ['file:-', { form: 'file', path: '-' }],
    ['run:-1', { form: 'earlier_run', back: 1 }],
    ['run:-12', { form: 'earlier_run', back: 12 }],
    // Times are shown to the second: what ended within it is named by what is shown.
    [
      '2026-03-01T12:00:00Z',
      { form: 'time', at: '2026-03-01T12:00:00.999Z', beginsAt: '2026-03-01T12:00:01.000Z' },
    ],
    [
      '2026-03-01T12:00:00.250Z',
      { form: 'time', at: '2026-03-01T12:00:00.250Z', beginsAt: '2026-03-01T12:00:00.251Z' },
    ],
    [
      '2026-03-01T12:00Z',
      { form: 'time', at: '2026-03-01T12:00:00.000Z', beginsAt: '2026-03-01T12:00:00.000Z' },
    ],
    ['2026-03-05T08:30:00Z', { form: 'time', at: '2026-03-05T08:30:00.999Z', isAhead: false }],
    ['2026-03-01T12:00+02:00', { form: 'time', at: '2026-03-01T10:00:00.000Z', isAhead: false }],
    ['2026-03-06T12:00Z', { form: 'time', at: '2026-03-06T12:00:00.000Z', isAhead: true }],
    ['30m', { form: 'time', at: '2026-03-05T08:00:00.000Z', isAhead: false }],
    ['1h', { form: 'time', at: '2026-03-05T07:30:00.000Z', isAhead: false }],
    ['7d', { form: 'time', at: '2026-02-26T08:30:00.000Z', isAhead: false }],
    ['2w', { form: 'time', at: '2026-02-19T08:30:00.000Z', isAhead: false }],
    [
      'yesterday',
      {
        form: 'time',
        at: '2026-03-04T00:00:00.000Z',
        isAhead: false,
        note: 'yesterday is read as 2026-03-04T00:00:00Z',
      },
    ],
    [
      '2026-03-01',
      {
        form: 'time',
        at: '2026-03-01T00:00:00.000Z',
        isAhead: false,
        note: '2026-03-01 is read as 2026-03-01T00:00:00Z',
      },
    ],
  ])('%s', (text, expected) => {
    expect(parseReference(text, NOW)).toMatchObject({ text, ...expected });
  });

  it.each([
    ['latst', 'latest'],
    ['baselin', 'baseline'],
    ['12', 'run:12'],
    ['run 12', 'run:12'],
    ['Run-3', 'run:3'],
    ['-1', 'run:-1'],
    ['1764423000', '2025-11-29T13:30:00.000Z'],
    ['1764423000500', '2025-11-29T13:30:00.500Z'],
    ['runs:3', 'run:3'],
    ['yesterdy', 'yesterday'],
    ['snapshots:x', 'snapshot:x'],
    ['./backup', 'file:./backup'],
    ['backup.ndjson', 'file:backup.ndjson'],
  ])('%s is unknown: did you mean %s?', (text, near) => {
    const error = refusal(() => parseReference(text, NOW));
    expect(error.code).toBe('reference_unknown');
    expect(error.message).toContain(`did you mean ${near}?`);
    expect(error.hint).toBeDefined();
  });

  it.each([
    '',
    'run:',
    'run:x',
    'run:-0',
    'run:--1',
    '-1h',
    '9999w',
    'run:1234567890123456',
    'snapshot:',
    'file:',
    '2026-02-30',
    'zzz',
    '123456789012',
  ])('%j is unknown', (text) => {
    const { code, message } = refusal(() => parseReference(text, NOW));
    expect([code, message]).toEqual(['reference_unknown', expect.not.stringContaining('did you mean')]);
  });

  it('is not offered where the command refuses it', () => {
    for (const [text, refuses] of [
      ['zzz', ['live', 'file']],
      ['./backup', ['live', 'file']],
      ['lvie', ['live']],
    ] as const) {
      const { message, hint } = refusal(() => parseReference(text, NOW, { refuses }));
      expect(message).not.toMatch(/did you mean (?:live|file)/);
      for (const form of refuses) expect(hint).not.toContain(form === 'file' ? 'file:' : 'live');
    }
  });

  it('is proposed as a snapshot where one has that name, or nearly', () => {
    const snapshots = () => ['day-one', 'before-migration'];
    const of = (text: string) => refusal(() => parseReference(text, NOW, { snapshots })).message;
    expect(of('day-one')).toContain('did you mean snapshot:day-one?');
    const { hint } = refusal(() => parseReference('day-one', NOW, { snapshots }));
    expect(hint).toBe('write snapshot:day-one');
    expect(of('before-migraton')).toContain('did you mean snapshot:before-migration?');
  });

  it('that is unknown is answered with every form', () => {
    const { hint } = refusal(() => parseReference('zzz', NOW));
    for (const form of [
      'live',
      'latest',
      'baseline',
      'run:N',
      'run:-1',
      'snapshot:NAME',
      'file:PATH',
      '7d',
      'yesterday',
    ])
      expect(hint).toContain(form);
  });
});

describe('a time', () => {
  it.each([
    ['2026-03-01', '2026-03-01T00:00:00.000Z', true],
    ['20260301', '2026-03-01T00:00:00.000Z', true],
    ['20260301T120000Z', '2026-03-01T12:00:00.000Z', false],
    ['2026-03-01 12:00', '2026-03-01T12:00:00.000Z', true],
    ['2026-03-01T12', '2026-03-01T12:00:00.000Z', true],
    ['2026-03-01T12:00:00.5Z', '2026-03-01T12:00:00.500Z', false],
    ['2026-03-01T12:00:00,123456789Z', '2026-03-01T12:00:00.123Z', false],
    ['2026-03-01T12:00:00-0530', '2026-03-01T17:30:00.000Z', false],
    ['2026-03-01T00:30:00+14', '2026-02-28T10:30:00.000Z', false],
    ['2024-02-29', '2024-02-29T00:00:00.000Z', true],
    ['0099-12-31T00:00Z', '0099-12-31T00:00:00.000Z', false],
  ])('%s', (text, at, isAssumed) => {
    const time = parseTime(text);
    expect(new Date(time?.epochMs ?? NaN).toISOString()).toBe(at);
    expect(time?.note !== undefined).toBe(isAssumed);
    if (isAssumed) expect(time?.note).toContain(` is read as ${at.replace('.000Z', 'Z')}`);
  });

  it.each([
    '2026-02-29',
    '2026-13-01',
    '2026-00-10',
    '2026-01-32',
    '2026-01-01T24:00',
    '2026-01-01T12:60',
    '2026-01-01T12:00:60',
    '2026-01-01T12:00+25:00',
    '2026-1-1',
    'yesterday',
    '12:00',
  ])('%s is none', (text) => {
    expect(parseTime(text)).toBeUndefined();
  });
});
