/** The frame of every HTML page: one file that loads nothing and lets nothing run but its own script. */
import { hash } from 'node:crypto';
import { escapeMarkup } from './markup.ts';
import { PAGE_SCRIPT } from './html-script.ts';
import { PAGE_STYLE } from './html-style.ts';

/** A whole document around `body`, which is HTML already; `title` is text. */
export function htmlPage(title: string, body: string): string {
  // Only this very style and script, by hash: markup that slipped through the escaping could still not act.
  const policy = `default-src 'none'; style-src '${digest(PAGE_STYLE)}'; script-src '${digest(PAGE_SCRIPT)}'; base-uri 'none'; form-action 'none'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<title>${escapeMarkup(title)}</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<main>
${body}
</main>
<script>${PAGE_SCRIPT}</script>
</body>
</html>
`;
}

function digest(text: string): string {
  return `sha256-${hash('sha256', text, 'base64')}`;
}

/** An ISO 8601 time in UTC as people read it, to the minute; any other text as it is. */
export function timeHtml(at: string): string {
  const [, day, minute] = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})[\d:.]*Z$/.exec(at) ?? [];
  const text = escapeMarkup(at);
  return day === undefined || minute === undefined
    ? text
    : `<time datetime="${text}" title="${text}">${day} ${minute} UTC</time>`;
}

/**
 * The filter box over the records of a page. Hidden until the script runs: without it there is nothing to filter with,
 * and every record is shown. A group of boxes with a single entry would narrow nothing, and is left out.
 */
export function filterTools(changes: readonly string[], severities: readonly string[] = []): string {
  const group = (label: string, name: string, values: readonly string[]): string =>
    values.length < 2
      ? ''
      : `<fieldset><legend class="side">${label}</legend>${values.map((value) => `<label><input type="checkbox" name="${name}" value="${value}" checked> ${value}</label>`).join('')}</fieldset>`;
  return `<div class="tools" role="search" hidden>
<div class="box"><input type="search" placeholder="Filter by name, kind, id, field, value …" aria-label="Filter" aria-keyshortcuts="/" autocomplete="off" spellcheck="false"><kbd aria-hidden="true">/</kbd></div>
${group('Severity', 'severity', severities)}${group('Kind of change', 'change', changes)}
<span class="faint status" role="status" aria-live="polite"></span>
</div>
<p class="nothing" hidden>Nothing here fits the filter.</p>`;
}
