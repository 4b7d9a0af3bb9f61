import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { EVENT_MEANINGS } from '../../../src/config/notice-events.ts';
import { TEMPLATE_VALUES } from '../../../src/config/notice-events.ts';
import { packageFile } from '../../../src/core/package-root.ts';

const page = readFileSync(packageFile('docs', 'notices.md'), 'utf8');

it.each(Object.entries({ ...EVENT_MEANINGS, ...TEMPLATE_VALUES }))(
  'docs/notices.md tells of %s',
  (name, meaning) => {
    expect(page).toContain(`| \`${name}\` | ${meaning} |`);
  },
);
