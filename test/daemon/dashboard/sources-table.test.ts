/** What the table of all sources says of a problem that is longer than its line. */
import { expect, it } from 'vitest';
import type { CellSummary } from '../../../src/daemon/cell-status.ts';
import { sourcesPage } from '../../../src/daemon/dashboard/sources.ts';

const SUMMARY: CellSummary = {
  name: 'a',
  group: 'https://eu.example.com',
  state: 'degraded',
  reason: null,
  answers: null,
  lastCompleteAt: null,
  isUnreadable: false,
  nextDueAt: null,
  running: null,
  openFindings: null,
  lastErrorCode: null,
};

function problem(message: string): string {
  const { body } = sourcesPage(
    [{ ...SUMMARY, reason: { message, since: null } }],
    new URLSearchParams(),
    Date.UTC(2026, 2, 1),
  );
  return /<span class="faint">(the last .*?)<\/span>/.exec(body.text)?.[1] ?? '';
}

it('names each target whole, and how many more there are', () => {
  const error = (target: string): string =>
    `${target}: the directory could not be written for that long reason`;
  const [one, two, three] = ['/mnt/one', '/mnt/two', '/mnt/three'].map(error);
  expect(problem(`the last backup failed: ${one}`)).toBe(`the last backup failed: ${one}`);
  expect(problem(`the last backup failed: ${one}; ${two}; ${three}; the newest backup is in s3://b`)).toBe(
    `the last backup failed: ${one}; and 3 more`,
  );
  expect(problem(`the last backup failed: ${'x'.repeat(200)}; ${two}`)).toMatch(/x…; and 1 more$/);
});

it('says in its first line how many sources have drifted, which is not all well', () => {
  const head = (...summaries: Partial<CellSummary>[]): string => {
    const all = summaries.map((each, index) => ({ ...SUMMARY, name: `s${index}`, ...each }));
    const { body } = sourcesPage(all, new URLSearchParams(), Date.UTC(2026, 2, 1));
    const [, state, text] = /<h1 class="is-(\w+)">.*?<\/span>(.*?)<\/h1>/.exec(body.text) ?? [];
    return `${state ?? ''}: ${text ?? ''}`;
  };
  const well = { state: 'ok', openFindings: 0 } as const;
  expect(head(well, well)).toBe('ok: 2 sources, no problems');
  expect(head(well, { ...well, openFindings: 3 })).toBe('degraded: 2 sources, no problems, 1 drifted');
  expect(head({ state: 'failing' }, { ...well, openFindings: 3 })).toBe(
    'failing: 1 of 2 sources with problems, 1 drifted',
  );
});
