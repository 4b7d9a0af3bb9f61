import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { type RecordChange, DiffBuilder } from '../../src/diff/change.ts';
import { type Acceptance, acceptedEarlier, assessDrift, withThreshold } from '../../src/diff/drift.ts';
import { fingerprints } from '../../src/diff/fingerprint.ts';
import { elementSegment } from '../../src/diff/elements.ts';
import { diffStates } from './diff-states.ts';
import { changeSeverity, severities } from '../../src/diff/severity.ts';

type DriftInput = Parameters<typeof assessDrift>[0];

const scope = { organization_id: 'o' };
const fingerprintsOf = (source: string, key = new Uint8Array(32)) => fingerprints({ source, key });
const now = Date.parse('2026-03-02T00:00:00Z');
const changed = (fields: RecordChange['fields'], kind: Kind = 'organizations', id = 'x'): RecordChange => ({
  kind,
  scope,
  id,
  name: id,
  change: 'changed',
  fields,
});
const whole = (
  kind: Kind,
  change: 'added' | 'removed',
  fields: RecordChange['fields'] = [],
): RecordChange => ({
  kind,
  scope,
  id: 'x',
  name: 'x',
  change,
  fields,
});

function assess(changes: RecordChange[], more: Partial<DriftInput> = {}) {
  const builder = new DiffBuilder({ ref: 'baseline' }, { ref: 'live' });
  builder.collection('organizations', scope);
  for (const change of changes) builder.change(change);
  builder.unchanged(5);
  return assessDrift({
    fingerprintOf: fingerprintsOf('s'),
    diff: builder.finish(),
    rules: [],
    acceptances: [],
    severityOf: severities(definitionOf),
    now,
    ...more,
  });
}

function acceptanceOf(change: RecordChange, until?: string): Acceptance {
  const field = change.change === 'changed' ? change.fields[0]! : null;
  return {
    fingerprint: fingerprintsOf('s')(change, field),
    kind: change.kind,
    scope: change.scope,
    id: change.id,
    path: field?.path ?? '',
    by: 'ann@here',
    reason: 'agreed',
    acceptedAt: '2026-03-01T00:00:00Z',
    ...(until === undefined ? {} : { until }),
  };
}

