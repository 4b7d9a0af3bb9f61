import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { environment, mirrorOnce, scratch, tidemark } from './harness.ts';
import { FakeService, forbidden, notFound, ORG, organizationPaths, respond, type Quirk } from './service.ts';

interface Sweep {
  readonly kind: string;
  readonly outcome: string;
  readonly removed: number;
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly hint: string | null;
    readonly permission: string | null;
  } | null;
}

const DOMAINS = `/api/organizations/${ORG}/domains/`;

function domains(count: number, from = 0): string[] {
  return Array.from(
    { length: count },
    (_each, index) =>
      `{"id":"d${String(from + index).padStart(4, '0')}","domain":"x${from + index}.example"}`,
  );
}

async function syncJson(
  env: Record<string, string>,
  ...args: string[]
): Promise<{ code: number | null; outcome: string; sweep: (kind: string) => Sweep }> {
  const { code, stdout, stderr } = await tidemark(['sync', '--json', ...args], { env });
  expect(stdout, stderr).not.toBe('');
  const document = JSON.parse(stdout) as { schema: string; runs: { outcome: string; sweeps: Sweep[] }[] };
  expect(document.schema).toBe('tidemark.sync/1');
  const run = document.runs[0]!;
  return { code, outcome: run.outcome, sweep: (kind) => run.sweeps.find((each) => each.kind === kind)! };
}

async function mirrored(env: Record<string, string>, kind: string): Promise<string[]> {
  const { stdout } = await tidemark(['export', '--kind', kind], { env });
  return stdout === ''
    ? []
    : stdout
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as { id: string }).id);
}

/** A service with 250 domains in pages of 100, mirrored once; then the quirk, then another sync. */
async function afterQuirk(quirk: Quirk, options: { cap?: number; args?: string[] } = {}) {
  const service = await FakeService.start();
  service.pageCap = options.cap ?? 100;
  service.lists.set(DOMAINS, domains(250));
  const env = environment(service.url, scratch(), { TIDEMARK_RETRY_ATTEMPTS: '3' });
  await mirrorOnce(`250 domains ${service.pageCap}`, env['TIDEMARK_MIRROR'] ?? '', async () => {
    expect((await syncJson(env)).outcome).toBe('complete');
  });
  service.quirks.push(quirk);
  const second = await syncJson(env, ...(options.args ?? []));
  return { service, env, second, ids: await mirrored(env, 'domains') };
}

describe('a reading that did not prove the list', () => {
  const ghosts = (from: number, to: number): string =>
    [...domains(48), ...domains(to - from, from)].join(',');

  it.each([
    ['one record', 900, 901],
    ['a hundred records', 900, 1000],
  ])('leaves nothing behind that the proven one does not show: %s', async (_name, from, to) => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(48));
    const env = environment(service.url, scratch());
    let isFirst = true;
    service.quirks.push(({ path }, response) => {
      if (path !== DOMAINS || !isFirst) return false;
      isFirst = false;
      const rows = ghosts(from, to);
      return respond(response, 200, `{"count":48,"next":null,"previous":null,"results":[${rows}]}`);
    });
    const first = await syncJson(env);
    expect(first.sweep('domains')).toMatchObject({ outcome: 'complete', added: 48, records: 48 });
    expect(await mirrored(env, 'domains')).toHaveLength(48);
    expect((await tidemark(['verify'], { env })).code).toBe(0);
    const second = await syncJson(env);
    expect(second.code).toBe(0);
    expect(second.sweep('domains')).toMatchObject({ outcome: 'complete', added: 0, removed: 0, held: 0 });
  });

  it('does not bring back a record that was removed before', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(48));
    const env = environment(service.url, scratch());
    await syncJson(env);
    service.lists.set(DOMAINS, domains(47));
    expect((await syncJson(env)).sweep('domains')).toMatchObject({ removed: 1 });
    let isFirst = true;
    service.quirks.push(({ path }, response) => {
      if (path !== DOMAINS || !isFirst) return false;
      isFirst = false;
      const rows = [...domains(48), ...domains(3, 900)].join(',');
      return respond(response, 200, `{"count":47,"next":null,"previous":null,"results":[${rows}]}`);
    });
    expect((await syncJson(env)).sweep('domains')).toMatchObject({
      outcome: 'complete',
      added: 0,
      removed: 0,
    });
    expect(await mirrored(env, 'domains')).toHaveLength(47);
  });
});

