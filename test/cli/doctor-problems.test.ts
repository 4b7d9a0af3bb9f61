import { createColors } from 'picocolors';
import { expect, it } from 'vitest';
import { problemReport } from '../../src/cli/doctor-report.ts';
import type { Problem } from '../../src/doctor/problems.ts';
import { renderText } from '../../src/report/render-text.ts';

it('says once what several problems in a row advise', () => {
  const warning = (message: string, next: string): Problem => ({
    ...{ gravity: 'warning', code: 'config_warning', source: null },
    ...{ message, next },
  });
  const problems = [
    warning('one is in clear', 'check it'),
    warning('two is in clear', 'check it'),
    warning('the disk is nearly full', 'free some space'),
  ];
  const lines = renderText(problemReport(problems), { width: 80, colors: createColors(false) }).split('\n');
  expect(lines.filter((line) => line !== '')).toEqual([
    '3 warnings',
    '! one is in clear',
    '! two is in clear',
    '  → check it',
    '! the disk is nearly full',
    '  → free some space',
  ]);
});
