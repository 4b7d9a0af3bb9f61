/** One bash for a page: its variables, directory and background work last from block to block, as in a terminal. */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface Ran {
  readonly code: number;
  /** Both streams, as a terminal shows them. */
  readonly lines: readonly string[];
}

const LONGEST_COMMAND_MS = 120_000;

export class Shell {
  readonly #cwd: string;
  readonly #env: Record<string, string>;
  readonly #scripts: string;
  readonly #bash: ChildProcess;
  readonly #beside: ChildProcess[] = [];
  readonly #mark = `ended-${randomUUID()}`;
  #lines: string[] = [];
  #onEnd: ((code: number) => void) | null = null;
  #last = 0;
  #count = 0;

  /** @param scripts a directory for the commands as files */
  constructor(cwd: string, env: Record<string, string>, scripts: string) {
    this.#cwd = cwd;
    this.#env = env;
    this.#scripts = scripts;
    // A process group of its own, so that what it left in the background goes with it.
    this.#bash = spawn('bash', ['--noprofile', '--norc'], {
      cwd,
      env,
      detached: true,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#bash.stdin?.write('exec 2>&1\nshopt -s expand_aliases\n');
    if (this.#bash.stdout === null) throw new Error('no output');
    createInterface({ input: this.#bash.stdout }).on('line', (line) => {
      if (line.startsWith(this.#mark)) this.#onEnd?.(Number(line.slice(this.#mark.length)));
      else this.#lines.push(line);
    });
  }

  /** Runs one command to its end. */
  async run(command: string): Promise<Ran> {
    const file = join(this.#scripts, `command-${(this.#count += 1)}.sh`);
    writeFileSync(file, `${command}\n`);
    this.#lines = [];
    const ended = new Promise<number>((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`not ended after ${LONGEST_COMMAND_MS / 1000} s:\n${this.#lines.join('\n')}`));
      }, LONGEST_COMMAND_MS);
      this.#onEnd = (code) => {
        clearTimeout(timer);
        resolve(code);
      };
    });
    // `$?` at its beginning is the code of the command before it.
    this.#bash.stdin?.write(
      `(exit ${this.#last}); . ${file} </dev/null; printf '\\n%s%d\\n' ${this.#mark} $?\n`,
    );
    this.#last = await ended;
    return { code: this.#last, lines: this.#lines };
  }

  /** Starts what a reader starts in a terminal of its own, and returns its first line once it says so. */
  async startBeside(command: string): Promise<string> {
    const child = spawn('bash', ['-c', `${command}\n`], {
      cwd: this.#cwd,
      env: this.#env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#beside.push(child);
    return await new Promise<string>((resolve, reject) => {
      let said = '';
      for (const stream of [child.stdout, child.stderr])
        createInterface({ input: stream }).on('line', (line) => {
          said += `${line}\n`;
          if (/https?:\/\//.test(line)) resolve(line);
        });
      child.on('close', (code) => reject(new Error(`ended with ${code}: ${said}`)));
    });
  }

  /** Ends everything that it started. */
  async stop(): Promise<void> {
    const children = [this.#bash, ...this.#beside];
    const ended = children.map(
      (child) =>
        new Promise<void>((resolve) => {
          if (child.exitCode !== null || child.signalCode !== null) resolve();
          else child.on('close', () => resolve());
        }),
    );
    for (const { pid } of children) {
      if (pid === undefined) continue;
      try {
        process.kill(-pid, 'SIGKILL');
      } catch {
        // The group is gone already.
      }
    }
    await Promise.all(ended);
  }
}
