/** A service, a mirror that was synced from it, and a daemon that only seems to live: what the HTTP side is shown. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Kind } from '../../../src/catalog/kinds.ts';
import type { Config } from '../../../src/config/config.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { onlyMirrorConfig } from '../../../src/config/mirrors.ts';
import type { Actor } from '../../../src/core/actor.ts';
import { type Clock, isoTime, systemClock } from '../../../src/core/clock.ts';
import { TidemarkError } from '../../../src/core/errors.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { Secret } from '../../../src/core/secret.ts';
import { BackupCatalog } from '../../../src/backup/known-backups.ts';
import { type RunningHttpServer, startHttp } from '../../../src/daemon/http/http.ts';
import { type HttpOptions } from '../../../src/daemon/http/routes.ts';
import { type SummaryByJob, storedSummary } from '../../../src/daemon/jobs/summaries.ts';
import type { DaemonView, JobRequest, RequestStatus, ScheduleView } from '../../../src/daemon/view.ts';
import type { JobEnd, JobName } from '../../../src/mirror/daemon-store.ts';
import { type Mirror } from '../../../src/mirror/mirror.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { cellsOfOne } from '../one-mirror.ts';
import { oneOrganization } from '../../server/small-demo.ts';
import { createSandbox } from '../../../src/server/sandbox.ts';
import type { Seed } from '../../../src/server/seed/seed.ts';
import { silentEvents } from '../../../src/sync/events.ts';
import { syncSource } from '../../../src/sync/run.ts';
import { openReadClient } from '../../../src/wire-client.ts';
import { environment, scratch } from '../../journeys/harness.ts';

export const FULL_KEY = 'full-key-of-some-length';
export const NARROW_KEY = 'narrow-key-of-some-length';
export const LOCAL_TOKEN = 'local-token-of-this-machine';
export const MINUTE_MS = 60_000;
export const DAY_MS = 24 * 60 * MINUTE_MS;
const START = Date.UTC(2026, 2, 1, 7, 0);

/** A configuration file with sources that are one service, each with its `kinds`; written again where `path` is given. */
export function sourcesFile(
  kinds: Readonly<Record<string, string>>,
  path = join(scratch(), 'tidemark.yaml'),
): string {
  const rows = Object.entries(kinds).map(
    ([name, some]) =>
      `  - { name: ${name}, baseUrl: "\${SERVICE_URL}", apiKey: "\${TIDEMARK_API_KEY}", rate: { perMinute: 0, perHour: 0 }, recordings: { sharingPerRun: 5 }, kinds: { ${some} } }`,
  );
  writeFileSync(path, ['sources:', ...rows].join('\n'), { mode: 0o600 });
  return path;
}

/** Stands still until it is moved; waiting takes its real time. */
export class HeldClock implements Clock {
  at = START;
  /** By how much each look at it moves it. */
  stepMs = 0;
  now(): number {
    this.at += this.stepMs;
    return this.at;
  }
  /** Added to the time that passes. */
  passedMs = 0;
  monotonicMs(): number {
    return systemClock.monotonicMs() + this.passedMs;
  }
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return systemClock.sleep(ms, signal);
  }
}

type Sandbox = Awaited<ReturnType<typeof createSandbox>>;

export class World implements DaemonView {
  readonly clock = new HeldClock();
  readonly backups = new BackupCatalog(this.clock);
  readonly mirrorPath: string;
  readonly url: string;
  readonly sandbox: Sandbox;
  startedAt = isoTime(START);
  readonly addedAt = (): string => this.startedAt;
  readonly scheduledAt = (): null => null;
  readonly intervalChange = (): null => null;
  readonly completeRuns: DaemonView['completeRuns'] = new Map();
  schedulesShown: ScheduleView[] = [];
  runningShown: ReturnType<DaemonView['running']> = [];
  problemsShown: ReturnType<DaemonView['problems']> = [];
  figuresShown: ReturnType<DaemonView['stats']> = [];
  problem: TidemarkError | null = null;
  /** By the number of the request. */
  readonly requestStatuses = new Map<number, RequestStatus>();
  readonly asked: [JobName, readonly string[] | null, JobRequest | undefined][] = [];
  #config: Config;
  #mirror: Mirror | null = null;

