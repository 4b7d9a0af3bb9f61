/** The page of many sources, and the pages of one of them, in a real browser with a real daemon. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { sourcesPage } from '../../src/daemon/dashboard/sources.ts';
import { createSandbox } from '../../src/server/sandbox.ts';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';
import { begin, type Running } from '../journeys/command-line.ts';
import { tidemark } from '../journeys/harness.ts';
import { smallDemo } from '../server/small-demo.ts';
import { CHROMIUM, launch } from './browser.ts';
import { poorTexts } from './contrast.ts';

type Summary = Parameters<typeof sourcesPage>[0][number];

const KEY = 'full-key-of-some-length';
const TOKEN = 'a-token-of-some-length';
const NOW = Date.UTC(2026, 2, 1);
/** For what a job does meanwhile: the daemon is asked for its page, which costs less than the browser. */
const PATIENTLY = { timeout: 20_000, interval: 500 };

function summary(index: number, more: Partial<Summary> = {}): Summary {
  const good = (word: string) => ({ tone: 'good', word }) as const;
  const answers = {
    fresh: good('Yes'),
    complete: good('Yes'),
    verified: good('Yes'),
    restorable: good('94 %'),
    drift: good('None'),
  };
  return {
    name: `source-${String(index).padStart(4, '0')}`,
    group: `https://${index % 3 === 0 ? 'eu' : 'us'}.example.com`,
    state: 'ok',
    reason: null,
    answers,
    lastCompleteAt: '2026-02-28T23:00:00.000Z',
    isUnreadable: false,
    nextDueAt: '2026-03-01T00:30:00.000Z',
    running: null,
    openFindings: 0,
    lastErrorCode: null,
    ...more,
  };
}

/** Names of the sources in the table, in its order. */
function namesIn(all: readonly Summary[], query: string): string[] {
  const { text } = sourcesPage(all, new URLSearchParams(query), NOW).body;
  return [...text.matchAll(/<bdi[^>]*>(.*?)<\/bdi>/g)].map(([, name = '']) => name);
}

describe('the table of sources', () => {
  const all = [
    summary(1),
    summary(2, { state: 'degraded', reason: { message: '16 removals held', since: null } }),
    summary(3, { openFindings: 7 }),
    summary(4, {
      state: 'failing',
      reason: { message: 'no complete run', since: '2026-02-20T00:00:00.000Z' },
    }),
    summary(5, {
      state: 'failing',
      reason: { message: 'no complete run', since: '2026-02-10T00:00:00.000Z' },
    }),
    summary(6, { state: 'starting', lastErrorCode: 'unauthorized', lastCompleteAt: null }),
    summary(7, { state: null, answers: null, openFindings: null, lastCompleteAt: null, nextDueAt: null }),
  ];
  const named = (...indexes: number[]): string[] => indexes.map((index) => summary(index).name);

  it.each([
    ['', [5, 4, 2, 6, 7, 3, 1]],
    ['sort=-wrong', [1, 3, 7, 6, 2, 4, 5]],
    ['sort=name', [1, 2, 3, 4, 5, 6, 7]],
    ['sort=-name', [7, 6, 5, 4, 3, 2, 1]],
    ['sort=drift', [3, 1, 2, 4, 5, 6, 7]],
    ['sort=constructor', [5, 4, 2, 6, 7, 3, 1]],
    ['only=problems', [5, 4, 2, 6]],
    ['q=HELD', [2]],
    ['q=unauthorized', [6]],
    ['group=https://eu.example.com', [6, 3]],
    ['by=group', [6, 3, 5, 4, 2, 7, 1]],
    ['q=nothing+of+that', []],
  ] as const)('%s', (query, indexes) => {
    expect(namesIn(all, query)).toEqual(named(...indexes));
  });

  it('has pages, and each source is on one of them', () => {
    const many = Array.from({ length: 3_000 }, (_unused, index) => summary(index));
    const pages = Array.from({ length: 16 }, (_unused, index) =>
      namesIn(many, `sort=name&page=${index + 1}`),
    );
    expect(pages.map(({ length }) => length)).toEqual([...Array.from({ length: 15 }, () => 200), 0]);
    expect(new Set(pages.flat()).size).toBe(3_000);
    expect(sourcesPage(many, new URLSearchParams('sort=name&page=2'), NOW).body.text).toMatch(
      /href="\/\?sort=name".*href="\/\?sort=name&amp;page=3"/s,
    );
  });
});

const title = `a daemon of several mirrors in a browser${CHROMIUM === undefined ? ' (skipped: none found; install Chromium or set CHROMIUM)' : ''}`;