describe('assessDrift', () => {
  it('puts the worst first and counts only what is open', () => {
    const drift = assess([
      changed([
        { path: '/logo_media_id', from: 1, to: 2 },
        { path: '/enforce_2fa', from: true, to: false },
      ]),
      whole('roles', 'added'),
    ]);
    expect(drift.open.map(({ path, severity }) => [path, severity])).toEqual([
      ['/enforce_2fa', 'critical'],
      ['', 'medium'],
      ['/logo_media_id', 'low'],
    ]);
    expect(drift.document.summary).toEqual({
      added: 1,
      removed: 0,
      changed: 1,
      unchanged: 5,
      below_threshold: 0,
      accepted: 0,
      ignored: 0,
      reshaped: 0,
    });
  });

  it('counts an acceptance of another id of the record for the same value only, and another one beside it', () => {
    const now = changed([{ path: '/name', from: 'a', to: 'b' }], 'organizations', 'new');
    const before = { ...now, id: 'old' };
    const shownKey: DriftInput['shownKey'] = (key) => (key.id === 'old' ? { ...key, id: 'new' } : key);
    const old = acceptanceOf(before);
    const held = assess([now], { acceptances: [old], shownKey });
    expect(held.accepted.map(({ finding, acceptance }) => [finding.id, acceptance])).toEqual([['new', old]]);
    expect([held.open, held.stale]).toEqual([[], []]);
    expect(held.document.summary).toMatchObject({ changed: 0, accepted: 1 });
    expect(acceptedEarlier(held, held.accepted[0]!.finding)).toBe(old.fingerprint);

    // Without what connects the two, they are two records.
    const apart = assess([now], { acceptances: [old] });
    expect([apart.open.length, apart.stale]).toEqual([1, [old]]);
    expect(acceptedEarlier(apart, apart.open[0]!)).toBeUndefined();

    const other = acceptanceOf(changed([{ path: '/name', from: 'a', to: 'c' }], 'organizations', 'old'));
    const reopened = assess([now], { acceptances: [other], shownKey });
    expect(reopened.open[0]?.reopened).toEqual({ acceptance: other, because: 'value' });
    expect(acceptedEarlier(reopened, reopened.open[0]!)).toBe(other.fingerprint);

    // One that somebody forged under the other id ends nothing, and replaces nothing.
    const own = acceptanceOf(now);
    const forged = { ...other, contradiction: 'was inserted' };
    expect(assess([now], { acceptances: [forged, own], shownKey }).accepted[0]?.acceptance).toBe(own);
    const refused = assess([now], { acceptances: [forged], shownKey });
    expect(refused.open[0]?.reopened?.because).toBe('contradicted');
    expect(acceptedEarlier(refused, refused.open[0]!)).toBeUndefined();
  });

  it('hides what a rule ignores, with the rule, and leaves the rest of the record open', () => {
    const rule = { kind: 'organizations' as const, path: '/name', reason: 'renamed by marketing' };
    const drift = assess(
      [
        changed([
          { path: '/name', from: 1, to: 2 },
          { path: '/slug', from: 1, to: 2 },
        ]),
      ],
      { rules: [rule] },
    );
    expect(drift.ignored.map(({ finding, rule: by }) => [finding.path, by])).toEqual([['/name', rule]]);
    expect(drift.document.changes[0]!.fields.map(({ path }) => path)).toEqual(['/slug']);
    expect(
      assess([changed([{ path: '/name', from: 1, to: 2 }])], { rules: [rule] }).document.summary,
    ).toEqual({
      added: 0,
      removed: 0,
      changed: 0,
      unchanged: 5,
      below_threshold: 0,
      accepted: 0,
      ignored: 1,
      reshaped: 0,
    });
  });

  it('counts every compared record once, whatever became of its drift', () => {
    const field = { path: '/name', from: 1, to: 2 };
    const accepted = changed([field], 'organizations', 'accepted');
    const low = changed([{ path: '/logo_media_id', from: 1, to: 2 }], 'organizations', 'low');
    const both = changed(
      [
        { path: '/slug', from: 1, to: 2 },
        { path: '/enforce_2fa', from: true, to: false },
      ],
      'organizations',
      'both',
    );
    const drift = assess([accepted, low, both, changed([{ path: '/slug', from: 1, to: 2 }])], {
      acceptances: [acceptanceOf(accepted)],
      rules: [{ kind: 'organizations', path: '/slug', reason: 'noise' }],
    });
    const severityOf = severities(definitionOf);
    const { summary, compared } = withThreshold(drift, (change, each) =>
      each === null ? true : severityOf(change, each) === 'critical',
    );
    expect(summary).toEqual({
      added: 0,
      removed: 0,
      changed: 1,
      unchanged: 5,
      below_threshold: 1,
      accepted: 1,
      ignored: 1,
      reshaped: 0,
    });
    expect(Object.values<number>({ ...summary }).reduce((sum, count) => sum + count, 0)).toBe(
      compared.records,
    );
  });

  it('does not hide that a record went behind a rule for a field', () => {
    const drift = assess([whole('organizations', 'removed', [{ path: '/name', from: 1 }])], {
      rules: [{ kind: 'organizations', path: '/**', reason: 'noise' }],
    });
    expect(drift.open).toHaveLength(1);
    expect(
      assess([whole('organizations', 'removed')], { rules: [{ kind: 'organizations', reason: 'all of it' }] })
        .open,
    ).toEqual([]);
  });

  it.each([
    ['no reason', { kind: 'roles' as const, reason: ' ' }, /no reason/],
    ['nothing it is about', { reason: 'all' }, /would hide everything/],
    ['wildcards alone', { path: '/**', reason: 'typo' }, /would hide every change/],
    ['wildcards for every level', { path: '/*/**', reason: 'typo' }, /would hide every change/],
    ['a path that is not a pointer', { path: 'name', reason: 'x' }, /not a JSON pointer/],
  ])('refuses a rule with %s', (_name, rule, message) => {
    expect(() => assess([], { rules: [rule] })).toThrow(message);
  });

  it('accepts exactly the accepted value', () => {
    const change = changed([{ path: '/name', from: 'a', to: 'b' }]);
    const acceptance = acceptanceOf(change);
    expect(assess([change], { acceptances: [acceptance] }).open).toEqual([]);
    const further = assess([changed([{ path: '/name', from: 'a', to: 'c' }])], { acceptances: [acceptance] });
    expect(further.open[0]!.reopened).toEqual({ acceptance, because: 'value' });
    const otherSource = assess([change], { acceptances: [acceptance], fingerprintOf: fingerprintsOf('t') });
    expect(otherSource.open).toHaveLength(1);
  });

  it('takes an acceptance that contradicts the audit log for none', () => {
    const change = changed([{ path: '/name', from: 'a', to: 'b' }]);
    const acceptance = { ...acceptanceOf(change), contradiction: 'was inserted' };
    const drift = assess([change], { acceptances: [acceptance] });
    expect(drift.accepted).toEqual([]);
    expect(drift.open[0]!.reopened).toEqual({ acceptance, because: 'contradicted' });
    expect(assess([], { acceptances: [acceptance] }).stale).toEqual([]);
  });

  it.each([
    ['before its end', '2026-03-02T00:00:01Z', 0],
    ['at its end', '2026-03-02T00:00:00Z', 1],
    ['with an end that is not a date', 'soon', 1],
  ])('judges an acceptance %s', (_name, until, open) => {
    const change = whole('domains', 'added', [{ path: '/domain', to: 'x.example' }]);
    const acceptance = acceptanceOf(change, until);
    const drift = assess([change], { acceptances: [acceptance] });
    expect(drift.open).toHaveLength(open);
    if (open === 1) expect(drift.open[0]!.reopened).toEqual({ acceptance, because: 'expired' });
  });

  it('calls an acceptance stale when nothing differs there, not when it was not compared', () => {
    const acceptance = acceptanceOf(changed([{ path: '/name', from: 'a', to: 'b' }]));
    expect(assess([], { acceptances: [acceptance] }).stale).toEqual([acceptance]);
    const builder = new DiffBuilder({ ref: 'a' }, { ref: 'b' });
    builder.skip({ kind: 'organizations', scope: {}, reason: 'denied' });
    expect(assess([], { acceptances: [acceptance], diff: builder.finish() }).stale).toEqual([]);
  });
});

