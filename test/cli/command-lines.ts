/** The command table called without being carried out: what the program's own parser makes of a command line. */
import { Writable } from 'node:stream';
import { COMMANDS } from '../../src/cli/command-table.ts';
import type { CommandRow } from '../../src/cli/command-row.ts';
import { runCommandLine } from '../../src/cli/program.ts';

export interface Understood {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** The command that would have run, e.g. `tidemark drift accept`, and what it would have been given. */
  readonly called: { readonly name: string; readonly options: Readonly<Record<string, unknown>> } | null;
}

class Sink extends Writable {
  text = '';

  override _write(chunk: unknown, _encoding: string, done: () => void): void {
    this.text += String(chunk);
    done();
  }
}

/** Parses `tidemark ARGS`; nothing runs. */
export async function understand(args: readonly string[]): Promise<Understood> {
  const [stdout, stderr] = [new Sink(), new Sink()];
  let called: Understood['called'] = null;
  const recording = (rows: readonly CommandRow[], parent: string): CommandRow[] =>
    rows.map((row) => {
      const name = `${parent} ${row.name}`;
      const load = (): ReturnType<NonNullable<CommandRow['load']>> =>
        Promise.resolve((_context: unknown, options: Readonly<Record<string, unknown>>) => {
          called = { name, options };
          return Promise.resolve(0 as const);
        });
      return {
        ...row,
        ...(row.load === undefined ? {} : { load }),
        ...(row.commands === undefined ? {} : { commands: recording(row.commands, name) }),
      };
    });
  const code = await runCommandLine(
    args,
    {
      env: {},
      cwd: '/',
      stdin: { isTTY: false },
      stdout,
      stderr,
      signal: new AbortController().signal,
      pid: process.pid,
      execPath: process.execPath,
      entry: '',
    },
    recording(COMMANDS, 'tidemark'),
  );
  return { code, stdout: stdout.text, stderr: stderr.text, called };
}

/** The words of each `tidemark` call in a line of shell, without the program's name; a comment and redirections left out. */
export function callsIn(line: string): string[][] {
  const tokens = [...line.replace(/\s+#.*$/, '').matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(
    ([token]) => token,
  );
  const calls: string[][] = [];
  let call: string[] | null = null;
  for (const [index, token] of tokens.entries()) {
    if (['&&', '|', ';', '||'].includes(token)) call = null;
    else if (token === '>' || tokens[index - 1] === '>') continue;
    else if (call !== null) call.push(token.replaceAll(/["']/g, ''));
    else if (token === 'tidemark') calls.push((call = []));
  }
  return calls;
}
