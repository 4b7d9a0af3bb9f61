import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NoticeEvent } from '../../../src/config/notice-events.ts';
import type { JobName, JobOutcome, JobRow } from '../../../src/mirror/daemon-store.ts';
import type { NoticeState } from '../../../src/mirror/notice-rows.ts';
import type { NamedRemovals } from '../../../src/state/held-names.ts';
import { transitionsOf } from '../../../src/daemon/notices/transitions.ts';
import { channelsFor } from '../../../src/daemon/notices/notifier.ts';
import { completeTransition, freshnessTransition } from '../../../src/daemon/notices/checked-transitions.ts';
import { batchMessage, batchOf, draftsOf } from '../../../src/daemon/notices/groups.ts';
import { contentOf, messageOf } from '../../../src/daemon/notices/message.ts';
import {
  type JobObservation,
  NO_TRANSITION,
  type Transition,
} from '../../../src/daemon/notices/transition.ts';
import { refusalSummary } from '../../../src/daemon/jobs/summaries.ts';
import { webhook } from './channel.ts';
import { after, driftJob, finding, job, seen, sweep } from './seen.ts';

/** The events that a sequence of jobs tells, job by job. */
function told(...jobs: readonly JobObservation[]): string[][] {
  let states: NoticeState[] = [];
  return jobs.map((each) => {
    const change = transitionsOf(states, each);
    states = after(states, change);
    return change.notices.map(({ event }) => event);
  });
}

const sync = (outcome: JobOutcome, ...unread: Parameters<typeof sweep>[]): JobObservation =>
  seen(job('sync', outcome, outcome === 'failed' ? { errorCode: 'unreachable', error: 'no route' } : {}), {
    unread: unread.map((each) => sweep(...each)),
  });

