import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { namedCommands } from '../../src/cli/command-row.ts';
import { packageFile } from '../../src/core/package-root.ts';
import { commandReference } from '../tools/command-docs.ts';

describe('docs/cli.md', () => {
  it('is up to date', async () => {
    const file = packageFile('docs', 'cli.md');
    expect(existsSync(file)).toBe(true);
    // `npx vitest run test/cli/reference.test.ts -u` writes it again.
    await expect(commandReference(COMMANDS)).toMatchFileSnapshot(file);
  });

  it('names every command with its options and examples', () => {
    const page = commandReference(COMMANDS);
    for (const { name, row } of namedCommands(COMMANDS)) {
      const from = page.indexOf(`\n## ${name}\n`);
      expect(from, name).toBeGreaterThan(0);
      const part = page.slice(from + 1).split('\n## ')[0] ?? '';
      expect(page).toContain(`(#${name.replaceAll(' ', '-')})`);
      for (const { flags } of row.options ?? []) expect(part).toContain(`\n| \`${flags}\` | `);
      for (const example of row.examples ?? []) expect(part).toContain(`\n${example}\n`);
    }
    expect(page).not.toContain('\n## tidemark __complete');
  });
});
