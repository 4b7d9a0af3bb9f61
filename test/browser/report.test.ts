/** The HTML pages in a real browser. Where there is none (CHROMIUM or /usr/bin/chromium), these tests do not run. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { CHROMIUM, launch } from './browser.ts';
import { poorTexts } from './contrast.ts';
import { auditPage, largePage, planPage, SAMPLE, timelinePage, yearPage } from './pages.ts';

const PAGES = [
  ['sample', SAMPLE],
  ['200 changes', largePage()],
  ['timeline', timelinePage()],
  ['plan', planPage()],
] as const;
/** As text: the types of a browser are not those of our program. */
const UNFOLD = "for (const fold of document.querySelectorAll('details')) fold.open = true;";
const ADDRESS = 'http://report.invalid/';

const title = `HTML pages in a browser${CHROMIUM === undefined ? ' (skipped: none found; install Chromium or set CHROMIUM)' : ''}`;

describe.skipIf(CHROMIUM === undefined)(title, () => {
  let browser: Browser;
  /** One page for all tests: every new one would start a process of the browser. */
  let page: Page;
  let served = '';
  let problem: string[] = [];
  beforeAll(async () => {
    browser = await launch();
    page = await (await browser.newContext()).newPage();
    page.on('console', (message) => problem.push(`console: ${message.text()}`));
    page.on('pageerror', (error) => problem.push(`error: ${error.message}`));
    page.on('dialog', (dialog) => {
      problem.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    await page.route('**/*', async (route) => {
      const url = route.request().url();
      if (url === ADDRESS) {
        await route.fulfill({ contentType: 'text/html; charset=utf-8', body: served });
        return;
      }
      // A browser asks for an icon by itself; everything else would be the page's doing.
      if (!url.endsWith('/favicon.ico')) problem.push(`request: ${url}`);
      await route.fulfill({ status: 204, body: '' });
    });
  });
  afterEach(async () => {
    await page.goto('about:blank');
  });
  afterAll(async () => {
    await browser.close();
  });

  /** Serves the page at an address where every other request would be seen; `problem` has what goes wrong from now on. */
  async function open(html: string, how: { width?: number; scheme?: 'light' | 'dark' } = {}): Promise<void> {
    served = html;
    problem = [];
    await page.setViewportSize({ width: how.width ?? 1280, height: 900 });
    await page.emulateMedia({ colorScheme: how.scheme ?? 'light', media: null });
    await page.goto(ADDRESS);
  }

  it.each(PAGES)(
    '%s: asks for nothing, runs nothing of what records hold, reports no error, and fits a phone and a desktop',
    async (_name, html) => {
      await open(html, { width: 320 });
      await page.evaluate(UNFOLD);
      for (const width of [320, 390, 1280]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
      }
      expect(problem).toEqual([]);
      expect(await page.locator('script').count()).toBe(1);
      expect(await page.locator('img, iframe, object, embed, link').count()).toBe(0);
    },
  );

  it.each(['light', 'dark'] as const)(
    'an audit log, %s: on a narrow screen nothing is cut off, and no word that fits a line is broken',
    async (scheme) => {
      await open(auditPage(), { scheme, width: 320 });
      const sideways = `[document.documentElement, ...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth).length`;
      const heights = `[...document.querySelectorAll('td[data-of="by"], td[data-of="what"]')].map((cell) => cell.innerText + cell.clientHeight)`;
      for (const width of [320, 390, 600, 799, 960]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await page.evaluate(sideways), String(width)).toBe(0);
        const before = await page.evaluate(heights);
        // Where a word is broken, the text is higher with words that are not.
        await page.evaluate(
          "for (const cell of document.querySelectorAll('td')) cell.style.overflowWrap = 'normal'",
        );
        if (width >= 600) expect(await page.evaluate(heights), String(width)).toEqual(before);
        await page.evaluate(
          "for (const cell of document.querySelectorAll('td')) cell.style.overflowWrap = ''",
        );
      }
      expect(await poorTexts(page, 4.5)).toEqual([]);
    },
  );

  // The large page has no colours that these two lack, and its text takes long to measure.
  it.each(
    PAGES.filter(([name]) => name !== '200 changes').flatMap(([name, html]) =>
      (['light', 'dark'] as const).map((scheme) => [name, scheme, html] as const),
    ),
  )('%s, %s: every text stands out by 4.5 to 1', async (_name, scheme, html) => {
    await open(html, { scheme });
    const ground = await page.evaluate('getComputedStyle(document.body).backgroundColor');
    expect(ground).toBe(scheme === 'dark' ? 'rgb(18, 21, 26)' : 'rgb(251, 251, 252)');
    expect(await poorTexts(page, 4.5)).toEqual([]);
    // Nothing but black on white would pass this: the measure does look.
    expect(await poorTexts(page, 21)).not.toEqual([]);
    await page.emulateMedia({ media: 'print' });
    expect(await poorTexts(page, 4.5)).toEqual([]);
  });

  it('the filter narrows by words and by boxes, says how many are left, and can be cleared', async () => {
    await open(SAMPLE);
    const shown = page.locator('.record:visible');
    const status = page.getByRole('status');
    expect(await shown.count()).toBe(8);
    expect(await status.textContent()).toBe('8 shown');
    await page.keyboard.press('/');
    await page.keyboard.type('SNOWFLAKE paused');
    expect(await shown.count()).toBe(1);
    expect(await status.textContent()).toBe('1 of 8 shown');
    expect(await page.locator('section:visible').count()).toBe(1);
    expect(await page.locator('section:visible .count').textContent()).toBe('1 of 2');
    await page.keyboard.type(' no such thing');
    expect(await shown.count()).toBe(0);
    expect(await page.getByText('Nothing here fits the filter.').isVisible()).toBe(true);
    await page.keyboard.press('Escape');
    expect(await shown.count()).toBe(8);
    expect(await page.locator('section .count').allTextContents()).not.toContainEqual(
      expect.stringContaining(' of '),
    );
    await page.getByLabel('critical', { exact: true }).uncheck();
    expect(await shown.count()).toBe(3);
    expect(await page.locator('.record.is-critical:visible').count()).toBe(0);
    await page.getByLabel('added', { exact: true }).uncheck();
    expect(await shown.count()).toBe(2);
  });

  it('on a phone a month is drawn to fit, and a year begins at its end', async () => {
    await open(timelinePage(), { width: 360 });
    expect(await page.locator('.chart.narrow:visible').count()).toBe(2);
    expect(await page.locator('.chart.wide:visible').count()).toBe(0);
    const sizes = "[...document.querySelectorAll('.scroll')].map((box) => box.scrollWidth - box.clientWidth)";
    expect(await page.evaluate(sizes)).toEqual([0, 0]);
    await open(yearPage(), { width: 360 });
    const end =
      "document.querySelector('.charts').scrollLeft + document.querySelector('.charts').clientWidth";
    expect(await page.evaluate(end)).toBe(
      await page.evaluate("document.querySelector('.charts').scrollWidth"),
    );
    expect(await page.getByText('The charts scroll sideways').isVisible()).toBe(true);
    await open(timelinePage());
    expect(await page.locator('.chart.narrow:visible').count()).toBe(0);
  });

  it('a link of the summary leads to its record, also when the filter hides it', async () => {
    await open(SAMPLE);
    await page.getByRole('searchbox').fill('nothing at all');
    await page.locator('.worst a').first().click();
    await expect.poll(() => page.locator('#organizations-1').isVisible()).toBe(true);
    expect(await page.locator('.record:visible').count()).toBe(8);
  });

  it('the keyboard reaches the filter, the links and the folded values', async () => {
    await open(SAMPLE);
    const reached = new Set<string>();
    for (let step = 0; step < 40; step += 1) {
      await page.keyboard.press('Tab');
      reached.add(String(await page.evaluate('document.activeElement?.tagName')));
    }
    expect([...reached]).toEqual(expect.arrayContaining(['A', 'INPUT', 'SUMMARY']));
    const fold = page.locator('.value details').first();
    await fold.locator('summary').focus();
    await page.keyboard.press('Enter');
    expect(await fold.getAttribute('open')).toBe('');
    const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle');
    expect(outline).toBe('solid');
  });

  it('on paper everything is unfolded and the tools are gone', async () => {
    await open(SAMPLE);
    await page.evaluate("dispatchEvent(new Event('beforeprint'))");
    await page.emulateMedia({ media: 'print' });
    expect(await page.locator('details:not([open])').count()).toBe(0);
    expect(await page.locator('.tools').isVisible()).toBe(false);
    await page.evaluate("dispatchEvent(new Event('afterprint'))");
    expect(await page.locator('details[open]').count()).toBe(0);
  });

  it('without script everything is shown', async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    onTestFinished(() => context.close());
    const still = await context.newPage();
    await still.setContent(SAMPLE);
    expect(await still.locator('.record:visible').count()).toBe(8);
    expect(await still.locator('.tools').isVisible()).toBe(false);
  });
});
