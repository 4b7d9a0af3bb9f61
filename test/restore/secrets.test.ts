import { describe, expect, it } from 'vitest';
import { isMask } from '../../src/catalog/masks.ts';
import { Secret } from '../../src/core/secret.ts';
import { isPointerWithin } from '../../src/diff/change.ts';
import { filledBody } from '../../src/restore/apply/ready-step.ts';
import { planDocument } from '../../src/restore/plan/plan.ts';
import { configuredSecrets } from '../../src/restore/secrets.ts';
import { type Changes, lines, organization, planOf, posthog, record, svc, withBody } from './states.ts';

const s3 = record('batch_exports', 'b1', {
  id: 'b1',
  name: 'Nightly',
  interval: 'day',
  paused: true,
  destination: { type: 'S3', config: { bucket: 'good' } },
});
const moved = withBody(s3, { destination: { type: 'S3', config: { bucket: 'evil' } } });
const secrets = configuredSecrets([
  {
    kind: 'batch_exports',
    match: { '/name': 'Nightly' },
    values: {
      '/destination/config/aws_access_key_id': new Secret('AKIA-clear'),
      '/destination/config/aws_secret_access_key': new Secret('shh-clear'),
    },
  },
]);
const masked = (destination: object) => withBody(s3, { destination });

describe('masks', () => {
  it.each([
    '********',
    '•••••',
    '***-abcd',
    '**************** POSTHOG SECRET FIELD ****************',
    '[redacted]',
    '<secret>',
    '[redacted:hmac-1]',
    'xxxxxxxx1234',
  ])('%s is one', (text) => expect(isMask(text)).toBe(true));
  it.each(['', '*', '**', 'a*b', 'secret', 'redacted', '{"a":1}', 'xx', '[a]'])('%j is none', (text) =>
    expect(isMask(text)).toBe(false),
  );
});

describe('secrets that the service does not show', () => {
  it('block a creation, and are named one by one among the needs, not again in the reason', () => {
    const plan = planOf([organization, s3], [organization]);
    expect(lines(plan)).toEqual([
      'blocked batch_exports: the API does not return the secrets: add them under secrets in the configuration',
    ]);
    expect(plan.steps[0]?.needs.map(({ any_of: anyOf }) => anyOf)).toEqual([
      ['/destination/config/aws_access_key_id'],
      ['/destination/config/aws_secret_access_key'],
    ]);
  });

  it('come from the configuration when applied, and never stand in the plan', () => {
    const plan = planOf([organization, s3], [organization], { secrets });
    const request = plan.steps[0]!.request!;
    expect(request.body?.['destination']).toEqual({
      type: 'S3',
      config: { bucket: 'good', aws_access_key_id: '[secret]', aws_secret_access_key: '[secret]' },
    });
    expect(JSON.stringify(planDocument(plan))).not.toContain('clear');
    const text = filledBody(request, {
      idOf: () => undefined,
      secret: (pointer) => secrets.find(s3, pointer),
      desired: s3.body,
    });
    expect(JSON.parse(text!)).toMatchObject({
      destination: {
        config: { bucket: 'good', aws_access_key_id: 'AKIA-clear', aws_secret_access_key: 'shh-clear' },
      },
    });
    expect(() =>
      filledBody(request, { idOf: () => undefined, secret: () => undefined, desired: null }),
    ).toThrow('/destination/config/aws_access_key_id');
  });

  it('belong to the record that the rule names', () => {
    const other = withBody(s3, { name: 'Hourly' });
    expect(planOf([organization, other], [organization], { secrets }).summary.blocked).toBe(1);
  });

  it('are not needed by a PATCH that merges, and are by one that does not', () => {
    expect(lines(planOf([organization, s3], [organization, moved]))).toEqual([
      'update batch_exports PATCH …/batch_exports/b1/ {"destination":{"type":"S3","config":{"bucket":"good"}}}',
    ]);
    expect(planOf([organization, s3], [organization, moved], { definitions: svc }).steps[0]).toMatchObject({
      action: 'blocked',
      obstacle: 'secret_missing',
    });
    expect(
      planOf([organization, s3], [organization, moved], { definitions: svc, secrets }).steps[0]?.action,
    ).toBe('update');
  });

  it('do not hold up the other fields of the record', () => {
    const both = withBody(moved, { interval: 'hour' });
    expect(lines(planOf([organization, s3], [organization, both], { definitions: svc }))[0]).toBe(
      'update batch_exports PATCH …/batch_exports/b1/ {"interval":"day"}',
    );
  });

  it('are needed by a merging PATCH when the type changes', () => {
    const http = masked({ type: 'HTTP', config: { url: 'x' } });
    expect(planOf([organization, s3], [organization, http]).steps[0]?.obstacle).toBe('secret_missing');
  });

  it('may stand in for one another', () => {
    const snowflake = masked({ type: 'Snowflake', config: { user: 'loader', private_key: 'in clear' } });
    const plan = planOf([organization, snowflake], [organization]);
    expect(plan.steps[0]?.action).toBe('create');
    expect(plan.steps[0]?.request?.fills).toEqual([
      { pointer: '/destination/config/user', from: 'desired' },
      { pointer: '/destination/config/private_key', from: 'desired' },
    ]);
  });

  it('of a type that nobody knows need at least one', () => {
    const plan = planOf([organization, masked({ type: 'Carrier pigeon', config: {} })], [organization]);
    expect(plan.steps[0]?.needs[0]?.any_of).toContain('/destination/config/token');
  });

  it('that are not there for a type without any block nothing', () => {
    expect(
      planOf([organization, masked({ type: 'NoOp', config: {} })], [organization]).steps[0]?.action,
    ).toBe('create');
  });
});

