/** `status` where cron calls `daemon --once`: what it says of the last call, and of the next one. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { commandLine } from '../journeys/command-line.ts';
import { environment, scratch } from '../journeys/harness.ts';
import { FakeService } from '../journeys/service.ts';
import { begin } from '../mirror/fixture.ts';
import { alterFile } from '../tools/alter.ts';

const HOUR_MS = 3_600_000;
const at = (fromNowMs: number): string => new Date(Date.now() + fromNowMs).toISOString();

it('names what the last call ended with; asks whether calls come only where none came', async () => {
  const service = await FakeService.start();
  const directory = scratch();
  const target = join(directory, 'backups');
  mkdirSync(target);
  const env = { ...environment(service.url, directory), TIDEMARK_BACKUP_TARGETS: target };
  const path = join(directory, 'mirror.db');
  const status = async (): Promise<string> => (await commandLine(['status'], { env, cwd: directory })).stdout;
  expect((await commandLine(['sync'], { env, cwd: directory })).code).toBe(0);
  expect(await status()).toMatch(
    /^Backups: none yet; one is due .*, and nothing makes it: no daemon is running, and nothing calls `daemon --once`/m,
  );

  const mirror = openMirror(path, { mode: 'write', command: 'test', clock: systemClock });
  const source = mirror.runs.list({ limit: 1 })[0]?.source ?? '';
  const row = {
    schedule: 'sync',
    cron: '*/30 * * * *',
    zone: 'UTC',
    skippedTicks: 0,
    missedTicks: 0,
  } as const;
  mirror.daemon.saveSchedule({ ...row, dueAt: at(HOUR_MS / 6) });
  const ended = (
    outcome: 'done' | 'failed' | 'refused',
    error: { readonly errorCode: 'unreachable' | 'unauthorized'; readonly error: string } | null,
  ): void => {
    const startedAt = at(-60_000);
    const job = mirror.daemon.beginJob({ name: 'sync', source, trigger: 'schedule', startedAt });
    const why = error ?? { errorCode: null, error: null };
    mirror.daemon.finishJob(job, {
      finishedAt: startedAt,
      outcome,
      run: null,
      summary: { once: true },
      ...why,
    });
  };
  ended('done', null);
  expect(await status()).toMatch(
    /^Backups: none yet; one is due .*; `daemon --once` makes the first after its next complete sync, in 10 min: /m,
  );

  alterFile(path, `UPDATE runs SET finished_at = '${at(-5 * HOUR_MS)}', started_at = '${at(-5 * HOUR_MS)}'`);
  const asksForCalls = '→ see that cron or the timer still calls `tidemark daemon --once`';
  expect(await status()).toContain(asksForCalls);
  ended('failed', { errorCode: 'unreachable', error: 'the connection was refused' });
  const failed = await status();
  expect(failed).toMatch(
    new RegExp(
      `→ the last call of \`tidemark daemon --once\` that synced ${source}, 60 s ago, failed: \`tidemark doctor --source ${source}\` shows whether the service responds`,
    ),
  );
  expect(failed).not.toContain(asksForCalls);
  ended('refused', { errorCode: 'unauthorized', error: 'the key was refused' });
  expect(await status()).toMatch(/that synced \S+, 60 s ago, was refused: give \S+ a valid key; /);

  const run = begin(mirror, { source: { name: source, baseUrl: service.url } });
  expect(await status()).toMatch(/makes the first after the running sync, if that is complete: /);
  run.abandon({ code: 'unreachable', message: 'no answer' });

  mirror.daemon.saveSchedule({ ...row, dueAt: at(-3 * HOUR_MS) });
  mirror.close();
  expect(await status()).toContain(`${asksForCalls}, and what it prints: a sync was due 3 h ago; or run`);
});
