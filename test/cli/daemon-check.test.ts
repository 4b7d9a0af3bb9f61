/** `tidemark daemon --check` has two exit codes, whatever is wrong. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { commandLine } from '../journeys/command-line.ts';
import { scratch } from '../journeys/harness.ts';

it('exits with 1 where the configuration cannot be read, and names its first error alone', async () => {
  const directory = scratch();
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    'mirror: ./mirror.db\nsources:\n  - name: a\n   baseUrl: b\n   apiKey: c\n   rate: d\nhttp:\n  port: 1\n   host: x\n',
  );
  const run = (...args: string[]): ReturnType<typeof commandLine> =>
    commandLine(args, { env: {}, cwd: directory });
  const checked = await run('daemon', '--check');
  expect(checked.code, checked.stderr).toBe(1);
  expect(checked.stderr).toContain('no daemon is running');
  const { code, stderr } = await run('config', 'check');
  expect(code).toBe(4);
  for (const text of [stderr, checked.stderr]) expect(text.match(/not valid YAML/g)).toHaveLength(1);
});