describe('secrets of a rule for the whole kind', () => {
  const values = Object.fromEntries(
    ['aws_access_key_id', 'aws_secret_access_key', 'token', 'password', 'private_key_passphrase'].map(
      (name) => [`/destination/config/${name}`, new Secret(name)],
    ),
  );
  const whole = configuredSecrets([{ kind: 'batch_exports', match: {}, values }]);
  const named = configuredSecrets([{ kind: 'batch_exports', match: { '/name': 'Nightly' }, values }]);
  const filled = (destination: object, rules = whole): unknown[] => {
    const [step] = planOf([organization, masked(destination)], [organization], { secrets: rules }).steps;
    return step?.action === 'create'
      ? (step.request?.fills ?? []).map(({ pointer }) => pointer.split('/').at(-1))
      : [step?.obstacle];
  };

  it('only reach the destinations whose type takes them', () => {
    expect(filled({ type: 'HTTP', config: { url: 'https://elsewhere.example' } })).toEqual(['token']);
    expect(filled({ type: 'NoOp', config: {} })).toEqual([]);
    expect(filled({ type: 'S3', config: {} })).toEqual(['aws_access_key_id', 'aws_secret_access_key']);
    expect(filled({ type: 'Postgres', config: { user: 'u' } })).toEqual(['user', 'password']);
  });

  it('go to no record for which a rule before has that place, but neither variable nor file', () => {
    const pointer = '/destination/config/token';
    const lacks = (name: string) =>
      configuredSecrets([
        { kind: 'batch_exports', match: { '/name': name }, values: {}, unset: { [pointer]: 'x is missing' } },
        { kind: 'batch_exports', match: {}, values },
      ]);
    const http = { type: 'HTTP', config: { url: 'https://elsewhere.example' } };
    expect(filled(http, lacks('Hourly'))).toEqual(['token']);
    expect(filled(http, lacks('Nightly'))).toEqual(['secret_missing']);
  });

  it('go by a rule for an id also to the record under the ids that it had before or got since', () => {
    const filledBy = (oldId: string, newId: string): unknown[] => {
      const places = { oldScope: s3.scope, newScope: s3.scope, restore: 1, at: '2026-01-01T00:00:00.000Z' };
      const mapping = { source: 'default', kind: 'batch_exports', oldId, newId, ...places } as const;
      const rules = [{ kind: 'batch_exports', match: { '/id': 'b-other' }, values }] as const;
      return filled({ type: 'S3', config: {} }, configuredSecrets(rules, [mapping])).slice(0, 2);
    };
    expect(filledBy('b-other', 'b1')).toEqual(['aws_access_key_id', 'aws_secret_access_key']);
    expect(filledBy('b1', 'b-other')).toEqual(['aws_access_key_id', 'aws_secret_access_key']);
    expect(filledBy('b-other', 'b2')).toEqual(['secret_missing']);
  });

  it('reach one of a type that nobody knows only where a rule names the record', () => {
    const unknown = { type: 'Carrier pigeon', config: {} };
    expect(filled(unknown)).toEqual(['secret_missing']);
    expect(filled(unknown, named)).toHaveLength(5);
  });

  it('that no type must have go where a rule names the record, and never one of another type', () => {
    const snowflake = { type: 'Snowflake', config: { user: 'u' } };
    expect(filled(snowflake)).toEqual(['user', 'password']);
    expect(filled(snowflake, named)).toEqual(['user', 'password', 'private_key_passphrase']);
    expect(filled({ type: 'NoOp', config: {} }, named)).toEqual([]);
  });

  it('stand in for a mask wherever it is', () => {
    expect(filled({ type: 'NoOp', config: { token: '********' } })).toEqual(['token']);
  });
});

