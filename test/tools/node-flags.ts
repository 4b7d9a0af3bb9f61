/** The flags of Node that the program is started with, as the first line of `src/main.ts` says. */
import { readFileSync } from 'node:fs';

export function nodeFlags(): string[] {
  const [firstLine = ''] = readFileSync(new URL('../../src/main.ts', import.meta.url), 'utf8').split('\n');
  return firstLine.split(' ').filter((word) => word.startsWith('--'));
}
