/**
 * What `tidemark demo` prints and leaves behind, made once for all test files that read it: it takes ten seconds of the
 * processor.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { inject } from 'vitest';

export interface MadeDemo {
  /** Its `--output`: to be copied, not to be written to. */
  readonly directory: string;
  /** A file of what it printed, which names `directory`. */
  readonly printed: string;
}

const execute = promisify(execFile);

/** @throws what running the demo throws, such as its exit code; whoever asks next runs it again */
export async function madeDemo(): Promise<MadeDemo> {
  const place = join(inject('shared'), 'demo');
  const made: MadeDemo = { directory: join(place, 'output'), printed: join(place, 'printed.txt') };
  // Other files' tests are other processes: whoever makes the directory makes the demo, and its output comes last.
  while (!existsSync(made.printed)) {
    if (isFirst(place)) await make(place, made);
    else await sleep(100);
  }
  return made;
}

function isFirst(place: string): boolean {
  try {
    mkdirSync(place);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

async function make(place: string, { directory, printed }: MadeDemo): Promise<void> {
  try {
    const args = [inject('program'), 'demo', '--output', directory];
    const { stdout } = await execute(process.execPath, args, {
      cwd: place,
      env: { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'], TZ: 'UTC', NO_COLOR: '1' },
    });
    writeFileSync(`${printed}.new`, stdout);
    renameSync(`${printed}.new`, printed);
  } catch (error) {
    rmSync(place, { recursive: true, force: true });
    throw error;
  }
}