describe('a masked value', () => {
  const config = (token: unknown, url = 'u') => masked({ type: 'HTTP', config: { url, token } });

  it('equal on both sides is not a difference', () => {
    expect(planOf([organization, config('********')], [organization, config('********')]).steps).toEqual([]);
  });

  it('hides live, so that nothing can be said of it', () => {
    expect(planOf([organization, config('real')], [organization, config('********')]).steps).toEqual([]);
  });

  it('is left out of a PATCH that merges', () => {
    const plan = planOf([organization, config('********')], [organization, config('********', 'evil')]);
    expect(plan.steps[0]?.request?.body).toEqual({ destination: { type: 'HTTP', config: { url: 'u' } } });
  });

  it('blocks one that does not, in any field, named or not', () => {
    const hidden = withBody(s3, {
      destination: { type: 'NoOp', config: { list: ['**** SECRET FIELD ****'], a: 1 } },
    });
    const live = withBody(hidden, {
      destination: { type: 'NoOp', config: { list: ['**** SECRET FIELD ****'], a: 2 } },
    });
    expect(planOf([organization, hidden], [organization, live]).steps[0]).toMatchObject({
      action: 'blocked',
      needs: [{ any_of: ['/destination/config/list/0'] }],
    });
  });

  describe('inside an object that a PATCH merges', () => {
    const http = (config: object) => masked({ type: 'HTTP', config });
    const token = configuredSecrets([
      { kind: 'batch_exports', match: {}, values: { '/destination/config/token': new Secret('T') } },
    ]);
    const full = http({ url: 'u', token: '********' });
    const planned = (live: object, changes: Changes = {}) =>
      planOf([organization, full], [organization, masked(live)], changes).steps;
    const absent = [
      ['a secret that live does not hold', { type: 'HTTP', config: { url: 'u' } }],
      ['one that live holds as null', { type: 'HTTP', config: { url: 'u', token: null } }],
      ['one that live holds as an empty text', { type: 'HTTP', config: { url: 'u', token: '' } }],
      ['one in an object that live does not hold', { type: 'HTTP' }],
      ['one that live shows in clear', { type: 'HTTP', config: { url: 'u', token: 'real' } }],
    ] as const;

    it.each(absent)('%s is sent from the configuration', (_name, live) => {
      const [step, ...others] = planned(live, { secrets: token });
      expect(others).toEqual([]);
      expect(step?.request?.body).toEqual({
        destination: { type: 'HTTP', config: { url: 'u', token: '[secret]' } },
      });
      expect(step?.request?.fills).toEqual([{ pointer: '/destination/config/token', from: 'configuration' }]);
    });

    it.each(absent)('%s blocks, and is named, where nothing supplies it', (_name, live) => {
      expect(planned(live)).toMatchObject([
        { action: 'blocked', obstacle: 'secret_missing', needs: [{ any_of: ['/destination/config/token'] }] },
      ]);
    });

    it('masked on both sides stays stored, whatever the configuration has', () => {
      const [step] = planned({ type: 'HTTP', config: { url: 'v', token: '********' } }, { secrets: token });
      expect(step?.request).toMatchObject({
        body: { destination: { type: 'HTTP', config: { url: 'u' } } },
        fills: [],
      });
    });

    it('omitted on both sides is sent with the object that is made', () => {
      const [step] = planOf([organization, http({ url: 'u' })], [organization, masked({ type: 'HTTP' })], {
        secrets: token,
      }).steps;
      expect(step?.request?.fills).toEqual([{ pointer: '/destination/config/token', from: 'configuration' }]);
    });
  });
});

