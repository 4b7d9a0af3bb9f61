/** Copies elsewhere: when the latest was made, how large and how sound it is, and when the next one is due. */
import type { CopiesConfig } from '../../config/config.ts';
import { isoTime } from '../../core/clock.ts';
import { duration, plural } from '../../core/wording.ts';
import type { CopiesShown } from '../copies/copy-shelf.ts';
import type { CopyManifest } from '../copies/manifest.ts';
import { byteSize } from '../http/wording.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import { aheadHtml, ageHtml, emptyHtml, toned } from './pieces.ts';

/** @param shown null while the directory has not answered */
export function copiesSection(copies: CopiesConfig | null, shown: CopiesShown | null, now: number): Html {
  return markup`<section aria-labelledby="copies"><h2 id="copies">Copies elsewhere</h2>${contentOf(copies, shown, now)}</section>`;
}

function contentOf(copies: CopiesConfig | null, shown: CopiesShown | null, now: number): Html {
  if (copies === null)
    return emptyHtml('None.', 'The mirror stands on this machine alone: `copies.directory` has copies made.');
  if (shown === null) return emptyHtml('Not known yet.', 'Their directory has not answered so far.');
  if (shown.trouble !== null)
    return markup`<p class="plain">${toned('bad', 'Not readable')}: ${shown.trouble}</p>`;
  const [latest] = shown.whole;
  if (latest === undefined)
    return emptyHtml(
      'None yet.',
      `The first one is made after a complete run, then one every ${duration(copies.everyMs)}.`,
    );
  const dueAt = Date.parse(latest.madeAt) + copies.everyMs;
  const facts: readonly (readonly [string, HtmlPart])[] = [
    [
      'Latest',
      markup`${ageHtml(latest.madeAt, now)}, as of <a href="/runs/${latest.run}">run ${latest.run}</a>`,
    ],
    ['Size', `${byteSize(latest.bytes)}${latest.isEncrypted ? ', encrypted' : ''}`],
    ['Verified', verifiedHtml(latest)],
    [
      'Next',
      dueAt <= now
        ? 'after the next complete run'
        : markup`${aheadHtml(isoTime(dueAt), now)}, after a complete run`,
    ],
    ['Kept', markup`${plural(shown.whole.length, 'copy', 'copies')}${damagedHtml(shown.damaged)}`],
  ];
  return markup`<dl class="facts plain">${facts.map(([name, value]) => markup`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

/** Nobody reads a copy again by itself: what is known is of the time when it was made. */
function verifiedHtml({ manifest }: CopiesShown['whole'][number]): Html {
  // A manifest is read as far as copies need it.
  const { checked }: Partial<CopyManifest> = manifest ?? {};
  const records =
    checked === undefined ? '' : `, ${plural(checked.records, 'record')} and every seal checked`;
  return markup`${toned('good', 'when it was made')}: opened${records}; <code>tidemark copies verify</code> reads it again`;
}

function damagedHtml(damaged: number): Html {
  if (damaged === 0) return NOTHING;
  return markup`, ${toned('bad', `${plural(damaged, 'more is', 'more are')} not whole`)}`;
}
