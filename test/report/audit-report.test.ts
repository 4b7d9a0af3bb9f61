import { expect, it } from 'vitest';
import type { AuditSubject } from '../../src/mirror/audit-entries.ts';
import { detailText, type ShownEntry } from '../../src/report/audit-report.ts';

it('says which runs were forgotten, and that none of those that came with a move was', () => {
  const said = (runs: readonly (readonly [number, number])[], runCount: number): string => {
    const subject = { about: 'forget', forget: 1, runs, runCount } as unknown as AuditSubject;
    return detailText({ action: 'forget', subject } as unknown as ShownEntry, (at) => at);
  };
  expect(
    said(
      [
        [1, 3],
        [5, 5],
      ],
      4,
    ),
  ).toBe('4 runs: 1–3, 5');
  expect(said([], 0)).toBe('no runs');
});
