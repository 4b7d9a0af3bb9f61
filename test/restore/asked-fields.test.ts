import { describe, expect, it } from 'vitest';
import { type ParsedRecord, fieldFilter } from '../../src/diff/change.ts';
import { ignoreTest } from '../../src/diff/rules.ts';
import type { JsonValue } from '../../src/core/json.ts';
import { Secret } from '../../src/core/secret.ts';
import { configuredSecrets } from '../../src/restore/secrets.ts';
import { planDocument } from '../../src/restore/plan/plan.ts';
import { lines, ORG, organization, planOf, record, stateOf, svc, withBody } from './states.ts';

/** As `--field` of the command. */
function asked(...pointers: string[]): (path: string) => boolean {
  const select = fieldFilter(pointers);
  const head = { kind: 'organizations', scope: {}, id: '', name: '', change: 'changed' } as const;
  return (path) => select({ ...head, fields: [{ path }] }) !== null;
}

const config = (type: string, members: object) => ({ destination: { type, config: members } });
const s3 = record('batch_exports', 'b1', {
  id: 'b1',
  name: 'Nightly',
  interval: 'day',
  paused: true,
  ...config('S3', { bucket_name: 'then', prefix: 'a/' }),
});
const live = withBody(s3, config('S3', { bucket_name: 'now', prefix: 'b/', region: 'eu' }));
const PREFIX = asked('/destination/config/prefix');
const secrets = configuredSecrets([
  {
    kind: 'batch_exports',
    match: {},
    values: {
      '/destination/config/aws_access_key_id': new Secret('AKIA'),
      '/destination/config/aws_secret_access_key': new Secret('shh'),
    },
  },
]);

describe('a member whose PATCH merges', () => {
  it.each([
    ['keeps what it is not given', 'S3', ['update', 'blocked']],
    ['has nothing left of another type', 'NoOp', ['update']],
  ])('%s', (_what, type, actions) => {
    const desired = withBody(s3, config(type, { prefix: 'a/' }));
    const plan = planOf([organization, desired], [organization, live], { secrets });
    expect(plan.steps.map(({ action }) => action)).toEqual(actions);
    const gone = ['bucket_name', 'region'].map((name) => `/destination/config/${name}`);
    const paths = plan.steps.at(-1)?.fields.map(({ path }) => path);
    expect(paths).toEqual(expect.arrayContaining(gone));
  });
});

describe('a field inside a member that is sent whole', () => {
  it('is set, and everything beside it stays as live has it', () => {
    const plan = planOf([organization, s3], [organization, live], { isFieldInScope: PREFIX, secrets });
    expect(lines(plan)).toEqual([
      'update batch_exports PATCH …/batch_exports/b1/ {"destination":{"type":"S3","config":{"bucket_name":"now","prefix":"a/","region":"eu"}}}',
    ]);
    expect(plan.steps[0]?.fields).toEqual([{ path: '/destination/config/prefix', from: 'b/', to: 'a/' }]);
    expect(plan.steps[0]?.request?.fills).toEqual([]);
  });

  it('blocks where PATCH does not merge and the secrets beside it would be sent', () => {
    for (const changes of [{}, { secrets }]) {
      const plan = planOf([organization, s3], [organization, live], {
        ...changes,
        isFieldInScope: PREFIX,
        definitions: svc,
      });
      expect(plan.steps).toMatchObject([{ action: 'blocked', obstacle: 'no_value', request: null }]);
      expect(plan.steps[0]?.reason).toContain('/destination/config/aws_secret_access_key');
      expect(plan.steps[0]?.reason).toContain('--field /destination');
    }
  });

  it('is sent without merging where nothing beside it is hidden', () => {
    const then = withBody(s3, config('NoOp', { a: 1, b: 1 }));
    const now = withBody(s3, config('NoOp', { a: 2, b: 2, c: 2 }));
    const changes = { isFieldInScope: asked('/destination/config/a'), definitions: svc };
    expect(planOf([organization, then], [organization, now], changes).steps[0]?.request?.body).toEqual(
      config('NoOp', { a: 1, b: 2, c: 2 }),
    );
  });

  it('blocks where a secret in clear beside it is another one by now', () => {
    const component = (url: string, key: string) =>
      record('pipeline_destinations', '12', {
        id: 12,
        name: 'Web',
        organization_id: 'org-1',
        config_schema: { url, api_key: key },
      });
    const plan = (key: string) =>
      planOf([organization, component('a', 'old')], [organization, component('b', key)], {
        isFieldInScope: asked('/config_schema/url'),
      });
    expect(plan('new').steps).toMatchObject([{ action: 'blocked', obstacle: 'no_value' }]);
    expect(plan('old').steps).toMatchObject([{ action: 'update' }]);
  });

  it('of a list is the whole list, or blocks where more of it differs', () => {
    const list = (b: number, ...ids: number[]) =>
      withBody(s3, config('NoOp', { b, list: ids.map((id) => ({ id, text: `${id}` })) }));
    const plan = (pointer: string) =>
      planOf([organization, list(1, 1, 4)], [organization, list(2, 1, 2, 3)], {
        isFieldInScope: asked(pointer),
        definitions: svc,
      }).steps;
    const { destination } = list(2, 1, 4).body as { destination: object };
    expect(plan('/destination/config/list')[0]?.request?.body).toEqual({ destination });
    expect(plan('/destination/config/list/1')).toMatchObject([{ action: 'blocked', obstacle: 'no_value' }]);
  });

  it('does not take along what an action moves', () => {
    const then = withBody(s3, { paused: false, start_at: '2026-01-01T00:00:00Z' });
    const now = withBody(s3, { paused: true, start_at: '2026-02-01T00:00:00Z' });
    const plan = planOf([organization, then], [organization, now], { isFieldInScope: asked('/paused') });
    for (const { request } of plan.steps) expect(JSON.stringify(request?.body)).not.toContain('2026-01');
  });
});

