/** Every command, query and configuration of README and docs is run, and prints what the page says. */
import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { smallDemo } from '../server/small-demo.ts';
import { createSandbox } from '../../src/server/sandbox.ts';
import { madeDemo } from '../tools/made-demo.ts';
import { blocksOf } from './markdown.ts';
import { NOT_RUN, runPage, SERVICE_KEY } from './page-run.ts';
import { pages, type Page } from './pages.ts';

const roots = mkdtempSync(join(tmpdir(), 'tidemark-docs-'));
const program = inject('program');
afterAll(() => rmSync(roots, { recursive: true, force: true }));

/** Address of a service of the page's own, which ends with the test. */
async function startService(): Promise<string> {
  const sandbox = await createSandbox({
    clock: systemClock,
    keys: [{ key: SERVICE_KEY, permissions: 'all' }],
    seed: smallDemo(),
  });
  onTestFinished(() => sandbox.close());
  return (await sandbox.listen({ host: '127.0.0.1', port: 0 })).url;
}

/** Programs that pages call beside the shell, Node, npm and git. */
const TOOLS = ['curl', 'grep', 'jq', 'sed', 'sqlite3'];

/** Those of them that a page needs and this machine lacks. */
function missingTools(text: string): string[] {
  const commands = blocksOf(text)
    .filter(({ language, comment }) => ['sh', 'console'].includes(language) && !NOT_RUN.test(comment ?? ''))
    .map((block) => block.text)
    .join('\n');
  const places = (process.env['PATH'] ?? '').split(delimiter);
  return TOOLS.filter(
    (tool) =>
      new RegExp(`(^|[|;&$(]\\s*|\\$ )${tool}\\b`, 'm').test(commands) &&
      !places.some((place) => existsSync(join(place, tool))),
  );
}

describe('the snippets of', () => {
  it.for(pages().filter(({ isReference }) => !isReference))(
    '$path',
    { timeout: 180_000 },
    async ({ path, text, hasService, mirror, notRun }: Page, { skip }) => {
      const missing = missingTools(text);
      if (missing.length > 0) skip(`it needs ${missing.join(', ')}`);
      const root = join(roots, path);
      const service = hasService ? await startService() : undefined;
      const isAfterDemo = mirror.startsWith('data/demo');
      const demo = isAfterDemo || text.includes('npm run demo') ? await madeDemo() : undefined;
      if (demo !== undefined && isAfterDemo)
        cpSync(demo.directory, dirname(join(root, 'work', mirror)), { recursive: true });
      const result = await runPage(blocksOf(text), {
        root,
        program,
        mirror,
        ...(demo === undefined ? {} : { demo }),
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
      expect(result.notRun).toHaveLength(notRun);
    },
  );
});