describe('a sync', () => {
  it.each<[string, JobObservation[], string[][]]>([
    ['that is complete says nothing', [sync('done'), sync('done')], [[], []]],
    [
      'fails once and comes back',
      [sync('failed'), sync('failed'), sync('done')],
      [['run_failed'], [], ['run_recovered']],
    ],
    [
      'is refused, then unreachable',
      [sync('refused'), sync('failed'), sync('done')],
      [['key_refused'], ['run_failed'], ['run_recovered']],
    ],
    [
      'is partial for the same reason every night',
      [sync('partial', ['plugins', 'denied']), sync('partial', ['plugins', 'denied'])],
      [['run_partial'], []],
    ],
    [
      'is partial for one more reason',
      [sync('partial', ['plugins', 'denied']), sync('partial', ['plugins', 'denied'], ['members', 'failed'])],
      [['run_partial'], ['run_partial']],
    ],
    [
      'is partial for one reason less, which then comes back',
      [
        sync('partial', ['plugins', 'denied'], ['members', 'failed']),
        sync('partial', ['plugins', 'denied']),
        sync('partial', ['plugins', 'denied'], ['members', 'failed']),
      ],
      [['run_partial'], [], ['run_partial']],
    ],
    [
      'that was interrupted changes nothing',
      [sync('failed'), sync('interrupted'), sync('done')],
      [['run_failed'], [], ['run_recovered']],
    ],
  ])('%s', (_name, jobs, events) => {
    expect(told(...jobs)).toEqual(events);
  });

  it('that is partial names every permission that is missing, and a cause once', () => {
    const lacks = (permission: string, id: string) => {
      const message = `no scope '${permission}'`;
      const hint = `give the key the permission ${permission}`;
      return { code: 'forbidden' as const, message, hint, permission, scope: { organization_id: id } };
    };
    const partial = sync(
      'partial',
      ['members', 'denied', lacks('organization_member:read', 'o1')],
      ['members', 'denied', lacks('organization_member:read', 'o2')],
      ['batch_exports', 'denied', lacks('batch_export:read', 'o2')],
      ['plugins', 'failed', { message: 'no route', hint: 'check the network' }],
    );
    const placeText = ({ organization_id: id }: { readonly organization_id?: string }) =>
      id === 'o1' ? 'organization Harbor' : `organization ${id}`;
    const [notice] = transitionsOf([], { ...partial, placeText }).notices;
    expect(contentOf(notice!)).toMatchObject({
      lines: [
        "members (organization Harbor) and 1 other: denied: no scope 'organization_member:read'",
        "batch_exports (organization o2): denied: no scope 'batch_export:read'",
        'plugins (organization Harbor): failed: no route',
      ],
      count: 4,
      hint: 'give the key the permissions organization_member:read, batch_export:read, or exclude the kind in the configuration; check the network',
    });
  });

  it.each<[JobOutcome, JobOutcome, string]>([
    ['refused', 'failed', 'it had failed since 2026-03-01'],
    ['failed', 'refused', 'it had failed since 2026-03-01'],
    ['partial', 'failed', 'no sync had read everything since 2026-03-01; it had failed since 2026-03-02'],
    [
      'failed',
      'partial',
      'no sync had read everything since 2026-03-01; it had been incomplete since 2026-03-02',
    ],
  ])('that was %s and then %s says since when', (first, second, line) => {
    const { states } = transitionsOf([], { ...sync(first, ['plugins', 'denied']), at: '2026-03-01' });
    const next = transitionsOf(states, { ...sync(second, ['plugins', 'denied']), at: '2026-03-02' });
    const [recovered] = transitionsOf(after(states, next), sync('done')).notices;
    expect(contentOf(recovered!).lines).toEqual([line]);
  });

  it('that failed, was partial and failed again says since when in all', () => {
    const stages: readonly [JobOutcome, string][] = [
      ['failed', '2026-03-01'],
      ['partial', '2026-03-02'],
      ['refused', '2026-03-03'],
      ['failed', '2026-03-04'],
    ];
    let states: NoticeState[] = [];
    for (const [outcome, at] of stages)
      states = after(states, transitionsOf(states, { ...sync(outcome, ['plugins', 'denied']), at }));
    const [recovered] = transitionsOf(states, sync('done')).notices;
    expect(contentOf(recovered!).lines).toEqual([
      'no sync had read everything since 2026-03-01; it had failed since 2026-03-03',
    ]);
  });

  it.each<[JobOutcome, string | null, string[]]>([
    ['failed', '2026-03-02', ['run_recovered', 'run_failed']],
    ['failed', '2026-02-28', []],
    ['failed', null, []],
    ['partial', '2026-03-02', ['run_recovered', 'run_partial']],
  ])('that was %s is over where a command made a complete one (%s) since', (outcome, completeAt, events) => {
    const { states } = transitionsOf([], { ...sync(outcome, ['plugins', 'denied']), at: '2026-03-01' });
    const again = { ...sync(outcome, ['plugins', 'denied']), at: '2026-03-03', completeAt };
    const change = transitionsOf(states, again);
    expect(change.notices.map(({ event }) => event)).toEqual(events);
    const since = events.length > 0 ? '2026-03-03' : '2026-03-01';
    expect(after(states, change)).toMatchObject([{ subject: 'run', state: outcome, since }]);
  });

  it('that was narrowed to some kinds neither fails nor recovers the whole', () => {
    const narrowed = seen(job('sync', 'done'), { kinds: ['members'] });
    expect(told(sync('failed'), narrowed, sync('done'))).toEqual([['run_failed'], [], ['run_recovered']]);
  });

  it('tells again when this machine is in the way instead of the service', () => {
    const full = seen(job('sync', 'failed', { errorCode: 'disk_full', error: 'no space' }));
    const { title, hint } = contentOf(transitionsOf([], full).notices[0]!);
    expect(title).toBe('production: the sync failed: the disk is full');
    expect(hint).toMatch(/^free space on the volume of the mirror/);
    const damaged = seen(job('sync', 'failed', { errorCode: 'mirror_corrupt', error: 'x.db is damaged' }));
    const { notices } = transitionsOf([], damaged);
    expect(notices.map(({ event }) => event)).toEqual(['verify_failed', 'run_failed']);
    expect(contentOf(notices[1]!).hint).toMatch(/`tidemark verify`.*`tidemark backup restore latest --to /);
    expect(told(sync('failed'), full, full)).toEqual([['run_failed'], ['run_failed'], []]);
  });

  it('asks nobody to run a command again where the mirror was held: the daemon tries again', () => {
    const held = seen(job('sync', 'failed', { errorCode: 'mirror_locked', error: 'x.db is in use' }));
    expect(contentOf(transitionsOf([], held).notices[0]!).hint).toMatch(
      /^no action needed: the daemon tries again/,
    );
  });

  it('says how to see whether a service responds that did not', () => {
    const hintOf = (run: number | null) =>
      contentOf(
        transitionsOf([], seen(job('sync', 'failed', { errorCode: 'timeout', error: 'no answer', run })))
          .notices[0]!,
      ).hint;
    const doctor = '`tidemark doctor --source production` shows whether the service responds';
    expect(hintOf(null)).toBe(`${doctor}; the mirror keeps what was known`);
    expect(hintOf(7)).toBe(`${doctor}; \`tidemark runs show 7\` shows more; the mirror keeps what was known`);
  });

  it('names the collections of a partial run with their reasons, and what to do', () => {
    const hint = 'grant plugin:read';
    const details = { unread: [sweep('plugins', 'denied', { message: 'permission missing', hint })] };
    const [notice] = transitionsOf([], seen(job('sync', 'partial'), details)).notices;
    expect(contentOf(notice!)).toMatchObject({
      title: 'production: the sync was incomplete',
      lines: ['plugins (organization o1): denied: permission missing'],
      hint,
      run: 7,
    });
  });

  it('that lost the lists that it could not read says that they are gone, and not that it reads them', () => {
    const details = { unread: [sweep('plugins', 'missing')] };
    const { states } = transitionsOf([], seen(job('sync', 'partial'), details));
    const gone = { lists: 33, areAll: true, parent: 'organization' };
    const [notice] = transitionsOf(states, { ...sync('done'), gone }).notices;
    expect(contentOf(notice!).title).toBe('production: the sync no longer lacks a list');
    expect(contentOf(notice!).lines).toContain(
      '33 lists that it could not read are gone with their organization',
    );
    // Likewise where a command made the complete run.
    const complete = { source: 'production', completeAt: '2999-01-01T00:00:00.000Z' };
    const [checked] = completeTransition(states, complete, complete.completeAt, () => gone).notices;
    expect(contentOf(checked!).title).toBe('production: the sync no longer lacks a list');
  });

  it('that lacks the lists below records whose removal waits tells of the removals alone, but of any other list too', () => {
    const held: NamedRemovals[] = [
      { kind: 'roles', scope: { organization_id: 'o1' }, records: 1, below: 3, run: 7, names: ['Pilots'] },
    ];
    const summary = { job: 'sync', held: 1, unread: [] } as unknown as JobRow['summary'];
    const below = sweep('role_memberships', 'missing', { scope: { organization_id: 'o1', role_id: 'r1' } });
    const isBelowHeld: JobObservation['isBelowHeld'] = (scope) => scope.role_id === 'r1';
    const lacking = (...unread: ReturnType<typeof sweep>[]): JobObservation => ({
      ...seen(job('sync', 'partial', { summary }), { unread: [sweep('roles', 'held'), ...unread] }, held),
      isBelowHeld,
    });
    expect(told(lacking(below), lacking(below), sync('done'))).toEqual([
      ['removals_held'],
      [],
      ['removals_settled'],
    ]);
    const other = { ...below, scope: { organization_id: 'o1', role_id: 'r2' } };
    const failed = { ...below, outcome: 'failed' } as const;
    for (const each of [other, failed])
      expect(told(lacking(below, each))).toEqual([['run_partial', 'removals_held']]);
  });

  it('that is partial only because removals wait tells of the removals, and of nothing else', () => {
    const held: NamedRemovals[] = [
      { kind: 'members', scope: { organization_id: 'o1' }, records: 12, below: 0, run: 7, names: ['A', 'B'] },
    ];
    const summary = { job: 'sync', held: 12, unread: [] } as unknown as JobRow['summary'];
    const waits = seen(job('sync', 'partial', { summary }), { unread: [sweep('members', 'held')] }, held);
    const more = { ...waits, held: [{ ...held[0]!, records: 13 }] };
    const fewer = { ...waits, held: [{ ...held[0]!, records: 2 }] };
    expect(told(waits, waits, more, fewer, sync('done'))).toEqual([
      ['removals_held'],
      [],
      ['removals_held'],
      [],
      ['removals_settled'],
    ]);
    const { states, notices } = transitionsOf([], { ...waits, placeText: () => 'organization Harbor' });
    expect(contentOf(notices[0]!).lines).toEqual([
      'members (organization Harbor): 12 records: A, B and 10 more',
      'their removal is held until you accept it',
    ]);
    const at = '2026-01-02T03:04:05.000Z';
    const timed = [{ ...held[0]!, until: { times: { first: at, last: at }, moved: null } }];
    expect(contentOf(transitionsOf([], { ...waits, held: timed }).notices[0]!).lines).toContain(
      'their removal is held until you accept it or a run after 2026-01-02T03:04:05Z confirms it; then they go without further question',
    );
    const moved = { from: 'https://old.example/', to: 'https://new.example/' };
    const other = [{ ...held[0]!, until: { times: null, moved } }];
    expect(contentOf(transitionsOf([], { ...waits, held: other }).notices[0]!).hint).toMatch(
      /^none of what was read at https:\/\/old\.example\/ before is at https:\/\/new\.example\/.*correct baseUrl and sync again; nothing was removed; if they were meant to go/,
    );
    const missing = seen(job('sync', 'partial'), { unread: [sweep('roles', 'missing')] }, other);
    const partial = transitionsOf([], missing).notices.find(({ event }) => event === 'run_partial');
    expect(contentOf(partial!)).toMatchObject({
      lines: [
        expect.stringMatching(/^none of what was read at https:\/\/old\.example\/ before is at /),
        expect.stringMatching(/^roles /),
      ],
      hint: expect.stringMatching(/correct baseUrl and sync again/) as string,
    });
    const deep = transitionsOf([], { ...waits, held: [{ ...held[0]!, below: 246 }] }).states;
    expect(contentOf(transitionsOf(deep, sync('done')).notices[0]!).lines[0]).toMatch(
      /^12 removals, with 246 below, had waited since 2/,
    );
    const settled = {
      accepted: [{ records: 4, by: 'Ann', via: 'token@dashboard', run: 8 }],
      restored: 2,
      confirmed: 3,
    };
    const [ended] = transitionsOf(states, { ...sync('done'), settled }).notices;
    expect(contentOf(ended!).lines).toEqual([
      expect.stringMatching(/^12 removals had waited since 2/),
      '4 records were removed: accepted by Ann (token@dashboard) in run 8',
      '2 records were created again by a restore',
      '3 records were removed: a later run did not find them either',
      '3 records were seen again in the service',
    ]);
    // All that had waited is counted at the end, not what waited last, nor what other collections held.
    const roles = { ...held[0]!, kind: 'roles' as const, records: 9 };
    let since = transitionsOf([], { ...waits, held: [...held, roles] }).states;
    since = transitionsOf(since, { ...waits, held: [{ ...held[0]!, records: 3 }] }).states;
    expect(Object.keys(since[0]!.detail)).toEqual(expect.arrayContaining(['roles {"organization_id":"o1"}']));
    expect(transitionsOf(since, { ...waits, held: [{ ...held[0]!, records: 3 }] }).states).toEqual([]);
    const more3 = transitionsOf(since, {
      ...waits,
      held: [
        { ...held[0]!, records: 3 },
        { ...roles, records: 2 },
      ],
    });
    expect(more3.notices).toHaveLength(1);
    const [all] = transitionsOf(since, {
      ...sync('done'),
      settled: { accepted: [], restored: 0, confirmed: 3 },
    }).notices;
    expect(contentOf(all!).lines).toEqual([
      expect.stringMatching(/^21 removals had waited since 2/),
      '3 records were removed: a later run did not find them either',
      '18 records were seen again in the service',
    ]);
    // What is missing again may be the same records.
    let again = transitionsOf([], waits).states;
    for (const records of [4, 12])
      again = transitionsOf(again, { ...waits, held: [{ ...held[0]!, records }] }).states;
    const [twice] = transitionsOf(again, {
      ...sync('done'),
      settled: { accepted: [], restored: 0, confirmed: 3 },
    }).notices;
    expect(contentOf(twice!).lines).toEqual([
      expect.stringMatching(/^at most 20 removals had waited since 2/),
      '3 records were removed: a later run did not find them either',
      'at most 17 records were seen again in the service',
    ]);
    const [notice] = transitionsOf([], waits).notices;
    const { hint, lines } = contentOf(notice!);
    expect(lines[0]).toMatch(/: 12 records: A, B and 10 more$/);
    // How to look and to put them back comes before the way to let them go.
    expect(hint).toMatch(
      /diff latest live --source \S+ --kind members`.*`tidemark restore --source \S+ --kind members --invite-missing` plans to restore them, members by invites.*--accept-removals 12/,
    );
    // What is below is to be put back too.
    const role = { ...held[0]!, kind: 'roles' as const, records: 1, below: 3, names: [] };
    const [ofRole] = transitionsOf([], { ...waits, held: [role] }).notices;
    expect(contentOf(ofRole!).hint).toMatch(
      /`tidemark restore --source \S+ --kind roles --kind role_memberships` plans to restore them/,
    );
  });
});

const drift = (...findings: Parameters<typeof finding>[]): JobObservation =>
  seen(driftJob(findings.map((each) => finding(...each))));

/** Finding `b`, of a record that a restore created again since it was finding `a`. */
const again = (): JobObservation =>
  seen(
    driftJob([finding('b', { id: 'b2' })], {
      earlier: { b: [{ fingerprint: 'a', scope: { organization_id: 'o1' }, id: 'b1' }] },
    }),
  );

describe('drift', () => {
  it.each<[string, JobObservation[], string[][]]>([
    ['that stays is reported once', [drift(['a']), drift(['a'])], [['drift_new'], []]],
    ['whose value moves on has changed', [drift(['a']), drift(['b'])], [['drift_new'], ['drift_changed']]],
    ['that goes is resolved', [drift(['a']), drift()], [['drift_new'], ['drift_resolved']]],
    [
      'of another place is new',
      [drift(['a']), drift(['a'], ['b', { path: '/name' }])],
      [['drift_new'], ['drift_new']],
    ],
    [
      'of a field whose record is removed has changed, not resolved',
      [drift(['a'], ['c', { path: '/name' }]), drift(['b', { path: '', change: 'removed' }])],
      [['drift_new'], ['drift_changed']],
    ],
    [
      'that comes back is reported again',
      [drift(['a']), drift(), drift(['a'])],
      [['drift_new'], ['drift_resolved'], ['drift_new']],
    ],
    [
      'of a record that a restore created again is the same',
      [drift(['a']), again(), again(), drift()],
      [['drift_new'], [], [], ['drift_resolved']],
    ],
    [
      'of a record that was seen removed before a restore created it again has changed',
      [drift(['a']), drift(['c', { path: '', change: 'removed' }]), again()],
      [['drift_new'], ['drift_changed'], ['drift_changed']],
    ],
  ])('%s', (_name, jobs, events) => {
    expect(told(...jobs)).toEqual(events);
  });

  it('that is new beside a restore that has not ended names it', () => {
    const lines = (jobs: JobObservation): string =>
      JSON.stringify(transitionsOf([], jobs).notices.map(({ content }) => content));
    expect(lines({ ...drift(['a']), unfinishedRestore: 4 })).toContain('restore 4 has not ended');
    expect(lines(drift(['a']))).not.toContain('has not ended');
  });

  it('keeps since when it is open under the fingerprint that a restore gave it', () => {
    const first = after([], transitionsOf([], drift(['a'])));
    const later = { ...again(), at: '2026-03-02T12:00:00.000Z' };
    const states = after(first, transitionsOf(first, later));
    expect(states).toMatchObject([{ subject: 'drift:b', since: first[0]?.since, detail: { id: 'b2' } }]);
  });

  it('that ends says since when the oldest of its findings was open', () => {
    const states = after([], transitionsOf([], drift(['a'])));
    const later = '2026-03-01T15:12:00.000Z';
    const [one] = transitionsOf(states, { ...drift(), at: later }).notices;
    const since = states[0]!.since;
    expect([contentOf(one!).since, contentOf(one!).lines]).toEqual([
      since,
      [`it was open since ${since}, for 3 h`],
    ]);
    const both = after(states, transitionsOf(states, { ...drift(['a'], ['b']), at: later }));
    const [two] = transitionsOf(both, { ...drift(), at: later }).notices;
    expect(contentOf(two!).lines).toEqual([`the oldest was open since ${since}, for 3 h`]);
  });

  it('is not resolved by a comparison that did not see it', () => {
    const blind = seen(driftJob([], { skipped: 1 }));
    const { kind, scope } = finding('a');
    const own = seen(driftJob([], { skipped: 1, uncompared: [{ kind, scope }] }));
    const cut = seen(driftJob([], { skipped: 2, uncompared: [{ kind: 'roles', scope }] }));
    const other = seen(driftJob([], { skipped: 1, uncompared: [{ kind: 'roles', scope }] }));
    expect(told(drift(['a']), blind, own, cut, other)).toEqual([
      ...[['drift_new'], [], [], []],
      ['drift_resolved'],
    ]);
  });

  it('says how to see it, to put it back and to accept it', () => {
    const [notice] = transitionsOf([], drift(['a'])).notices;
    expect(contentOf(notice!).hint).toBe(
      '`tidemark drift --source production` shows the values; `tidemark restore baseline --source production` plans to restore them; `tidemark drift accept KIND ID --reason TEXT --source production` accepts what is intended',
    );
    const [resolved] = transitionsOf(after([], transitionsOf([], drift(['a']))), drift()).notices;
    expect(contentOf(resolved!).hint).toBeNull();
    // Other drift was accepted: what puts this back leaves that.
    const [beside] = transitionsOf([], seen(driftJob([finding('a')], { accepted: 1 }))).notices;
    expect(contentOf(beside!).hint).toContain(
      '`tidemark restore baseline --keep-accepted --source production`',
    );
  });

  it.each<[string, string[], number, string]>([
    ['how many were accepted, and how many are gone', ['a'], 0, ': 1 accepted, 2 gone'],
    ['how many were accepted, where others may be ignored now', ['a'], 1, ': 1 accepted'],
    ['that all were accepted', ['a', 'b', 'c'], 0, ': 3 accepted'],
    ['nothing of it where none was', ['other'], 0, ''],
  ])('that is no longer open says %s', (_what, accepted, ignored, expected) => {
    const three = [finding('a'), finding('b', { id: 'b2' }), finding('c', { id: 'b3', severity: 'low' })];
    const states = after([], transitionsOf([], seen(driftJob(three))));
    const ended = { ...seen(driftJob([], { ignored })), accepted: new Set(accepted) };
    const [notice, ...others] = transitionsOf(states, ended).notices;
    expect(others).toEqual([]);
    const { title } = messageOf(1, notice!, 'low');
    expect(title).toBe(`production: 3 findings of drift are no longer open (2 medium, 1 low)${expected}`);
  });

  it('without a baseline says nothing, and forgets nothing', () => {
    const none = seen(driftJob([], { hasBaseline: false }));
    expect(told(drift(['a']), none, drift(['a']))).toEqual([['drift_new'], [], []]);
  });

  it('names the worst first and counts the rest', () => {
    const many = Array.from({ length: 30 }, (_unused, n) =>
      finding(`f${n}`, { id: `b${n}`, severity: n === 29 ? 'critical' : 'low' }),
    );
    const [notice, ...others] = transitionsOf([], seen(driftJob(many))).notices;
    expect(others).toEqual([]);
    const content = contentOf(notice!);
    expect(content.findings).toHaveLength(20);
    expect(content.findings[0]?.fingerprint).toBe('f29');
    expect(content).toMatchObject({ count: 30, severity: 'critical', severities: { critical: 1, low: 29 } });
  });

  it('beyond what is followed is reported as one mass, and when it has shrunk', () => {
    const known = drift(['a']);
    const mass = seen(driftJob([finding('a')], { open: 5001 }));
    expect(told(known, mass, mass, drift(['a'], ['z', { id: 'z' }]), drift(['a']))).toEqual([
      ['drift_new'],
      ['drift_new'],
      [],
      ['drift_resolved'],
      ['drift_resolved'],
    ]);
    const states = after([], transitionsOf([], known));
    expect(after(states, transitionsOf(states, mass)).map(({ subject }) => subject)).toEqual(['drift']);
  });
});

const verify = (problems: number): JobObservation => {
  const summary = { job: 'verify', problems, found: problems === 0 ? [] : ['body of members x'] };
  return seen(
    job('verify', problems === 0 ? 'done' : 'failed', { summary: summary as unknown as JobRow['summary'] }),
  );
};
/** One that finds nothing but what people recorded. */
const contradicted = (problems: number): JobObservation => {
  const { job: row } = verify(problems);
  return seen({ ...row, summary: { ...row.summary, isOfAuditLog: true } });
};
/** A job that refuses for that. */
const refused = (name: JobName): JobObservation =>
  seen(
    job(name, 'failed', {
      ...{ errorCode: 'mirror_corrupt', error: 'snapshot "b" is not as it was pinned' },
      summary: refusalSummary('look at it'),
    }),
  );
const drill = (score: number): JobObservation =>
  seen(
    job('drill', 'done', {
      summary: { job: 'drill', score, from: 3, kinds: [] } as unknown as JobRow['summary'],
    }),
  );
/** A backup in the targets a and b, of which some fail. */
const backup = (failing: string, error: string | null): JobObservation => {
  const targets = ['a', 'b'].map((address) => ({
    address,
    error: failing.includes(address) ? error : null,
  }));
  const isPartial = targets.some((each) => each.error !== null);
  return seen(
    job('backup', isPartial ? 'partial' : 'done', {
      error: isPartial ? error : null,
      summary: { job: 'backup', file: 'x', targets } as unknown as JobRow['summary'],
    }),
  );
};
const NO_BACKUP_DUE = seen(job('backup', 'done', { summary: { job: 'backup', file: null } }));

describe('the other jobs', () => {
  it.each([
    ['drift', null, /^`tidemark drift --source production` tries again and says why/],
    ['drill', null, /^`tidemark drill --source production` tries again/],
    ['git', null, /^`tidemark git --source production` tries again/],
    ['verify', null, /^`tidemark verify` tries again/],
    ['forget', null, /^`tidemark forget --dry-run` says why/],
    ['backup', null, /^`tidemark backup create` tries again.*`tidemark backup list`/],
    ['backup', 'disk_full', /^free space on the volume that is full.*`tidemark backup create`/],
    ['backup', 'backup_damaged', /^check .*; then `tidemark backup create`/],
    ['drift', 'mirror_corrupt', /^`tidemark verify`.*`tidemark backup restore latest/],
    ['drift', 'reference_unknown', /^`tidemark snapshots pin NAME --baseline` makes/],
  ] as const)('%s that failed (%s) say what to do', (name, errorCode, hint) => {
    const { notices } = transitionsOf([], seen(job(name, 'failed', { errorCode, error: 'no' })));
    expect(contentOf(notices.at(-1)!).hint).toMatch(hint);
  });

  it.each(['failed', 'partial'] as const)(
    'a backup (%s) that found a directory without its backups: the disk comes first',
    (outcome) => {
      const error = '/mnt has none of the backups that were stored there: is its disk mounted?';
      const targets = [{ address: '/mnt', error, isEmptied: true }];
      const file = outcome === 'failed' ? null : 'x';
      const row = job('backup', outcome, { error, summary: { job: 'backup', file, targets } });
      const { notices } = transitionsOf([], seen(row));
      expect(notices.map(({ event }) => event)).toEqual(['backup_failed']);
      const { lines, hint } = contentOf(notices[0]!);
      expect(lines).toEqual([error]);
      expect(hint).toMatch(/^mount the disk: .* If it was emptied on purpose/);
    },
  );

  it('a backup that is not in the chain of the mirror is reported once, another one again, and when none is left', () => {
    const made = (...contradicting: string[]) =>
      seen(job('backup', 'done', { summary: { job: 'backup', file: 'x', targets: [], contradicting } }));
    const idle = seen(job('backup', 'done', { summary: { job: 'backup', file: null } }));
    expect(told(made(), made('a'), made('a'), idle, made('a', 'b'), made('b'), made(), made())).toEqual([
      ...[[], ['verify_failed'], [], [], ['verify_failed'], [], ['verify_recovered'], []],
    ]);
    const [notice] = transitionsOf([], made('a')).notices;
    const { severity, lines, hint } = contentOf(notice!);
    expect(severity).toBe('critical');
    expect(lines.join()).toMatch(/^1 backup \(a\) is not in the chain of this mirror/);
    expect(hint).toContain('`tidemark verify --backups`');
  });

  it.each([
    ['the whole job failed', {}],
    ['it failed in it', { job: 'backup', file: 'x', targets: [{ address: '/mnt', error: 'is away' }] }],
  ])('a directory that was away (%s) and comes back empty is news, once', (_how, summary) => {
    const error = '/mnt has none of the backups that were stored there: is its disk mounted?';
    const targets = [{ address: '/mnt', error, isEmptied: true }];
    const away = seen(job('backup', 'failed', { error: 'is away', errorCode: 'file_system', summary }));
    const empty = seen(job('backup', 'failed', { error, summary: { job: 'backup', file: null, targets } }));
    expect(told(away, away, empty, empty)).toEqual([['backup_failed'], [], ['backup_failed'], []]);
  });

  it('a backup that one target could not take says which other took it, also in a group of sources', () => {
    const targets = [
      { address: 's3://b', error: 'access denied' },
      { address: '/mnt', error: null },
    ];
    const summary = { job: 'backup', file: 'x', targets };
    const failed = seen(job('backup', 'partial', { error: 'access denied', summary }));
    const [notice] = transitionsOf([], failed).notices;
    const lines = ['access denied', 'the backup was stored in /mnt'];
    expect(contentOf(notice!).lines).toEqual(lines);
    const events = ['a', 'b'].map((source, index) => ({
      ...{ mirror: source, notice: index, id: source, source, cause: 'http://a', about: notice! },
    }));
    const [draft] = draftsOf([], events, webhook('all', 'http://a'));
    const messages = events.map(({ about, notice: number, source }) =>
      messageOf(number, about, 'low', null, source),
    );
    const message = batchMessage(batchOf(draft!, 0), messages, { publicUrl: null, configured: 2 });
    expect(message.lines).toEqual([`a, b: ${lines.join('; ')}`]);
  });

  it('that fail because the mirror is damaged are reported only to those who did not hear of the damage', () => {
    const damage = { errorCode: 'mirror_corrupt', error: 'it is damaged' } as const;
    const all = webhook('all', 'http://a');
    const jobs = webhook('jobs', 'http://b', { on: ['backup_failed', 'backup_recovered', 'job_failed'] });
    const heard = (states: readonly NoticeState[], each: JobObservation): [string[], NoticeState[]] => {
      const change = transitionsOf(states, each);
      const texts = change.notices.flatMap((notice) =>
        channelsFor(notice, [all, jobs], null).map((channel) => `${channel} ${notice.event}`),
      );
      return [texts, after(states, change)];
    };
    const [first, open] = heard([], verify(2));
    expect(first).toEqual(['all verify_failed']);
    const [second, both] = heard(open, seen(job('backup', 'failed', damage)));
    expect(second).toEqual(['jobs backup_failed']);
    const [third, left] = heard(both, verify(0));
    expect(third).toEqual(['all verify_recovered']);
    expect(heard(left, backup('', null))[0]).toEqual(['jobs backup_recovered']);
    const full = seen(job('backup', 'failed', { errorCode: 'disk_full', error: 'no space' }));
    expect(heard(left, full)[0]).toEqual(['all backup_failed', 'jobs backup_failed']);
    // Whichever job meets the damage first has found it.
    const [found, known] = heard([], seen(job('backup', 'failed', damage)));
    expect(found).toEqual(['all verify_failed', 'jobs backup_failed']);
    const [again, failing] = heard(known, seen(job('sync', 'failed', damage)));
    expect(again).toEqual([]);
    const [well, verified] = heard(failing, verify(0));
    expect(well).toEqual(['all verify_recovered']);
    expect(heard(verified, sync('done'))[0]).toEqual([]);
    expect(heard(verified, sync('failed'))[0]).toEqual(['all run_failed']);
  });

  it('a verification that damage keeps from its end has found it, and the one that counts it finds the same', () => {
    const broken = seen(job('verify', 'failed', { errorCode: 'mirror_corrupt', error: 'x.db is damaged' }));
    expect(told(broken, broken, verify(2), broken, verify(3), verify(0))).toEqual([
      ['verify_failed'],
      [],
      [],
      [],
      ['verify_failed'],
      ['verify_recovered'],
    ]);
    expect(told(broken, verify(0))).toEqual([['verify_failed'], ['verify_recovered']]);
    expect(contentOf(transitionsOf([], broken).notices[0]!).lines).toEqual(['x.db is damaged']);
  });

  it('damage that another job meets first is one notice, also where the verification fails for it and counts it', () => {
    const damage = { errorCode: 'mirror_corrupt', error: 'it is damaged' } as const;
    const { job: counted } = verify(48);
    const events = told(seen(job('drift', 'failed', damage)), seen({ ...counted, ...damage }), verify(0));
    expect(events.map((each) => each.filter((event) => event.startsWith('verify')))).toEqual([
      ['verify_failed'],
      [],
      ['verify_recovered'],
    ]);
    expect(told(verify(2), seen({ ...verify(3).job, ...damage }))).toEqual([
      ['verify_failed'],
      ['verify_failed'],
    ]);
  });

  describe('that refuse since what people recorded is not as the audit log has it', () => {
    const damage = { errorCode: 'mirror_corrupt', error: 'it is damaged' } as const;
    const follows = ({ notices }: Transition): unknown[] =>
      notices.map((notice) => contentOf(notice).follows);
    const titlesOf = ({ notices }: Transition): string[] =>
      notices.map((notice) => `${notice.event} ${contentOf(notice).title}`);

    it('do not hide damage that is found after it', () => {
      const first = transitionsOf([], refused('drift'));
      expect(titlesOf(first)).toEqual([
        'verify_failed mirror: it does not match its audit log',
        'job_failed production: drift failed',
      ]);
      expect(follows(first)).toEqual([null, 'verify_failed']);
      const states = after([], first);
      expect(titlesOf(transitionsOf(states, verify(11)))).toEqual([
        'verify_failed mirror: the contents do not match the stored hashes: 11 problems',
      ]);
      expect(contentOf(transitionsOf(states, verify(11)).notices[0]!).count).toBe(11);
      // Also as many as were contradicted, and also where a job meets it before a verification counts it.
      const counted = after([], transitionsOf([], contradicted(1)));
      expect(titlesOf(transitionsOf(counted, verify(1)))).toEqual([
        'verify_failed mirror: the contents do not match the stored hashes: 1 problem',
      ]);
      expect(titlesOf(transitionsOf(states, seen(job('backup', 'failed', damage))))).toEqual([
        'verify_failed mirror: it is damaged',
        'backup_failed mirror: backup failed',
      ]);
    });

    it('are news where damage is known', () => {
      for (const known of [verify(2), seen(job('backup', 'failed', damage))]) {
        const states = after([], transitionsOf([], known));
        expect(titlesOf(transitionsOf(states, refused('drift')))).toEqual([
          'verify_failed mirror: it does not match its audit log',
          'job_failed production: drift failed',
        ]);
      }
    });

    it('are told once, whichever of them refuse, and as often as more is found by a verification', () => {
      const ofLog = told(
        refused('drift'),
        refused('drift'),
        refused('forget'),
        contradicted(1),
        contradicted(2),
      );
      expect(ofLog).toEqual([['verify_failed', 'job_failed'], [], ['job_failed'], [], ['verify_failed']]);
      const texts = transitionsOf([], contradicted(2));
      expect(titlesOf(texts)).toEqual(['verify_failed mirror: it does not match its audit log: 2 problems']);
    });

    it('are over once none of them refuses any more, or a verification finds nothing', () => {
      expect(
        told(refused('drift'), refused('forget'), seen(driftJob([])), seen(job('forget', 'done'))),
      ).toEqual([
        ['verify_failed', 'job_failed'],
        ['job_failed'],
        ['job_recovered'],
        ['verify_recovered', 'job_recovered'],
      ]);
      expect(told(refused('drift'), sync('done'), seen(job('drift', 'interrupted')), verify(0))).toEqual([
        ['verify_failed', 'job_failed'],
        [],
        [],
        ['verify_recovered'],
      ]);
      const states = after([], transitionsOf([], refused('drift')));
      const end = transitionsOf(states, seen(driftJob([])));
      expect(titlesOf(end)[0]).toBe('verify_recovered mirror: it matches its audit log again');
      expect(after(states, end)).toEqual([]);
      // Nothing is measured from what was altered any more.
      const noBaseline = job('drift', 'failed', {
        errorCode: 'reference_unknown',
        error: 'no baseline is set',
      });
      expect(transitionsOf(states, seen(noBaseline)).notices.map(({ event }) => event)).toContain(
        'verify_recovered',
      );
      // These had nothing to do, and looked at nothing.
      const backupRefused = after([], transitionsOf([], refused('backup')));
      expect(transitionsOf(backupRefused, NO_BACKUP_DUE)).toEqual(NO_TRANSITION);
      expect(titlesOf(transitionsOf(backupRefused, backup('', null)))[0]).toMatch(/^verify_recovered /);
    });

    it('stay open where a verification has counted what it found, until one finds nothing', () => {
      expect(told(contradicted(1), refused('drift'), seen(driftJob([])), verify(0))).toEqual([
        ['verify_failed'],
        ['job_failed'],
        ['job_recovered'],
        ['verify_recovered'],
      ]);
    });

    it('damage is over where a verification finds nothing but that', () => {
      const states = after([], transitionsOf([], verify(2)));
      expect(titlesOf(transitionsOf(states, contradicted(1)))).toEqual([
        'verify_recovered mirror: the contents match the stored hashes again',
        'verify_failed mirror: it does not match its audit log: 1 problem',
      ]);
    });
  });

  it.each<[string, JobObservation[], string[][]]>([
    [
      'verify: problems, more, fewer, none',
      [verify(0), verify(2), verify(2), verify(3), verify(1), verify(0)],
      [[], ['verify_failed'], [], ['verify_failed'], [], ['verify_recovered']],
    ],
    [
      'a drill falls, falls further, rises a little, and is back',
      [drill(0.9), drill(0.9), drill(0.8), drill(0.7), drill(0.8), drill(0.9)],
      [[], [], ['drill_fell'], ['drill_fell'], [], ['drill_recovered']],
    ],
    [
      'a drill falls little by little',
      [drill(0.95), drill(0.94), drill(0.92), drill(0.89), drill(0.88), drill(0.91)],
      [[], [], [], ['drill_fell'], [], ['drill_recovered']],
    ],
    ['a drill falls by 5 percentage points at most', [drill(0.291), drill(0.289), drill(0.25)], [[], [], []]],
    ['a drill that rises says nothing', [drill(0.5), drill(0.9)], [[], []]],
    [
      'a job that cannot do its work',
      [
        seen(job('backup', 'failed', { error: 'no space' })),
        seen(job('backup', 'failed')),
        seen(job('backup', 'done')),
      ],
      [['backup_failed'], [], ['backup_recovered']],
    ],
    [
      'a backup that fails in one of its targets, in another one too, and in none',
      [
        backup('a', null),
        backup('a', 'full'),
        backup('a', 'full'),
        backup('ab', 'away'),
        NO_BACKUP_DUE,
        backup('', null),
      ],
      [[], ['backup_failed'], [], ['backup_failed'], [], ['backup_recovered']],
    ],
    [
      'a backup that failed as a whole is no better while one target still fails',
      [seen(job('backup', 'failed', { error: 'away' })), backup('b', 'away'), backup('b', null)],
      [['backup_failed'], [], ['backup_recovered']],
    ],
    [
      'another job that cannot do its work',
      [seen(job('forget', 'failed')), seen(job('forget', 'failed')), seen(job('forget', 'done'))],
      [['job_failed'], [], ['job_recovered']],
    ],
    [
      'a verify that could not run is not one that found something',
      [seen(job('verify', 'failed'))],
      [['job_failed']],
    ],
  ])('%s', (_name, jobs, events) => {
    expect(told(...jobs)).toEqual(events);
  });
});