describe('what was accepted as drift', () => {
  const now = withBody(s3, config('S3', { bucket_name: 'now', prefix: 'b/' }));
  const accepted = (of: ParsedRecord, path: string, change: 'added' | 'removed' | 'changed' = 'changed') => {
    const { kind, scope, id } = of;
    const by = { by: 'ada@host', acceptedAt: '2026-02-01T10:00:00.000Z', reason: 'wanted' };
    const finding = { kind, scope, id, path, change, fingerprint: 'f', severity: 'low', name: 'n' } as const;
    return { finding, acceptance: { kind, scope, id, path, fingerprint: 'f', ...by } };
  };
  const mark = { by: 'ada@host', accepted_at: '2026-02-01T10:00:00.000Z', reason: 'wanted' };
  const keep = { options: { keepsAccepted: true } };
  const role = (id: string, name: string) => record('roles', id, { id, name, members: [] });
  const invite = (id: string) =>
    record('invites', id, { id, target_email: `${id}@x.example`, level: 1, is_expired: false });

  it('is marked on the steps that set it back, and counted', () => {
    const plan = planOf([organization, s3], [organization, now], {
      secrets,
      accepted: [accepted(s3, '/destination/config/prefix'), accepted(s3, '/interval')],
    });
    expect(plan.steps).toMatchObject([
      { action: 'update', accepted: [{ path: '/destination/config/prefix', ...mark }] },
    ]);
    expect(planDocument(plan)).toMatchObject({
      warnings: [
        '1 field of 1 record was accepted as drift, and this restore sets it back: a plan made with --keep-accepted leaves it',
      ],
    });
    // Without an acceptance, a plan says nothing.
    const plain = planOf([organization, s3], [organization, now], { secrets });
    expect(plain.steps[0]).not.toHaveProperty('accepted');
    expect(planDocument(plain)).not.toHaveProperty('warnings');
  });

  it('stays as live has it where it is kept, and the rest beside it is set', () => {
    const plan = planOf([organization, s3], [organization, now], {
      ...keep,
      secrets,
      accepted: [accepted(s3, '/destination/config/prefix')],
    });
    expect(lines(plan)).toEqual([
      'update batch_exports PATCH …/batch_exports/b1/ {"destination":{"type":"S3","config":{"bucket_name":"then","prefix":"b/"}}}',
    ]);
    expect(plan.steps[0]).not.toHaveProperty('accepted');
    expect(plan.left).toEqual([
      {
        kind: 'batch_exports',
        count: 1,
        reason: '/destination/config/prefix accepted by ada@host on 2026-02-01: wanted',
        names: ['Nightly'],
        accepted: { path: '/destination/config/prefix', ...mark },
      },
      {
        kind: 'batch_exports',
        count: 1,
        reason: expect.stringContaining(
          '/destination/config/aws_secret_access_key are not sent, as the service keeps those that it has',
        ) as string,
        names: ['Nightly'],
      },
    ]);
    expect(planDocument(plan)).not.toHaveProperty('warnings');
  });

  describe('and changed again since', () => {
    const changed = (path: string, was: JsonValue | null, now: JsonValue, place = path) => {
      const { finding: found, acceptance } = accepted(s3, path);
      const finding = { ...found, place };
      const known = was === null ? null : { ...finding, from: 'day', to: was };
      const changedSince = { accepted: known, run: was === null ? null : 7 };
      return { acceptance, finding: { ...finding, from: 'day', to: now }, changedSince };
    };
    const week = withBody(s3, { interval: 'week' });
    const plan = (live: ParsedRecord, of: ReturnType<typeof changed>, changes: object = {}) =>
      planOf([organization, s3], [organization, live], { accepted: [of], secrets, ...changes });

    it('is marked, and where it is kept, the accepted value is set, else it stays', () => {
      const interval = { path: '/interval', ...mark, changed_since: true };
      const known = { ...interval, value: 'hour', run: 7 };
      const plain = plan(week, changed('/interval', 'hour', 'week'));
      expect(plain.steps).toMatchObject([{ request: { body: { interval: 'day' } }, accepted: [known] }]);
      expect(plain.warnings).toEqual([expect.stringContaining('changed again since') as string]);
      const kept = plan(week, changed('/interval', 'hour', 'week'), keep);
      expect(kept.steps).toMatchObject([{ request: { body: { interval: 'hour' } }, kept: [known] }]);
      expect(kept).not.toHaveProperty('warnings');
      expect(kept.steps[0]?.desired).toEqual(plain.steps[0]?.desired);
      expect(plan(week, changed('/interval', null, 'week'), keep)).toMatchObject({
        steps: [],
        left: [{ reason: expect.stringMatching(/wanted; changed since$/) as string, accepted: interval }],
      });
    });

    it('stays as it is where it is in a list', () => {
      const list = (...values: number[]) =>
        withBody(s3, config('NoOp', { list: values.map((v, id) => ({ id, v })) }));
      const place = '/destination/config/list/[id=1]/v';
      const of = changed('/destination/config/list/1/v', 2, 3, place);
      const made = planOf([organization, list(1, 1)], [organization, list(1, 3)], {
        ...keep,
        accepted: [of],
      });
      expect(made).toMatchObject({ steps: [], left: [{ accepted: { changed_since: true, run: 7 } }] });
    });

    it('is no matter of an undo', () => {
      const undo = plan(week, changed('/interval', 'hour', 'week'), { options: { keepsAccepted: null } });
      expect(undo.steps[0]).not.toHaveProperty('accepted');
      expect(undo).not.toHaveProperty('warnings');
    });
  });

  it('in a list of which more differs keeps the list from being sent, and the step says why', () => {
    const list = (...ids: number[]) => withBody(s3, config('NoOp', { list: ids.map((id) => ({ id })) }));
    const finding = accepted(s3, '/destination/config/list/1').finding;
    const plan = planOf([organization, list(1, 4)], [organization, list(1, 2, 3)], {
      ...keep,
      accepted: [
        {
          ...accepted(s3, ''),
          finding: { ...finding, place: '/destination/config/list/[id=2]' },
        },
      ],
      definitions: svc,
    });
    expect(plan.steps).toMatchObject([{ action: 'blocked', obstacle: 'no_value', request: null }]);
    expect(plan.steps[0]?.reason).toContain('leave out --keep-accepted');
  });

  describe('in a list of elements with ids', () => {
    const LIST = '/destination/config/list';
    const list = (...elements: object[]) => withBody(s3, config('NoOp', { list: elements }));
    const [one, two, five] = [{ id: 1, v: 1 }, { id: 2 }, { id: 5 }];
    /** The steps from live to desired, with what was accepted at these places under one path. */
    const stepsFor = (now: ParsedRecord, then: ParsedRecord, places: readonly string[], path = LIST) =>
      planOf([organization, then], [organization, now], {
        options: { keepsAccepted: true, prune: { maxRemovals: 9 } },
        accepted: places.map((place) => {
          const { finding, acceptance } = accepted(now, path);
          return { acceptance, finding: { ...finding, place } };
        }),
        definitions: svc,
      }).steps;
    const stuck = (...places: string[]) => [
      {
        action: 'blocked',
        obstacle: 'no_value',
        request: null,
        reason: expect.stringContaining('leave out --keep-accepted') as string,
        fields: places.map((place) => ({ place: `${LIST}/${place}` })),
      },
    ];

    it('keeps that element, not another one with the same index on the other side', () => {
      const [now, then] = [list(one, two, five), list(one, { id: 3 }, five)];
      expect(stepsFor(now, then, [`${LIST}/[id=2]`])).toMatchObject(stuck('[id=3]'));
      expect(stepsFor(now, then, [`${LIST}/[id=3]`])).toMatchObject(stuck('[id=2]'));
      expect(stepsFor(now, then, [`${LIST}/[id=2]`, `${LIST}/[id=3]`])).toEqual([]);
      const access = (...ids: number[]) =>
        withBody(invite('i1'), { private_project_access: ids.map((id) => ({ id, level: 'member' })) });
      const kept = '/private_project_access/[id=2]';
      expect(stepsFor(access(1, 2, 5), access(1, 3, 5), [kept])).toMatchObject([
        { action: 'blocked', obstacle: 'not_replaceable', reason: expect.stringContaining(kept) as string },
      ]);
    });

    it('shows what it sends of another element, or nothing is sent', () => {
      const [now, then] = [list(one, two, { id: 3, v: 2 }, five), list(one, { id: 3, v: 1 }, five)];
      expect(stepsFor(now, then, [`${LIST}/[id=2]`])).toMatchObject(stuck('[id=3]/v'));
      const [later] = stepsFor(list({ id: 1, v: 2 }, two), list(one), [`${LIST}/[id=2]`]);
      expect(later?.request?.body).toEqual(config('NoOp', { list: [one, two] }));
      expect(later?.fields).toMatchObject([{ place: `${LIST}/[id=1]/v` }]);
    });

    it('keeps an order without the values of the elements, and the other way round', () => {
      const moved = [list(five, two, { id: 1, v: 2 }), list(one, five, two)] as const;
      expect(stepsFor(...moved, [LIST])).toMatchObject(stuck('[id=1]/v'));
      const stays = [list({ id: 1, v: 2 }, two, five), list(one, five, two)] as const;
      expect(stepsFor(...stays, [LIST])[0]?.request?.body).toEqual(
        config('NoOp', { list: [one, two, five] }),
      );
      const [order] = stepsFor(...stays, [`${LIST}/[id=1]/v`]);
      expect(order).toMatchObject({ action: 'blocked', obstacle: 'no_value', fields: [{ path: LIST }] });
    });
  });

  it('may be an invite that is open to a missing member, which is then not replaced', () => {
    const member = record('members', 'm1', {
      id: 'm1',
      level: 8,
      user: { uuid: 'u', email: 'i9@x.example' },
    });
    const open = invite('i9');
    const plan = (keepsAccepted: boolean) =>
      planOf(stateOf([organization, member]), stateOf([organization, open]), {
        options: { keepsAccepted, inviteMissing: true, prune: { maxRemovals: 9 } },
        accepted: [accepted(open, '', 'added')],
      });
    expect(plan(false).steps.map(({ action, id }) => `${action} ${id}`)).toContain('remove i9');
    expect(plan(true).steps).toMatchObject([
      {
        action: 'blocked',
        kind: 'members',
        obstacle: 'not_replaceable',
        reason: expect.stringContaining('leave out --keep-accepted') as string,
      },
    ]);
    const unasked = planOf(stateOf([organization, member]), stateOf([organization, open]), {
      options: { inviteMissing: true, prune: null },
    });
    expect(unasked.steps).toMatchObject([
      {
        obstacle: 'not_replaceable',
        reason: expect.stringMatching(
          /as in `tidemark restore .*--kind members --id m1 --invite-missing --prune --max-removals 1`$/,
        ) as string,
      },
    ]);
  });

  describe('or that drift ignores by rule', () => {
    const prefix = { path: '/destination/config/prefix', reason: 'set by a script' };
    const ignores = ignoreTest([prefix]).hides;
    const sides = [
      [organization, s3],
      [organization, now],
    ] as const;

    it('is noted where it is set back, and stays with the option', () => {
      const plan = planOf(...sides, { secrets, ignores });
      expect(plan.steps).toMatchObject([{ action: 'update', ignored: [prefix] }]);
      const kept = planOf(...sides, { ...keep, secrets, ignores });
      const reason = `${prefix.path} ignored by rule: ${prefix.reason}`;
      expect(kept.left[0]).toMatchObject({ count: 1, reason, ignored: prefix });
      expect(kept.steps[0]?.request?.body).toEqual({
        destination: { type: 'S3', config: { bucket_name: 'then', prefix: 'b/' } },
      });
      expect(kept.steps[0]).not.toHaveProperty('ignored');
    });

    it('is said to be accepted where it is, but stays ignored where it changed since', () => {
      const found = accepted(now, prefix.path);
      const both = planOf(...sides, { ...keep, secrets, ignores, accepted: [found] });
      expect(both.left[0]).toMatchObject({ accepted: { path: prefix.path, ...mark } });
      const since = { ...found, changedSince: { accepted: { ...found.finding, to: 'c/' }, run: 7 } };
      const hidden = planOf(...sides, { ...keep, secrets, ignores, accepted: [since] });
      expect(hidden.left[0]).toMatchObject({ ignored: prefix });
      expect(JSON.stringify(hidden.steps)).not.toContain('c/');
    });

    it('may be an entire record: gone, new or changed', () => {
      const gone = { id: 'r1', reason: 'theirs' };
      const rules = ignoreTest([gone, { id: 'r2', reason: 'ours' }, { id: 'r3', reason: 'tried' }]).hides;
      const then = [organization, role('r1', 'one'), role('r2', 'two')];
      const there = [organization, role('r2', 'Two'), role('r3', 'three')];
      const prune = { maxRemovals: 9 };
      const plan = planOf(then, there, { options: { prune }, ignores: rules });
      expect(plan.steps.map(({ action, id, ignored }) => [action, id, ignored])).toEqual([
        ['create', 'r1', [{ path: '', reason: 'theirs' }]],
        ['remove', 'r3', [{ path: '', reason: 'tried' }]],
        ['manual', 'r2', [{ path: '', reason: 'ours' }]],
      ]);
      const kept = planOf(then, there, { options: { prune, keepsAccepted: true }, ignores: rules });
      expect(kept.steps).toEqual([]);
      expect(kept.left.map(({ reason }) => reason).toSorted()).toEqual([
        'added, ignored by rule: tried',
        'changed, ignored by rule: ours',
        'removed, ignored by rule: theirs',
      ]);
    });
  });

  it('leaves a record with nothing else to set out of the plan', () => {
    const paused = withBody(s3, { paused: false });
    const plan = planOf([organization, s3], [organization, paused], {
      ...keep,
      accepted: [accepted(s3, '/paused')],
    });
    expect(plan).toMatchObject({ steps: [], summary: { unchanged: 1 }, left: [{ count: 1 }] });
  });

  it('may be a record that came, which is then not removed, alone or with what it hangs from', () => {
    const members = record('role_memberships', 'm1', { id: 'm1' }, { organization_id: ORG, role_id: 'r2' });
    const all = (more: object) =>
      planOf(
        stateOf([organization, role('r1', 'Ops')]),
        stateOf([organization, role('r1', 'Ops'), role('r2', 'New'), members]),
        {
          options: { prune: { maxRemovals: 9 }, ...more },
          accepted: [accepted(members, '', 'added')],
        },
      );
    const marked = all({}).steps.filter((step) => step.accepted !== undefined);
    expect(marked).toMatchObject([{ action: 'remove', id: 'm1', accepted: [{ path: '', ...mark }] }]);
    expect(planDocument(all({}))).toMatchObject({
      warnings: [expect.stringMatching(/^1 entire record was accepted as drift/)],
    });
    expect(all({ keepsAccepted: true }).steps).toMatchObject([
      { action: 'blocked', kind: 'roles', id: 'r2', obstacle: 'depends_on_blocked' },
    ]);
  });

  it('may be that a record is gone, which is then not created', () => {
    const gone = invite('i1');
    const changes = { accepted: [accepted(gone, '', 'removed')] };
    const desired = stateOf([organization, gone, s3]);
    const there = stateOf([organization, s3]);
    expect(planOf(desired, there, changes).steps).toMatchObject([{ id: 'i1', accepted: [{ path: '' }] }]);
    expect(planOf(desired, there, { ...changes, ...keep })).toMatchObject({
      steps: [],
      left: [{ kind: 'invites', count: 1 }],
    });
  });

  describe('of a record that live has no more', () => {
    /** What was accepted of it, from the desired to the last value. */
    const ofGone = (path: string, from: JsonValue, to: JsonValue, id = s3.id) => {
      const { finding, acceptance } = accepted({ ...s3, id }, path);
      return { acceptance, finding: { ...finding, from, to }, isOfGone: true } as const;
    };
    const gone = (changes: object) =>
      planOf(stateOf([organization, s3]), stateOf([organization]), { secrets, ...changes });
    const hour = ofGone('/interval', 'day', 'hour');

    it('is part of the creation, also under a later id, or marked as set back', () => {
      const place = { path: '/interval', ...mark, value: 'hour' };
      expect(gone({ accepted: [hour] })).toMatchObject({
        steps: [{ action: 'create', request: { body: { interval: 'day' } }, accepted: [place] }],
        warnings: [expect.stringContaining('sets it back') as string],
      });
      for (const changes of [
        { accepted: [hour] },
        { accepted: [ofGone('/interval', 'day', 'hour', 'b2')], idMap: () => 'b2' },
      ]) {
        const plan = gone({ ...keep, ...changes });
        expect(plan).toMatchObject({
          steps: [{ action: 'create', request: { body: { interval: 'hour' } }, kept: [place] }],
        });
        expect(plan.steps[0]).not.toHaveProperty('accepted');
        expect(plan).not.toHaveProperty('warnings');
        // By its digest the state's own record is found.
        expect(plan.steps[0]?.desired).toEqual(gone({}).steps[0]?.desired);
      }
    });

    it.each([
      ['/destination/config/aws_secret_access_key', 'old', 'new', 'holds a secret'],
      ['/destination/config/list/[id=1]/v', 1, 2, 'is in a list'],
    ])('keeps the record from being created where it cannot be set: %s', (path, from, to, why) => {
      const plan = gone({ ...keep, accepted: [ofGone(path, from, to)] });
      expect(plan.steps).toMatchObject([{ action: 'blocked', obstacle: 'no_value', request: null }]);
      expect(plan.steps[0]?.reason).toContain(`${path}, accepted by ada@host on 2026-02-01: wanted, ${why}`);
      expect(plan.steps[0]?.reason).toContain('leave out --keep-accepted');
    });

    it('is named where no creation sets it anyway', () => {
      const [step] = gone({ ...keep, accepted: [ofGone('/created_at', 'old', 'new')] }).steps;
      expect(step).toMatchObject({ action: 'create', request: { body: { interval: 'day' } } });
      expect(step?.reason).toContain('no creation sets /created_at, accepted by ada@host');
      expect(step).not.toHaveProperty('kept');
    });

    it('holds for one of its name that has the accepted value', () => {
      const member = (id: string, level: number) =>
        record('members', id, { id, level, user: { uuid: 'u', email: 'ada@x.example' } });
      const { finding, acceptance } = accepted(member('m1', 8), '/level');
      const of = { acceptance, finding: { ...finding, from: 8, to: 1 }, isOfGone: true } as const;
      const plan = (level: number, changes: object) =>
        planOf([organization, member('m1', 8)], [organization, member('m2', level)], {
          accepted: [of],
          ...changes,
        });
      expect(plan(1, {}).steps).toMatchObject([{ id: 'm2', accepted: [{ path: '/level', ...mark }] }]);
      expect(plan(1, keep)).toMatchObject({ steps: [], left: [{ accepted: { path: '/level' } }] });
      const [step] = plan(3, keep).steps;
      expect(step?.request?.body).toEqual({ level: 8 });
      expect(step).not.toHaveProperty('accepted');
    });
  });

  it('of a record that is there again under another id, says nothing of the new one', () => {
    const member = (id: string, level: number) =>
      record('members', id, { id, level, user: { uuid: 'u', email: 'ada@x.example' } });
    const [then, again] = [member('m1', 8), member('m2', 1)];
    const plan = (...own: ReturnType<typeof accepted>[]) =>
      planOf([organization, then], [organization, again], { ...keep, accepted: own });
    const removed = accepted(then, '', 'removed');
    expect(plan(removed).steps).toMatchObject([{ action: 'update', id: 'm2' }]);
    expect(plan(removed).steps[0]).not.toHaveProperty('accepted');
    // Unless that it came was accepted as well.
    expect(plan(removed, accepted(again, '', 'added'))).toMatchObject({
      steps: [],
      left: [{ kind: 'members', count: 1 }],
    });
  });
});
