/** The dashboard in a real browser. Where there is none (CHROMIUM or /usr/bin/chromium), these tests do not run. */
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, CDPSession, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import type { RunningHttpServer } from '../../src/daemon/http/http.ts';
import { planHash } from '../../src/restore/plan/plan.ts';
import { acquireWriterLock } from '../../src/mirror/lock.ts';
import { carelessAdmin } from '../../src/server/seed/careless-admin.ts';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';
import { tellStory } from '../daemon/http/story.ts';
import { smallDemo } from '../server/small-demo.ts';
import { DAY_MS, MINUTE_MS, World } from '../daemon/http/world.ts';
import { CHROMIUM, launch } from './browser.ts';
import { poorTexts } from './contrast.ts';
import { gatherCrowd } from './crowd.ts';
import { alterFile } from '../tools/alter.ts';

const HOSTILE = '<script>alert(1)</script> \u001b[31m red \u202e turned "quoted" \'single\'';
const TOKEN = 'a-token-of-some-length';
const PAGES = [
  '/',
  '/drift',
  '/drift?severity=critical&kind=members&q=level',
  '/changes?days=30',
  '/runs',
  '/runs/11',
  '/records',
  '/records?kind=roles',
  '/records?q=s3',
  '/organizations',
  '/drill',
  '/restores',
  '/audit',
  '/audit?since=30d&action=accept&action=unaccept',
  `/organizations/${KITTIWAKE_ID}`,
  `/records/organizations/${KITTIWAKE_ID}?left=run:1&right=latest`,
] as const;
/** Where the keyboard is tried, one after the other. */
const KEYBOARDS = [
  [1280, 'light'],
  [360, 'dark'],
] as const;
/** Answers 404 with a page: a browser writes that to its console. */
const NOT_THERE = '/records/roles/none';

const title = `the dashboard in a browser${CHROMIUM === undefined ? ' (skipped: none found; install Chromium or set CHROMIUM)' : ''}`;

/** What a checker of accessibility would say first. As text: the types of a browser are not those of our program. */
const SYSTEM_ERRORS = `(() => {
  const found = [];
  const named = (element) => (element.getAttribute('aria-label') ?? element.textContent ?? '').trim() !== '';
  let level = 0;
  for (const heading of document.querySelectorAll('h1, h2, h3, h4')) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) found.push('heading jumps: ' + heading.textContent);
    if (!named(heading)) found.push('empty heading');
    level = own;
  }
  if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
  for (const link of document.querySelectorAll('a, button')) if (!named(link)) found.push('nameless ' + link.outerHTML);
  for (const input of document.querySelectorAll('input:not([type=hidden]):not([hidden]), select')) if ((input.labels ?? []).length === 0) found.push('no label: ' + input.outerHTML);
  for (const table of document.querySelectorAll('table')) {
    if (table.caption === null) found.push('table without caption');
    for (const head of table.querySelectorAll('th')) if (!head.hasAttribute('scope')) found.push('th without scope');
  }
  for (const svg of document.querySelectorAll('svg')) if (svg.getAttribute('aria-hidden') !== 'true' && !svg.hasAttribute('aria-label')) found.push('nameless svg');
  const ids = [...document.querySelectorAll('[id]')].map(({ id }) => id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push('twice: ' + id);
  for (const element of document.querySelectorAll('[aria-labelledby]')) if (document.getElementById(element.getAttribute('aria-labelledby')) === null) found.push('label not there');
  if (document.querySelector('main') === null || document.documentElement.lang === '') found.push('no main or no language');
  return found;
})()`;

/** What is cut off at the side, or would have to be moved aside to be read: nothing, also when all is unfolded. */
const TOO_WIDE = `(() => {
  for (const fold of document.querySelectorAll('details')) fold.open = true;
  const name = (element) => element.tagName + '.' + element.className + ' ' + (element.getAttribute('aria-label') ?? '');
  const found = document.documentElement.scrollWidth > innerWidth ? ['the page by ' + (document.documentElement.scrollWidth - innerWidth)] : [];
  for (const element of document.querySelectorAll('main *, nav'))
    if (element.scrollWidth > element.clientWidth && getComputedStyle(element).overflowX === 'auto') found.push(name(element));
  return found;
})()`;

/** What makes the page wider than the window: nothing, however narrow that is. */
const WIDER = `(document.documentElement.scrollWidth > innerWidth ? [document.documentElement.scrollWidth] : [])`;

/** Where the keyboard stops: all that acts, and what may scroll. */
const STOPS = `[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')].filter((element) => element.checkVisibility())`;

/** From now on, notes at each key which of the stops has the focus, and what is wrong with how it shows. */
const WATCH_FOCUS = `(() => {
  const stops = ${STOPS};
  const reached = (window.reached = []);
  document.addEventListener('keyup', () => {
    const focused = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(focused);
    const { left, right, top, bottom } = focused.getBoundingClientRect();
    const problem = [];
    if (outlineStyle !== 'solid' || Number.parseFloat(outlineWidth) < 2) problem.push('no outline');
    if (left < 0 || right > innerWidth || bottom <= 0 || top >= innerHeight) problem.push('out of sight');
    reached.push({ stop: stops.indexOf(focused), problem: problem.map((each) => each + ': ' + focused.outerHTML) });
  });
  return stops.length;
})()`;