describe('time alone', () => {
  const at = Date.parse('2026-03-01T12:00:00.000Z');
  const source = {
    source: 'production',
    expectedSince: '2026-03-01T10:00:00.000Z',
    allowedMs: 3_600_000,
    behind: null,
    isQueued: false,
    limitHeldBy: null,
  };
  it.each([
    ['none yet, within the time', null, at - 3_600_000, []],
    ['none yet, too late', null, at, ['sync_overdue']],
    ['a recent one', '2026-03-01T11:30:00.000Z', at, []],
    ['an old one', '2026-03-01T10:30:00.000Z', at, ['sync_overdue']],
  ])('%s', (_name, completeAt, now, events) => {
    const freshness = { ...source, completeAt };
    const first = freshnessTransition([], freshness, now);
    expect(first.notices.map(({ event }) => event)).toEqual(events);
    const states = after([], first);
    expect(freshnessTransition(states, freshness, now)).toEqual({
      states: [],
      cleared: [],
      notices: [],
    });
    const back = freshnessTransition(states, { ...source, completeAt: new Date(now).toISOString() }, now);
    expect(back.notices.map(({ event }) => event)).toEqual(events.length === 0 ? [] : ['sync_on_time']);
    const time = new Date(now).toISOString();
    // Not since it was noticed, which may be later.
    const since = new Date(Date.parse(completeAt ?? source.expectedSince) + source.allowedMs).toISOString();
    for (const { content } of back.notices)
      expect(content['lines']).toEqual([`the last one ended at ${time}; one was overdue since ${since}`]);
  });

  it.each([
    ['failed', 'run_failed', 'run_failed'],
    ['refused', 'key_refused', 'key_refused'],
    ['partial', 'run_partial', 'run_partial'],
  ] as const)('follows the sync that %s and was reported just now', (state, event, follows) => {
    const late = { ...source, completeAt: null };
    const time = new Date(at).toISOString();
    const run = { source: source.source, subject: 'run', state, since: time, detail: {} };
    const first = freshnessTransition([run], late, at);
    expect(contentOf(first.notices[0]!).follows).toBe(follows);
    const [known, alone] = [['sync_overdue', event], ['sync_overdue']].map((on) =>
      channelsFor(first.notices[0]!, [{ ...webhook('a', 'http://a'), on: on as NoticeEvent[] }], null),
    );
    expect([known, alone]).toEqual([[], ['a']]);
    const states = after([run], first);
    const back = freshnessTransition(states, { ...late, completeAt: time }, at);
    expect(contentOf(back.notices[0]!).follows).toBe(follows);
    // What was reported before has an end of its own, which this would not be.
    const earlier = { ...run, since: new Date(at - 180_000).toISOString() };
    const other = freshnessTransition([earlier], late, at);
    expect(contentOf(other.notices[0]!).follows).toBeNull();
    expect(freshnessTransition(states, late, at)).toMatchObject({ notices: [] });
    // It works again, but read nothing completely, as where removals are held.
    const again = freshnessTransition(after([], first), late, at);
    expect(again.notices.map(({ event: of }) => of)).toEqual(['sync_overdue']);
    for (const notice of again.notices) expect(contentOf(notice).follows).toBeNull();
  });

  it('follows removals that are held, where nothing else keeps syncs from being complete', () => {
    const time = new Date(at).toISOString();
    const late = { ...source, completeAt: source.expectedSince, readAt: time };
    const since = '2026-03-01T10:30:00.000Z';
    const removals = {
      ...{ source: source.source, subject: 'removals', state: 'held', since },
      detail: { 'agents {}': 12, 'skills {}': 3, waited: 20, below: 4 },
    };
    const sync = { startedAt: new Date(at - 5_100).toISOString(), silentMs: 0 };
    const first = freshnessTransition([removals], { ...late, sync }, at);
    const content = contentOf(first.notices[0]!);
    expect([content.follows, content.lines[2]]).toEqual([
      'removals_held',
      `15 removals are held since ${since}; all else was read`,
    ]);
    const [known, alone] = [['sync_overdue', 'removals_held'], ['sync_overdue']].map((on) =>
      channelsFor(first.notices[0]!, [{ ...webhook('a', 'http://a'), on: on as NoticeEvent[] }], null),
    );
    expect([known, alone]).toEqual([[], ['a']]);
    const states = after([removals], first);
    expect(freshnessTransition(states, late, at)).toMatchObject({ states: [], notices: [] });
    // As long as they wait, it is the same matter; a sync that does not come to its end is another.
    const later = at + 4 * 3_600_000;
    const again = { ...late, readAt: new Date(later - 60_000).toISOString() };
    expect(freshnessTransition(states, again, later)).toMatchObject({ states: [], notices: [] });
    const hanging = freshnessTransition(states, late, later);
    expect(hanging.notices.map(({ event, content: of }) => [event, of['follows']])).toEqual([
      ['sync_overdue', null],
    ]);
    const back = freshnessTransition(states, { ...late, completeAt: time }, at);
    expect(contentOf(back.notices[0]!).follows).toBe('removals_held');
    // A sync that was incomplete, and now is so for the held ones alone.
    const run = { source: source.source, subject: 'run', state: 'partial', since: time, detail: {} };
    const partial = after([run, removals], freshnessTransition([run, removals], late, at));
    const left = freshnessTransition(
      partial.filter(({ subject }) => subject !== 'run'),
      late,
      at,
    );
    expect(left.notices.map(({ content: of }) => of['follows'])).toEqual(['removals_held']);
  });

  it('names the job that the next sync waits for, where it is overdue', () => {
    const startedAt = new Date(at - 90_000).toISOString();
    const late = {
      ...source,
      completeAt: null,
      behind: { name: 'backup', startedAt, waitsFor: 's3://hang' },
    };
    const [notice] = freshnessTransition([], late, at).notices;
    expect(contentOf(notice!).lines).toEqual([
      'expected since 2026-03-01T10:00:00.000Z',
      'the schedule allows 60 min',
      'the next sync waits for the backup job, which has run for 90 s, and waits for s3://hang to answer',
    ]);
  });

  it.each([
    ['its own', 'production', 'a sync has run for 5 min; nothing received for 4 min'],
    [
      'that of another source',
      'other',
      'the next sync waits for that of other: a sync has run for 5 min; nothing received for 4 min',
    ],
  ])(
    'says of a sync that hangs (%s) how long it has run, where the next one waits for it',
    (_, running, line) => {
      const sync = { startedAt: new Date(at - 300_000).toISOString(), silentMs: 240_000 };
      const behind = { name: 'sync', source: running, ...sync };
      const late = {
        ...{ ...source, completeAt: null, isQueued: true, behind },
        sync: running === source.source ? sync : null,
      };
      const [notice] = freshnessTransition([], late, at).notices;
      expect(contentOf(notice!).lines.slice(2)).toEqual([line]);
    },
  );

  it.each([
    ['none', null, 'no sync was complete yet'],
    ['an old one', '2026-03-01T10:30:00.000Z', 'the last one ended at 2026-03-01T10:30:00.000Z'],
  ])(
    'ends without a sync (%s) where the schedule allows more, and does not speak of one',
    (_, completeAt, last) => {
      const late = { ...source, completeAt };
      const now = Date.parse('2026-03-01T13:00:00.000Z');
      const since = new Date(Date.parse(completeAt ?? source.expectedSince) + source.allowedMs).toISOString();
      const states = after([], freshnessTransition([], late, now));
      const { notices, cleared } = freshnessTransition(
        states,
        { ...late, allowedMs: 30 * 3_600_000 },
        now + 60_000,
      );
      expect([notices.map(({ event }) => event), cleared]).toMatchObject([
        ['sync_on_time'],
        [{ subject: 'fresh' }],
      ]);
      expect(contentOf(notices[0]!)).toMatchObject({
        title: expect.stringMatching(/: no sync is overdue any more$/) as string,
        lines: [`${last}, the schedule allows 30 h; one was overdue since ${since}`],
      });
    },
  );
});

