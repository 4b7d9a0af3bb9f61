/** The frame of every HTML page: one file that loads nothing and lets nothing run but its own script. */
import { hash } from 'node:crypto';
import { escapeMarkup } from './markup.ts';
import { PAGE_SCRIPT, PAGE_STYLE } from './html-style.ts';

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

/**
 * The filter box over the records of a page. Hidden until the script runs: without it there is nothing to filter with,
 * and every record is shown.
 */
export const FILTER_TOOLS = `<div class="tools" role="search" hidden>
<input type="search" placeholder="Filter by name, kind, id, field … (press /)" aria-label="Filter">
<label><input type="checkbox" value="added" checked> added</label>
<label><input type="checkbox" value="removed" checked> removed</label>
<label><input type="checkbox" value="changed" checked> changed</label>
<span class="faint" role="status" aria-live="polite"></span>
</div>`;
