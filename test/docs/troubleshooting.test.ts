/** The page of error codes has each code of the program once, and the page of exit codes each exit code. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { EXIT } from '../../src/core/errors.ts';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** First cells of a page's tables that are as the pattern says. */
function firstCells(page: string, cell: RegExp): string[] {
  return page
    .split('\n')
    .map((line) => /^\| ([^|]+?) \|/.exec(line)?.[1] ?? '')
    .filter((text) => cell.test(text))
    .map((text) => text.replaceAll('`', ''));
}

describe('the pages about failures', () => {
  it('tell every error code once', () => {
    const union = /export type ErrorCode =([\s\S]*?);\n/.exec(read('src/core/errors.ts'))?.[1] ?? '';
    const codes = [...union.matchAll(/^\s+\| '(\w+)'/gm)].map((match) => match[1] ?? '');
    expect(codes.length).toBeGreaterThan(20);
    expect(firstCells(read('docs/troubleshooting.md'), /^`\w+`$/).sort()).toEqual(codes.sort());
  });

  it('tell every exit code once', () => {
    const told = firstCells(read('docs/exit-codes.md'), /^\d+$/).map(Number);
    expect(told).toEqual(Object.values(EXIT));
  });
});