  private constructor(
    sandbox: Sandbox,
    url: string,
    directory: string,
    more: Readonly<Record<string, string>>,
  ) {
    this.sandbox = sandbox;
    this.url = url;
    this.mirrorPath = join(directory, 'mirror.db');
    const mirrored = { TIDEMARK_MIRROR: this.mirrorPath, TIDEMARK_API_KEY: FULL_KEY };
    // A file may have several sources: it has their options itself.
    const env =
      more['TIDEMARK_CONFIG'] === undefined
        ? environment(url, directory, { ...mirrored, TIDEMARK_RECORDINGS_SHARING_PER_RUN: '20', ...more })
        : { ...mirrored, SERVICE_URL: url, ...more };
    this.#config = onlyMirrorConfig(loadConfig({ env, cwd: directory, keys: 'required' }));
    this.schedulesShown = [
      this.#schedule('sync', '*/30 * * * *', 30 * MINUTE_MS),
      this.#schedule('drift', '0 7 * * *', DAY_MS),
      this.#schedule('verify', '0 3 * * 0', 7 * DAY_MS),
      this.#schedule('drill', '0 5 * * 1', 7 * DAY_MS),
    ];
  }

  static async create(
    more: Readonly<Record<string, string>> = {},
    finished: (end: () => Promise<void>) => void = onTestFinished,
    seed: () => Seed = oneOrganization,
  ): Promise<World> {
    const sandbox = await createSandbox({
      clock: systemClock,
      seed: seed(),
      keys: [
        { key: FULL_KEY, permissions: 'all' },
        {
          key: NARROW_KEY,
          permissions: ['organization:read', 'organization_member:read', 'project:read', 'plugin:read'],
        },
      ],
    });
    const { url } = await sandbox.listen({ host: '127.0.0.1', port: 0 });
    const directory = mkdtempSync(join(tmpdir(), 'tidemark-test-'));
    const world = new World(sandbox, url, directory, more);
    finished(async () => {
      world.#mirror?.close();
      await sandbox.close();
      rmSync(directory, { recursive: true, force: true });
    });
    return world;
  }

  /** A complete run; with `NARROW_KEY` a partial one. By another name it is of a source that is not configured. */
  async sync(
    key = FULL_KEY,
    name?: string,
    acceptRemovals = 1000,
    kinds: readonly Kind[] | null = null,
  ): Promise<number> {
    const [configured] = this.#config.sources;
    if (configured === undefined) throw new Error('no source');
    const named = this.#config.sources.find((each) => each.name === name);
    const source = named ?? (name === undefined ? configured : { ...configured, name });
    const mirror = openMirror(this.mirrorPath, { mode: 'write', command: 'test', clock: this.clock });
    const client = openReadClient({ ...source, apiKey: new Secret(key) }, silentLogger, mirror.path);
    try {
      const { run } = await syncSource({
        mirror,
        source,
        client,
        clock: this.clock,
        log: silentLogger,
        events: silentEvents,
        signal: new AbortController().signal,
        trigger: 'sync',
        kinds,
        isFull: false,
        acceptRemovals,
      });
      return run;
    } finally {
      await client.close();
      mirror.close();
    }
  }

  /** The ids of the records of a list. */
  async ids(path: string): Promise<string[]> {
    const answer = await fetch(new URL(`${path}?limit=1000`, this.url), {
      headers: { authorization: `Bearer ${FULL_KEY}` },
    });
    const { results } = (await answer.json()) as { results: { id: string }[] };
    return results.map(({ id }) => id);
  }

