/** What a look at the dashboard and a scrape of the metrics cost on a large mirror, by HTTP, as who looks gets them. */
import { join } from 'node:path';
import { cellsOfOne } from '../test/daemon/one-mirror.ts';
import { loadConfig } from '../src/config/load.ts';
import { onlyMirrorConfig } from '../src/config/mirrors.ts';
import { systemClock } from '../src/core/clock.ts';
import { silentLogger } from '../src/core/logger.ts';
import { BackupCatalog } from '../src/backup/known-backups.ts';
import { startHttp } from '../src/daemon/http/http.ts';
import type { DaemonView } from '../src/daemon/view.ts';
import { type Mirror } from '../src/mirror/mirror.ts';
import { openMirror } from '../src/mirror/open.ts';
import { measure, median } from './measure.ts';
import { environment, startPageSource } from './page-source.ts';
import { recording, recordingId } from './recording.ts';
import { openBenchMirror, syncRecordings } from './recordings.ts';
import { atMost, program, type BenchContext, type Line } from './section.ts';

const PAGE_MS = 50;
const SCRAPE_MS = 20;
const LOOKS = 25;
/** Half-hourly runs of a fortnight, each with a few changes: what the charts and lists read. */
const RUNS = 600;
const CHANGES = 5;

const PAGES = [
  ['overview', '/'],
  ['drift', '/drift'],
  ['changes', '/changes'],
  ['100 changes of a kind', '/changes?days=90&kind=session_recordings'],
  ['runs', '/runs'],
  ['a page of records', '/records?kind=session_recordings'],
  ['a page in the middle', `/records?kind=session_recordings&after=500000`],
  ['a record', `/records/session_recordings/${recordingId(7)}`],
  ['a search by id', `/records?kind=session_recordings&q=${recordingId(7).slice(0, 12)}`],
] as const;

export async function run({ large, scratch, note }: BenchContext): Promise<Line[]> {
  const path = join(scratch, 'dashboard.db');
  note(`${large.toLocaleString('en')} recordings`);
  {
    await using source = await startPageSource(large);
    await measure([program, 'sync', '--quiet'], { env: environment(source, path) });
  }
  note(`${RUNS} more runs`);
  const writer = openBenchMirror(path);
  writer.snapshots.pin('as-approved', writer.runs.list({ limit: 1 })[0]?.run ?? 1);
  writer.snapshots.setBaseline('as-approved');
  for (let generation = 1; generation <= RUNS; generation += 1) {
    const texts = Array.from({ length: CHANGES }, (_unused, index) =>
      recording(index, generation, large - index),
    );
    await syncRecordings(writer, texts);
  }
  writer.close();

  const mirror = openMirror(path, { mode: 'read', command: 'bench', clock: systemClock });
  const http = await startHttp(cellsOfOne(viewOf(mirror, path)), {
    host: '127.0.0.1',
    port: 0,
    token: null,
    localToken: 'bench',
    clock: systemClock,
    log: silentLogger,
  });
  try {
    const lines: Line[] = [];
    for (const [name, target] of PAGES)
      lines.push(await look(`dashboard, ${name}`, http.url + target, PAGE_MS, large));
    lines.push(await look('metrics', `${http.url}/metrics`, SCRAPE_MS, large));
    lines.push(await look('readiness', `${http.url}/readyz`, SCRAPE_MS, large));
    return lines;
  } finally {
    await http.close();
    mirror.close();
  }
}

async function look(name: string, url: string, most: number, large: number): Promise<Line> {
  const times: number[] = [];
  for (let n = 0; n <= LOOKS; n += 1) {
    const startedAt = performance.now();
    const answer = await fetch(url);
    const text = await answer.text();
    times.push(performance.now() - startedAt);
    // Readiness tells that a run of 2026 is old: that is an answer too.
    if (answer.status !== 200 && answer.status !== 503)
      throw new Error(`${url}: ${answer.status} ${text.slice(0, 200)}`);
  }
  const [first = Number.NaN, ...others] = times;
  const shown = (value: number): string => `${value.toFixed(1)} ms`;
  return atMost(
    `${name}, ${large} records, median of ${LOOKS}`,
    median(others),
    most,
    shown,
    `slowest ${shown(Math.max(...others))}; the first ${shown(first)}`,
  );
}

/** A daemon that only has a mirror. */
function viewOf(mirror: Mirror, path: string): DaemonView {
  const env = environment({ url: 'http://127.0.0.1:1' }, path);
  const config = onlyMirrorConfig(loadConfig({ env, cwd: '/', keys: 'required' }));
  return {
    startedAt: new Date().toISOString(),
    addedAt: () => new Date().toISOString(),
    scheduledAt: () => null,
    config: () => config,
    configProblem: () => null,
    mirror: () => mirror,
    completeRuns: new Map(),
    openReader: () => mirror,
    backups: new BackupCatalog(systemClock),
    schedules: () => [],
    intervalChange: () => null,
    running: () => [],
    queued: () => [],
    stats: () => [],
    problems: () => [],
    request: () => [],
    requested: () => null,
    change: () => Promise.reject(new Error('nothing is changed here')),
  };
}
