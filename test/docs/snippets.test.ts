/** Every command, query and configuration of README and docs is run, and prints what the page says. */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { createSandbox } from '../../src/server/sandbox.ts';
import { blocksOf } from './markdown.ts';
import { runPage, SERVICE_KEY } from './page-run.ts';
import { pages } from './pages.ts';

const roots = mkdtempSync(join(tmpdir(), 'tidemark-docs-'));
const program = inject('program');
afterAll(() => rmSync(roots, { recursive: true, force: true }));

/** Address of a service of the page's own, which ends with the test. */
async function startService(): Promise<string> {
  const sandbox = await createSandbox({
    clock: systemClock,
    keys: [{ key: SERVICE_KEY, permissions: 'all' }],
    seed: 'demo',
  });
  onTestFinished(() => sandbox.close());
  return (await sandbox.listen({ host: '127.0.0.1', port: 0 })).url;
}

/** The mirror that `npm run demo` leaves behind: README's own, where that page was tried before. */
function putDemo(directory: string): void {
  const left = join(roots, 'README.md', 'work', 'data', 'demo');
  mkdirSync(directory, { recursive: true });
  if (existsSync(left)) cpSync(left, directory, { recursive: true });
  else execFileSync(process.execPath, [program, 'demo', '--output', directory], { stdio: 'ignore' });
}

describe('the snippets of', () => {
  it.each(pages().filter(({ isReference }) => !isReference))(
    '$path',
    async ({ path, text, hasService, mirror, notRun }) => {
      const root = join(roots, path);
      const service = hasService ? await startService() : undefined;
      if (mirror.startsWith('data/demo')) putDemo(dirname(join(root, 'work', mirror)));
      const told = await runPage(blocksOf(text), {
        root,
        program,
        mirror,
        ...(service === undefined
          ? {}
          : {
              service,
              env: {
                TIDEMARK_RATE_PER_MINUTE: '0',
                TIDEMARK_RATE_PER_HOUR: '0',
                TYPED_URL: service,
                SVC_API_KEY: SERVICE_KEY,
              },
            }),
      });
      expect(told.notRun).toHaveLength(notRun);
    },
    180_000,
  );
});
