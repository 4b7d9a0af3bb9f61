/**
 * Draws docs/images/drift-report.png again: the demo's mirror, its drift from the first run as HTML, in a real browser.
 *
 *     node test/tools/drift-picture.ts [OUTPUT.png]
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { launch } from '../browser/browser.ts';

const program = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const output =
  process.argv[2] ?? fileURLToPath(new URL('../../docs/images/drift-report.png', import.meta.url));
const directory = mkdtempSync(join(tmpdir(), 'tidemark-picture-'));

/** Runs the command line on the demo's mirror; `codes` are the exit codes that are as they should be. */
function tidemark(args: readonly string[], codes: readonly number[] = [0]): void {
  const ended = spawnSync(process.execPath, [program, ...args], {
    cwd: directory,
    encoding: 'utf8',
    env: {
      PATH: process.env['PATH'],
      TIDEMARK_MIRROR: join(directory, 'mirror.db'),
      TIDEMARK_BASE_URL: 'http://127.0.0.1:9',
      TIDEMARK_API_KEY: 'unused',
    },
  });
  if (codes.includes(ended.status ?? -1)) return;
  throw new Error(`tidemark ${args.join(' ')} ended with ${ended.status}: ${ended.stderr}`);
}

try {
  tidemark(['demo', '--output', directory]);
  tidemark(['snapshots', 'pin', 'reviewed', 'run:1']);
  tidemark(['snapshots', 'baseline', 'reviewed']);
  tidemark(['drift', '--format', 'html', '--output', 'drift.html'], [2, 3]);
  const browser = await launch();
  const page = await browser.newPage({ viewport: { width: 1280, height: 1060 }, colorScheme: 'light' });
  await page.goto(pathToFileURL(join(directory, 'drift.html')).href);
  await page.screenshot({ path: output });
  await browser.close();
} finally {
  rmSync(directory, { recursive: true, force: true });
}
