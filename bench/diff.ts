/**
 * A diff of two runs beside GNU `diff` of their two exports, and its cost beside the number of records.
 * BENCH_RECORDS (100,000), BENCH_ROUNDS (5).
 */
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Line } from './line.ts';
import { measure, median } from './measure.ts';
import { openBenchMirror, recordings, syncRecordings } from './recordings.ts';

const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const standIn = fileURLToPath(new URL('diff-points.ts', import.meta.url));

/** A mirror of two runs, the second with `changes` records changed. */
async function twoRuns(path: string, records: number, changes: number): Promise<void> {
  const mirror = openBenchMirror(path);
  const every = Math.round(records / changes);
  await syncRecordings(
    mirror,
    recordings(records, () => 0),
  );
  await syncRecordings(
    mirror,
    recordings(records, (index) => (index % every === 0 ? 1 : 0)),
  );
  mirror.close();
}

function writeExport(path: string, lines: Iterable<string>): void {
  const file = openSync(path, 'w');
  let buffer = '';
  for (const line of lines) {
    buffer += `${line}\n`;
    if (buffer.length < 1 << 20) continue;
    writeSync(file, buffer);
    buffer = '';
  }
  writeSync(file, buffer);
  closeSync(file);
}

/** Wall clock of GNU diff, which says 1 when the files differ. */
function gnuDiff(one: string, other: string): number | null {
  const startedAt = performance.now();
  const { status, error } = spawnSync('diff', [one, other], {
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 2 ** 30,
  });
  if (error !== undefined) return null;
  if (status !== 1) throw new Error(`diff ended with ${status}`);
  return performance.now() - startedAt;
}

interface Command {
  readonly name: string;
  run(mirror: string): Promise<{ wallMs: number; stdout: string }>;
}

/** The built command where there is one; else a stand-in without a bundle, which starts more slowly. */
async function diffCommand(): Promise<Command> {
  const help = await measure([program, 'diff', '--help'], { exitCodes: [0, 1, 4] });
  if (/run:|FROM/.test(help.stdout)) {
    return {
      name: 'tidemark diff run:1 run:2 --json',
      run: (mirror) =>
        measure([program, 'diff', 'run:1', 'run:2', '--json'], {
          env: {
            TIDEMARK_MIRROR: mirror,
            TIDEMARK_BASE_URL: 'http://127.0.0.1:1',
            TIDEMARK_API_KEY: 'bench',
          },
          exitCodes: [2],
        }),
    };
  }
  return {
    name: 'diffPoints of runs 1 and 2, from source',
    run: (mirror) => measure(['--disable-warning=ExperimentalWarning', standIn, mirror, '1', '2']),
  };
}

export async function runDiffSection(): Promise<Line[]> {
  const records = Number(process.env['BENCH_RECORDS'] ?? 100_000);
  const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5);
  const changes = Math.round(records / 100);
  const scratch = mkdtempSync(join(tmpdir(), 'tidemark-bench-diff-'));
  try {
    const small = join(scratch, 'small.db');
    const large = join(scratch, 'large.db');
    await twoRuns(small, records, changes);
    await twoRuns(large, records * 4, changes);
    const files = [join(scratch, 'one.ndjson'), join(scratch, 'two.ndjson')] as const;
    const mirror = openBenchMirror(small);
    for (const [index, file] of files.entries()) {
      const bodies = mirror.readRecordsAt(index + 1);
      writeExport(
        file,
        (function* () {
          for (const { kind, scope, id, body } of bodies)
            yield `{"kind":"${kind}","scope":${JSON.stringify(scope)},"id":${JSON.stringify(id)},"body":${body}}`;
        })(),
      );
    }
    mirror.close();
    const command = await diffCommand();
    const [ours, larger, gnu]: [number[], number[], number[]] = [[], [], []];
    for (let round = 0; round < rounds; round += 1) {
      const cost = await command.run(small);
      const found = (JSON.parse(cost.stdout) as { summary: { changed: number } }).summary.changed;
      if (found !== changes) throw new Error(`${found} changes were found where ${changes} were made`);
      ours.push(cost.wallMs);
      larger.push((await command.run(large)).wallMs);
      const theirs = gnuDiff(...files);
      if (theirs !== null) gnu.push(theirs);
    }
    const [own, base, four] = [median(ours), median(gnu), median(larger)].map((value) => Math.round(value));
    const lines: Line[] = [
      {
        name: `${command.name}, ${changes} changes in 4 times the records`,
        figure: `${four} ms for ${records * 4}, ${own} ms for ${records}`,
        bound: '1.25 times',
        isMet: median(larger) <= 1.25 * median(ours),
      },
    ];
    lines.unshift(
      gnu.length === 0
        ? {
            name: command.name,
            figure: `${own} ms; no GNU diff on this machine: not compared`,
            bound: '-',
            isMet: true,
          }
        : {
            name: `${command.name}, ${changes} of ${records} changed`,
            figure: `${own} ms; GNU diff of the two exports ${base} ms`,
            bound: 'faster than GNU diff',
            isMet: median(ours) < median(gnu),
          },
    );
    return lines;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
