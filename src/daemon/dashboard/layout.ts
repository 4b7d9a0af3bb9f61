/** The layout of every page: head, navigation, and the policy that lets only our own style and script act. */
import { hash } from 'node:crypto';
import type { Context } from 'hono';
import { type Clock, isoTime } from '../../core/clock.ts';
import { commandOf } from '../../core/hints.ts';
import type { Config } from '../../config/config.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { escapeMarkup, unbrokenWords } from '../../report/markup.ts';
import { localPath, type Refusal } from '../http/request.ts';
import { capital } from '../../report/document.ts';
import { hintHtml } from './components.ts';
import { clockTime, type Html, type HtmlPart, markup, NOTHING, trusted } from './html.ts';
import { DASHBOARD_SCRIPT } from './script.ts';
import { DASHBOARD_STYLE } from './style.ts';

export interface PageContent {
  /** Title of the tab, before "Tidemark". */
  readonly title: string;
  /** The content of `main`, its `h1` first. */
  readonly body: Html;
  /** True for a page that changes soon: without a script the browser loads it again. */
  readonly isWorking?: boolean;
  /** How often the page is loaded again; left out, every `EVERY_SECONDS`. */
  readonly everySeconds?: number;
  /** True for a page that takes the width of the window. */
  readonly isWide?: boolean;
}

/** What the pages about a mirror are made from. */
export interface PageFacts {
  readonly mirror: Mirror;
  readonly config: Config;
  /** The configured sources and, except on the drift page, those of which only the mirror has records. */
  readonly sources: readonly string[];
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** True for a person who is logged in. */
  readonly canAct: boolean;
}

/** What all pages of a server have in common. */
export interface PageParts {
  readonly clock: Clock;
  /** True where a session can be ended. */
  readonly needsLogin: boolean;
  /** Who is logged in, or was let in by a proxy: then there is no session to end. Null for nobody. */
  readonly userOf: (context: Context) => { readonly name: string; readonly isSession: boolean } | null;
  /** Left out, that of the daemon. */
  readonly navigation?: Navigation;
  /** The source that the pages are about, where each of several has its own mirror; left out or null, they are about all. */
  readonly source?: () => string | null;
}

export type Navigation = readonly (readonly [path: string, label: string])[];

interface PageFrame extends Omit<PageAnswer, 'content'>, Pick<PageParts, 'navigation'> {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** The source that the page is about; null for all. */
  readonly source: string | null;
  /** True where a session can be ended. */
  readonly hasSession: boolean;
  /** Who is logged in, or was let in by a proxy; null for nobody. */
  readonly user: string | null;
}

const NAVIGATION = [
  ['/', 'Overview'],
  ['/drift', 'Drift'],
  ['/changes', 'Changes'],
  ['/runs', 'Runs'],
  ['/audit', 'Audit'],
  ['/organizations', 'Organizations'],
  ['/records', 'Records'],
  ['/drill', 'Drill'],
  ['/restores', 'Restores'],
] as const satisfies Navigation;

/** The logo: the lines that a tide leaves, the newest one strongest. */
const LINES = [
  '<path d="M2 8c3.3-2.6 6.7-2.6 10 0s6.7 2.6 10 0"/>',
  '<path opacity=".6" d="M2 14c3.3-2.6 6.7-2.6 10 0s6.7 2.6 10 0"/>',
  '<path opacity=".3" d="M2 20c3.3-2.6 6.7-2.6 10 0s6.7 2.6 10 0"/>',
].join('');

/** The logo as a file, which needs a colour of its own. */
export const ICON = iconSvg('#1a5ac8', 'xmlns="http://www.w3.org/2000/svg"');
const BRAND_ICON = trusted(iconSvg('currentColor', 'aria-hidden="true"'));

function iconSvg(colour: string, attributes: string): string {
  const stroke = `stroke="${colour}" stroke-width="2.4" stroke-linecap="round"`;
  return `<svg ${attributes} viewBox="0 0 24 24" fill="none" ${stroke}>${LINES}</svg>`;
}

/** Allows only our style and script, by hash: nothing from elsewhere, no frame, no form to another site. */
export const PAGE_POLICY = [
  `default-src 'none'`,
  `style-src '${digest(DASHBOARD_STYLE)}'`,
  `script-src '${digest(DASHBOARD_SCRIPT)}'`,
  `connect-src 'self'`,
  `img-src 'self'`,
  `form-action 'self'`,
  `base-uri 'none'`,
  `frame-ancestors 'none'`,
].join('; ');