describe('elements with ids', () => {
  const states = (members: object[]) => ({
    reference: { ref: 'x' },
    records: [
      { kind: 'roles' as const, scope, id: 'r', body: JSON.stringify({ id: 'r', name: 'Ops', members }) },
    ],
  });
  const before = states([
    { id: 'alice', admin: false },
    { id: 'bob', admin: false },
  ]);
  const drifted = (members: object[], more: Partial<DriftInput> = {}) =>
    assess([], { diff: diffStates(before, states(members), { mode: 'default' }), ...more });
  const elevated = [
    { id: 'alice', admin: true },
    { id: 'bob', admin: false },
  ];
  const [finding] = drifted(elevated).open;
  const acceptance: Acceptance = {
    ...finding!,
    path: finding!.place!,
    by: 'ann@here',
    reason: 'alice is fine',
    acceptedAt: '2026-03-01T00:00:00Z',
  };

  it('are named by their ids beside the index', () => {
    expect(finding).toMatchObject({ path: '/members/0/admin', place: '/members/[id=alice]/admin' });
  });

  it('keep what was accepted to themselves: another one at the same index is open', () => {
    const { open, accepted, stale } = drifted([{ id: 'bob', admin: true }], { acceptances: [acceptance] });
    expect(open.map(({ place, to }) => [place, to])).toEqual([
      ['/members/[id=bob]/admin', true],
      ['/members/[id=alice]', undefined],
    ]);
    expect(open.map(({ reopened }) => reopened)).toEqual([undefined, undefined]);
    expect(accepted).toEqual([]);
    expect(stale).toEqual([acceptance]);
  });

  it('keep what was accepted when their index shifts', () => {
    const { open, accepted } = drifted([{ id: 'zoe', admin: false }, ...elevated], {
      acceptances: [acceptance],
    });
    expect(accepted.map(({ finding: { path } }) => path)).toEqual(['/members/1/admin']);
    expect(open.map(({ place }) => place)).toEqual(['/members/[id=zoe]']);
  });

  it.each([
    ['/members/*/admin', true, 0],
    ['/members/[id=alice]/admin', true, 0],
    ['/members', true, 0],
    ['/members/[id=bob]/admin', false, 0],
    ['/members/0/admin', false, 1],
    ['/members/1/admin', false, 0],
  ])('are ruled by id or wildcard, not by index: %s', (path, isIgnored, missed) => {
    const drift = drifted(elevated, { rules: [{ path, reason: 'x' }] });
    expect(drift.ignored).toHaveLength(isIgnored ? 1 : 0);
    expect(drift.open).toHaveLength(isIgnored ? 0 : 1);
    expect(drift.missed).toHaveLength(missed);
    const ruled = severities(definitionOf, [{ path, severity: 'low' }]);
    expect(drifted(elevated, { severityOf: ruled }).open[0]!.severity === 'low').toBe(isIgnored);
  });

  it.each([
    [7, '[id=7]'],
    [1200, '[id=1200]'],
    [0.5, '[id=5e-1]'],
    ['7', '[id="7"]'],
    ['5e-1', '[id="5e-1"]'],
    ['"7"', '[id="\\"7\\""]'],
    ['0190-e1', '[id=0190-e1]'],
    ['a/b', '[id=a/b]'],
  ])('are named apart: %j', (id, segment) => {
    expect(elementSegment({ id })).toBe(segment);
  });

  it('share no name, whatever their ids are', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer()),
        fc.oneof(fc.string(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer().map(String)),
        (a, b) => {
          expect(elementSegment({ id: a }) === elementSegment({ id: b })).toBe(Object.is(a, b) || a === b);
        },
      ),
    );
  });
});

