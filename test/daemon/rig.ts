/** A daemon over a real mirror and a real HTTP service, its clock in the test's hands. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as realDelay } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { createReadClient } from '../../src/api/read-client.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { loadConfig } from '../../src/config/load.ts';
import { keyFingerprint } from '../../src/config/source.ts';
import { isoTime } from '../../src/core/clock.ts';
import type { Logger } from '../../src/core/logger.ts';
import { type Daemon, startDaemon } from '../../src/daemon/daemon.ts';
import type { DaemonEffects } from '../../src/daemon/effects.ts';
import type { JobObserver } from '../../src/daemon/jobs/observers.ts';
import type { DaemonView } from '../../src/daemon/view.ts';
import type { JobRow } from '../../src/mirror/daemon-store.ts';
import { SharedThrottle } from '../../src/mirror/shared-throttle.ts';
import { type Mirror } from '../../src/mirror/mirror.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { scratch } from '../journeys/harness.ts';
import { FakeService } from '../journeys/service.ts';
import { DrivenClock } from './driven-clock.ts';

export interface LogLine {
  readonly level: 'error' | 'warn' | 'info' | 'debug';
  readonly at: string;
  readonly message: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

/** Kinds whose lists are empty in these tests: a sync asks for half as many lists, and shows the same of the daemon. */
const UNREAD: readonly Kind[] = [
  'batch_exports',
  'pipeline_destinations',
  'pipeline_frontend_apps',
  'pipeline_import_apps',
  'pipeline_transformations',
  'plugins',
  'proxy_records',
  'recording_sharing',
  'session_recordings',
];

const START = Date.UTC(2026, 2, 2, 10, 1);

interface RigOptions extends Partial<Omit<Parameters<typeof startDaemon>[1], 'observers'>> {
  readonly observers?: readonly JobObserver[] | Parameters<typeof startDaemon>[1]['observers'];
}

export class Rig {
  readonly service: FakeService;
  readonly directory: string;
  readonly clock = new DrivenClock(START);
  readonly lines: LogLine[] = [];
  readonly configFile: string;
  readonly keyFile: string;
  readonly mirrorPath: string;
  /** Called before the mirror is opened for writing: throws for a disk that is full. */
  onOpen: (mode: 'read' | 'write', command: string) => void = () => undefined;
  /** Whether what a 429 asked for outlives the run, as it does with the program's own clients. */
  keepsPauses = false;
  /** Answers that the service holds back on purpose. */
  heldAnswers = 0;
  #inFlight = 0;
  #daemon: Daemon | null = null;
  #loopSleepers = 1;

