/** The page of the audit log: the rows and filters of `tidemark audit`, and no action. */
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { isoTime } from '../../../src/core/clock.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { auditCsvStream } from '../../../src/daemon/dashboard/audit.ts';
import { addToRestored } from '../../../src/mirror/backup.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { MINUTE_MS, World } from '../http/world.ts';

const AT = '2026-03-01T07:00:00.000Z';
const HOSTILE = '<b onclick="x">&`hm`\u202e';

const ends: (() => Promise<void>)[] = [];
let world: World;
let url: string;
/** Before anything was done. */
let whileEmpty: Awaited<ReturnType<typeof page>>;
/** Of the record that an entry is about: a secret. */
let inviteId: string;

beforeAll(async () => {
  const later = (end: () => Promise<void>): void => void ends.push(end);
  world = await World.create({ TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing' }, later);
  await world.sync();
  ({ url } = await world.listen({}, later));
  whileEmpty = await page();
  const [invite] = world.mirror().records.read({ kinds: ['invites'] });
  inviteId = invite?.id ?? '';
  world.write((mirror) => {
    mirror.snapshots.pin('as-approved', 1);
    mirror.acceptances.add({
      source: 'default',
      fingerprint: 'f1',
      kind: 'invites',
      scope: { organization_id: KITTIWAKE_ID },
      id: inviteId,
      path: '',
      reason: HOSTILE,
      acceptedAt: AT,
    });
  });
  const backup = {
    name: 'tidemark-1.db.zst',
    run: 1,
    root: 'ab'.repeat(32),
    madeAt: AT,
    sources: ['default'],
  };
  const actor = { by: 'Ann Oncall', via: 'root@here' };
  addToRestored(world.mirrorPath, { states: [], entry: { actor, at: AT, backup } });
});
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

async function page(query = ''): Promise<{ status: number; html: string; actions: string[] }> {
  const answer = await fetch(`${url}/audit${query}`, { headers: { accept: 'text/html' } });
  const html = await answer.text();
  const actions = [...html.matchAll(/<td[^>]*><strong>([\w ]+)<\/strong>/g)].map(([, action = '']) => action);
  return { status: answer.status, html, actions };
}

describe('the page of the audit log', () => {
  it('says so while nothing was done', () => {
    const { status, html, actions } = whileEmpty;
    expect([status, actions]).toEqual([200, []]);
    expect(html).toContain('The audit log is empty:');
    expect(html).toContain('<a href="/audit" aria-current="page">Audit</a>');
  });

  it('has the entries, newest first, without secrets and without markup of theirs', async () => {
    expect(inviteId).toMatch(/.{8}/);
    const { html, actions } = await page();
    expect(actions).toEqual(['restore backup', 'accept', 'pin']);
    expect(html).not.toContain('>look_up<');
    expect(html).toContain('3 entries');
    expect(html).toContain('Ann Oncall (root@here)');
    expect(html).toContain('ab'.repeat(32));
    expect(html).not.toContain(inviteId);
    expect(html).not.toContain('<b onclick');
    expect(html).not.toMatch(/<form[^>]*method="post"(?![^>]*logout)/);
  });

  it.each([
    ['?action=pin', ['pin']],
    ['?action=pin&action=accept', ['accept', 'pin']],
    ['?action=&source=', ['restore backup', 'accept', 'pin']],
    ['?action=pin&source=default', ['pin']],
    ['?by=ann+oncall', ['restore backup']],
    ['?by=ROOT%40here', ['restore backup']],
    ['?by=nobody', []],
    ['?until=2020-01-01', []],
    ['?since=2020-01-01&by=', ['restore backup', 'accept', 'pin']],
  ])('is narrowed by %s', async (query, expected) => {
    const { html, actions } = await page(query);
    expect(actions).toEqual(expected);
    expect(html).toContain(expected.length === 3 ? '3 entries' : `${expected.length} of 3 entries`);
    expect(html.includes('No entry matches.')).toBe(expected.length === 0);
  });

  it('shows times to the second, and leads to the same entries as CSV', async () => {
    const { html } = await page('?action=pin&action=accept&since=2020-01-01');
    const clocks = [...html.matchAll(/<time [^>]*data-clock="(\d+)">[\d-]+ ([\d:]+) UTC</g)];
    // Of each entry, of the check, and the page's own.
    expect(clocks.map(([, length, time = '']) => [length, time.length])).toEqual([
      ['19', 8],
      ['19', 8],
      ['19', 8],
      ['19', 8],
    ]);
    const [, path = ''] = /<a href="([^"]*)" download>as CSV</.exec(html) ?? [];
    const answer = await fetch(url + path.replaceAll('&amp;', '&'));
    expect(answer.headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(answer.headers.get('content-disposition')).toBe('attachment; filename="audit.csv"');
    const lines = (await answer.text()).trimEnd().split('\r\n');
    expect(lines[0]).toMatch(/^entry,at,by,via,action,/);
    expect(lines.slice(1).map((line) => line.split(',')[4])).toEqual(['accept', 'pin']);
    expect(lines.join('')).not.toContain(inviteId);
    const all = await (await fetch(`${url}/audit.csv`)).text();
    expect(all.trimEnd().split('\r\n')).toHaveLength(4);
    expect((await fetch(`${url}/audit.csv?action=acept`)).status).toBe(400);
    expect(whileEmpty.html).not.toContain('as CSV');
  });

  it('reads the CSV from a mirror of its own, and says in the log where it cannot', async () => {
    const mirror = world.openReader();
    const facts = { mirror, config: world.config(), sources: ['default'], now: world.clock.now() };
    const errors: unknown[] = [];
    const stream = await auditCsvStream(facts, new URLSearchParams(), {
      openReader: () => world.openReader(),
      onFailure: (error) => void errors.push(error),
    });
    // As the daemon does that needs the room, or where the file is another one.
    mirror.close();
    expect((await new Response(stream).text()).trimEnd().split('\r\n')).toHaveLength(4);
    expect(errors).toEqual([]);
    const log = { ...silentLogger, error: (facts_: unknown) => void errors.push(facts_) };
    const other = await world.listen({ log });
    const printed = vi.spyOn(console, 'error');
    const failure = new Error('there is no mirror any more');
    vi.spyOn(world, 'openReader').mockImplementation(() => {
      throw failure;
    });
    onTestFinished(() => void vi.restoreAllMocks());
    await expect(fetch(`${other.url}/audit.csv`).then((answer) => answer.text())).rejects.toThrow();
    expect(errors).toEqual([{ err: failure, path: '/audit.csv' }]);
    expect(printed).not.toHaveBeenCalled();
  });

  it('shows the actions that it is narrowed to in its form, and a way to all', async () => {
    const { html } = await page('?since=2020-01-01&by=Ann+%26+Co&action=pin&action=accept');
    const checked = [...html.matchAll(/<input type="checkbox" name="action" value="(\w+)" checked>/g)];
    expect(checked.map(([, action]) => action)).toEqual(['accept', 'pin']);
    expect(html).toContain('<a href="/audit?since=2020-01-01&amp;by=Ann+%26+Co">All actions</a>');
    expect((await page()).html).not.toContain('All actions');
  });

  it.each([
    ['?action=acept', 'There is no action acept; did you mean accept?'],
    ['?action=pin&action=no-such', 'There is no action no-such'],
    ['?source=defalt', 'There is no source defalt; did you mean default?'],
  ])('refuses %s in words', async (query, message) => {
    const { status, html, actions } = await page(query);
    expect([status, actions]).toEqual([400, []]);
    expect(html).toContain(message);
  });

  it('is whole where the record of an entry is damaged, and says so', async () => {
    const file = new Database(world.mirrorPath);
    onTestFinished(() => void file.close());
    const whole = file
      .prepare<[], { row: number; body: string }>(
        `SELECT rowid AS row, body FROM records WHERE body LIKE '%target_email%'`,
      )
      .all();
    const put = file.prepare<[string, number]>('UPDATE records SET body = ? WHERE rowid = ?');
    onTestFinished(() => whole.forEach(({ row, body }) => put.run(body, row)));
    expect(whole).not.toEqual([]);
    for (const { row, body } of whole) put.run(body.slice(0, 20), row);
    const { html, actions } = await page();
    expect(actions).toEqual(['restore backup', 'accept', 'pin']);
    expect(html).toContain('its records go by their ids here');
  });

  it('marks an entry that is not as it was written, and names it whatever the filter', async () => {
    const altered = /<strong>([\w ]+)<\/strong> <span class="tone bad">altered</g;
    const before = (await page()).html;
    expect([before.match(altered), before.includes('as it was written')]).toEqual([null, false]);
    const file = new Database(world.mirrorPath);
    onTestFinished(() => void file.close());
    const put = file.prepare<[string]>(`UPDATE audit_log SET by = ? WHERE action = 'restore_backup'`);
    onTestFinished(() => void put.run('Ann Oncall'));
    put.run('innocent');
    const { html } = await page();
    expect([...html.matchAll(altered)].map(([, action]) => action)).toEqual(['restore backup']);
    const csv = await (await fetch(`${url}/audit.csv`)).text();
    const rows = csv.trimEnd().split('\r\n');
    expect(rows.map((line) => line.split(',').at(-2))).toEqual(['is_altered', 'true', 'false', 'false']);
    for (const text of [html, (await page('?action=pin')).html]) {
      expect(text).toContain(
        '<div class="warning" role="note">entry 3 of the audit log is not as it was written',
      );
      expect(text).toContain('>tidemark verify</code>');
    }
  });

  it('says when the log was checked: anew when the mirror is written, or after ten minutes', async () => {
    const checked = async (): Promise<string | undefined> =>
      /All 3 entries checked <time datetime="([^"]+)"/.exec((await page()).html)?.[1];
    const first = await checked();
    expect(first).toBe(isoTime(world.clock.now()));
    world.clock.at += 5 * MINUTE_MS;
    expect(await checked()).toBe(first);
    const file = new Database(world.mirrorPath);
    onTestFinished(() => void file.close());
    file.exec(`UPDATE audit_log SET by = by || '!'; UPDATE audit_log SET by = rtrim(by, '!')`);
    const second = await checked();
    expect(second).toBe(isoTime(world.clock.now()));
    world.clock.at += 10 * MINUTE_MS;
    expect(await checked()).toBe(isoTime(world.clock.now()));
  });

  it('names a state that is unknown', async () => {
    const { status, html } = await page('?since=lastest');
    expect(status).toBe(404);
    expect(html).toContain('latest');
  });
});
