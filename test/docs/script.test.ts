/** How the pages are read: what would let a wrong page pass. */
import { describe, expect, it } from 'vitest';
import { blocksOf } from './markdown.ts';
import { allowedCodes, commandsOf, firstMisfit, transcriptOf } from './script.ts';

describe('a transcript', () => {
  it('is commands, their further lines and what they print', () => {
    const text = "$ cat > a <<'END'\n$ not a command\nEND\n$ echo one \\\n    two\none two\n$ echo $?\n0";
    expect(transcriptOf(text, 10)).toEqual([
      { line: 10, text: "cat > a <<'END'\n$ not a command\nEND", expected: [] },
      { line: 13, text: 'echo one \\\n    two', expected: ['one two'] },
      { line: 16, text: 'echo $?', expected: ['0'] },
    ]);
    expect(() => transcriptOf('output\n$ echo', 1)).toThrow('output before');
    expect(() => transcriptOf('$ echo "one', 1)).toThrow('does not end');
  });

  it('without output is commands and comments', () => {
    const loop = 'for one in 1 2; do\n  echo $one\ndone';
    expect(commandsOf(`# first\n${loop}\n\nls`, 5)).toEqual([
      { line: 6, text: loop, expected: null },
      { line: 10, text: 'ls', expected: null },
    ]);
  });

  it.each([
    ['tidemark drift', [0]],
    ['tidemark drift   # exit 2 when something drifted, 3 when not read', [0, 2, 3]],
    ['tidemark drift   # 2 or 3', [0]],
  ])('%s may end with %j', (command, codes) => {
    expect(allowedCodes(command)).toEqual(codes);
  });
});

describe('expected output', () => {
  it.each([
    ['as it is', ['a', 'b'], ['a', 'b'], null],
    ['with less', ['a'], ['a', 'b'], 1],
    ['with more', ['a', 'b'], ['a'], 1],
    ['with any text', ['run … of …, done.'], ['run 1 of x, done.'], null],
    ['with another text', ['run … of x.'], ['run 1 of xy'], 0],
    ['with any lines', ['a', '…', 'd'], ['a', 'b', 'c', 'd'], null],
    ['with no lines', ['…', 'a', '…'], ['a'], null],
    ['with lines in another order', ['…', 'b', '…', 'a'], ['a', 'b'], 3],
  ])('%s', (_name, expected, actual, misfit) => {
    expect(firstMisfit(expected, actual)).toBe(misfit);
  });
});

describe('a page', () => {
  it('has blocks with the comment before and the table behind', () => {
    const page =
      '<!-- not run: needs docker -->\n```sh\ndocker ps\n```\n\nText\n\n```sql\nSELECT 1\n```\n\n| 1 |\n|---|\n| a \\| b |\n';
    expect(blocksOf(page)).toEqual([
      { line: 2, language: 'sh', text: 'docker ps', comment: 'not run: needs docker', table: null },
      { line: 8, language: 'sql', text: 'SELECT 1', comment: null, table: [['1'], ['a | b']] },
    ]);
    expect(() => blocksOf('```sh\nls')).toThrow('not closed');
  });
});
