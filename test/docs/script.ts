/** Shell blocks as commands with what they are to print. */
import { spawnSync } from 'node:child_process';

export interface Command {
  /** Line within the page. */
  readonly line: number;
  readonly text: string;
  /** What it prints; null in blocks that show no output. */
  readonly expected: readonly string[] | null;
}

/** Commands of a `sh` block: nothing but commands and comments. */
export function commandsOf(text: string, firstLine: number): Command[] {
  const commands: Command[] = [];
  let begin = 0;
  let gathered: string[] = [];
  text.split('\n').forEach((line, index) => {
    if (gathered.length === 0) {
      if (line.trim() === '' || line.trimStart().startsWith('#')) return;
      begin = index;
    }
    gathered.push(line);
    if (!isWhole(gathered.join('\n'))) return;
    commands.push({ line: firstLine + begin, text: gathered.join('\n'), expected: null });
    gathered = [];
  });
  if (gathered.length > 0) throw new Error(`line ${firstLine + begin}: this command does not end`);
  return commands;
}

/** Commands of a `console` block: each behind `$ `, its further lines as they are, then its output. */
export function transcriptOf(text: string, firstLine: number): Command[] {
  const commands: Command[] = [];
  const lines = text.split('\n');
  let at = 0;
  while (at < lines.length) {
    const begin = at;
    const first = lines[at] ?? '';
    if (!first.startsWith('$ ')) throw new Error(`line ${firstLine + at}: output before the first command`);
    let command = first.slice(2);
    at += 1;
    while (!isWhole(command)) {
      if (at >= lines.length) throw new Error(`line ${firstLine + begin}: this command does not end`);
      command += `\n${(lines[at] ?? '').replace(/^> /, '')}`;
      at += 1;
    }
    const expected: string[] = [];
    while (at < lines.length && !(lines[at] ?? '').startsWith('$ ')) {
      expected.push(lines[at] ?? '');
      at += 1;
    }
    commands.push({ line: firstLine + begin, text: command, expected: trimmed(expected) });
  }
  return commands;
}

/** True where bash would not wait for another line. */
function isWhole(command: string): boolean {
  if (command.endsWith('\\')) return false;
  // What no shell would go on reading needs no shell to be asked.
  if (!/['"`({<]|\b(?:do|then|in)\b/.test(command)) return true;
  const { status, stderr } = spawnSync('bash', ['-n'], { input: command, encoding: 'utf8' });
  return status === 0 && stderr === '';
}

/** Exit codes that a comment in the command allows beside 0: `# exit 2 …, 3 …`. */
export function allowedCodes(command: string): readonly number[] {
  const note = /#[^#\n]*\bexits? (?:code )?[^#\n]*$/m.exec(command)?.[0] ?? '';
  return [0, ...[...note.matchAll(/\b\d+\b/g)].map(([digits]) => Number(digits))];
}

/** Lines without blanks at their ends, and without empty ones at the beginning and the end. */
export function trimmed(lines: readonly string[]): string[] {
  const bare = lines.map((line) => line.trimEnd());
  while (bare[0] === '') bare.shift();
  while (bare.at(-1) === '') bare.pop();
  return bare;
}

/**
 * Whether lines are as expected: `…` in a line stands for any text, a line of `…` alone for any number of lines.
 * Returns the index of the first expected line that nothing fits, or null where all fit.
 */
export function firstMisfit(expected: readonly string[], actual: readonly string[]): number | null {
  let furthest = 0;
  const seen = new Set<number>();
  const fits = (e: number, a: number): boolean => {
    const key = e * (actual.length + 1) + a;
    if (seen.has(key)) return false;
    seen.add(key);
    furthest = Math.max(furthest, e);
    const pattern = expected[e];
    if (pattern === undefined) return a === actual.length;
    if (pattern.trim() === '…') return fits(e + 1, a) || (a < actual.length && fits(e, a + 1));
    const line = actual[a];
    return line !== undefined && lineFits(pattern, line) && fits(e + 1, a + 1);
  };
  return fits(0, 0) ? null : furthest;
}

/** Whether a text is as a pattern with `…` says. */
export function lineFits(pattern: string, line: string): boolean {
  const parts = pattern.split('…').map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(line);
}