const anyJob = fc.oneof(
  fc
    .record({
      outcome: fc.constantFrom<JobOutcome>('done', 'partial', 'failed', 'refused', 'interrupted'),
      kinds: fc.subarray(['members', 'plugins', 'roles'] as const),
      held: fc.subarray([1, 2, 30]),
      code: fc.constantFrom('unreachable', 'disk_full', null),
    })
    .map(({ outcome, kinds, held, code }) =>
      seen(
        job('sync', outcome, { errorCode: code }),
        { unread: kinds.map((kind) => sweep(kind, 'failed')) },
        held.map((records) => ({
          kind: 'members',
          scope: { organization_id: `o${records % 2}` },
          records,
          below: 0,
          run: 1,
          names: [],
        })),
      ),
    ),
  fc
    .record({
      places: fc.uniqueArray(
        fc.record({ n: fc.integer({ min: 0, max: 4 }), value: fc.integer({ min: 0, max: 2 }) }),
        {
          selector: ({ n }) => n,
        },
      ),
    })
    .map(({ places }) =>
      seen(driftJob(places.map(({ n, value }) => finding(`${n}-${value}`, { path: `/f${n}` })))),
    ),
  fc.integer({ min: 0, max: 3 }).map(verify),
  fc.integer({ min: 1, max: 3 }).map(contradicted),
  fc.constantFrom<JobName>('drift', 'forget', 'backup').map(refused),
  fc.integer({ min: 0, max: 10 }).map((tenths) => drill(tenths / 10)),
  fc.constantFrom<JobOutcome>('done', 'failed', 'interrupted').map((outcome) => seen(job('forget', outcome))),
);