describe('a secret in clear', () => {
  const web = (hook: unknown) =>
    record('projects', '7', { id: 7, name: 'Web', slack_incoming_webhook: hook });

  it('is restored from the desired record without standing in the plan', () => {
    const plan = planOf(
      [organization, web('https://hook/old-secret')],
      [organization, web('https://hook/new-secret')],
    );
    expect(JSON.stringify(planDocument(plan))).not.toContain('hook/');
    const step = plan.steps[0]!;
    expect(step.fields).toEqual([{ path: '/slack_incoming_webhook', from: '[secret]', to: '[secret]' }]);
    expect(step.inverse).toMatchObject({ withheld: ['/slack_incoming_webhook'] });
    const values = {
      idOf: () => undefined,
      secret: () => undefined,
      desired: web('https://hook/old-secret').body,
    };
    expect(filledBody(step.request!, values)).toBe('{"slack_incoming_webhook":"https://hook/old-secret"}');
  });

  it('in a member that no documentation knows stands in no plan either, however it is put', () => {
    const unknown = {
      webhook_secret: 'clear-1',
      extra: { password: 'clear-2', deep: [{ apiKey: 'clear-3' }], token: true },
      mirror: 'postgres://reader:clear-4@db.example/1',
    };
    const extra = withBody(s3, { id: 'b2', name: 'Extra', ...unknown });
    const removal = planOf([organization], [organization, { ...extra, id: 'b2' }], {
      options: { prune: { maxRemovals: 1 } },
    });
    expect(removal.steps).toMatchObject([{ action: 'remove', inverse: { action: 'create' } }]);
    expect(JSON.stringify(planDocument(removal))).not.toContain('clear-');
    expect(removal.steps[0]?.inverse).toMatchObject({
      body: { extra: { token: true } },
      withheld: ['/webhook_secret', '/extra/deep/0/apiKey', '/extra/password', '/mirror'],
    });
    // A kind of which nothing is known to be writable is compared whole.
    const proxy = record('proxy_records', 'p1', { id: 'p1', domain: 'r.example', ...unknown });
    const changed = withBody(proxy, { webhook_secret: 'clear-5', extra: {} });
    for (const live of [[organization], [organization, changed]]) {
      const plan = planOf([organization, proxy], live, { definitions: svc });
      expect(plan.steps[0]?.fields.map(({ path }) => path)).toContain('/webhook_secret');
      expect(JSON.stringify(planDocument(plan))).not.toContain('clear-');
    }
  });

  it('in the name of a member: the object that has it is not in the plan, and a redacted name is never sent', () => {
    const clear = 'https://u:pw-clear@h.example/';
    const jobs = (value: unknown) =>
      record('pipeline_destinations', '7', { id: 7, name: 'Hook', public_jobs: value });
    const plan = planOf([organization, jobs({ [clear]: 1, b: 2 })], [organization, jobs({ b: 2 })]);
    expect(plan.steps[0]?.request).toMatchObject({
      body: { public_jobs: '[secret]' },
      fills: [{ pointer: '/public_jobs', from: 'desired' }],
    });
    const back = planOf([organization, jobs({ b: 2 })], [organization, jobs({ [clear]: 1, b: 2 })]);
    expect(back.steps[0]?.inverse).toMatchObject({
      body: { public_jobs: '[secret]' },
      withheld: ['/public_jobs'],
    });
    for (const each of [plan, back]) expect(JSON.stringify(planDocument(each))).not.toContain('pw-clear');

    const name = '[redacted:0123456789abcdef]';
    const given = configuredSecrets([
      {
        kind: 'pipeline_destinations',
        match: {},
        values: { [`/public_jobs/${name}`]: new Secret('x') },
      },
    ]);
    const redacted = jobs({ [name]: 1, b: 2 });
    for (const live of [[organization, jobs({ b: 3 })], [organization]]) {
      const blocked = planOf([organization, redacted], live, { secrets: given });
      expect(lines(blocked)).toEqual([
        `blocked pipeline_destinations: the mirror never stored the name of /public_jobs/${name} (redact: true): set it by hand`,
      ]);
      expect(blocked.steps[0]?.needs).toEqual([]);
    }
    expect(planOf([organization, jobs({ b: 2 })], [organization, redacted]).steps[0]?.request?.body).toEqual({
      public_jobs: { b: 2 },
    });
  });

  it('is not filled in with a mask that is in it', () => {
    const of = (bucket: string) =>
      masked({ type: 'S3', config: { bucket, credentials: { user: 'ann-clear', password: '********' } } });
    const [step] = planOf([organization, of('good')], [organization, of('evil')]).steps;
    expect(step?.request?.fills).not.toContainEqual(
      expect.objectContaining({ pointer: '/destination/config/credentials' }),
    );
    expect(JSON.stringify(step)).not.toContain('ann-clear');
  });

  it('shows null and empty as they are', () => {
    const plan = planOf([organization, web(null)], [organization, web('')]);
    expect(plan.steps[0]?.fields).toEqual([{ path: '/slack_incoming_webhook', from: '', to: null }]);
    expect(plan.steps[0]?.request?.body).toEqual({ slack_incoming_webhook: null });
  });

  it('profile facts are in force', () => {
    expect(posthog('batch_exports').fields.find(({ name }) => name === 'destination')?.isMerged).toBe(true);
    expect(svc('batch_exports').fields.find(({ name }) => name === 'destination')?.isMerged).toBe(false);
  });
});

