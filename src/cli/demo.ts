/** `tidemark demo`: every step from sync to restore against a sandbox in a child process, without key or network. */
import { spawn, type ChildProcess } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { createColors } from 'picocolors';
import { nodeOptions } from '../core/child-process.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { makeDirectory } from '../core/file-errors.ts';
import { shellWord } from '../core/hints.ts';
import { type DrillDocument, drillTotals } from '../diff/drill-document.ts';
import { carelessAdmin } from '../server/seed/careless-admin.ts';
import { percent } from '../core/wording.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { isColoured, print, type CommandContext, terminalWidth } from './context.ts';
import { diff } from './diff.ts';
import { drift } from './drift.ts';
import { drill } from './drill.ts';
import { restore } from './restore.ts';
import { sync } from './sync.ts';
import { renderTable } from '../report/table.ts';

interface DemoOptions {
  readonly output?: string;
}

const KEY = 'demo-key';

/** A domain and an invite. */
const ADDED_BY_THE_ADMIN = 2;

/** The writable fields of roles, which the profile svc does not name. */
const DEFINITIONS = {
  roles: { fields: { name: { type: 'string', writable: true } } },
  role_memberships: { fields: { user_uuid: { type: 'string', writable: true } } },
};

/** What a restore of the demo needs beside the mirror: the secrets of the exports, and these definitions. */
const SUPPLIED: Readonly<Record<string, string>> = {
  TIDEMARK_SECRETS: JSON.stringify({
    batch_exports: [
      { match: { name: 'Persons → Snowflake' }, values: secretsOf('user', 'password') },
      { match: { name: 'Billing events → Postgres' }, values: secretsOf('user', 'password') },
      ...['Events → S3 (cold storage)', 'Checkout funnel → S3'].map((name) => ({
        match: { name },
        values: secretsOf('aws_access_key_id', 'aws_secret_access_key'),
      })),
    ],
  }),
  TIDEMARK_DEFINITIONS: JSON.stringify(DEFINITIONS),
};

const DAMAGED_PERCENT = 10;

/** What a drill gets: the secrets of all exports, and the profile that names the writable fields of all families. */
const PREPARED: Readonly<Record<string, string>> = {
  TIDEMARK_PROFILE: 'posthog',
  TIDEMARK_SECRETS: JSON.stringify({
    batch_exports: [{ values: secretsOf('user', 'password', 'aws_access_key_id', 'aws_secret_access_key') }],
  }),
};

const SCORE_MEANS = [
  'The score is the share of records that are as they were after the restore, read back and compared, those that the',
  'damage spared included. What is missing from 100 % needs manual work, never a request: someone invited accepts, someone',
  'proves a domain by DNS. This drill knew the secrets of the exports and ran under the profile posthog; the profile svc',
  'names no writable fields of projects, roles and five other kinds, so there they count as unknown.',
].join('\n');

/** What comes back in a drill into an empty sandbox, from its document. */
function drillLossText(json: string): string {
  const { kinds } = JSON.parse(json) as Pick<DrillDocument, 'kinds'>;
  const { records, comes_back, needs_person, needs_secret } = drillTotals(kinds);
  const secrets = needs_secret === 0 ? '' : `, ${needs_secret} a secret that was not given`;
  return (
    `${comes_back} of ${records} records (${percent(comes_back / records)}) come back by requests alone; ${needs_person} need manual work${secrets}:\n` +
    'people come back by accepting an invitation; what belongs to them comes back after that'
  );
}

function secretsOf(...members: readonly string[]): object {
  return Object.fromEntries(members.map((member) => [`/destination/config/${member}`, `demo-${member}`]));
}

/** Questions that the mirror answers with plain SQL. */
const QUERIES: readonly { readonly question: string; readonly sql: string }[] = [
  {
    question: 'Which batch exports are paused, and where would they write?',
    sql: "SELECT name, destination ->> '$.type' AS type, interval FROM batch_exports WHERE paused ORDER BY name LIMIT 5",
  },
  {
    question: 'Who are the owners and administrators?',
    sql: "SELECT user ->> '$.email' AS email, level, is_2fa_enabled FROM members WHERE level >= 8 ORDER BY level DESC, email LIMIT 5",
  },
  {
    question: 'What is gone, and since which run?',
    sql: 'SELECT kind, name, run FROM gone ORDER BY kind, name LIMIT 8',
  },
];