/** Presses Tab so many times, one after the other; a round trip for each would take longer than what the page does. */
async function pressTab(page: Page, times: number): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const tab = { key: 'Tab', code: 'Tab', windowsVirtualKeyCode: 9 };
  const presses = Array.from({ length: times }, () => [
    session.send('Input.dispatchKeyEvent', { ...tab, type: 'rawKeyDown' }),
    session.send('Input.dispatchKeyEvent', { ...tab, type: 'keyUp' }),
  ]);
  await Promise.all(presses.flat());
  await session.detach();
}

/** The theme in which the outline of what has the focus stands out by 3 to 1 (WCAG 2.2, 1.4.11) from every ground that it may lie on. */
const RING = `(() => {
  const probe = document.createElement('i');
  document.body.append(probe);
  const luminance = (name) => {
    probe.style.color = 'var(--' + name + ')';
    const [r, g, b] = getComputedStyle(probe).color.match(/[\\d.]+/g).map((part) => {
      const share = Number(part) / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ring = luminance('focus');
  const poor = ['paper', 'raised', 'sunk', 'warn-ground', 'bad-ground'].filter((name) => {
    const [light, dark] = [ring, luminance(name)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05) < 3;
  });
  probe.remove();
  return poor.length > 0 ? poor : matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
})()`;

function runningSync(records: number, waitingUntil: number | null = null): World['runningShown'] {
  const roles = { kind: 'roles', records, expected: 1_000, lists: 1, failed: 0, pending: 2 } as const;
  const progress = { requests: 7, waitingUntil, records, pages: 2, isLocal: false, kinds: [roles] };
  const [name, trigger, source] = ['sync', 'schedule', 'default'] as const;
  return [{ job: 99, name, source, trigger, startedAt: '2026-03-10T07:19:00.000Z', progress }];
}