describe('an update that keeps the secrets of the service', () => {
  const reason =
    'the secrets at /destination/config/aws_access_key_id, /destination/config/aws_secret_access_key are not sent, as the service keeps those that it has, and cannot be compared: check them at the service, and enter them by hand where somebody changed them';

  it.each([
    ['of their field', { destination: { type: 'S3', config: { bucket: 'evil' } } }, [reason]],
    ['of another field', { interval: 'week' }, []],
    ['of another type, which sends them', { destination: { type: 'Foo', config: {} } }, []],
  ])('names them, %s', (_name, changes, left) => {
    const plan = planOf([organization, s3], [organization, withBody(s3, changes)], { secrets });
    expect(plan.steps).toMatchObject([{ action: 'update' }]);
    expect(plan.left.map((each) => each.reason)).toEqual(left);
  });

  it.each([
    ['/destination/config/aws_secret_access_key', {}, ['aws_secret_access_key']],
    ['/destination', {}, ['aws_access_key_id', 'aws_secret_access_key']],
    ['/destination', { bucket: 'evil' }, ['aws_access_key_id', 'aws_secret_access_key']],
    ['/interval', {}, []],
  ])('names those that are asked for by %s, where live has %o', (field, config, names) => {
    const live = withBody(s3, { destination: { type: 'S3', config: { bucket: 'b', ...config } } });
    const plan = planOf([organization, s3], [organization, live], {
      secrets,
      isFieldInScope: (path) => isPointerWithin(path, field) || isPointerWithin(field, path),
    });
    const places = names.map((name) => `/destination/config/${name}`).join(', ');
    expect(plan.left.map((each) => each.reason)).toEqual(
      names.length === 0 ? [] : [expect.stringContaining(`the secrets at ${places} are not sent`)],
    );
  });
});