describe('fingerprint', () => {
  it('needs the key: without it a short secret is not found by trying', () => {
    const change = changed([{ path: '/password', to: 4711 }]);
    const own = fingerprintsOf('s', new Uint8Array(32).fill(1))(change, change.fields[0]!);
    expect(own).not.toBe(fingerprintsOf('s', new Uint8Array(32).fill(2))(change, change.fields[0]!));
    expect(own).toBe(fingerprintsOf('s', new Uint8Array(32).fill(1))(change, change.fields[0]!));
  });

  it('of a record goes by what the default comparison tells of it', () => {
    const all = whole('roles', 'added', [
      { path: '/name', to: 'Ops' },
      { path: '/at', to: 1 },
    ]);
    const narrowed = { ...all, fields: all.fields.slice(0, 1) };
    const key = new Uint8Array(32);
    const of = fingerprints({ source: 's', key, whole: () => all });
    expect(of(narrowed, null)).toBe(fingerprintsOf('s')(all, null));
    expect(of(narrowed, null)).not.toBe(fingerprintsOf('s')(narrowed, null));
  });

  it('hangs on source, record, place and new value, not on the old value, the name or how a number is spelled', () => {
    const base = changed([{ path: '/name', from: 'a', to: 1.5 }]);
    const of = (change: RecordChange, source = 's'): string =>
      fingerprintsOf(source)(change, change.fields[0]!);
    expect(of(base)).toMatch(/^[0-9a-f]{64}$/);
    expect(of({ ...base, name: 'other', fields: [{ path: '/name', from: 'z', to: 1.5 }] })).toBe(of(base));
    const others = [
      of(base, 't'),
      of({ ...base, id: 'y' }),
      of({ ...base, kind: 'roles' }),
      of({ ...base, scope: {} }),
      of({ ...base, fields: [{ path: '/slug', to: 1.5 }] }),
      of({ ...base, fields: [{ path: '/name', to: '1.5' }] }),
      of({ ...base, fields: [{ path: '/name', from: 1.5 }] }),
      of({ ...base, fields: [{ path: '/name', to: null }] }),
    ];
    expect(new Set([...others, of(base)]).size).toBe(others.length + 1);
  });
});