/** Commands that need only the mirror, for after the demo. */
const AFTERWARDS: readonly string[] = ['runs', 'diff run:1 run:2', 'drift', 'snapshots', 'verify'];

export async function demo(context: CommandContext, options: DemoOptions): Promise<ExitCode> {
  const directory = resolve(context.cwd, options.output ?? join('data', 'demo'));
  const mirrorPath = join(directory, 'mirror.db');
  makeDirectory(directory);
  for (const suffix of ['', '-wal', '-shm', '-lock', '-stage', '-rate', '-rate-wal', '-rate-shm'])
    await rm(`${mirrorPath}${suffix}`, { force: true });

  const sandbox = await startSandbox(context);
  try {
    // The demo has its own configuration, whatever the directory or the environment configures.
    const env = {
      PATH: context.env['PATH'],
      CI: context.env['CI'],
      NO_COLOR: context.env['NO_COLOR'],
      TIDEMARK_BASE_URL: sandbox.url,
      TIDEMARK_API_KEY: KEY,
      TIDEMARK_MIRROR: mirrorPath,
      // The sandbox needs no limits.
      TIDEMARK_RATE_PER_MINUTE: '0',
      TIDEMARK_RATE_PER_HOUR: '0',
      TIDEMARK_RECORDINGS_SHARING_PER_RUN: 'all',
    };
    const inner: CommandContext = { ...context, cwd: directory, env, options: {} };
    const say = (text: string): Promise<void> => print(context, `${text}\n`);
    const act = (title: string): Promise<void> =>
      print(context, `\n${createColors(isColoured(context)).bold(`— ${title} —`)}\n`);

    await act('1. A sandbox of the service, in a separate process');
    await say(
      `it listens on ${sandbox.url}: an organization with projects, members, exports and thousands of recordings`,
    );

    await act('2. The first sync: everything the API offers');
    requireCode('sync', await sync(inner, {}), EXIT.done);

    await act('3. This is how it should be: the baseline');
    await say(setBaseline(inner));

    await act('4. A dozen bad changes');
    for (const { method, path, body, says } of carelessAdmin()) {
      await send(sandbox.url, method, path, body);
      await say(`${method.padEnd(6)} ${says}`);
    }

    await act('5. The next sync: only what changed is written');
    requireCode('sync', await sync(inner, {}), EXIT.done);

    await act('6. The drift from the baseline, most severe first');
    requireCode('drift report', await drift(inner, {}), EXIT.differences);

    await act('7. The same as a page, to send or to archive');
    const page = join(directory, 'drift.html');
    const quiet: CommandContext = { ...inner, options: { quiet: true } };
    const written = await drift(quiet, { format: 'html', output: page });
    requireCode('drift report', written, EXIT.differences);
    await say(page);

    await act('8. The mirror is SQLite: ask it');
    const mirror = openConfiguredMirror(readConfig(inner, {}), 'read', 'demo', context.pid);
    try {
      const width = terminalWidth(context);
      for (const { question, sql } of QUERIES) {
        const { columns, rows } = mirror.query(sql);
        const cells = rows.map((row) => row.map(cell));
        const inside = width === undefined ? undefined : width - INDENT.length;
        await say(`${question}\n  sqlite3 ${mirrorPath} "${sql}"\n`);
        await say(`${indent(renderTable(columns, cells, [], { width: inside }))}\n`);
      }
    } finally {
      mirror.close();
    }
    await act('9. Restore, the plan first: nothing is sent yet, and secrets that are missing are listed');
    const restoreOptions = { from: 'baseline', prune: true, maxRemovals: ADDED_BY_THE_ADMIN };
    requireCode('plan', await restore(inner, restoreOptions), EXIT.partial);

    await act(
      '10. With these secrets supplied, the plan is applied: each step is journaled, sent and read back',
    );
    const definitions = Object.entries(DEFINITIONS).map(
      ([kind, definition]) => `  ${kind}: ${JSON.stringify(definition)}`,
    );
    await say(
      `the configuration now has the secrets that step 9 lists, and says which fields of roles can be written:\n\n${indent(['definitions:', ...definitions].join('\n'))}\n`,
    );
    const supplied: CommandContext = { ...quiet, env: { ...inner.env, ...SUPPLIED } };
    const restored = await restore(supplied, { ...restoreOptions, apply: true, yes: true });
    requireCode('restore', restored, EXIT.done);

    await act('11. The check: the baseline against the service, in all fields that a restore can write');
    requireCode('diff', await diff(supplied, { from: 'baseline', to: 'live', managedOnly: true }), EXIT.done);

    await act(
      '12. A restore test: 10 % of the records, and what belongs to those removed, are damaged in a separate sandbox and restored',
    );
    const prepared: CommandContext = { ...quiet, env: { ...inner.env, ...PREPARED } };
    const tenth = await drill(prepared, { from: 'baseline', damage: DAMAGED_PERCENT });
    requireCode('drill', tenth, EXIT.done);
    await say(`\n${SCORE_MEANS}`);

    await act('13. And if everything were lost? The same from nothing, kept as a document');
    const kept = join(directory, 'drill.json');
    const all = await drill(prepared, { from: 'baseline', format: 'json', output: kept });
    requireCode('drill', all, EXIT.partial);
    await say(`${drillLossText(await readFile(kept, 'utf8'))}\n${kept}`);

    await act('The mirror stays, the sandbox does not; these need no service');
    await say(
      [
        `export TIDEMARK_MIRROR=${shellWord(mirrorPath)}`,
        ...AFTERWARDS.map((command) => `npx tidemark ${command}`),
      ].join('\n'),
    );
    return EXIT.done;
  } finally {
    sandbox.process.kill('SIGTERM');
  }
}