/** A complete document. @internal */
export function pageHtml(content: PageContent, frame: PageFrame): string {
  const logout = markup`<form method="post" action="/logout"><button class="quiet">Log out</button></form>`;
  return documentHtml(
    titleOf(content.title, frame.source),
    markup`<a class="skip" href="#main">Skip to content</a>
<header class="bar"><div>
<a class="brand" href="/">${BRAND_ICON}Tidemark</a>
<nav aria-label="Main">${navigationHtml(frame)}</nav>
<div class="who">${frame.user === null ? NOTHING : markup`<span class="faint">${frame.user}</span>`}${frame.hasSession ? logout : NOTHING}</div>
</div></header>${whereHtml(frame)}
${mainHtml(content, frame)}
<p id="lost" class="lost" role="status" aria-live="polite" hidden></p>
<script>${trusted(DASHBOARD_SCRIPT)}</script>`,
    content.isWorking === true ? refreshHtml(content) : NOTHING,
  );
}

function navigationHtml({ source, current, isOfAll, navigation = NAVIGATION }: PageFrame): HtmlPart {
  if (isOfAll === true) return navigationLink('/', 'Sources', current);
  return linksOf(markup`${navigation.map(([path, label]) => navigationLink(path, label, current))}`, source);
}

/** Names the one source that the page is about, with a link to all. */
function whereHtml({ source }: PageFrame): Html {
  if (source === null) return NOTHING;
  return markup`
<div class="where"><p><a href="/">All sources</a> <span aria-hidden="true">/</span> <strong><bdi>${source}</bdi></strong></p></div>`;
}

/** Paths that are not about a source. */
const OF_NO_SOURCE: ReadonlySet<string> = new Set(['/logout', '/metrics', '/readyz']);

/** The path with `source` as a parameter, unless it has one; unchanged for null. */
export function withSource(path: string, source: string | null): string {
  if (source === null) return path;
  const { pathname, searchParams, hash } = new URL(path, 'http://here.invalid');
  if (OF_NO_SOURCE.has(pathname)) return path;
  if (!searchParams.has('source')) searchParams.set('source', source);
  return `${pathname}?${searchParams.toString()}${hash}`;
}

/**
 * Makes the links and forms of a page lead to pages of its source. Done on the finished HTML, so that no link is forgotten: a tag is
 * always ours, as the contents of records are escaped.
 */