describe.skipIf(CHROMIUM === undefined)(title, () => {
  let browser: Browser;
  let sandbox: Awaited<ReturnType<typeof createSandbox>>;
  let service: Awaited<ReturnType<typeof sandbox.listen>>;
  /** One page for all tests: every new one would start a process of the browser. */
  let page: Page;
  let url: string;
  let directory: string;
  let daemon: Running;

  beforeAll(async () => {
    sandbox = await createSandbox({
      clock: systemClock,
      seed: smallDemo(),
      keys: [{ key: KEY, permissions: 'all' }],
    });
    service = await sandbox.listen({ host: '127.0.0.1', port: 0 });
    const cwd = (directory = mkdtempSync(join(tmpdir(), 'tidemark-test-')));
    const rest = 'kinds: { include: [organizations, roles, domains] }, retry: { attempts: 1 }';
    const source = (name: string, key: string): string =>
      `  - { name: ${name}, baseUrl: "${service.url}", apiKey: ${key}, ${rest} }`;
    writeFileSync(
      join(cwd, 'tidemark.yaml'),
      [
        'mirror: ./data/{source}.db',
        'sources:',
        ...['acme', 'beta', 'core'].map((name) => source(name, KEY)),
        source('dead', 'a-key-that-is-refused'),
        'schedules: { sync: { cron: "0 0 1 1 *" }, drift: { cron: "off" }, verify: { cron: "off" }, drill: { cron: "off" } }',
        `http: { listen: "127.0.0.1:0", token: ${TOKEN}, allowRestore: true }`,
      ].join('\n'),
      { mode: 0o600 },
    );
    const run = (...args: string[]) => tidemark(args, { env: {}, cwd });
    await run('sync');
    await run('snapshots', 'pin', 'base', '--source', 'beta');
    await run('snapshots', 'baseline', 'base', '--source', 'beta');
    await patchOrganization(service.url, { enforce_2fa: false });
    await run('sync', '--source', 'beta');
    daemon = begin(['daemon'], { env: {}, cwd });
    for (url = ''; url === '';) {
      await delay(20);
      [, url = ''] = /"url":"(http:[^"]+)"/.exec(daemon.stderr()) ?? [];
    }
    browser = await launch();
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    page = await context.newPage();
    await page.goto(url);
    await page.getByLabel('Token').fill(TOKEN);
    await page.keyboard.press('Enter');
    await page.waitForURL(`${url}/`);
  });
  afterAll(async () => {
    await browser.close();
    daemon.stop();
    await daemon.ended;
    await sandbox.close();
    rmSync(directory, { recursive: true, force: true });
  });

  /** Waits until the daemon answers with that, and opens it. */
  const openOnce = async (path: string, text: string | RegExp): Promise<void> => {
    const headers = { accept: 'text/html' };
    const answer = async (): Promise<string> => (await page.request.get(url + path, { headers })).text();
    await expect.poll(answer, PATIENTLY).toMatch(text);
    await page.goto(url + path);
  };

  it('lists them, worst first; a name leads to the pages of that source, and every link stays there', async () => {
    await openOnce('/', /<tbody.*?<bdi[^>]*>dead</s);
    const names = (): Promise<string[]> => page.locator('tbody th bdi').allInnerTexts();
    expect((await names())[0]).toBe('dead');
    await page.getByRole('searchbox').fill('finding');
    await expect.poll(names).toEqual(['beta']);
    await page.getByRole('link', { name: 'beta' }).click();
    await page.waitForURL(/\?source=beta$/);
    expect(await page.locator('.where').innerText()).toBe('All sources / beta');
    const links = await page.evaluate(
      `[...document.querySelectorAll('a[href^="/"], form')].map((each) => each.getAttribute('href') ?? each.getAttribute('action'))`,
    );
    const apart = /^\/(metrics|readyz|logout)?$/;
    for (const link of links as string[])
      if (!apart.test(link)) expect(link).toMatch(/[?&]source=beta(#|&|$)/);
    for (const name of [
      'Drift',
      'Changes',
      'Runs',
      'Organizations',
      'Records',
      'Drill',
      'Restores',
      'Audit',
    ]) {
      await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name }).click();
      await page.waitForURL(/[?&]source=beta$/);
      expect(await page.locator('.where strong').innerText()).toBe('beta');
      expect(await page.getByRole('heading', { level: 1 }).innerText()).not.toContain('cannot be shown');
    }
    await page.getByRole('link', { name: 'Records' }).click();
    await page.getByLabel('Name or id').fill('kittiwake');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.waitForURL(/source=beta/);
    await page.locator('tbody a').first().click();
    await page.waitForURL(/\/records\/.*source=beta/);
    await page.getByRole('link', { name: 'All sources' }).click();
    await page.waitForURL(`${url}/`);
    // Without a source there is nothing to show but all of them.
    await page.goto(`${url}/drift`);
    expect(page.url()).toBe(`${url}/`);
    await page.goto(`${url}/drift?source=nobody`);
    expect(await page.locator('h1').innerText()).toContain('nobody');
  });

  it('fits 320, 768, 1280 and 1920 pixels in both themes', async () => {
    for (const path of ['/', '/?by=group', '/?source=beta']) {
      await page.goto(url + path);
      for (const width of [320, 768, 1280, 1920]) {
        await page.setViewportSize({ width, height: 900 });
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme });
          const of = [path, width, colorScheme];
          expect([of, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([of, width]);
          expect([of, await poorTexts(page, 4.5)]).toEqual([of, []]);
        }
        // On a phone a name is not squeezed beside the rest.
        if (path === '/' && width === 320)
          expect((await page.locator('tbody th').first().boundingBox())?.width).toBeGreaterThan(240);
      }
    }
  });

  it('acts on the source of the page, and stays on its pages', async () => {
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.goto(`${url}/?source=beta`);
    for (const button of ['Verify', 'Sync now']) {
      await page.getByRole('button', { name: button }).click();
      await page.waitForURL(`${url}/?source=beta`);
    }
    const jobsOf = async (source: string): Promise<string[]> => {
      const answer = await fetch(`${url}/api/v1/jobs?source=${source}`, {
        headers: { authorization: `Bearer ${TOKEN}` },
      });
      const { jobs } = (await answer.json()) as {
        jobs: { name: string; trigger: string; outcome: string }[];
      };
      return jobs
        .filter(({ trigger }) => trigger === 'request')
        .map(({ name, outcome }) => `${name} ${outcome}`);
    };
    await expect.poll(() => jobsOf('beta'), PATIENTLY).toEqual(['sync done', 'verify done']);
    expect(await jobsOf('acme')).toEqual([]);

    await page.goto(`${url}/runs/1?source=acme`);
    await page.getByLabel('Pin this state as').fill('pinned-here');
    await page.getByRole('button', { name: 'Pin' }).click();
    await page.waitForURL(`${url}/runs/1?source=acme`);
    expect(await page.locator('main').innerText()).toMatch(/Pinned as\s+pinned-here/);

    await page.goto(`${url}/drift?source=beta`);
    expect(await page.getByRole('status').first().innerText()).toMatch(/^\d+ findings? in \d+ records?$/);
    await page.getByLabel('Select').first().check();
    await page.getByRole('button', { name: 'Plan a restore' }).click();
    await page.waitForURL(/\/restore\?.*source=beta/);
    await page.getByRole('button', { name: 'Make the plan' }).click();
    await page.waitForURL(/\/restores\/plans\/[^?]+\?source=beta$/);
    const plan = page.url().slice(url.length);
    await openOnce(plan, 'type 1 or beta');
    await page.getByLabel(/type 1 or beta/).fill('beta');
    await page.getByRole('button', { name: 'Apply' }).click();
    await openOnce(plan, 'Applied and verified');
    expect(await page.locator('main').innerText()).toContain('Applied and verified');

    // The daemon syncs after it, and the finding is gone: another one is accepted.
    await openOnce('/drift?source=beta', 'No drift');
    expect(await page.locator('main').innerText()).toContain('No drift');
    await patchOrganization(service.url, { enforce_2fa: false });
    expect((await tidemark(['sync', '--source', 'beta'], { env: {}, cwd: directory })).code).toBe(0);
    await openOnce('/drift?source=beta', 'enforce_2fa');
    await page
      .getByText(/^Accept.*…$/)
      .first()
      .click();
    await page.getByLabel('Reason').first().fill('as agreed');
    await page.getByRole('button', { name: 'Accept' }).first().click();
    await page.waitForURL(/\/drift\?.*accepted=1/);
    await expect.poll(() => page.locator('main').innerText()).toContain('as agreed');
  }, 90_000);
});

async function patchOrganization(service: string, body: object): Promise<void> {
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
  const path = `${service}/api/organizations/${KITTIWAKE_ID}/`;
  const answer = await fetch(path, { method: 'PATCH', headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${answer.status}`);
}