describe('any sequence of jobs', () => {
  it('tells nothing when a job is seen again', () => {
    fc.assert(
      fc.property(fc.array(anyJob, { maxLength: 12 }), (jobs) => {
        let states: NoticeState[] = [];
        for (const each of jobs) {
          states = after(states, transitionsOf(states, each));
          expect(transitionsOf(states, each)).toEqual({ states: [], cleared: [], notices: [] });
        }
      }),
    );
  });

  it('is described by its notices: the last word on each subject is how it stands', () => {
    fc.assert(
      fc.property(fc.array(anyJob, { maxLength: 15 }), (jobs) => {
        let states: NoticeState[] = [];
        const last = new Map<string, string>();
        let openCount = 0;
        for (const each of jobs) {
          const change = transitionsOf(states, each);
          states = after(states, change);
          for (const { subject, event, content } of change.notices) {
            last.set(subject, event);
            if (event === 'drift_new') openCount += Number(content['count']);
            if (event === 'drift_resolved') openCount -= Number(content['count']);
          }
        }
        const bySubject = new Map(states.map((state) => [state.subject, state.state]));
        const saidOfRun = { failed: 'run_failed', partial: 'run_partial', refused: 'key_refused' } as const;
        const run = bySubject.get('run') as keyof typeof saidOfRun | undefined;
        expect(last.get('run') ?? 'run_recovered').toBe(run === undefined ? 'run_recovered' : saidOfRun[run]);
        expect(last.get('removals') === 'removals_held').toBe(bySubject.has('removals'));
        expect(last.get('verify') === 'verify_failed').toBe(bySubject.has('verify'));
        expect(last.get('audit_log') === 'verify_failed').toBe(bySubject.has('audit_log'));
        expect(last.get('drill') === 'drill_fell').toBe(bySubject.get('drill') === 'fallen');
        expect(last.get('job:forget') === 'job_failed').toBe(bySubject.has('job:forget'));
        expect(openCount).toBe(states.filter(({ subject }) => subject.startsWith('drift:')).length);
      }),
    );
  });
});

describe('changes of the form of records', () => {
  const changes = [
    {
      run: 7,
      source: 'production',
      kind: 'roles',
      field: '/colour',
      change: 'gained',
      before: [],
      after: ['string'],
    },
    {
      run: 7,
      source: 'production',
      kind: 'roles',
      field: '/level',
      change: 'retyped',
      before: ['number'],
      after: ['string'],
    },
  ] as const;

  it('are reported once, with what changed', () => {
    const at = { ...seen(job('sync', 'done')), schemaChanges: changes };
    const first = transitionsOf([], at);
    expect(first.notices).toMatchObject([
      {
        event: 'schema_changed',
        content: {
          severity: 'medium',
          title: 'production: the service changed the form of its records: 2 changes',
          lines: ['roles: /colour is new (string)', 'roles: /level was number, is string'],
          run: 7,
        },
      },
    ]);
    expect(transitionsOf(first.states, at).notices).toEqual([]);
    expect(
      transitionsOf(first.states, { ...at, job: job('sync', 'done', { run: 8 }), schemaChanges: [] }).notices,
    ).toEqual([]);
  });
});
