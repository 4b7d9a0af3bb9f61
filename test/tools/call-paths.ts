/**
 * The files that a reader passes on the way of one record from `sync` to its INSERT, and of one step from `restore --apply`
 * to its request. Both commands run in this process against the sandbox; at each statement and request of interest the call
 * stack is taken, across `await`, and the files of `src` in it are counted. Callbacks and streams end a stack, so what only
 * hands data on (a queue, a sink) counts where it calls, not where it is called from.
 */
import diagnosticsChannel from 'node:diagnostics_channel';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import Database from 'better-sqlite3';
import { runCommandLine } from '../../src/cli/program.ts';
import { systemClock } from '../../src/core/clock.ts';
import { createSandbox } from '../../src/server/sandbox.ts';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';

const SRC = new URL('../../src/', import.meta.url).pathname;
const KEY = 'test-key-of-some-length';

/** What puts a record into the stage and into the table of its kind; what journals a step. */
const STATEMENTS = { sync: /INSERT INTO (stage\.|"projects")/, restore: /restore_steps/ } as const;

export interface CallPaths {
  /** Files of `src`, `api/list-walk.ts`, sorted. */
  readonly sync: readonly string[];
  readonly restore: readonly string[];
}

function filesOfStack(): string[] {
  const { stack = '' } = new Error('only its stack');
  return [...stack.matchAll(/file:\/\/([^\s)]+?\.ts):\d/g)]
    .map(([, path = '']) => path)
    .filter((path) => path.startsWith(SRC))
    .map((path) => path.slice(SRC.length));
}

/** Runs both commands. Takes some seconds. */
export async function callPaths(): Promise<CallPaths> {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-paths-'));
  const sandbox = await createSandbox({
    clock: systemClock,
    keys: [{ key: KEY, permissions: 'all' }],
    seed: 'demo',
  });
  const { url } = await sandbox.listen({ host: '127.0.0.1', port: 0 });
  const found = { sync: new Set<string>(), restore: new Set<string>() };
  let collecting: 'sync' | 'restore' | undefined;
  const take = (): void => {
    if (collecting !== undefined) for (const file of filesOfStack()) found[collecting].add(file);
  };
  const run = async (...args: readonly string[]): Promise<void> => {
    let text = '';
    const sink = (): Writable =>
      new Writable({
        write(chunk: unknown, _encoding, done) {
          text += String(chunk);
          done();
        },
      });
    const code = await runCommandLine(args, {
      env: {
        TIDEMARK_BASE_URL: url,
        TIDEMARK_API_KEY: KEY,
        TIDEMARK_MIRROR: join(directory, 'mirror.db'),
        TIDEMARK_RATE_PER_MINUTE: '0',
        TIDEMARK_RATE_PER_HOUR: '0',
        TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing',
      },
      cwd: directory,
      stdin: { isTTY: false },
      stdout: sink(),
      stderr: sink(),
      signal: new AbortController().signal,
      pid: process.pid,
      execPath: process.execPath,
      entry: '',
    });
    if (code !== 0) throw new Error(`tidemark ${args.join(' ')} ended with ${code}: ${text}`);
  };

  const probe = new Database(':memory:').prepare('SELECT 1');
  const statements = Object.getPrototypeOf(probe) as { run: (...values: unknown[]) => unknown };
  const { run: plainRun } = statements;
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = Infinity;
  statements.run = function (this: { readonly source: string }, ...values: unknown[]): unknown {
    if (collecting !== undefined && STATEMENTS[collecting].test(this.source)) take();
    return plainRun.apply(this, values);
  };
  const onRequest = (message: unknown): void => {
    const { request } = message as { readonly request: { readonly method: string } };
    if (collecting === 'sync' || request.method === 'PATCH') take();
  };
  diagnosticsChannel.subscribe('undici:request:create', onRequest);
  try {
    collecting = 'sync';
    await run('sync', '--quiet');
    collecting = undefined;
    const path = `${url}/api/organizations/${KITTIWAKE_ID}/`;
    const changed = await fetch(path, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: '{"name":"Another name"}',
    });
    if (!changed.ok) throw new Error(`the sandbox answered ${changed.status} to ${path}`);
    collecting = 'restore';
    await run('restore', 'latest', '--apply', '--yes', '--quiet');
    collecting = undefined;
  } finally {
    statements.run = plainRun;
    Error.stackTraceLimit = limit;
    diagnosticsChannel.unsubscribe('undici:request:create', onRequest);
    await sandbox.close();
    rmSync(directory, { recursive: true, force: true });
  }
  return { sync: [...found.sync].sort(), restore: [...found.restore].sort() };
}
if (import.meta.main) console.log(await callPaths());