/** A proxy with `url` below a path, which it keeps or strips, and nothing elsewhere; its own URL. */
async function proxyBelow(path: string, url: string, isKept: boolean): Promise<string> {
  const proxy = createServer((asked, answer) => {
    const target = asked.url ?? '/';
    if (target !== path && !target.startsWith(`${path}/`)) {
      answer.writeHead(404).end('another program');
      return;
    }
    const { method = 'GET', headers } = asked;
    const passed = request(url + (isKept ? target : target.slice(path.length)), { method, headers });
    passed.on('response', (got) => {
      answer.writeHead(got.statusCode ?? 502, got.headers);
      got.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    answer.on('close', () => passed.destroy());
    asked.pipe(passed);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  onTestFinished(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}

/** The plan that a record's history leads to. */
async function planPath(url: string): Promise<string> {
  const html = await (await fetch(`${url}/records/organizations/${KITTIWAKE_ID}`)).text();
  const [, found] = /href="(\/restore\?[^"]+)"/.exec(html) ?? [];
  if (found === undefined) throw new Error('no version to restore');
  return found.replaceAll('&amp;', '&');
}

/** Records that a page leads to. */
async function recordPaths(url: string, path: string): Promise<string[]> {
  const html = await (await fetch(url + path)).text();
  return [...html.matchAll(/href="(\/records\/[^"]+)"/g)].map(([, found = '']) => found);
}

describe.skipIf(CHROMIUM === undefined)(title, () => {
  const ends: (() => Promise<void>)[] = [];
  const later = (end: () => Promise<void>): void => void ends.push(end);
  let browser: Browser;
  let world: World;
  let http: RunningHttpServer;
  beforeAll(async () => {
    [browser, world] = await Promise.all([launch(), World.create({}, later, smallDemo)]);
    await world.send('POST', `/api/organizations/${KITTIWAKE_ID}/roles/`, { name: HOSTILE });
    await tellStory(world);
    http = await world.listen({}, later);
  });
  afterAll(async () => {
    await browser.close();
    for (const end of ends.reverse()) await end();
  });

  interface Opened {
    readonly page: Page;
    readonly session: CDPSession;
    width: number;
    scheme: 'light' | 'dark';
    /** What its pages may ask for begins with this. */
    base: string;
    problem: string[];
  }
  /** The pages of all tests, by whether they run scripts: every new one would start a process of the browser. */
  const opened = new Map<boolean, Opened>();

  // A page lets go of the server, which may be the test's own, and shows the next test nothing of this one.
  afterEach(async () => {
    for (const { page } of opened.values()) {
      await page.goto('about:blank');
      await page.context().clearCookies();
    }
  });

  async function newPage(hasScripts: boolean): Promise<Opened> {
    const context = await browser.newContext({ javaScriptEnabled: hasScripts, viewport: null });
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    const made: Opened = { page, session, width: 0, scheme: 'light', base: http.url, problem: [] };
    page.on('console', (message) => made.problem.push(`console: ${message.text()}`));
    page.on('pageerror', (error) => made.problem.push(`error: ${error.message}`));
    page.on('dialog', (dialog) => {
      made.problem.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(made.base)) made.problem.push(`request: ${request.url()}`);
    });
    opened.set(hasScripts, made);
    return made;
  }

  function openedOf(page: Page): Opened {
    const own = [...opened.values()].find((each) => each.page === page);
    if (own === undefined) throw new Error('not a page of newPage');
    return own;
  }

  /** Only the page gets another size: `setViewportSize` would draw the browser's own window each time as well. */
  async function resize(page: Page, width: number): Promise<void> {
    const own = openedOf(page);
    if (own.width === width) return;
    own.width = width;
    const size = { width, height: 900, deviceScaleFactor: 1, mobile: false };
    await own.session.send('Emulation.setDeviceMetricsOverride', size);
  }

  async function setScheme(page: Page, scheme: 'light' | 'dark'): Promise<void> {
    const own = openedOf(page);
    if (own.scheme === scheme) return;
    own.scheme = scheme;
    await page.emulateMedia({ colorScheme: scheme });
  }

  /** Opens `path` in place of what this test opened before; `problem` has what goes wrong from now on. */
  async function open(
    path: string,
    how: { url?: string; width?: number; scheme?: 'light' | 'dark'; hasScripts?: boolean } = {},
  ): Promise<{ page: Page; problem: string[] }> {
    const own = opened.get(how.hasScripts ?? true) ?? (await newPage(how.hasScripts ?? true));
    own.base = how.url ?? http.url;
    own.problem = [];
    await resize(own.page, how.width ?? 1280);
    await setScheme(own.page, how.scheme ?? 'light');
    await own.page.goto(own.base + path);
    return { page: own.page, problem: own.problem };
  }

  /** All has a label, fits a phone and a desktop, and stands out by 4.5 to 1. */
  async function expectReadable(page: Page, path: string): Promise<void> {
    expect([path, await page.evaluate(SYSTEM_ERRORS)]).toEqual([path, []]);
    for (const width of [320, 360, 390, 768, 1280]) {
      await resize(page, width);
      expect([path, width, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([
        path,
        width,
        width,
      ]);
      // 320 is a page of 1280 enlarged four times: what is a table may scroll there (WCAG 2.2, 1.4.10).
      if (width > 320) expect([path, width, await page.evaluate(TOO_WIDE)]).toEqual([path, width, []]);
      if (width !== 390) continue;
      for (const colorScheme of ['dark', 'light'] as const) {
        await setScheme(page, colorScheme);
        expect([path, colorScheme, await poorTexts(page, 4.5)]).toEqual([path, colorScheme, []]);
      }
    }
  }

  /** The keyboard reaches all that acts, in its order, and sees where it is. `isFresh`: no key was pressed on the page. */
  async function expectReachable(page: Page, path: string, isFresh: boolean): Promise<void> {
    const stops = Number(await page.evaluate(WATCH_FOCUS));
    if (!isFresh) await page.evaluate(`${STOPS}[0].focus(); document.dispatchEvent(new Event('keyup'))`);
    await pressTab(page, isFresh ? stops : stops - 1);
    const expected = Array.from({ length: stops }, (_unused, stop) => ({ stop, problem: [] }));
    expect([path, await page.evaluate('window.reached')]).toEqual([path, expected]);
    // The first skips the navigation: what comes next stands in the content.
    await page.evaluate(`${STOPS}[0].focus()`);
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content');
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.id')).toBe('main');
    await page.keyboard.press('Tab');
    const first = `document.activeElement === ${STOPS}.find((element) => element.closest('main') !== null)`;
    expect([path, await page.evaluate(first)]).toEqual([path, true]);
  }

  it('every page: no error, nothing from elsewhere, all has a label; fits a phone and a desktop; texts stand out by 4.5 to 1; the keyboard reaches all that acts', async () => {
    const changed = await recordPaths(http.url, '/changes?days=30');
    const exports = await recordPaths(http.url, '/records?kind=batch_exports');
    const plan = await planPath(http.url);
    const whole = [...PAGES, ...changed.slice(0, 3), ...exports.slice(0, 1), plan];
    const byKeyboard: readonly string[] = [...PAGES, ...changed.slice(0, 1), plan, NOT_THERE];
    for (const path of [...whole, NOT_THERE, '/no/such/page']) {
      const { page, problem } = await open(path);
      // Before what is folded is unfolded.
      for (const [width, scheme] of byKeyboard.includes(path) ? KEYBOARDS : []) {
        await resize(page, width);
        await setScheme(page, scheme);
        expect([path, await page.evaluate(RING)]).toEqual([path, scheme]);
        await expectReachable(page, path, width === 1280);
      }
      if (whole.includes(path)) expect([path, problem]).toEqual([path, []]);
      await expectReadable(page, path);
    }
    for (const scheme of ['light', 'dark'] as const) {
      const { page } = await open('/drift', { scheme });
      expect(await poorTexts(page, 4.5)).toEqual([]);
      // Nothing but black on white would pass this: the measure does look.
      expect(await poorTexts(page, 21)).not.toEqual([]);
    }
  });

  it('two sources, the longest names and long problems fit too', async () => {
    const crowd = await World.create({}, undefined, smallDemo);
    await gatherCrowd(crowd);
    const { url } = await crowd.listen();
    const [record = ''] = await recordPaths(url, '/changes?days=30');
    const ofTwo = `/records/organizations/${KITTIWAKE_ID}`;
    const pages = [
      '/',
      '/drift',
      '/changes',
      '/runs',
      '/runs/3',
      '/records',
      '/records?q=s3',
      ofTwo,
      record,
      '/organizations',
      `/organizations/${KITTIWAKE_ID}`,
    ];
    for (const path of pages) {
      const { page } = await open(path, { url });
      for (const width of [360, 390, 1280]) {
        await resize(page, width);
        expect([path, width, await page.evaluate(TOO_WIDE)]).toEqual([path, width, []]);
      }
    }
    // What runs is reported by its mark and word, not set apart like a note. Its writer holds the lock of the mirror.
    const holder = { command: 'sync', pid: process.pid, host: 'here', since: '2026-03-10T07:19:00.000Z' };
    const lock = acquireWriterLock(crowd.mirrorPath, holder);
    onTestFinished(() => {
      lock.release();
    });
    const { page } = await open('/runs', { url, width: 360 });
    const running =
      "[...document.querySelectorAll('.tone')].find(({ textContent }) => textContent === 'running')";
    expect(await page.evaluate(`getComputedStyle(${running}).padding`)).toBe('0px');
  });

  it('on a phone each run tells its outcome, when it was, how long it took and what changed', async () => {
    for (const path of ['/runs', '/']) {
      const { page } = await open(path, { width: 360 });
      const rows = page.getByRole('region', { name: 'Runs', exact: true }).locator('tbody tr');
      expect(await rows.first().innerText()).toMatch(/^11\s+complete\s+20 min ago\s+1\.\d s\s+\d+ added$/);
      await resize(page, 1280);
      expect(await rows.first().innerText()).toMatch(
        /^11\s+complete\s+20 min ago\s+1\.\d s\s+\d+\s+0\s+0\s+\d+\s+schedule$/,
      );
    }
    const { page } = await open('/runs', { width: 360 });
    // It is still a table to who has it read out, with the heads that nobody sees.
    const row = page
      .getByRole('row')
      .filter({ has: page.getByRole('rowheader', { name: '3', exact: true }) });
    expect(await row.getByRole('cell').allInnerTexts()).toEqual(
      expect.arrayContaining(['partial', '7 d ago', 'nothing changed']),
    );
    expect(await page.getByRole('columnheader').allInnerTexts()).toEqual([
      ...['Run', 'Outcome', 'When', 'Took', 'What changed'],
    ]);
  });

  it('what is whole shows on a phone without being moved aside', async () => {
    const { page } = await open('/', { width: 390 });
    const hidden = (caption: string): Promise<unknown> =>
      page.evaluate(
        `(() => { const table = document.querySelector('[aria-label="${caption}"]'); return table.scrollWidth - table.clientWidth; })()`,
      );
    for (const caption of ['Kinds of default', 'Schedules', 'Latest jobs']) {
      expect([caption, await hidden(caption)]).toEqual([caption, 0]);
    }
  });

  it('what went wrong fits too, and can be read in both themes: a failed run, held removals, no run at all', async () => {
    const own = await World.create();
    const { url } = await own.listen();
    const check = async (paths: readonly string[]): Promise<void> => {
      for (const path of paths) {
        const { page } = await open(path, { url });
        for (const [width, scheme] of [
          [320, 'dark'],
          [768, 'light'],
          [1280, 'light'],
          [1920, 'light'],
        ] as const) {
          await resize(page, width);
          const of = [path, width];
          expect([of, await page.evaluate(width === 320 ? WIDER : TOO_WIDE)]).toEqual([of, []]);
          if (width > 768) continue;
          await setScheme(page, scheme);
          expect([of, await poorTexts(page, 4.5)]).toEqual([of, []]);
        }
        expect([path, await page.evaluate(SYSTEM_ERRORS)]).toEqual([path, []]);
      }
    };
    own.write(() => null);
    await check(['/', '/drift', '/changes', '/runs', '/organizations', '/records', '/drill', '/restores']);
    const first = await own.sync();
    own.write((mirror) => {
      mirror.snapshots.pin('as-approved', first);
      mirror.snapshots.setBaseline('as-approved');
    });
    const exports = await own.ids(`/api/organizations/${KITTIWAKE_ID}/batch_exports/`);
    for (const id of exports)
      await own.send('DELETE', `/api/organizations/${KITTIWAKE_ID}/batch_exports/${id}/`, undefined);
    own.clock.at += DAY_MS;
    await own.sync(undefined, undefined, 0);
    own.clock.at += DAY_MS;
    await own.sync('a-key-that-is-refused');
    const { page } = await open('/', { url });
    expect(await page.locator('.needs').innerText()).toMatch(/held/);
    await check(['/', '/drift', '/runs', '/runs/2', '/runs/3', `/organizations/${KITTIWAKE_ID}`]);
  });

  it('the columns of the charts stand out from their ground by 3 to 1', async () => {
    for (const scheme of ['light', 'dark'] as const) {
      const { page } = await open('/', { scheme });
      // As text: what the measure looks at is text alone.
      await page.evaluate(`for (const name of ['complete', 'partial', 'failed']) {
        const text = document.createElement('p');
        text.id = 'as-' + name;
        text.textContent = name;
        const bar = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
        bar.setAttribute('class', 'part-' + name);
        document.querySelector('svg.columns').append(bar);
        text.style.color = getComputedStyle(bar).fill;
        document.querySelector('.drawing').append(text);
      }`);
      const poor = (await poorTexts(page, 3)) as { text: string }[];
      expect(poor).toEqual([]);
    }
  });

  it('while a job runs, its numbers follow by events; without script the page is loaded again', async () => {
    const of = runningSync;
    world.runningShown = of(5);
    try {
      const { page, problem } = await open('/', { width: 390 });
      expect(await page.locator('#activity').textContent()).toContain('Running now');
      expect(await page.evaluate(TOO_WIDE)).toEqual([]);
      expect(await page.evaluate(SYSTEM_ERRORS)).toEqual([]);
      expect(await poorTexts(page, 4.5)).toEqual([]);
      world.runningShown = of(750);
      await page.locator('[data-count="99/roles"]', { hasText: '750' }).waitFor();
      expect(await page.locator('[data-bar="99/roles"]').getAttribute('value')).toBe('750');
      world.runningShown = of(760, Date.parse('2026-03-10T07:21:40Z'));
      const wait = page.locator('[data-wait="99"]', { hasText: 'no requests until 2026-03-10 ' });
      await wait.waitFor();
      expect(await wait.textContent()).toContain(':21:40 ');
      world.runningShown = of(770);
      await wait.waitFor({ state: 'detached' });
      // The counts have one place: a second one would lag behind the events.
      expect(await page.locator('main').textContent()).toContain('sync of default is running.');
      world.runningShown = [];
      await page.locator('#activity').waitFor({ state: 'detached' });
      expect(problem).toEqual([]);
      world.runningShown = of(5);
      const plain = await open('/', { hasScripts: false });
      expect(await plain.page.content()).toContain('http-equiv="refresh"');
    } finally {
      world.runningShown = [];
    }
  });

  it('what a record is called acts on nothing', async () => {
    const { page, problem } = await open('/records?kind=roles');
    const link = page.getByRole('link', { name: 'alert(1)' });
    await link.click();
    await page.waitForURL(/\/records\/roles\//);
    expect(await page.locator('h1').textContent()).toContain(
      '<script>alert(1)</script> \\u{001b}[31m red \\u{202e} turned',
    );
    expect(await page.locator('script').count()).toBe(1);
    expect(problem).toEqual([]);
  });

  it('answers first: fresh, complete, verified, restorable, drift; then what needs manual work', async () => {
    const { page } = await open('/');
    expect(await page.locator('h1').textContent()).toBe('The mirror is current; the service has drifted');
    const answers = await page.locator('.answers li').allInnerTexts();
    expect(
      answers.map((text) =>
        text
          .split('\n')
          .filter((line) => line !== '')
          .slice(0, 2),
      ),
    ).toEqual([
      ['Fresh', 'Yes'],
      ['Complete', 'Yes'],
      ['Verified', 'Yes'],
      ['Restorable', '94 %'],
      ['Drift', expect.stringMatching(/^\d+ findings$/)],
    ]);
    world.clock.at += 120 * MINUTE_MS;
    try {
      await page.reload();
      expect(await page.locator('h1').textContent()).toContain('failing');
      expect(await page.locator('.needs li').first().textContent()).toContain('the last complete run ended');
      expect(await page.title()).toContain('Failing');
    } finally {
      world.clock.at -= 120 * MINUTE_MS;
    }
  });

  it('renews itself without losing focus, place, or what the reader unfolded', async () => {
    const { page, problem } = await open('/drift');
    const fold = page.locator('details.rest').first();
    await fold.locator('summary').click();
    await fold.locator('summary').focus();
    await page.evaluate("scrollTo(0, 300); window.first = document.querySelector('article')");
    const before = await page.locator('.foot').textContent();
    world.clock.at += MINUTE_MS;
    try {
      await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
      await expect.poll(() => page.locator('.foot').textContent()).not.toBe(before);
    } finally {
      world.clock.at -= MINUTE_MS;
    }
    expect(await fold.getAttribute('open')).toBe('');
    expect(await page.evaluate('document.activeElement.tagName')).toBe('SUMMARY');
    expect(await page.evaluate('scrollY')).toBe(300);
    expect(await page.evaluate("document.querySelector('article') === window.first")).toBe(true);
    expect(problem).toEqual([]);
  });

  const shownRecords = (page: Page): Promise<string[]> => page.locator('article h3').allInnerTexts();

  it('drift is filtered by severity, change, kind and text while it is typed, and what is selected stays', async () => {
    const { page, problem } = await open('/drift');
    const all = await shownRecords(page);
    expect(all.length).toBeGreaterThan(5);
    await page.keyboard.press('/');
    await page.keyboard.type('LEVEL members');
    await page.waitForURL(/q=LEVEL\+members$/);
    await expect.poll(() => shownRecords(page)).not.toEqual(all);
    const members = await shownRecords(page);
    for (const text of await page.locator('article').allInnerTexts())
      expect(text).toMatch(/member.*\/level/is);
    const inAll = new RegExp(
      `findings? in ${members.length} records?, of \\d+ findings in ${all.length} records\\. Show all$`,
    );
    expect(await page.getByRole('status').first().innerText()).toMatch(inAll);
    expect(page.url()).toBe(`${http.url}/drift?q=LEVEL+members`);
    expect(await page.evaluate('document.activeElement.name')).toBe('q');
    // The address alone gives the same page.
    await page.reload();
    expect(await shownRecords(page)).toEqual(members);
    await page.getByRole('searchbox').focus();
    await page.keyboard.press('Escape');
    await expect.poll(() => shownRecords(page)).toEqual(all);
    expect(page.url()).toBe(`${http.url}/drift`);
    const picked = page.locator('article.is-critical').first();
    const name = await picked.locator('h3').innerText();
    const value = await picked.getByLabel('Select').getAttribute('value');
    await picked.getByLabel('Select').check();
    await page.getByRole('group', { name: 'Severity' }).getByLabel('high').check();
    await expect.poll(() => page.getByRole('status').first().innerText()).toContain(' of ');
    expect(await shownRecords(page)).toContain(name);
    expect(await page.locator('article.is-critical').count()).toBe(1);
    expect(await page.locator('article.is-medium').count()).toBe(0);
    await page.getByRole('button', { name: 'Plan a restore' }).click();
    await page.waitForURL(/\/restore\?/);
    expect(new URL(page.url()).searchParams.getAll('record')).toEqual([value]);
    // A copied command is one line, and no option of it is broken at its dashes.
    await resize(page, 390);
    expect(await page.locator('pre.command').innerText()).toMatch(
      /^tidemark restore baseline --source default --kind \S+ --id \S+ --apply$/,
    );
    // As text: the types of a browser are not those of our program.
    const heights = await page.evaluate<number[]>(
      "[...document.querySelectorAll('pre.command .word')].map((word) => word.getBoundingClientRect().height)",
    );
    expect(new Set(heights).size).toBe(1);
    expect(problem).toEqual([]);
  });

  it('all records with drift are selected by one box, also by the keyboard; without script there is none', async () => {
    const { page, problem } = await open('/drift');
    const all = page.getByLabel('Select all');
    const boxes = page.locator('input[name=record]');
    const isChecked = (): Promise<boolean[]> =>
      page.evaluate("[...document.querySelectorAll('input[name=record]')].map(({ checked }) => checked)");
    await all.focus();
    await page.keyboard.press('Space');
    expect(new Set(await isChecked())).toEqual(new Set([true]));
    await boxes.first().uncheck();
    expect(await all.isChecked()).toBe(false);
    await boxes.first().check();
    expect(await all.isChecked()).toBe(true);
    await page.getByRole('button', { name: 'Plan a restore' }).click();
    await page.waitForURL(/\/restore\?/);
    expect(new URL(page.url()).searchParams.getAll('record').length).toBeGreaterThan(5);
    expect(problem).toEqual([]);
    const plain = await open('/drift', { hasScripts: false });
    expect(await plain.page.getByLabel('Select all').isVisible()).toBe(false);
  });

  it('drift by severity: boxes, counters and records count the same findings', async () => {
    const { page } = await open('/drift');
    const boxes = page.getByRole('group', { name: 'Severity' }).locator('label');
    const status = page.getByRole('status').first();
    const counts = (await boxes.allInnerTexts()).map((text) => Number(/(\d+)$/.exec(text.trim())?.[1]));
    const [, inAll = ''] = /^(\d+) findings in \d+ records$/.exec(await status.innerText()) ?? [];
    expect(counts).toHaveLength(4);
    expect(counts.reduce((sum, each) => sum + each)).toBe(Number(inAll));
    expect(await page.locator('h1').innerText()).toBe(`${inAll} drift findings`);
    for (const [index, severity] of ['critical', 'high', 'medium', 'low'].entries()) {
      await page.goto(`${http.url}/drift?severity=${severity}`);
      const found = counts[index] ?? NaN;
      const articles = page.locator('article');
      const records = await articles.count();
      expect(await status.innerText()).toMatch(
        new RegExp(
          `^${found} ${severity} findings? in ${records} records?, of ${inAll} findings in \\d+ records\\. Show all$`,
        ),
      );
      expect(await page.locator(`article.is-${severity}`).count()).toBe(records);
      expect(await page.locator('.stats li').allInnerTexts()).toEqual(
        found === 0 ? [] : [expect.stringMatching(new RegExp(`^${found}\\s+\\S+ ${severity}$`))],
      );
      // A record that was added or removed is one finding; of a changed record each field is one.
      const whole = await articles.filter({ has: page.locator('.tag.added, .tag.removed') }).count();
      const fields = await articles
        .filter({ has: page.locator('.tag.changed') })
        .locator('.field')
        .count();
      expect([severity, whole + fields]).toEqual([severity, found]);
    }
  });

  it('drift is filtered without script too', async () => {
    const { page } = await open('/drift', { hasScripts: false });
    await page.getByRole('group', { name: 'Severity' }).getByLabel('critical').check();
    await page.getByText(/^\d+ kinds$/).click();
    await page
      .getByRole('group', { name: 'Kind' })
      .getByLabel(/^Members/)
      .check();
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.waitForURL(/severity=critical&kind=members/);
    expect(await page.locator('article').count()).toBeGreaterThan(0);
    expect(await page.locator('article').count()).toBe(await page.locator('article.is-critical').count());
    expect(
      await page
        .getByRole('group', { name: 'Kind' })
        .getByLabel(/^Members/)
        .isChecked(),
    ).toBe(true);
    await page.getByRole('searchbox').fill('nothing is called that');
    await page.keyboard.press('Enter');
    await page.getByText('Nothing matches the filter.').waitFor();
    await page.getByRole('link', { name: 'Show all' }).click();
    await page.waitForURL(`${http.url}/drift`);
  });

  it('a box of a record stays that of the record when others come before it', async () => {
    const own = await World.create();
    const first = await own.sync();
    own.write((mirror) => {
      mirror.snapshots.pin('as-approved', first);
      mirror.snapshots.setBaseline('as-approved');
    });
    for (const { method, path, body } of carelessAdmin()) await own.send(method, path, body);
    own.clock.at += MINUTE_MS;
    await own.sync();
    const side = await own.listen();
    const { page } = await open('/drift', { url: side.url });
    const pairs = (): Promise<unknown> =>
      page.evaluate(
        `[...document.querySelectorAll('article')].map((each) => [each.querySelector('h3').textContent, each.querySelector('input')?.value])`,
      );
    await own.send('PATCH', `/api/organizations/${KITTIWAKE_ID}/`, { name: 'Renamed' });
    own.clock.at += MINUTE_MS;
    await own.sync();
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await expect.poll(() => page.locator('article', { hasText: 'Renamed' }).count()).toBeGreaterThan(0);
    const live = (await pairs()) as unknown[];
    expect(live.length).toBeGreaterThan(5);
    await page.reload();
    expect(live).toEqual(await pairs());
  });

  it('shows what a sync found without being asked again, and says when nobody answers', async () => {
    const own = await World.create();
    const side = await own.listen();
    await own.sync();
    const { page } = await open('/runs', { url: side.url });
    expect(await page.locator('tbody tr').count()).toBe(1);
    own.clock.at += MINUTE_MS;
    await own.sync();
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await expect.poll(() => page.locator('tbody tr').count()).toBe(2);
    await side.close();
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await expect.poll(() => page.getByRole('status').textContent()).toContain('does not answer');
  });

  it('keeps the answer to a form that was refused, and says that the daemon answers with an error where it does', async () => {
    const own = await World.create();
    await own.sync();
    const side = await own.listen();
    const { page } = await open('/runs', { url: side.url });
    await page.evaluate(`(() => {
      const form = document.createElement('form');
      form.method = 'post';
      form.action = '/actions/job';
      form.innerHTML = '<input name="job" value="none">';
      document.body.append(form);
      form.submit();
    })()`);
    await page.waitForURL(/actions/);
    const said = 'This needs a token';
    expect(await page.locator('main').textContent()).toContain(said);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await page.evaluate('fetch("/healthz").then(() => undefined, () => undefined)');
    expect(asked.filter((url) => url.includes('/actions/'))).toEqual([]);
    expect(await page.locator('#lost').textContent()).toBe('');
    expect(await page.locator('main').textContent()).toContain(said);

    await page.goto(`${side.url}/runs`);
    await page.route('**/runs', (route) => route.fulfill({ status: 503, body: 'no' }));
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await expect.poll(() => page.locator('#lost').textContent()).toContain('answers with an error (503)');
    await page.unroute('**/runs');
  });

  it('without scripts every page is whole, and the search works', async () => {
    const { page } = await open('/records', { hasScripts: false });
    await page.getByLabel('Name or id').fill('owen');
    await page.getByRole('combobox', { name: 'Kind' }).selectOption('members');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByRole('link', { name: /owen/ }).first().click();
    expect(await page.locator('h1').textContent()).toContain('owen');
    expect(await page.locator('pre.body').textContent()).toContain('"level"');
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    expect(await page.locator('tbody tr').count()).toBe(11);
  });

  it('so are the pages of a restore, of a record that it created again, and of what another program altered', async () => {
    const own = await World.create();
    const roles = `/api/organizations/${KITTIWAKE_ID}/roles/`;
    const lost = async (): Promise<string> => {
      await own.sync();
      const found = [...own.mirror().records.read({ kinds: ['roles'] })];
      return found.find(({ body }) => body.includes('"Lost"'))?.id ?? '';
    };
    await own.send('POST', roles, { name: 'Lost' });
    const old = await lost();
    await own.send('DELETE', `${roles}${old}/`, undefined);
    await own.send('POST', roles, { name: 'Lost' });
    const id = await lost();
    own.write((mirror) => {
      const scope = { organization_id: KITTIWAKE_ID };
      const at = new Date(own.clock.at).toISOString();
      const planned = { n: 1, action: 'create', kind: 'roles', scope, id: old, name: 'Lost', fields: [] };
      const rest = {
        ...{ from: { ref: 'latest' }, to: { ref: 'live' }, adopted: [], left: [], refused: [] },
        ...{ steps: [{ ...planned, request: null, reason: null }], summary: {}, cost: {} },
      } as unknown as Parameters<typeof planHash>[0];
      const plan = JSON.stringify({ schema: 'tidemark.plan/1', plan: planHash(rest), ...rest });
      const restore = mirror.restores.begin({
        ...{ source: 'default', planHash: 'abc', plan, from: 'latest', approved: {}, startedAt: at },
        steps: [{ n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null }],
      });
      const place = { source: 'default', kind: 'roles' as const, oldScope: scope, newScope: scope };
      const mappings = [{ ...place, oldId: old, newId: id, restore, at }];
      for (const row of mirror.restores.steps(restore))
        mirror.restores.journal([{ row: { ...row, outcome: 'applied', newId: id }, mappings }]);
      mirror.restores.finish(restore, 'complete', at);
    });
    alterFile(
      own.mirrorPath,
      `UPDATE restores SET started_by = 'nobody'; UPDATE runs SET "trigger" = 'request' WHERE run = 1`,
    );
    const { url } = await own.listen();
    const told = {
      '/restores': 'is not as it was recorded',
      '/restores/1': 'is not as it was recorded',
      [`/records/roles/${id}`]: 'restore 1',
      '/runs': 'the row of run 1 is not as it was written',
      '/runs/1': 'the row of run 1 is not as it was written',
    };
    for (const [path, text] of Object.entries(told)) {
      const { page, problem } = await open(path, { url });
      expect(await page.locator('main').textContent(), path).toContain(text);
      expect([path, problem]).toEqual([path, []]);
      await expectReadable(page, path);
    }
  });

  it('times are of the zone of the browser, with UTC as title; without script they are UTC', async () => {
    const path = `/records/organizations/${KITTIWAKE_ID}`;
    const time = 'main time[data-clock]';
    const plain = (await open(path, { hasScripts: false })).page.locator(time).first();
    const utc = (await plain.textContent()) ?? '';
    expect(utc).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d UTC$/);
    const context = await browser.newContext({ timezoneId: 'Asia/Kolkata' });
    onTestFinished(() => context.close());
    const page = await context.newPage();
    await page.goto(http.url + path);
    const local = page.locator(time).first();
    expect(await local.getAttribute('title')).toBe(utc);
    const there = new Date(Date.parse(utc.replace(' UTC', 'Z')) + 330 * MINUTE_MS);
    expect(await local.textContent()).toBe(`${there.toISOString().slice(0, 16).replace('T', ' ')} GMT+5:30`);
    expect(await page.locator('main').innerText()).not.toMatch(/\d\d:\d\d UTC/);
  });

  it('a token is asked for once', async () => {
    const side = await world.listen({ token: new Secret(TOKEN) });
    for (const scheme of ['light', 'dark'] as const) {
      const { page } = await open('/login', { url: side.url, width: 320, scheme });
      expect(await page.evaluate(WIDER)).toEqual([]);
      expect(await poorTexts(page, 4.5)).toEqual([]);
      expect(await page.evaluate(RING)).toBe(scheme);
    }
    const { page, problem } = await open('/runs', { url: side.url, width: 360 });
    expect(new URL(page.url()).pathname).toBe('/login');
    expect(await page.evaluate(TOO_WIDE)).toEqual([]);
    expect(await page.evaluate(SYSTEM_ERRORS)).toEqual([]);
    expect(await poorTexts(page, 4.5)).toEqual([]);
    await page.getByLabel('Token').fill(TOKEN);
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/runs$/);
    expect(await page.locator('h1').textContent()).toBe('Runs');
    expect(await page.evaluate(TOO_WIDE)).toEqual([]);
    expect(problem).toEqual([]);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.waitForURL(/\/login/);
  });

  it.each(['strips', 'keeps'] as const)('works below the path of a proxy that %s it', async (how) => {
    const token = new Secret(TOKEN);
    const side = await world.listen({ token, publicUrl: 'https://ops.example.com/tidemark' });
    const url = `${await proxyBelow('/tidemark', side.url, how === 'keeps')}/tidemark`;
    const { page, problem } = await open('/runs', { url });
    await page.getByLabel('Token').fill(TOKEN);
    await page.keyboard.press('Enter');
    await page.waitForURL(`${url}/runs`);
    expect(await page.context().cookies()).toMatchObject([{ path: '/tidemark' }]);

    // Live progress: only with the stream of events, which the page asks for below the path too.
    world.runningShown = runningSync(5);
    onTestFinished(() => void (world.runningShown = []));
    await page.locator('a.brand').click();
    await page.waitForURL(`${url}/`);
    await page.locator('[data-count="99/roles"]', { hasText: '5' }).waitFor();
    world.runningShown = runningSync(750);
    await page.locator('[data-count="99/roles"]', { hasText: '750' }).waitFor();
    world.runningShown = [];
    await page.locator('#activity').waitFor({ state: 'detached' });

    const asked = world.asked.length;
    await page.getByRole('button', { name: 'Sync now' }).click();
    await expect.poll(() => world.asked.length).toBe(asked + 1);
    await page.waitForURL(`${url}/`);

    await page.getByRole('link', { name: 'Drift', exact: true }).first().click();
    await page.waitForURL(`${url}/drift`);
    await page.locator('#filter input[name=q]').fill('level');
    await page.waitForURL(`${url}/drift?q=level`);
    await page.goto(`${url}/records/organizations/${KITTIWAKE_ID}`);
    await page.locator('main a[href*="/restore?"]').first().click();
    await page.waitForURL(`${url}/restore?**`);
    expect(await page.locator('h1').textContent()).toBe('Restore plan');

    const outside: string[] = [];
    for (const path of [...PAGES, NOT_THERE]) {
      await page.goto(url + path);
      const places = await page.evaluate<string[]>(
        `[...document.querySelectorAll('[href], [action]')].map((each) => each.getAttribute('href') ?? each.getAttribute('action'))`,
      );
      expect(places.length).toBeGreaterThan(10);
      outside.push(...places.filter((place) => !/^(\/tidemark\/(?!tidemark)|#)/.test(place)));
    }
    expect(outside).toEqual([]);
    expect(problem.filter((line) => !line.includes('404'))).toEqual([]);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.waitForURL(`${url}/login`);
  });
});
