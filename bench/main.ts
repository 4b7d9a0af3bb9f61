/**
 * `npm run bench -- --check` is the quick check of `check.ts`; `npm run bench [-- SECTION…]` measures the built product section by section and prints a table of figures, bounds and
 * verdicts; exit code 1 when a bound is broken. `--check --untimed` leaves out the ratios of times, which are only reported. BENCH_RECORDS (100,000), BENCH_LARGE (1,000,000) and BENCH_ROUNDS (5)
 * make it smaller for a quick look. A section is a file `bench/NAME.ts` with a function `run`, and a row here.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Line, Section } from './section.ts';
import { renderTable } from './table.ts';

const SECTIONS: Readonly<Record<string, () => Promise<{ run: Section }>>> = {
  start: () => import('./start.ts'),
  sync: () => import('./sync.ts'),
  memory: () => import('./memory.ts'),
  diff: () => import('./diff.ts'),
  history: () => import('./history.ts'),
  restore: () => import('./restore.ts'),
  replica: () => import('./replica.ts'),
  dashboard: () => import('./dashboard.ts'),
  daemon: () => import('./daemon.ts'),
  cells: () => import('./cells.ts'),
  backup: () => import('./backup.ts'),
};

/** Not part of the whole bench: it measures again, smaller, what the sections do. */
const CHECK = { check: () => import('./check.ts') };
const UNTIMED_CHECK = {
  check: async () => {
    const { runUntimed } = await import('./check.ts');
    return { run: runUntimed };
  },
};

function size(name: string, usual: number): number {
  const value = Number(process.env[name] ?? usual);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`${name} must be a whole number above 0`);
  return value;
}

async function measureSection(name: string, run: Section): Promise<readonly Line[]> {
  const scratch = mkdtempSync(join(tmpdir(), `tidemark-bench-${name}-`));
  try {
    return await run({
      records: size('BENCH_RECORDS', 100_000),
      large: size('BENCH_LARGE', 1_000_000),
      rounds: size('BENCH_ROUNDS', 5),
      scratch,
      note: (text) => process.stderr.write(`${name}: ${text}\n`),
    });
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

async function main(asked: readonly string[]): Promise<number> {
  const isCheck = asked.includes('--check');
  const sections: typeof SECTIONS = isCheck
    ? asked.includes('--untimed')
      ? UNTIMED_CHECK
      : CHECK
    : SECTIONS;
  const names = asked.length === 0 || isCheck ? Object.keys(sections) : asked;
  const unknown = names.find((name) => !Object.hasOwn(sections, name));
  if (unknown !== undefined) {
    process.stderr.write(`no section ${unknown}: there is ${Object.keys(SECTIONS).join(', ')}\n`);
    return 4;
  }
  const load = loadavg()[0] ?? 0;
  process.stdout.write(
    `Node ${process.version}, ${availableParallelism()} × ${cpus()[0]?.model.trim() || 'processor'}, load ${load.toFixed(1)}\n`,
  );
  if (load > 0.5) process.stdout.write('other work is running: times and their ratios will wander\n');
  const lines: Line[] = [];
  for (const name of names) {
    const section = await sections[name]!();
    const measured = await measureSection(name, section.run);
    process.stdout.write(`\n${name}\n${renderTable(measured)}`);
    lines.push(...measured);
  }
  const missed = lines.filter(({ isMet }) => !isMet);
  const broken = missed.filter(({ isReported }) => isReported !== true);
  const over = missed.filter(({ isReported }) => isReported === true);
  const named = (those: readonly Line[]): string => those.map(({ name }) => name).join('; ');
  const ending = [
    `${lines.length - missed.length} of ${lines.length} bounds met`,
    ...(over.length === 0
      ? []
      : [`over, which is only reported since it depends on the machine: ${named(over)}`]),
    ...(broken.length === 0 ? [] : [`broken: ${named(broken)}`]),
  ];
  process.stdout.write(`\n${ending.join('\n')}\n`);
  return broken.length === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
