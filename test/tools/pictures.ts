/**
 * Draws the pictures of docs/images again: the demo's mirror, its drift from the first run as HTML, and the dashboard
 * over it, in a real browser. Look at each before you commit it.
 *
 *     node build.ts && node test/tools/pictures.ts [DIRECTORY]
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { launch } from '../browser/browser.ts';
import { freePort } from '../docs/programs.ts';

const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const output = process.argv[2] ?? fileURLToPath(new URL('../../docs/images', import.meta.url));
const directory = mkdtempSync(join(tmpdir(), 'tidemark-pictures-'));
const config = join(directory, 'tidemark.yaml');
const env = {
  PATH: process.env['PATH'],
  PICTURE_KEY: 'not-used',
  PICTURE_TOKEN: 'a-token-for-these-pictures',
};

/** Runs the command line on the demo's mirror; `codes` are the exit codes that are expected. */
function tidemark(args: readonly string[], codes: readonly number[] = [0]): void {
  const ended = spawnSync(process.execPath, [program, ...args], { cwd: directory, encoding: 'utf8', env });
  if (codes.includes(ended.status ?? -1)) return;
  throw new Error(`tidemark ${args.join(' ')} exited with ${ended.status}: ${ended.stderr}`);
}

const port = await freePort();
const url = `http://127.0.0.1:${port}/`;
const isUp = (): Promise<boolean> =>
  fetch(`${url}healthz`).then(
    ({ ok }) => ok,
    () => false,
  );
const browser = await launch();
try {
  tidemark(['demo', '--output', directory]);
  // Nothing listens at the address: the daemon has a fresh mirror and sends nothing.
  writeFileSync(
    config,
    `mirror: ${join(directory, 'mirror.db')}
sources: [{ name: default, baseUrl: 'http://127.0.0.1:9', apiKey: '\${PICTURE_KEY}', profile: posthog }]
schedules: { sync: { cron: '*/30 * * * *' } }
http: { listen: '127.0.0.1:${port}', token: '\${PICTURE_TOKEN}' }
`,
  );
  const page = await browser.newPage({ viewport: { width: 1280, height: 1060 }, colorScheme: 'light' });

  tidemark(['drift', '--format', 'html', '--output', 'drift.html'], [2, 3]);
  await page.goto(pathToFileURL(join(directory, 'drift.html')).href);
  await page.screenshot({ path: join(output, 'drift-report.png') });

  tidemark(['drill'], [0, 3]);
  const daemon = spawn(process.execPath, [program, 'daemon'], { cwd: directory, env, stdio: 'ignore' });
  try {
    const deadline = Date.now() + 30_000;
    while (!(await isUp())) {
      if (daemon.exitCode !== null || Date.now() > deadline) throw new Error('the daemon does not answer');
      await sleep(100);
    }
    tidemark(['verify']);
    await page.goto(url);
    await page.fill('input[type=password]', env.PICTURE_TOKEN);
    await page.keyboard.press('Enter');
    await page.waitForSelector('h1');
    // The drift job that follows from the run is over when the page shows the next sync instead.
    await page.getByText('next sync in').waitFor();
    await page.screenshot({ path: join(output, 'dashboard.png') });
  } finally {
    if (daemon.exitCode === null) {
      daemon.kill('SIGTERM');
      await once(daemon, 'exit');
    }
  }
} finally {
  await browser.close();
  rmSync(directory, { recursive: true, force: true });
}