  private constructor(service: FakeService) {
    this.service = service;
    this.directory = scratch();
    this.configFile = join(this.directory, 'tidemark.yaml');
    this.keyFile = join(this.directory, 'key');
    this.mirrorPath = join(this.directory, 'mirror.db');
    service.quirks.push((_request, response) => {
      this.#inFlight += 1;
      response.once('close', () => (this.#inFlight -= 1));
      return false;
    });
  }

  static async create(schedules: Readonly<Record<string, string>>, more = ''): Promise<Rig> {
    const rig = new Rig(await FakeService.start());
    writeFileSync(rig.keyFile, 'good-key', { mode: 0o600 });
    rig.configure(schedules, more);
    return rig;
  }

  /** Cron expressions by schedule; all others are off. */
  configure(schedules: Readonly<Record<string, string>>, more = ''): void {
    const rows = ['sync', 'drift', 'verify', 'forget', 'drill'].map(
      (name) => `  ${name}: { cron: "${schedules[name] ?? 'off'}"${name === 'sync' ? ', jitter: 0s' : ''} }`,
    );
    const text = [
      `mirror: ${this.mirrorPath}`,
      'sources:',
      '  - name: a',
      `    baseUrl: ${this.service.url}`,
      `    apiKeyFile: ${this.keyFile}`,
      '    rate: { perMinute: 0, perHour: 0, concurrency: 4 }',
      `    kinds: { exclude: [${UNREAD.join(', ')}] }`,
      // Its sleep would look as if the job waited: this rig tells by sleepers who is at work.
      '    sync: { maxDuration: 0s }',
      'schedules:',
      ...rows,
      more,
    ];
    writeFileSync(this.configFile, text.join('\n'));
  }

  /** Of the only mirror. */
  get view(): DaemonView {
    const [view] = this.daemon.cells.cells();
    if (view === undefined) throw new Error('there is no mirror');
    return view;
  }

  get daemon(): Daemon {
    if (this.#daemon === null) throw new Error('no daemon was started');
    return this.#daemon;
  }

  async start({ observers = [], ...options }: RigOptions = {}): Promise<Daemon> {
    const daemon = await startDaemon(this.effects(), {
      isOnce: false,
      startHttp: null,
      observers: typeof observers === 'function' ? observers : () => observers,
      backup: null,
      ...options,
    });
    this.#daemon = daemon;
    this.#loopSleepers = options.isOnce === true ? 0 : 1;
    onTestFinished(() => this.#end(daemon));
    await this.settle();
    return daemon;
  }

  async #end(daemon: Daemon): Promise<void> {
    const over = daemon.stop().then(() => true);
    while (!(await Promise.race([over, realDelay(5).then(() => false)]))) {
      this.clock.move(this.clock.nextWakeMs() ?? 0);
    }
  }

  effects(): DaemonEffects {
    const { clock } = this;
    return {
      clock,
      random: () => 0.5,
      log: this.#logger({}),
      loadConfig: () => loadConfig({ file: this.configFile, env: {}, cwd: this.directory }),
      openMirror: (config, mode, command, actor) => {
        this.onOpen(mode, command);
        const options = { mode, command, clock, host: 'here', pid: process.pid };
        return openMirror(config.mirror, actor === undefined ? options : { ...options, actor });
      },
      openReadClient: (source, log, beside) =>
        createReadClient({
          ...(this.keepsPauses
            ? {
                keptThrottle: new SharedThrottle({
                  beside,
                  before: null,
                  fingerprint: keyFingerprint(source),
                  clock,
                }),
              }
            : {}),
          baseUrl: source.baseUrl,
          apiKey: source.apiKey,
          rate: source.rate,
          retry: source.retry,
          userAgent: 'test',
          clock,
          random: () => 0.5,
          log,
        }),
      env: { PATH: process.env['PATH'] },
      host: 'here',
      pid: process.pid,
    };
  }

  /** Lets simulated time pass; everything that is to happen meanwhile happens in its order. */
  async advance(ms: number): Promise<void> {
    const until = this.clock.monotonicMs() + ms;
    for (;;) {
      await this.settle();
      const wakeMs = this.clock.nextWakeMs();
      const leftMs = until - this.clock.monotonicMs();
      if (wakeMs === null || wakeMs > leftMs) break;
      this.clock.move(wakeMs);
    }
    this.clock.move(Math.max(0, until - this.clock.monotonicMs()));
    await this.settle();
  }

  advanceMinutes(minutes: number): Promise<void> {
    return this.advance(minutes * 60_000);
  }

  /** Waits, in real time, until nothing moves any more but by the clock. */
  async settle(): Promise<void> {
    let [last, same] = ['', 0];
    while (same < (this.#isBusy() ? 6 : 2)) {
      await realDelay(1);
      const now = [this.service.seen.length, this.#inFlight, this.clock.slept, this.lines.length].join(' ');
      // A job that does not sleep works: on files, or on code that is being loaded. The loop's own sleep is the other one.
      const isWorking = this.#isBusy() && this.clock.sleeping <= this.#loopSleepers;
      same = now === last && this.#inFlight <= this.heldAnswers && !isWorking ? same + 1 : 0;
      last = now;
    }
  }

  #isBusy(): boolean {
    return this.#daemon !== null && this.#daemon.cells.activity().running().length > 0;
  }

  jobs(filter: Parameters<Mirror['daemon']['jobs']>[0] = {}): JobRow[] {
    return this.read((mirror) => mirror.daemon.jobs(filter)).toReversed();
  }

  read<T>(work: (mirror: Mirror) => T): T {
    const mirror = openMirror(this.mirrorPath, { mode: 'read', command: 'test', clock: this.clock });
    try {
      return work(mirror);
    } finally {
      mirror.close();
    }
  }

  /** Messages of at least `warn`, oldest first. */
  loud(): string[] {
    return this.lines
      .filter(({ level }) => level === 'warn' || level === 'error')
      .map(({ message }) => message);
  }

  #logger(carried: Readonly<Record<string, unknown>>): Logger {
    const write = (level: LogLine['level']) => (facts: Record<string, unknown>, message: string) =>
      void this.lines.push({
        level,
        at: isoTime(this.clock.now()),
        message,
        facts: { ...carried, ...facts },
      });
    return {
      error: write('error'),
      warn: write('warn'),
      info: write('info'),
      debug: write('debug'),
      trace: () => undefined,
      isLevelEnabled: (level) => level !== 'debug' && level !== 'trace',
      child: (facts) => this.#logger({ ...carried, ...facts }),
    };
  }
}
