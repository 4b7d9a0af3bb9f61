/**
 * Runs commands of the copy of Tidemark in a directory, from its sources, one after the other: for a test of several, where to
 * load the copy for each would take most of the time. Its argument is that directory. It reads a line for each command, its
 * arguments as JSON, and writes a line with exit code and output; the first one is the address of a sandbox of the same copy.
 */
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import type { runCommandLine } from '../../src/cli/program.ts';
import type { systemClock } from '../../src/core/clock.ts';
import type { createSandbox } from '../../src/server/sandbox.ts';

const [directory = ''] = process.argv.slice(2);
const load = (path: string): Promise<unknown> => import(pathToFileURL(`${directory}/src/${path}`).href);
const program = (await load('cli/program.ts')) as { runCommandLine: typeof runCommandLine };
const service = (await load('server/sandbox.ts')) as { createSandbox: typeof createSandbox };
const clock = (await load('core/clock.ts')) as { systemClock: typeof systemClock };

const sandbox = await service.createSandbox({
  clock: clock.systemClock,
  keys: [{ key: 'sandbox-key', permissions: 'all' }],
  seed: 'demo',
});
const { url } = await sandbox.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${url}\n`);

class Sink extends Writable {
  text = '';

  override _write(chunk: unknown, _encoding: string, done: () => void): void {
    this.text += String(chunk);
    done();
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [stdout, stderr] = [new Sink(), new Sink()];
  const code = await program.runCommandLine(JSON.parse(line) as string[], {
    env: { ...process.env, TIDEMARK_BASE_URL: url },
    cwd: directory,
    stdin: { isTTY: false },
    stdout,
    stderr,
    signal: new AbortController().signal,
    pid: process.pid,
    execPath: process.execPath,
    entry: `${directory}/src/main.ts`,
    isOneProcess: true,
  });
  process.stdout.write(`${JSON.stringify({ code, out: stdout.text, err: stderr.text })}\n`);
}
await sandbox.close();
