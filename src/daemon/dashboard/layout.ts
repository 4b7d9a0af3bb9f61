/** The layout of every page: head, navigation, and the policy that lets only our own style and script act. */
import { hash } from 'node:crypto';
import type { Context } from 'hono';
import { type Clock, isoTime } from '../../core/clock.ts';
import type { TidemarkError } from '../../core/errors.ts';
import type { Refusal } from '../http/request.ts';
import { capital, hintHtml } from './components.ts';
import { clockTime, type Html, markup, NOTHING, trusted } from './html.ts';
import { DASHBOARD_SCRIPT } from './script.ts';
import { DASHBOARD_STYLE } from './style.ts';

export interface PageContent {
  /** For the tab, before "Tidemark". */
  readonly title: string;
  /** The content of `main`, its `h1` first. */
  readonly body: Html;
  /** True for a page that changes soon: without a script the browser loads it again. */
  readonly isWorking?: boolean;
}

/** What every page of a server has. */
export interface PageParts {
  readonly clock: Clock;
  /** True where a session can be ended. */
  readonly needsLogin: boolean;
  /** The user whom a proxy lets in: there is no session to end then. */
  readonly userOf: (context: Context) => string | null;
  /** Paths and labels; left out, the daemon's. */
  readonly navigation?: Navigation;
}

export type Navigation = readonly (readonly [path: string, label: string])[];

interface PageFrame {
  /** Left out, the daemon's. */
  readonly navigation?: Navigation;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** The path of the page in the navigation; null outside of it. */
  readonly current: string | null;
  /** True where a session can be ended. */
  readonly hasSession: boolean;
  /** Whom a proxy has let in; null without one. */
  readonly user: string | null;
}

const NAVIGATION = [
  ['/', 'Overview'],
  ['/drift', 'Drift'],
  ['/changes', 'Changes'],
  ['/runs', 'Runs'],
  ['/organizations', 'Organizations'],
  ['/records', 'Records'],
  ['/drill', 'Drill'],
  ['/restores', 'Restores'],
] as const satisfies Navigation;

/** The lines that a tide leaves, the newest one strongest. */
const LINES = [
  '<path d="M2 8c3.3-2.6 6.7-2.6 10 0s6.7 2.6 10 0"/>',
  '<path opacity=".6" d="M2 14c3.3-2.6 6.7-2.6 10 0s6.7 2.6 10 0"/>',
  '<path opacity=".3" d="M2 20c3.3-2.6 6.7-2.6 10 0s6.7 2.6 10 0"/>',
].join('');

/** As a file of its own, which needs a colour, and within a page. */
export const ICON = iconSvg('#1a5ac8', 'xmlns="http://www.w3.org/2000/svg"');
const BRAND_ICON = trusted(iconSvg('currentColor', 'aria-hidden="true"'));

function iconSvg(colour: string, attributes: string): string {
  const stroke = `stroke="${colour}" stroke-width="2.4" stroke-linecap="round"`;
  return `<svg ${attributes} viewBox="0 0 24 24" fill="none" ${stroke}>${LINES}</svg>`;
}

/** Only this very style and script, by hash; nothing from elsewhere, no frame, no form to another place. */
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
    content.title,
    markup`<a class="skip" href="#main">Skip to content</a>
<header class="bar"><div>
<a class="brand" href="/">${BRAND_ICON}Tidemark</a>
<nav aria-label="Main">${(frame.navigation ?? NAVIGATION).map(([path, label]) => navigationLink(path, label, frame.current))}</nav>
${frame.user !== null ? markup`<span class="faint">${frame.user}</span>` : frame.hasSession ? logout : NOTHING}
</div></header>
${mainHtml(content, frame)}
<p id="lost" class="lost" role="status" aria-live="polite" hidden></p>
<script>${trusted(DASHBOARD_SCRIPT)}</script>`,
    content.isWorking === true ? REFRESH : NOTHING,
  );
}

function navigationLink(path: string, label: string, current: string | null): Html {
  const mark = current === path ? trusted(' aria-current="page"') : NOTHING;
  return markup`<a href="${path}"${mark}>${label}</a>`;
}

/** Only the content, for a page that is open already. */
function mainHtml({ title, body }: PageContent, { now }: PageFrame): Html {
  return markup`<main id="main" tabindex="-1" data-live data-title="${title} – Tidemark">
${body}
<footer class="foot faint"><span>As of ${clockTime(isoTime(now), 19)}</span>
<a href="/api/v1/status">Status as JSON</a><a href="/metrics">Metrics</a><a href="/readyz">Health</a></footer>
</main>`;
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
    { content: problemPage(refusal, parts.navigation === undefined), current },
    refusal.httpStatus as 404,
  );
}

/** A page complete, or only its content for one that is open already. */
export function answerPage(
  { clock, needsLogin, userOf, navigation = NAVIGATION }: PageParts,
  context: Context,
  { content, current }: { readonly content: PageContent; readonly current: string | null },
  status: 200 | 404,
): Response {
  const frame = { now: clock.now(), current, hasSession: needsLogin, user: userOf(context), navigation };
  const isFragment = context.req.header('x-tidemark-fragment') !== undefined;
  const text = isFragment ? mainHtml(content, frame).text : pageHtml(content, frame);
  return context.html(text, status, { 'Content-Security-Policy': PAGE_POLICY });
}

function problemPage(error: TidemarkError, hasRecords: boolean): PageContent {
  const search = markup`<form class="search" method="get" action="/records" role="search">
<label class="grow">Name or id<input type="search" name="q" autocomplete="off" maxlength="200"></label>
<button>Search</button></form>`;
  const body = markup`<h1>This page cannot be shown</h1><p class="verdict">${capital(error.message)}</p>
${hintHtml(capital(error.hint ?? ''))}${hasRecords ? search : NOTHING}`;
  return { title: 'Problem', body };
}

/** A page without navigation, e.g. the login form, headed by the logo and the name. */
export function bareHtml(title: string, body: Html): string {
  const heading = markup`<h1 class="brand">${BRAND_ICON}Tidemark</h1>`;
  return documentHtml(title, markup`<main id="main" class="login">${heading}${body}</main>`);
}

const REFRESH = trusted('<noscript><meta http-equiv="refresh" content="10"></noscript>\n');

function documentHtml(title: string, body: Html, head = NOTHING): string {
  return markup`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="/icon.svg" type="image/svg+xml">
<title>${title} – Tidemark</title>
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
