/** Which pages a replica reads, and when: counted at the mirror. */
import { beforeEach, describe, expect, it } from 'vitest';
import { PageAnchors, type RecordList, type RecordPage } from '../../src/mirror/record-page.ts';
import { PageCache } from '../../src/server/replica/replica-state.ts';
import type { PageWindow } from '../../src/server/store.ts';

const LIMIT = 10;
const COUNT = 1000;

const listOf = (collection: number): RecordList => ({
  kind: 'domains',
  collection,
  run: null,
  isDescending: false,
  anchors: new PageAnchors(),
});

let reads: string[] = [];
let pageBytes = 100;
const mirror: Parameters<PageCache['take']>[0] = {
  records: {
    page: ({ collection }, offset, limit): RecordPage => {
      reads.push(`${collection}:${offset}`);
      const bodies = Buffer.alloc(pageBytes);
      bodies.write(`${collection} ${offset} ${limit}`);
      return { records: limit, bodies };
    },
  },
};

/** As a request does it: the page, and then what follows while it is on its way. */
function ask(shelf: PageCache, list: RecordList, window: PageWindow): string {
  const { page } = shelf.take(mirror, list, window);
  const next = shelf.following(list, window, page, COUNT);
  if (next !== null) shelf.readAhead(mirror, list, next);
  return Buffer.from(page.bodies).toString('utf8').replaceAll('\0', '');
}

const window = (offset: number): PageWindow => ({ offset, limit: LIMIT });

beforeEach(() => {
  reads = [];
  pageBytes = 100;
});

describe('the pages of a state', () => {
  it('are read ahead along a walk, each once, and none behind the end', () => {
    const shelf = new PageCache();
    const list = listOf(1);
    ask(shelf, list, window(0));
    expect(reads).toEqual(['1:0', '1:10']);
    ask(shelf, list, window(10));
    expect(reads).toEqual(['1:0', '1:10', '1:20']);
    for (let offset = 20; offset < COUNT; offset += LIMIT)
      expect(ask(shelf, list, window(offset))).toBe(`1 ${offset} ${LIMIT}`);
    expect(reads).toEqual(Array.from({ length: COUNT / LIMIT }, (_each, page) => `1:${page * LIMIT}`));
  });

  it('are read ahead once for who comes back for the first page only', () => {
    const shelf = new PageCache();
    for (let turn = 0; turn < 5; turn += 1) ask(shelf, listOf(1), window(0));
    expect(reads).toEqual(['1:0', '1:10', '1:0']);
  });

  it('are not read ahead for who jumps, goes backwards, or asks for another list or size', () => {
    const shelf = new PageCache();
    for (const offset of [500, 500, 40, 30, 20, 200]) ask(shelf, listOf(1), window(offset));
    ask(shelf, listOf(2), window(210));
    ask(shelf, listOf(1), { offset: 210, limit: 5 });
    expect(reads).toEqual(['1:500', '1:500', '1:40', '1:30', '1:20', '1:200', '2:210', '1:210']);
  });

  it('are kept from the second time on that they were asked for, walks of others notwithstanding', () => {
    const shelf = new PageCache();
    const dashboard = listOf(1);
    const walked = listOf(2);
    ask(shelf, dashboard, window(500));
    ask(shelf, dashboard, window(500));
    for (let turn = 0; turn < 2; turn += 1)
      for (let offset = 0; offset < 300; offset += LIMIT) ask(shelf, walked, window(offset));
    ask(shelf, dashboard, window(500));
    expect(reads.filter((read) => read === '1:500')).toHaveLength(2);
    // A walk leaves nothing but what is ahead of it.
    expect(reads.filter((read) => read === '2:100')).toHaveLength(2);
  });

  it('belong to one request only where they are neither kept nor taken from what is kept', () => {
    const shelf = new PageCache();
    const take = (offset: number) => shelf.take(mirror, listOf(1), window(offset));
    expect(take(100).isOwn).toBe(true);
    const kept = take(100);
    expect(kept.isOwn).toBe(false);
    expect(take(100)).toEqual(kept);
    shelf.readAhead(mirror, listOf(1), window(110));
    expect(take(110).isOwn).toBe(true);
    // Taken by one, it is read again for the next.
    expect(take(110).isOwn).toBe(true);
    expect(reads).toEqual(['1:100', '1:100', '1:110', '1:110']);
  });

  it('are not held where they are large: neither ahead nor again', () => {
    pageBytes = 5 * 1024 * 1024;
    const shelf = new PageCache();
    for (const offset of [0, 10, 20, 20, 20]) ask(shelf, listOf(1), window(offset));
    expect(reads).toEqual(['1:0', '1:10', '1:20', '1:20', '1:20']);
  });

  it('make room for each other: what was asked for longest ago goes first', () => {
    pageBytes = 3 * 1024 * 1024;
    const shelf = new PageCache();
    for (const collection of [1, 1, 2, 2, 3, 3]) ask(shelf, listOf(collection), window(500));
    reads = [];
    for (const collection of [3, 2, 1]) ask(shelf, listOf(collection), window(500));
    expect(reads).toEqual(['1:500']);
  });
});