function linksOf(html: Html, source: string | null): Html {
  if (source === null) return html;
  const hidden = `<input type="hidden" name="source" value="${escapeMarkup(source)}">`;
  const tags =
    /<a\b[^>]*? href="(\/[^"]*)"|<form\b[^>]*?method="get"[^>]*>|<form\b[^>]*? action="(\/[^"]*)"/g;
  return trusted(
    html.text.replace(tags, (tag, link: string | undefined, action: string | undefined, at: number) => {
      const path = link ?? action;
      if (path !== undefined) {
        const plain = path.replaceAll('&amp;', '&').replaceAll('&#39;', "'");
        return tag.replace(`"${path}"`, () => `"${escapeMarkup(withSource(plain, source))}"`);
      }
      const form = html.text.slice(at, html.text.indexOf('</form>', at));
      return form.includes('name="source"') ? tag : `${tag}${hidden}`;
    }),
  );
}

/** Adds the source to the commands of a page that need it where each source has its own mirror. Done like `linksOf`. */
function commandsOf(html: Html, source: string | null): Html {
  return trusted(
    html.text.replace(/(<code\b[^>]*>)(tidemark [^<]*)(?=<\/code>)/g, (_, tag: string, command: string) => {
      const whole = source === null ? command : commandOf(command, escapeMarkup(source));
      return `${tag}${unbrokenWords(whole)}`;
    }),
  );
}

function navigationLink(path: string, label: string, current: string | null): Html {
  const mark = current === path ? trusted(' aria-current="page"') : NOTHING;
  return markup`<a href="${path}"${mark}>${label}</a>`;
}

/** The content alone: that is what an open page loads again. */
function mainHtml(
  { title, body, isWide, everySeconds = EVERY_SECONDS }: PageContent,
  { now, source }: PageFrame,
): Html {
  const style = isWide === true ? markup` class="wide-page"` : NOTHING;
  const main = markup`<main id="main" tabindex="-1"${style} data-live="${everySeconds}" data-title="${titleOf(title, source)}">
${body}
<footer class="foot faint"><span>As of ${clockTime(isoTime(now), 19)}</span>
<a href="/api/v1/status">Status as JSON</a><a href="/metrics">Metrics</a><a href="/readyz">Health</a></footer>
</main>`;
  return commandsOf(linksOf(main, source), source);
}

function titleOf(title: string, source: string | null): string {
  return [title, ...(source === null ? [] : [source]), 'Tidemark'].join(' – ');
}

/** A refusal as a page of the dashboard, for people. */
export function refusalPage(
  parts: PageParts,
  context: Context,
  refusal: Refusal,
  current: string | null = null,
): Response {
  return answerPage(
    parts,
    context,
    {
      // After a search without a result, the page offers another search; after a form, a link back.
      content: problemPage(refusal, {
        back: context.req.method === 'POST' ? URL.parse(context.req.header('referer') ?? '') : null,
        hasRecords: parts.navigation === undefined && refusal.httpStatus === 404,
      }),
      current,
    },
    refusal.httpStatus as 404,
  );
}

interface PageAnswer {
  readonly content: PageContent;
  /** The path of the page in the navigation; null outside of it. */
  readonly current: string | null;
  /** True for the page of all sources, from which those of each are reached. */
  readonly isOfAll?: boolean;
}

/** True for the request of a page that is open already. */
export function isFragment(context: Context): boolean {
  return context.req.header('x-tidemark-fragment') !== undefined;
}

/** Answers with the complete page, or with its content alone for a page that is open. */
export function answerPage(
  { clock, needsLogin, userOf, navigation = NAVIGATION, source }: PageParts,
  context: Context,
  { content, current, isOfAll = false }: PageAnswer,
  status: 200 | 400 | 404,
): Response {
  const user = userOf(context);
  const frame: PageFrame = {
    now: clock.now(),
    source: source?.() ?? null,
    isOfAll,
    current,
    hasSession: needsLogin && user?.isSession !== false,
    user: user?.name ?? null,
    navigation,
  };
  const text = isFragment(context) ? mainHtml(content, frame).text : pageHtml(content, frame);
  return context.html(text, status, { 'Content-Security-Policy': PAGE_POLICY });
}

function problemPage(
  refusal: Refusal,
  { back, hasRecords }: { readonly back: URL | null; readonly hasRecords: boolean },
): PageContent {
  const { code, message, hint = '', httpStatus, heading } = refusal;
  const search = markup`<form class="search" method="get" action="/records" role="search">
<label class="grow">Name or id<input type="search" name="q" autocomplete="off" maxlength="200"></label>
<button>Search</button></form>`;
  // Docs and alerts name problems by this code. A wrong request needs none.
  const named = httpStatus >= 500 ? markup`<p class="faint">Error code <code>${code}</code></p>` : NOTHING;
  const reason = heading === null ? NOTHING : markup`<p>${capital(message)}</p>\n`;
  const path = back === null ? '/' : localPath(`${back.pathname}${back.search}`);
  const backLink = path === '/' ? NOTHING : markup`<p><a href="${path}">Back to the page before</a></p>`;
  const body = markup`<h1>${heading ?? capital(message)}</h1>
${reason}${hintHtml(capital(hint))}${named}${backLink}${hasRecords ? search : NOTHING}`;
  return { title: 'Problem', body };
}

/** A page without navigation, such as the login form. */
export function bareHtml(title: string, body: Html): string {
  const heading = markup`<h1 class="brand">${BRAND_ICON}Tidemark</h1>`;
  return documentHtml(titleOf(title, null), markup`<main id="main" class="login">${heading}${body}</main>`);
}

const EVERY_SECONDS = 10;

function refreshHtml({ everySeconds = EVERY_SECONDS }: PageContent): Html {
  return markup`<noscript><meta http-equiv="refresh" content="${everySeconds}"></noscript>\n`;
}

function documentHtml(title: string, body: Html, head = NOTHING): string {
  return markup`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="/icon.svg" type="image/svg+xml">
<title>${title}</title>
<style>${trusted(DASHBOARD_STYLE)}</style>
${head}</head>
<body>
${body}
</body>
</html>
`.text;
}

function digest(text: string): string {
  return `sha256-${hash('sha256', text, 'base64')}`;
}