describe('a service that misbehaves never costs the mirror a record', () => {
  const cases: [string, Quirk, { outcome: string; code: string }][] = [
    [
      'denies the list (403)',
      ({ path }, response) => path === DOMAINS && forbidden(response, 'organization:read'),
      { outcome: 'denied', code: 'forbidden' },
    ],
    [
      'does not know the list any more (404)',
      ({ path }, response) => path === DOMAINS && notFound(response),
      { outcome: 'missing', code: 'not_found' },
    ],
    [
      'answers HTML',
      ({ path }, response) =>
        path === DOMAINS && respond(response, 200, '<html>Sign in</html>', { 'content-type': 'text/html' }),
      { outcome: 'failed', code: 'malformed' },
    ],
    [
      'cuts its JSON',
      ({ path }, response) =>
        path === DOMAINS &&
        respond(response, 200, '{"count":250,"next":null,"previous":null,"results":[{"id":"d0000"'),
      { outcome: 'failed', code: 'malformed' },
    ],
    [
      'answers an empty object',
      ({ path }, response) => path === DOMAINS && respond(response, 200, '{}'),
      { outcome: 'failed', code: 'malformed' },
    ],
    [
      'ends after the first page, with a count that says more',
      ({ path, query }, response) => {
        if (path !== DOMAINS) return false;
        const from = Number(query.get('offset') ?? 0);
        return respond(
          response,
          200,
          `{"count":250,"next":null,"previous":null,"results":[${domains(250)
            .slice(from, Math.min(100, from + 100))
            .join(',')}]}`,
        );
      },
      { outcome: 'incomplete', code: 'walk_unproven' },
    ],
    [
      'counts more than it shows',
      ({ path }, response) =>
        path === DOMAINS &&
        respond(
          response,
          200,
          `{"count":400,"next":null,"previous":null,"results":[${domains(90).join(',')}]}`,
        ),
      { outcome: 'incomplete', code: 'walk_unproven' },
    ],
    [
      'gives the first page for ever',
      ({ path }, response) =>
        path === DOMAINS &&
        respond(
          response,
          200,
          `{"count":250,"next":"http://other.example${DOMAINS}?offset=100","previous":null,"results":[${domains(100).join(',')}]}`,
        ),
      { outcome: 'failed', code: 'walk_loop' },
    ],
    [
      'fails on every request of the list',
      ({ path }, response) =>
        path === DOMAINS &&
        respond(
          response,
          500,
          '{"type":"server_error","code":"error","detail":"A server error occurred.","attr":null}',
        ),
      { outcome: 'failed', code: 'server_error' },
    ],
    [
      'closes the connection',
      ({ path }, response) => {
        if (path !== DOMAINS) return false;
        response.socket?.destroy();
        return true;
      },
      { outcome: 'failed', code: 'unreachable' },
    ],
    [
      'redirects elsewhere',
      ({ path }, response) =>
        path === DOMAINS && respond(response, 302, '', { location: 'http://elsewhere.example/' }),
      { outcome: 'failed', code: 'redirected' },
    ],
  ];

  it.each(cases)('%s', async (_name, quirk, expected) => {
    const { second, ids } = await afterQuirk(quirk);
    const sweep = second.sweep('domains');
    expect(ids).toHaveLength(250);
    expect(sweep.outcome, JSON.stringify(sweep)).toBe(expected.outcome);
    expect(sweep.removed).toBe(0);
    expect(sweep.error?.code).toBe(expected.code);
    expect(sweep.error?.message).not.toBe('');
    expect([second.code, second.outcome]).toEqual([3, 'partial']);
  });

  it('an emptied list is held, and says how to accept it', async () => {
    const { second, ids, env } = await afterQuirk(
      ({ path }, response) =>
        (path === DOMAINS &&
          respond(response, 200, '{"count":0,"next":null,"previous":null,"results":[]}')) ||
        (path.startsWith(DOMAINS) && notFound(response)),
    );
    expect(second.sweep('domains')).toMatchObject({
      outcome: 'held',
      error: {
        code: 'removals_held',
        message:
          'the list no longer shows any of its 250 records: all records of a list are removed only after confirmation',
      },
    });
    expect(second.sweep('domains').error?.hint).toContain('--accept-removals 250');
    expect(second.code).toBe(3);
    expect(ids).toHaveLength(250);
    const again = await syncJson(env, '--accept-removals', '249');
    expect(again.sweep('domains').outcome).toBe('held');
  });

  it.each([
    ['an emptied list', 0, 'did not show 250 records, and 10 of 10 asked for by id exist'],
    ['a list with a hole', 200, 'did not show 50 records, and 10 of 10 asked for by id exist'],
  ])('%s whose records still exist leaks: no removal is offered', async (_name, shown, message) => {
    const page = `{"count":${shown},"next":null,"previous":null,"results":[${domains(shown).join(',')}]}`;
    const { second, ids } = await afterQuirk(
      ({ path }, response) => path === DOMAINS && respond(response, 200, page),
    );
    expect(second.sweep('domains')).toMatchObject({
      outcome: 'incomplete',
      removed: 0,
      error: { code: 'walk_unproven' },
    });
    expect(second.sweep('domains').error?.message).toContain(message);
    expect(second.sweep('domains').error?.hint).not.toContain('--accept-removals');
    expect(second.code).toBe(3);
    expect(ids).toHaveLength(250);
  });

  it.each([401, 403])('%i on the only kind asked for is 5, whatever its parents say', async (status) => {
    const { env } = await afterQuirk(
      ({ path }, response) =>
        path === DOMAINS &&
        (status === 403
          ? forbidden(response, 'organization:read')
          : respond(
              response,
              401,
              '{"type":"authentication_error","code":"not_authenticated","detail":"no","attr":null}',
            )),
    );
    const again = await syncJson(env, '--kind', 'domains');
    expect([again.code, again.sweep('domains').outcome, again.sweep('organizations').outcome]).toEqual([
      5,
      'denied',
      'complete',
    ]);
    expect((await syncJson(env, '--kind', 'domains', '--kind', 'members')).code).toBe(3);
    expect(
      (await syncJson(environment(env['TIDEMARK_BASE_URL'] ?? '', scratch()), '--kind', 'domains')).code,
    ).toBe(5);
  });

  it('accepted removals happen, up to the number', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(40));
    const env = environment(service.url, scratch());
    await syncJson(env);
    service.lists.set(DOMAINS, domains(20));
    expect((await syncJson(env)).sweep('domains').outcome).toBe('held');
    expect(await mirrored(env, 'domains')).toHaveLength(40);
    const accepted = await syncJson(env, '--accept-removals', '20');
    expect(accepted.sweep('domains')).toMatchObject({ outcome: 'complete', removed: 20 });
    expect(accepted.code).toBe(0);
    expect(await mirrored(env, 'domains')).toHaveLength(20);
  });

  it('a request that failed does not begin the wait of a held removal again', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(40));
    const env = environment(service.url, scratch());
    await syncJson(env);
    service.lists.set(DOMAINS, domains(20));
    expect((await syncJson(env)).sweep('domains').outcome).toBe('held');
    // The wait is over; half of the records cannot be requested.
    const refused = ({ path }: { readonly path: string }): boolean => /d003\d\/$/.test(path);
    let isRefusing = true;
    service.quirks.push(
      (request, response) => isRefusing && refused(request) && forbidden(response, 'organization:read'),
    );
    const later = { ...env, TIDEMARK_REMOVALS_CONFIRM_AFTER: '0s' };
    expect((await syncJson(later)).sweep('domains')).toMatchObject({ outcome: 'incomplete', removed: 10 });
    isRefusing = false;
    // As long a wait as before: counted from the first run that did not find them.
    const waits = new Database(env['TIDEMARK_MIRROR'], { readonly: true });
    expect(waits.prepare('SELECT since_run, count(*) FROM held_records').raw().all()).toEqual([[2, 10]]);
    waits.close();
    expect((await syncJson(later)).sweep('domains')).toMatchObject({ outcome: 'complete', removed: 10 });
  });

  it('held removals are believed when a later run finds the same', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(40));
    const env = environment(service.url, scratch(), { TIDEMARK_REMOVALS_CONFIRM_AFTER: '0s' });
    await syncJson(env);
    service.lists.set(DOMAINS, domains(20));
    expect((await syncJson(env)).sweep('domains').outcome).toBe('held');
    expect((await syncJson(env)).sweep('domains')).toMatchObject({ outcome: 'complete', removed: 20 });
  });

  it('a deleted record goes, after its own retrieve says so', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(40));
    const env = environment(service.url, scratch());
    await syncJson(env);
    service.lists.set(DOMAINS, domains(39));
    service.seen.length = 0;
    const second = await syncJson(env);
    expect(second.sweep('domains')).toMatchObject({ outcome: 'complete', removed: 1 });
    expect(service.seen.map(({ url }) => url)).toContain(`${DOMAINS}d0039/`);
    expect(await mirrored(env, 'domains')).toHaveLength(39);
  });

  it('a list that leaks a row keeps it, loudly', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(40));
    const env = environment(service.url, scratch());
    await syncJson(env);
    service.quirks.push(
      ({ path, query }, response) =>
        path === DOMAINS && respond(response, 200, service.page(DOMAINS, domains(40).slice(1), query)),
    );
    const second = await syncJson(env);
    expect(second.sweep('domains')).toMatchObject({ outcome: 'incomplete', removed: 0 });
    expect(second.sweep('domains').error?.message).toContain('1 record');
    expect(await mirrored(env, 'domains')).toHaveLength(40);
  });

  it('with 15 % of requests failing every record is still mirrored', async () => {
    const service = await FakeService.start();
    service.pageCap = 20;
    service.lists.set(DOMAINS, domains(500));
    let state = 7;
    const chance = (): number => (state = (state * 48271) % 2147483647) / 2147483647;
    service.quirks.push((_request, response) => chance() < 0.15 && respond(response, 503, 'busy'));
    const env = environment(service.url, scratch());
    const { outcome, code } = await syncJson(env);
    expect([outcome, code]).toEqual(['complete', 0]);
    expect(await mirrored(env, 'domains')).toHaveLength(500);
  });

  it('with rows inserted and deleted while it lists, no record that stayed is lost', async () => {
    const service = await FakeService.start();
    service.pageCap = 20;
    service.lists.set(DOMAINS, domains(400));
    const env = environment(service.url, scratch());
    await syncJson(env);
    let turn = 0;
    service.quirks.push(({ path }) => {
      if (path !== DOMAINS) return false;
      turn += 1;
      const list = service.lists.get(DOMAINS)!;
      // Newest first, as many lists are: one comes at the head, or one goes from what was shown already.
      if (turn % 3 === 0) list.unshift(`{"id":"new${turn}","domain":"n${turn}.example"}`);
      else if (turn % 5 === 0) list.splice(2, 1);
      return false;
    });
    await syncJson(env);
    const ids = new Set(await mirrored(env, 'domains'));
    for (const body of service.lists.get(DOMAINS)!) {
      const { id } = JSON.parse(body) as { id: string };
      if (!id.startsWith('new')) expect(ids.has(id), id).toBe(true);
    }
  });

  it('a lost parent takes its children along only when everything says so', async () => {
    const service = await FakeService.start();
    const memberships = (role: string): string => `/api/organizations/${ORG}/roles/${role}/role_memberships/`;
    service.set('roles', [
      { id: 'r1', name: 'A' },
      { id: 'r2', name: 'B' },
    ]);
    for (const role of ['r1', 'r2'])
      service.lists.set(memberships(role), [`{"id":"${role}-m","user_uuid":"u"}`]);
    const env = environment(service.url, scratch());
    expect((await syncJson(env)).code).toBe(0);
    service.set('roles', [{ id: 'r1', name: 'A' }]);
    service.lists.delete(memberships('r2'));
    const second = await syncJson(env);
    expect([second.code, second.outcome]).toEqual([0, 'complete']);
    expect(await mirrored(env, 'role_memberships')).toEqual(['r1-m']);
    expect((await tidemark(['verify'], { env })).code).toBe(0);
  });
});