describe('severity', () => {
  const severityOf = severities(definitionOf);
  it.each<[string, RecordChange, string]>([
    ['a field of the catalog', changed([{ path: '/enforce_2fa', to: false }]), 'critical'],
    ['a place below a field', changed([{ path: '/destination/config/x', to: 1 }], 'batch_exports'), 'high'],
    ['a field that the catalog does not know', changed([{ path: '/new_thing', to: 1 }]), 'medium'],
    [
      'the worst of several',
      changed(
        [
          { path: '/name', to: 1 },
          { path: '/level', to: 15 },
        ],
        'members',
      ),
      'critical',
    ],
    ['a removed parent', whole('projects', 'removed'), 'critical'],
    ['a removed record', whole('batch_exports', 'removed'), 'high'],
    ['an added record with a critical field', whole('domains', 'added'), 'high'],
    ['an added record without one', whole('roles', 'added'), 'medium'],
    ['a recording that went', whole('session_recordings', 'removed'), 'low'],
  ])('of %s', (_name, change, expected) => {
    expect(changeSeverity(change, severityOf)).toBe(expected);
  });

  it('is overridden by the first rule that fits', () => {
    const ruled = severities(definitionOf, [
      { kind: 'members', path: '/level', severity: 'low' },
      { path: '/**', severity: 'critical' },
      { kind: 'roles', severity: 'critical' },
    ]);
    expect(changeSeverity(changed([{ path: '/level', to: 1 }], 'members'), ruled)).toBe('low');
    expect(changeSeverity(changed([{ path: '/name', to: 1 }], 'roles'), ruled)).toBe('critical');
    expect(changeSeverity(whole('roles', 'added'), ruled)).toBe('critical');
    expect(changeSeverity(whole('domains', 'added'), ruled)).toBe('high');
  });
});

describe('the pattern of a rule', () => {
  const fits = (pattern: string, path: string): boolean => {
    const ruled = severities(definitionOf, [{ path: pattern, severity: 'critical' }]);
    return changeSeverity(changed([{ path, to: 1 }]), ruled) === 'critical';
  };

  it.each([
    ['/a', '/a', true],
    ['/a', '/a/b', true],
    ['/a/b', '/a', false],
    ['/a', '/ab', false],
    ['/*/b', '/a/b', true],
    ['/*/b', '/b', false],
    ['/*', '/a/b/c', true],
    ['/a/*', '/a', false],
    ['/**/b', '/b', true],
    ['/**/b', '/a/x/b/c', true],
    ['/**/b', '/a', false],
    ['/a/**/b', '/a/b', true],
    ['/a/**', '/a', true],
    ['/a~1b', '/a~1b', true],
    ['', '/a', true],
    ['/**/x/**/y', '/x/a/x/b/y', true],
  ])('%s on %s: %s', (pattern, path, expected) => {
    expect(fits(pattern, path)).toBe(expected);
  });

  it('takes a hostile pattern in linear time', () => {
    // Trying every way to share the steps out would not end in years.
    expect(fits('/**/a'.repeat(30) + '/b', '/a'.repeat(2_000))).toBe(false);
  });
});