describe('a record that somebody created again under the same name', () => {
  const recorded = withBody(s3, { team_id: 7 });
  const again = (changes: object) => ({ ...withBody(recorded, { id: 'b9', ...changes }), id: 'b9' });
  const around = [organization, record('projects', '7', { id: 7, name: 'Web' })];
  const planned = (live: object, changes: Changes) =>
    planOf([...around, recorded], [...around, again(live)], changes);
  const fills = (plan: ReturnType<typeof planOf>) =>
    plan.steps
      .flatMap(({ request }) => request?.fills ?? [])
      .map(({ pointer, from }) => `${from} ${pointer}`);
  const configured = [
    'configuration /destination/config/aws_access_key_id',
    'configuration /destination/config/aws_secret_access_key',
  ];
  const note =
    'found again under another id: the secrets at /destination/config/aws_access_key_id, /destination/config/aws_secret_access_key are sent as configured, since the service does not show what it has';
  const reason =
    'found again under another id: the secrets at /destination/config/aws_access_key_id, /destination/config/aws_secret_access_key are not sent, as nothing else of the record is, and cannot be compared: check them at the service, and enter them by hand where they are missing';

  it.each([
    ['the field with the secrets', { destination: { type: 'S3', config: { bucket: 'evil' } } }],
    ['another field', { interval: 'week' }],
  ])('is given the configured secrets with an update of %s', (_name, changes) => {
    const plan = planned(changes, { secrets });
    expect(plan.steps).toMatchObject([{ action: 'update', id: 'b9', reason: note }]);
    expect(plan.steps[0]?.request?.body?.['destination']).toEqual({
      type: 'S3',
      config: { bucket: 'good', aws_access_key_id: '[secret]', aws_secret_access_key: '[secret]' },
    });
    expect(fills(plan)).toEqual(configured);
    expect(plan.left).toEqual([]);
    // An undo sets back what the record showed, and nothing else.
    const { inverse } = plan.steps[0]!;
    expect(Object.keys((inverse as { body: object }).body)).toEqual(Object.keys(changes));
  });

  it('of which no field differs is named with what to check', () => {
    const plan = planned({}, { secrets });
    expect(plan).toMatchObject({ steps: [], left: [{ count: 1, names: ['Nightly'], reason }] });
  });

  it('is updated without the field of which only one secret is configured, and nothing waits for it', () => {
    const one = configuredSecrets([
      {
        kind: 'batch_exports',
        match: { '/name': 'Nightly' },
        values: { '/destination/config/aws_access_key_id': new Secret('AKIA-clear') },
      },
    ]);
    const running = withBody(recorded, { paused: false });
    const live = { ...withBody(running, { id: 'b9', interval: 'week', paused: true }), id: 'b9' };
    const plan = planOf([...around, running], [...around, live], { secrets: one, definitions: svc });
    expect(plan.steps.map(({ action, request }) => [action, request?.body])).toEqual([
      ['update', { interval: 'day' }],
      ['act', {}],
    ]);
    expect(plan.left).toMatchObject([{ names: ['Nightly'] }]);
  });

  it('of which only a field is asked for that has no secret is named too', () => {
    const plan = planned(
      { interval: 'week' },
      {
        secrets,
        isFieldInScope: (path) => path === '/interval',
      },
    );
    expect(plan.steps[0]?.request?.body).toEqual({ interval: 'day' });
    expect(plan.left).toMatchObject([{ reason }]);
  });

  it.each([
    [
      'is known from an earlier restore',
      { idMap: (kind: string) => (kind === 'batch_exports' ? 'b9' : undefined) },
    ],
    ['has no configured secrets', { secrets: configuredSecrets([]) }],
  ])('and %s keeps what the service has', (_name, changes) => {
    const plan = planned(
      { interval: 'week' },
      {
        secrets,
        ...changes,
      },
    );
    expect(plan.steps[0]?.request?.body).toEqual({ interval: 'day' });
    expect(plan.left).toEqual([]);
  });
});