describe('what a key can see', () => {
  it('nothing: exit 5, and the permission is named', async () => {
    const service = await FakeService.start();
    service.quirks.push((_request, response) => forbidden(response, 'organization:read'));
    const env = environment(service.url, scratch());
    const { code, stdout } = await tidemark(['sync'], { env });
    expect(code).toBe(5);
    expect(stdout).toContain('organization:read');
  });

  it('nothing any more: exit 5, and the mirror stands', async () => {
    const { second, ids } = await afterQuirk((_request, response) =>
      forbidden(response, 'organization:read'),
    );
    expect(second.code).toBe(5);
    expect(ids).toHaveLength(250);
  });

  it('a refused key: exit 5 with what to do', async () => {
    const service = await FakeService.start();
    service.quirks.push((_request, response) =>
      respond(
        response,
        401,
        '{"type":"authentication_error","code":"authentication_failed","detail":"Invalid personal API key.","attr":null}',
      ),
    );
    const { code, stdout, stderr } = await tidemark(['sync'], { env: environment(service.url, scratch()) });
    expect(code).toBe(5);
    expect(stdout + stderr).toMatch(/key/);
  });

  it('only some kinds: exit 3 with each named, the rest mirrored', async () => {
    const service = await FakeService.start();
    service.set('domains', domains(3));
    service.quirks.push(({ path }, response) => /plugins|pipeline_/.test(path) && notFound(response));
    const env = environment(service.url, scratch());
    const { code, sweep } = await syncJson(env);
    expect(code).toBe(3);
    expect(sweep('plugins').outcome).toBe('missing');
    expect(sweep('plugins').error?.hint).toContain('exclude');
    expect(await mirrored(env, 'domains')).toHaveLength(3);
    const excluded = await syncJson({
      ...env,
      TIDEMARK_KINDS_EXCLUDE:
        'plugins,pipeline_destinations,pipeline_frontend_apps,pipeline_import_apps,pipeline_transformations',
    });
    expect(excluded.code).toBe(0);
  });
});

