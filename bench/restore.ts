/**
 * A plan of 10,000 changes among 100,000 records, and its sending, beside a bare loop that sends the same requests: for
 * each record a GET (is it as planned), a PATCH, and a GET (does it hold what was sent). Both are timed by the server,
 * from the first request about a single record to the last, each client in a process of its own.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { measure, median, medianRatio } from './measure.ts';
import { environment } from './page-source.ts';
import { atMost, here, milliseconds, program, type BenchContext, type Line } from './section.ts';

/** The share of the records that a careless hand altered. */
const SHARE = 0.1;
/** Beyond reading live, for each record of the mirror: 2 s for 100,000. */
const PLAN_MS_PER_RECORD = 0.02;
/** A bare loop may be so many times as fast: 60 % of its speed. */
const LOOP_SHARE = 0.6;
const CONCURRENCY = 4;

interface Steps {
  readonly byMethod: Readonly<Record<string, number>>;
  /** From the first request about a single record to the last. */
  readonly ms: number;
}

interface RestoreSource extends AsyncDisposable {
  readonly url: string;
  readonly collection: string;
  /** As at its beginning, with so many records altered. */
  break(changes: number): Promise<void>;
  steps(): Promise<Steps>;
}

export async function run({ records, rounds, scratch, note }: BenchContext): Promise<Line[]> {
  const changes = Math.round(records * SHARE);
  await using source = await startRestoreSource(records);
  const mirror = join(scratch, 'mirror.db');
  const env = {
    ...environment(source, mirror),
    TIDEMARK_KINDS_INCLUDE: 'organizations,domains',
    TIDEMARK_RATE_CONCURRENCY: String(CONCURRENCY),
  };
  note(
    `a mirror of ${records.toLocaleString('en')} domains, of which ${changes.toLocaleString('en')} change`,
  );
  await measure([program, 'sync', '--quiet'], { env });

  const [plan, reading]: [number[], number[]] = [[], []];
  const [own, loop]: [number[], number[]] = [[], []];
  for (let round = 1; round <= rounds; round += 1) {
    note(`plan and apply, round ${round} of ${rounds}`);
    await source.break(changes);
    // Live is read by the same run as a sync, into a mirror that is empty: what a first sync takes.
    const empty = { ...env, TIDEMARK_MIRROR: join(scratch, `empty-${round}.db`) };
    reading.push((await measure([program, 'sync', '--quiet'], { env: empty })).wallMs);
    const planned = await measure([program, 'restore', '--json', '--quiet'], { env, exitCodes: [2] });
    plan.push(planned.wallMs);
    const lines = stepLines(planned.stdout, changes);
    await source.steps();
    await measure([program, 'restore', '--apply', '--yes', '--quiet'], { env });
    own.push(told('restore', await source.steps(), changes));
    await source.break(changes);
    await sendBare(source, lines);
    loop.push(told('the bare loop', await source.steps(), changes));
  }
  const beyond = plan.map((ms, round) => ms - reading[round]!);
  const speed = 1 / medianRatio(own, loop);
  const perSecond = (ms: number): string =>
    `${Math.round((changes / ms) * 1000).toLocaleString('en')} steps/s`;
  return [
    atMost(
      `plan of ${changes} changes among ${records}, beyond reading live`,
      median(beyond),
      PLAN_MS_PER_RECORD * records,
      milliseconds,
      `${milliseconds(median(plan))} in all`,
    ),
    {
      name: `apply, ${CONCURRENCY} at a time: GET, PATCH, GET per step`,
      figure: perSecond(median(own)),
      ratio: `${(speed * 100).toFixed(0)} % of a bare loop, ${perSecond(median(loop))}`,
      bound: `≥ ${LOOP_SHARE * 100} %`,
      isMet: speed >= LOOP_SHARE,
    },
  ];
}

/** `ID BODY` for each step of the plan: what the bare loop sends. */
function stepLines(planText: string, changes: number): string {
  const { steps } = JSON.parse(planText) as {
    steps: readonly { readonly id: string; readonly request: { readonly body: unknown } }[];
  };
  if (steps.length !== changes) {
    throw new Error(`${steps.length} steps were planned where ${changes} records were altered`);
  }
  return steps.map(({ id, request }) => `${id} ${JSON.stringify(request.body)}\n`).join('');
}

/** The time that it took, where both sent the same. */
function told(who: string, { byMethod, ms }: Steps, changes: number): number {
  const { GET = 0, PATCH = 0 } = byMethod;
  if (PATCH === changes && GET === 2 * changes) return ms;
  throw new Error(`${who} sent ${GET} GET and ${PATCH} PATCH for ${changes} steps`);
}

async function sendBare({ url, collection }: RestoreSource, lines: string): Promise<void> {
  const args = [here('restore-loop.ts'), url, collection, String(CONCURRENCY)];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'inherit', 'inherit'] });
  child.stdin.end(lines);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0) throw new Error(`the bare loop ended with ${code}`);
}

async function startRestoreSource(count: number): Promise<RestoreSource> {
  const child = spawn(process.execPath, [here('restore-server.ts'), String(count)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  for await (const line of createInterface({ input: child.stdout })) {
    const { url, collection } = JSON.parse(line) as { url: string; collection: string };
    return {
      url,
      collection,
      break: async (changes) => {
        await fetch(`${url}/break?changes=${changes}`, { method: 'POST' });
      },
      steps: async () => (await (await fetch(`${url}/steps`)).json()) as Steps,
      [Symbol.asyncDispose]: async () => {
        child.kill();
        await ended;
      },
    };
  }
  throw new Error('the server of the restore section did not start');
}
