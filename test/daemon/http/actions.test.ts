/** What a logged-in person does in the dashboard: jobs, acceptances, pins; and who may not. */
import { beforeAll, describe, expect, it, afterAll } from 'vitest';
import { definitionOf } from '../../../src/catalog/catalog.ts';
import type { Scope } from '../../../src/catalog/definition.ts';
import type { Kind } from '../../../src/catalog/kinds.ts';
import { keyFingerprint } from '../../../src/config/source.ts';
import { isoTime } from '../../../src/core/clock.ts';
import { silentLogger, type Logger } from '../../../src/core/logger.ts';
import { Secret } from '../../../src/core/secret.ts';
import { selectionOf } from '../../../src/daemon/dashboard/restore-selection.ts';
import { SharedRateLog } from '../../../src/mirror/rate-log.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { parentNames } from '../../../src/state/parent-names.ts';
import { tellStory } from './story.ts';
import { DAY_MS, FULL_KEY, MINUTE_MS, World } from './world.ts';

const TOKEN = 'a-token-of-some-length';
const TRIGGER = 'a-trigger-token-of-some-length';
const FORM = { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html' };

const ends: (() => Promise<void>)[] = [];
const logged: object[] = [];
let world: World;
let url: string;
let session: Record<string, string>;

beforeAll(async () => {
  const later = (end: () => Promise<void>): void => void ends.push(end);
  world = await World.create({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '5' }, later);
  await tellStory(world);
  const log: Logger = { ...silentLogger, info: (facts: object) => void logged.push(facts) };
  ({ url } = await world.listen({ token: new Secret(TOKEN), log }, later));
  session = await loggedIn(url);
});
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

it('who mistypes the token need not type the name again', async () => {
  const answer = await fetch(`${url}/login`, {
    method: 'POST',
    headers: FORM,
    redirect: 'manual',
    body: new URLSearchParams({ token: 'wrong', username: 'Ada "<i>"' }),
  });
  expect(answer.status).toBe(401);
  expect(await answer.text()).toContain('value="Ada &quot;&lt;i&gt;&quot;"');
});

it('a name that cannot be recorded is refused, not left out', async () => {
  const answer = await fetch(`${url}/login`, {
    method: 'POST',
    headers: FORM,
    redirect: 'manual',
    body: new URLSearchParams({ token: TOKEN, username: 'Ada\u0007' }),
  });
  expect([answer.status, answer.headers.get('set-cookie')]).toEqual([400, null]);
  expect(await answer.text()).toContain('The name has characters that cannot be printed');
});

it('a name that holds a key of the configuration is refused', async () => {
  const answer = await fetch(`${url}/login`, {
    method: 'POST',
    headers: FORM,
    redirect: 'manual',
    body: new URLSearchParams({ token: TOKEN, username: `Ada ${FULL_KEY}` }),
  });
  expect([answer.status, answer.headers.get('set-cookie')]).toEqual([400, null]);
  expect(await answer.text()).toContain('The name holds a key or token of the configuration');
});

it('a name that is too long is refused, not cut: two could become the same', async () => {
  const login = async (username: string): Promise<Response> =>
    await fetch(`${url}/login`, {
      method: 'POST',
      headers: FORM,
      redirect: 'manual',
      body: new URLSearchParams({ token: TOKEN, username }),
    });
  const refused = await login('x'.repeat(201));
  expect([refused.status, refused.headers.get('set-cookie')]).toEqual([400, null]);
  expect(await refused.text()).toContain('The name is longer than 200 characters');
  expect((await login('x'.repeat(200))).status).toBe(303);
});

async function loggedIn(base: string): Promise<Record<string, string>> {
  const answer = await fetch(`${base}/login`, {
    method: 'POST',
    headers: FORM,
    redirect: 'manual',
    body: new URLSearchParams({ token: TOKEN, username: 'Ada' }),
  });
  return { cookie: answer.headers.get('set-cookie')?.split(';')[0] ?? '' };
}

function act(
  action: string,
  values: readonly (readonly [string, string])[],
  headers: Record<string, string> = session,
  base = url,
): Promise<Response> {
  const body = new URLSearchParams(values.map(([name, value]): [string, string] => [name, value]));
  return fetch(`${base}/actions/${action}`, {
    method: 'POST',
    headers: { ...FORM, ...headers },
    redirect: 'manual',
    body,
  });
}

interface Finding {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  readonly change: string;
  readonly path: string;
  readonly fingerprint: string;
}

async function findings(): Promise<readonly Finding[]> {
  const headers = { authorization: `Bearer ${TOKEN}` };
  const answer = await fetch(`${url}/api/v1/drift?source=default`, { headers });
  return ((await answer.json()) as { readonly findings: readonly Finding[] }).findings;
}

/** As the boxes of the page name them. */
function selected(records: readonly Pick<Finding, 'kind' | 'scope' | 'id'>[]): [string, string][] {
  return records.map((each) => ['record', selectionOf(each)]);
}

async function page(path: string): Promise<string> {
  const answer = await fetch(url + path, { headers: { accept: 'text/html', ...session } });
  return answer.text();
}

/** As the metrics count them. */
async function openFindings(): Promise<number> {
  const headers = { authorization: `Bearer ${TOKEN}` };
  const text = await (await fetch(`${url}/metrics`, { headers })).text();
  const counts = [...text.matchAll(/^tidemark_drift_findings\{.*\} (\d+)$/gm)];
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Source and fingerprints of the first finding on the drift page. */
async function firstFinding(): Promise<[string, string][]> {
  const [, form = ''] = /action="\/actions\/accept">(.*?)<\/form>/s.exec(await page('/drift')) ?? [];
  const hidden = [...form.matchAll(/type="hidden" name="(source|fingerprint)" value="([^"]*)"/g)];
  return hidden.map(([, name = '', value = '']) => [name, value]);
}

it('a sync in an hour that is used up is not begun, and the page says until when', async () => {
  const full = await World.create({ TIDEMARK_RATE_PER_HOUR: '500' });
  const [source] = full.config().sources;
  if (source === undefined) throw new Error('the world has a source');
  const fingerprint = keyFingerprint(source);
  const log = new SharedRateLog({ beside: full.mirrorPath, fingerprint, keeps: 500, clock: full.clock });
  log.atomically(() => {
    for (let n = 0; n < 500; n += 1) log.starts(null).add(full.clock.now());
  });
  log.close();
  const { url: base } = await full.listen({ token: new Secret(TOKEN), triggerToken: new Secret(TRIGGER) });
  const headers = await loggedIn(base);
  const from = { ...headers, referer: `${base}/runs?kind=roles` };
  const answer = await act('job', [['job', 'sync']], from, base);
  expect([answer.status, full.asked]).toEqual([429, []]);
  const shown = await answer.text();
  expect(shown).toContain(`o sync of ${source.name} was begun: rate.perHour is used up until 08:00:00Z`);
  expect(shown).toContain('<a href="/runs?kind=roles">Back to the page before</a>');
  const ask = async (
    query: string,
    body: object,
    token: string,
  ): Promise<[number, string | null, string]> => {
    const answered = await fetch(`${base}/api/v1/runs${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return [answered.status, answered.headers.get('retry-after'), await answered.text()];
  };
  for (const sources of [null, [source.name]])
    expect(await ask('', { job: 'sync', sources }, TOKEN)).toEqual([
      ...[429, '3600'],
      expect.stringContaining(`no sync of ${source.name} was begun: rate.perHour is used up until 08:00:00Z`),
    ]);
  for (const [query, of] of [
    ['', 'a source'],
    [`?source=${source.name}&kind=roles`, source.name],
  ] as const) {
    const [status, after, text] = await ask(query, {}, TRIGGER);
    expect([status, after]).toEqual([429, '3600']);
    expect(text).toContain(`no sync of ${of} was begun: rate.perHour is used up until 08:00:00Z`);
    if (query === '') expect(text, 'which sources there are').not.toContain(source.name);
  }
  expect(full.asked).toEqual([]);
  expect((await act('job', [['job', 'verify']], headers, base)).status).toBe(303);
  full.clock.at += 60 * MINUTE_MS;
  expect((await act('job', [['job', 'sync']], headers, base)).status).toBe(303);
  expect(full.asked.map(([name]) => name)).toEqual(['verify', 'sync']);
});

const ACTIONS = ['job', 'accept', 'unaccept', 'pin', 'unpin', 'baseline', 'plan', 'apply'] as const;

describe('who may act', () => {
  it.each(ACTIONS)('%s needs a session, and a form of this site', async (action) => {
    const values = [
      ['job', 'sync'],
      ['name', 'x'],
      ['run', '1'],
    ] as const;
    expect((await act(action, values, {})).status).toBe(401);
    expect((await act(action, values, { cookie: `${session['cookie'] ?? ''}0` })).status).toBe(401);
    for (const foreign of [
      { origin: 'https://evil.example' },
      { 'sec-fetch-site': 'cross-site' },
      { referer: 'https://evil.example/form' },
    ])
      expect((await act(action, values, { ...session, ...foreign })).status).toBe(403);
    expect(world.asked).toEqual([]);
    expect(world.mirror().snapshots.list()).toHaveLength(1);
  });

  it('without a token the dashboard only shows', async () => {
    const open = await world.listen();
    expect((await act('job', [['job', 'sync']], {}, open.url)).status).toBe(401);
    for (const path of ['/', '/drift', '/runs/5'])
      expect(await (await fetch(open.url + path)).text()).not.toContain('action="/actions/');
    expect(world.asked).toEqual([]);
  });
});

describe('jobs', () => {
  it('are started by a button, and logged with who did it', async () => {
    expect(await page('/')).toContain('Sync now');
    const answer = await act('job', [
      ['job', 'verify'],
      ['to', '/'],
    ]);
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/']);
    expect(world.asked.splice(0)).toEqual([
      ['verify', null, { actor: { by: 'Ada', via: 'token@dashboard' } }],
    ]);
    expect(logged).toContainEqual(expect.objectContaining({ action: 'job', by: 'Ada', job: 'verify' }));
    expect((await act('job', [['job', 'forget']])).status).toBe(400);
    const elsewhere = await act('job', [
      ['job', 'sync'],
      ['to', '//evil.example'],
    ]);
    expect(elsewhere.headers.get('location')).toBe('/');
  });
});

describe('drift', () => {
  it('is accepted with a reason and a date, counted at once, and opened again', async () => {
    const before = await openFindings();
    const finding = await firstFinding();
    const fingerprints = finding.filter(([name]) => name === 'fingerprint');
    expect(fingerprints.length).toBeGreaterThan(0);
    expect((await act('accept', finding)).status).toBe(400);
    expect((await act('accept', [...finding, ['reason', 'x'], ['until', '2020-01-01']])).status).toBe(400);
    const until = new Date(world.clock.at + 30 * DAY_MS).toISOString().slice(0, 10);
    const values: [string, string][] = [...finding, ['reason', 'agreed with the team'], ['until', until]];
    // Narrowed to what is about to be accepted: it says so, and lists it as accepted.
    const kind = new URLSearchParams({ kind: 'roles' }).toString();
    const shown = values.filter(([name]) => name !== 'to');
    const answer = await act('accept', [...shown, ['to', `/drift?${kind}`]]);
    expect(answer.status).toBe(303);
    const location = answer.headers.get('location') ?? '';
    expect(location).toBe(`/drift?${kind}&accepted=${fingerprints.length}`);
    expect(await page(location)).toMatch(/<strong>\d+ findings? accepted<\/strong>/);
    expect(await page('/drift?q=agreed')).toMatch(/id="accepted">Accepted<.*agreed with the team/s);
    expect(await page('/drift?q=agreed')).toContain('value="/drift?q=agreed"');
    expect(await page('/drift?q=nothing-like-it')).not.toContain('agreed with the team');
    expect(await page('/drift')).toContain('<span class="faint">Ada</span>');
    expect(await openFindings()).toBe(before - fingerprints.length);
    const [accepted] = world.mirror().acceptances.list();
    expect(accepted).toMatchObject({
      reason: 'agreed with the team',
      by: 'Ada',
      // The day that was typed is included.
      until: `${new Date(Date.parse(until) + DAY_MS).toISOString().slice(0, 10)}T00:00:00.000Z`,
    });
    expect(await page('/drift')).toMatch(/agreed with the team.*Ada \(token@<wbr>dashboard\)/);
    expect((await act('accept', values)).status).toBe(404);
    for (const [, fingerprint] of fingerprints) {
      const withdrawn = await act('unaccept', [
        ['source', 'default'],
        ['fingerprint', fingerprint],
      ]);
      expect(withdrawn.status).toBe(303);
    }
    expect(await openFindings()).toBe(before);
  });

  it('of selected records becomes a plan with the command that applies it', async () => {
    const changes = await findings();
    const wordsOf = (text: string): string => text.replaceAll(/<[^>]*>/g, '');
    const queryOf = (kind: Kind): string => {
      const records = changes.filter((each) => each.kind === kind).slice(0, 1);
      return new URLSearchParams([['source', 'default'], ...selected(records)]).toString();
    };
    const text = wordsOf(await page(`/restore?${queryOf('organizations')}`));
    expect(text).toContain('tidemark restore baseline --source default --kind organizations');
    expect(text).toContain(`--id ${changes.find(({ kind }) => kind === 'organizations')?.id ?? ''}`);
    expect(text).toContain(
      'This page does not know that key: the command names the permissions that it lacks',
    );
    // What cannot be sent is not promised.
    expect(wordsOf(await page(`/restore?${queryOf('roles')}`))).not.toContain('tidemark restore');
    const drift = await page('/drift');
    const boxes = [...drift.matchAll(/name="record" form="[^"]*"\s+value="([^"]*)"/g)];
    const all = new URLSearchParams({ source: 'default' });
    for (const [, value = ''] of boxes) all.append('record', value);
    const planned = await page(`/restore?${all.toString()}`);
    expect(planned).toMatch(/From the newest run of the mirror: \d+ to update.*, 5 blocked; /);
    // Those of one kind have one reason, and one line.
    const blocked = [...planned.matchAll(/>blocked<\/span> ([^<]*) <strong>.*?<\/strong>: \w/g)];
    expect(blocked.map(([, which]) => which)).toEqual(['role membership', '4 batch exports']);
    expect(await page('/restore?source=default&record=nonsense')).toContain('Nothing is selected.');
  });

  it('of as many records as a page shows is planned: its address is not too long', async () => {
    const changes = await findings();
    const scope = { organization_id: KITTIWAKE_ID, role_id: KITTIWAKE_ID };
    const others = Array.from({ length: 199 }, (_unused, index) => ({
      ...{ kind: 'role_memberships' as const, scope, id: KITTIWAKE_ID.replace(/^.{4}/, `${1000 + index}`) },
    }));
    const records = [...others, ...changes.filter(({ kind }) => kind === 'organizations').slice(0, 1)];
    const address = `/restore?${new URLSearchParams([['source', 'default'], ...selected(records)]).toString()}`;
    expect(address.length).toBeLessThan(8 * 1024);
    expect(await page(address)).toContain('What it would do');
  });

  it('that was accepted is marked in a plan, and left where its box is checked', async () => {
    const box = (text: string): string =>
      /<input type="checkbox" name="keep_accepted".*?>/.exec(text)?.[0] ?? '';
    const before = await page('/drift');
    expect(box(before)).toBe('');
    const found = await findings();
    // Of this record another field drifted as well.
    const { id = '', fingerprint = '' } = found.find(({ path }) => path === '/paused') ?? {};
    const named = ['source', 'default'] as const;
    const finding = [named, ['fingerprint', fingerprint]] as const;
    const ofId = found.filter((each) => each.id === id).slice(0, 1);
    const query = new URLSearchParams([['source', 'default'], ...selected(ofId)]);
    expect(box(await page(`/restore?${query.toString()}`))).toBe('');
    expect((await act('accept', [...finding, ['reason', 'not before May']])).status).toBe(303);
    // What the form plans leaves it.
    expect(box(await page('/drift'))).toContain(' checked');
    const wordsOf = (text: string): string => text.replaceAll(/<[^>]*>/g, '');
    const marked = await page(`/restore?${query.toString()}`);
    expect(marked).toMatch(/\/paused accepted by Ada \(token@dashboard\) on \d{4}-\d\d-\d\d: not before May/);
    expect(marked).toContain('! 1 field of 1 record was accepted as drift');
    expect(box(marked)).not.toContain('checked');
    expect(wordsOf(marked).includes('--keep-accepted --apply')).toBe(false);
    query.set('keep_accepted', 'on');
    const kept = await page(`/restore?${query.toString()}`);
    expect(kept).toContain(
      'left</span> 1 batch export (Events → BigQuery): /paused accepted by Ada (token@dashboard)',
    );
    expect(kept).not.toContain('accepted as drift, and');
    expect(box(kept)).toContain(' checked');
    const [other] = found.filter(({ kind }) => kind === 'organizations');
    for (const [name, value] of selected(other === undefined ? [] : [other])) query.append(name, value);
    expect(wordsOf(await page(`/restore?${query.toString()}`))).toMatch(/--id \S+ --keep-accepted --apply/);
    expect((await act('unaccept', finding)).status).toBe(303);
    expect(box(await page('/drift'))).toBe('');
    // Nor does what was accepted of a record that is gone come back as it was before.
    const removed = found.find(({ change }) => change === 'removed');
    if (removed === undefined) throw new Error('nothing was removed');
    const { kind, scope, id: gone } = removed;
    const ofGone = { source: 'default', fingerprint: 'f', kind, scope, id: gone, path: '/name' };
    const acceptedAt = isoTime(world.clock.now());
    world.write((mirror) => mirror.acceptances.add({ ...ofGone, reason: 'renamed', acceptedAt }));
    expect(box(await page('/drift'))).toContain(' checked');
    expect((await act('unaccept', [named, ['fingerprint', 'f']])).status).toBe(303);
  });
});

describe('pins', () => {
  it('are made, made the baseline, and dropped', async () => {
    const at = ['to', '/runs/5'] as const;
    const name = ['name', 'before-cleanup'] as const;
    expect((await act('pin', [['run', '5'], name, at])).headers.get('location')).toBe('/runs/5');
    expect(await page('/runs/5')).toContain('before-cleanup');
    expect((await act('pin', [['run', '6'], name])).status).toBe(400);
    expect((await act('pin', [['run', '5']])).status).toBe(400);
    expect((await act('baseline', [name])).status).toBe(303);
    expect(world.mirror().snapshots.baseline()?.name).toBe('before-cleanup');
    expect((await act('baseline', [['name', 'as-approved']])).status).toBe(303);
    expect((await act('unpin', [name])).status).toBe(303);
    expect((await act('unpin', [name])).status).toBe(404);
    expect(
      world
        .mirror()
        .snapshots.list()
        .map((each) => each.name),
    ).toEqual(['as-approved']);
  });
});

it('the drill is one bar, a bar for each kind, and a checklist', async () => {
  const html = await page('/drill');
  expect(html).toContain(
    'aria-label="Records by verdict: 141 come back, 3 need a secret, 5 need manual work, 1 unknown"',
  );
  // The percentages of the bar add up, and its first one is the score.
  const shares = [...html.matchAll(/<\/b> \(([\d.]+) %\)<\/li>/g)].map(([, share]) => Number(share));
  expect(shares).toEqual([94, 2, 3.3, 0.7]);
  expect(html).toContain('<strong>94 %</strong> of the records');
  expect(html.match(/<svg class="stacked"/g)).toHaveLength(4);
  expect(html).toMatch(/<li class="done"><a href="\/records\?kind=roles">Roles<\/a>: all 79 records/);
  expect(html).toMatch(
    /<li class="open"><a href="\/records\?kind=batch_exports">Batch exports<\/a>: 3 need a secret/,
  );
  expect(html).not.toContain('kind=session_recordings"');
  expect(html).toContain(
    '<code>tidemark drill <span class="unbroken">--source</span> default <span class="unbroken">--runbook</span> runbook.md</code>',
  );
  expect(html).toContain('2 drills, newest first');
});

it('a drill that runs, or waits, is seen where it was started', async () => {
  const line = />(running|waiting)<\/span>: a drill/;
  expect(await page('/drill')).not.toMatch(line);
  const startedAt = isoTime(world.clock.at);
  world.runningShown = [
    { job: 99, name: 'drill', source: 'default', trigger: 'request', startedAt, progress: null },
  ];
  try {
    expect(await page('/drill')).toMatch(line);
    expect(await page('/drill')).toContain('http-equiv="refresh"');
  } finally {
    world.runningShown = [];
  }
});

it('a search finds removed records, and marks them', async () => {
  const roles = `/api/organizations/${KITTIWAKE_ID}/roles/`;
  await world.send('POST', roles, { name: 'Ephemeral role' });
  await world.sync();
  const [made] = [...world.mirror().records.read({ kinds: ['roles'] })].filter(({ body }) =>
    body.includes('Ephemeral role'),
  );
  await world.send('DELETE', `${roles}${made?.id ?? ''}/`, undefined);
  await world.sync();
  for (const query of ['q=ephemeral', `q=${made?.id ?? ''}`, 'q=ephemeral&kind=roles']) {
    const text = await page(`/records?${query}`);
    expect([query, text.includes('Ephemeral role'), text.includes('− removed')]).toEqual([query, true, true]);
  }
  expect(await page(`/records/roles/${made?.id ?? ''}`)).toContain('>removed<');
  // What was below it is still said to be of this role, and not of a bare id.
  const nameOf = parentNames(world.mirror(), 'default', definitionOf);
  expect(nameOf('roles', made?.id ?? '')).toBe('Ephemeral role');
  expect(nameOf('roles', 'never-there')).toBeUndefined();
  const [latest] = world.mirror().runs.list({ limit: 1 });
  expect(await page('/records?q=ephemeral')).toContain(`<a href="/runs/${latest?.run ?? 0}">`);
});

it('a search for a component finds it once, in its family', async () => {
  const [one] = [...world.mirror().records.read({ kinds: ['pipeline_destinations'] })];
  const { name } = JSON.parse(one?.body ?? '{}') as { name: string };
  const query = `q=${encodeURIComponent(name)}`;
  const found = await page(`/records?${query}`);
  expect(found).toContain('<h2>Pipeline destinations</h2>');
  expect(found).not.toContain('<h2>Plugins</h2>');
  expect(await page(`/records?${query}&kind=plugins`)).toContain(`/records/plugins/${one?.id ?? ''}`);
});