  /** Asks the service for something, as somebody with its key would. */
  async send(method: string, path: string, body: unknown): Promise<void> {
    const answer = await fetch(new URL(path, this.url), {
      method,
      headers: { authorization: `Bearer ${FULL_KEY}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${answer.status} to ${method} ${path}: ${await answer.text()}`);
  }

  /** Does something with the mirror that only its writer may. */
  write<T>(work: (mirror: Mirror) => T, actor: Actor = { by: 'ann@here', via: 'ann@here' }): T {
    const options = { mode: 'write', command: 'test', clock: this.clock, actor } as const;
    const mirror = openMirror(this.mirrorPath, options);
    try {
      return work(mirror);
    } finally {
      mirror.close();
    }
  }

  /** A job that began and ended now. */
  job<Name extends keyof SummaryByJob>(
    name: Name,
    summary: Omit<SummaryByJob[Name], 'job'> | null,
    end: Partial<JobEnd> & { readonly source?: string | null } = {},
  ): void {
    const { source = 'default', ...rest } = end;
    this.write((mirror) => {
      const state = mirror.daemon;
      const at = isoTime(this.clock.now());
      const job = state.beginJob({ name, source, trigger: 'schedule', startedAt: at });
      const stored = summary === null ? null : ({ ...summary, job: name } as unknown as SummaryByJob[Name]);
      state.finishJob(job, {
        finishedAt: at,
        outcome: 'done',
        run: null,
        summary: storedSummary(stored),
        errorCode: null,
        error: null,
        ...rest,
      });
    });
  }

  /** The HTTP side on a free port, closed with the test. */
  async listen(
    more: Partial<HttpOptions> = {},
    finished: (end: () => Promise<void>) => void = onTestFinished,
  ): Promise<RunningHttpServer> {
    const http = await startHttp(cellsOfOne(this), {
      host: '127.0.0.1',
      port: 0,
      token: null,
      localToken: LOCAL_TOKEN,
      clock: this.clock,
      log: silentLogger,
      ...more,
    });
    finished(() => http.close());
    return http;
  }

  config(): Config {
    return this.#config;
  }

  configProblem(): TidemarkError | null {
    return this.problem;
  }

  mirror(): Mirror {
    return (this.#mirror ??= this.openReader());
  }

  openReader(): Mirror {
    return openMirror(this.mirrorPath, { mode: 'read', command: 'daemon', clock: this.clock });
  }

  schedules(): readonly ScheduleView[] {
    return this.schedulesShown;
  }

  running(): ReturnType<DaemonView['running']> {
    return this.runningShown;
  }

  queued(): ReturnType<DaemonView['queued']> {
    return [];
  }

  stats(): ReturnType<DaemonView['stats']> {
    return this.figuresShown;
  }

  problems(): ReturnType<DaemonView['problems']> {
    return this.problemsShown;
  }

  request(
    name: JobName,
    sources: readonly string[] | null,
    how?: JobRequest,
  ): ReturnType<DaemonView['request']> {
    const known = this.#config.sources.map((source) => source.name);
    if (sources?.some((source) => !known.includes(source)) === true) {
      throw new TidemarkError('usage', 'there is no such source', {
        hint: `sources are ${known.join(', ')}`,
      });
    }
    this.asked.push([name, sources, how]);
    return (sources ?? known).map((source) => ({ name, source, request: this.asked.length }));
  }

  /** At once: nobody else writes. */
  change<T>(_what: string, actor: Actor, work: (mirror: Mirror) => T): Promise<T> {
    return Promise.resolve(this.write(work, actor));
  }

  requested(request: number): ReturnType<DaemonView['requested']> {
    return this.requestStatuses.get(request) ?? null;
  }

  #schedule(schedule: ScheduleView['schedule'], cron: string, intervalMs: number): ScheduleView {
    const dueAt = isoTime(START + intervalMs);
    return {
      schedule,
      cron,
      zone: 'UTC',
      sources: this.#config.sources.map(({ name }) => name),
      dueAt,
      intervalMs,
      skippedTicks: 0,
      missedTicks: 0,
    };
  }
}