async function startSandbox(context: CommandContext): Promise<{ url: string; process: ChildProcess }> {
  const child = spawn(
    context.execPath,
    [...nodeOptions(), context.entry, 'sandbox', '--port', '0', '--key', KEY, '--seed', 'demo', '--json'],
    { stdio: ['ignore', 'pipe', 'inherit'], env: { PATH: context.env['PATH'] } },
  );
  for await (const line of createInterface({ input: child.stdout })) {
    return { url: (JSON.parse(line) as { url: string }).url, process: child };
  }
  throw new TidemarkError('internal', 'the sandbox did not start');
}

/** Makes a change as the admin does: not through Tidemark. */
async function send(base: string, method: string, path: string, body: unknown): Promise<void> {
  const response = await fetch(new URL(path, base), {
    method,
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok)
    throw new TidemarkError('internal', `the sandbox answered ${response.status} to ${method} ${path}`);
}

/** Pins the first run and measures drift from it, as `snapshots pin` and `snapshots baseline` do. */
function setBaseline(context: CommandContext): string {
  using mirror = openConfiguredMirror(readConfig(context, {}), 'write', 'demo', context.pid);
  const { source } = mirror.runs.list({ limit: 1 })[0] ?? {};
  const latest = source === undefined ? undefined : mirror.runs.latest(source);
  if (latest === undefined) throw new TidemarkError('internal', 'the demo needs a run');
  const { name, run } = mirror.snapshots.pin('as-approved', latest.run);
  mirror.snapshots.setBaseline(name);
  return `run ${run} is pinned as ${name}, and drift is measured from it`;
}

/** The sandbox offers everything, and everything that the demo breaks can be restored: another exit code is a defect. */
function requireCode(what: string, code: ExitCode, expected: ExitCode): void {
  if (code !== expected) throw new TidemarkError('internal', `the demo's ${what} ended with ${code}`);
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '·';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const INDENT = '  ';

function indent(text: string): string {
  return text.replaceAll(/^/gm, INDENT);
}
