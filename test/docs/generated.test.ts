/** The generated tables of hand-written pages are as the sources have them. `-u` writes them again. */
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { PART_NAMES, partsOf, withParts } from '../tools/page-parts.ts';
import { pages } from './pages.ts';

describe('generated parts', () => {
  const marked = pages().filter(({ text }) => partsOf(text).length > 0);

  it.each(marked)('of $path are up to date', async ({ path, text }) => {
    await expect(withParts(text)).toMatchFileSnapshot(
      fileURLToPath(new URL(`../../${path}`, import.meta.url)),
    );
  });

  it('are each in one page', () => {
    expect(marked.flatMap(({ text }) => partsOf(text)).toSorted()).toEqual(PART_NAMES.toSorted());
  });
});
