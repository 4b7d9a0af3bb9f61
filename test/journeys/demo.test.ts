import { cpSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { madeDemo } from '../tools/made-demo.ts';
import { scratch, tidemark } from './harness.ts';

it(
  'the demo shows what the careless admin did, worst first, and writes the page',
  { timeout: 120_000 },
  async () => {
    const directory = scratch();
    const made = await madeDemo();
    cpSync(made.directory, directory, { recursive: true });
    const stdout = readFileSync(made.printed, 'utf8').replaceAll(made.directory, directory);
    const report = stdout.slice(
      stdout.indexOf('The drift from the baseline'),
      stdout.indexOf('The same as a page'),
    );
    expect(report).toContain('15 findings open in 13 records');
    const graveness = [...report.matchAll(/^\S.*\(\d+\)\n {2}.*\[(\w+)\]$/gm)].map(([, level]) => level);
    expect(graveness.slice(0, 4)).toEqual(['critical', 'critical', 'critical', 'critical']);
    expect(graveness.at(-1)).toBe('medium');
    expect(report).toContain('/enforce_2fa true → false');
    // Names and ids never run over the edge; only values, folded to two lines, may.
    for (const line of report.split('\n').filter((each) => /^ {6}(id|organization|role) /.test(each)))
      expect(line.length).toBeLessThanOrEqual(100);
    expect(stdout).toMatch(/which fields of roles can be written:\n\n {2}definitions:\n {4}roles: \{/);
    // What a colon announces follows it.
    expect(stdout.match(/:\n\s*\n— /)).toBeNull();
    const page = join(directory, 'drift.html');
    expect(stdout).toContain(page);
    expect(existsSync(page)).toBe(true);
    expect(readFileSync(page, 'utf8')).toContain('Kittiwake Analytics');
    // What it proposes at its end works when the sandbox is gone.
    const ending = stdout.slice(stdout.indexOf('The mirror stays'));
    expect(ending).toContain(`export TIDEMARK_MIRROR=${join(directory, 'mirror.db')}`);
    const proposed = [...ending.matchAll(/^npx tidemark (.*)$/gm)].map(([, args = '']) => args);
    expect(proposed.length).toBeGreaterThan(2);
    const env = { TIDEMARK_MIRROR: join(directory, 'mirror.db') };
    for (const args of proposed) {
      const { code, stdout: shown } = await tidemark(args.split(' '), { env, cwd: directory });
      // No sync has read what the restore did: the report is as of before, and says so.
      if (args === 'drift') expect([code, shown]).toEqual([3, expect.stringContaining('restore 1 was')]);
      else expect([0, 2], args).toContain(code);
    }
  },
);