describe('sizes', () => {
  it('an empty service is a complete run', async () => {
    const service = await FakeService.start();
    service.lists.clear();
    service.lists.set('/api/organizations/', []);
    const env = environment(service.url, scratch());
    expect((await syncJson(env)).code).toBe(0);
    expect((await tidemark(['status'], { env })).code).toBe(0);
    expect((await tidemark(['export'], { env })).stdout).toBe('');
  });

  it('an organization without projects', async () => {
    const service = await FakeService.start();
    service.lists.set('/api/organizations/', [`{"id":"${ORG}","name":"x","teams":[]}`]);
    service.set('projects', []);
    expect((await syncJson(environment(service.url, scratch()))).code).toBe(0);
  });

  it('50 organizations, each with its own records', async () => {
    const service = await FakeService.start();
    service.lists.clear();
    const ids = Array.from({ length: 50 }, (_each, index) => `org-${index}`);
    service.lists.set(
      '/api/organizations/',
      ids.map((id) => `{"id":"${id}","name":"${id}"}`),
    );
    for (const id of ids) {
      for (const path of organizationPaths(id))
        service.lists.set(path, path.endsWith('/domains/') ? [`{"id":"d-${id}"}`] : []);
    }
    const env = environment(service.url, scratch());
    expect((await syncJson(env)).code).toBe(0);
    expect(await mirrored(env, 'domains')).toHaveLength(50);
  });
});
