/** The check of words finds what it is to find, and nothing in the repository. */
import { describe, expect, it } from 'vitest';
import { checkComments, checkLines, checkLiterals, checkRepository, checkSource, wordsIn } from './words.ts';

describe('the check of words', () => {
  it.each([
    ['A list counts as whole only when it proves it.', ['whole']],
    ['It tells what stands there; it is no error.', ['tells', 'stands', 'is no']],
    ['The page renews by itself.', ['by itself']],
    ['Read anew.', ['anew']],
  ])('finds: %s', (text, words) => {
    expect(wordsIn(text)).toEqual(words);
  });

  it.each([
    'a whole number',
    'There is no such run.',
    'It is no longer there.',
    'the key `is_whole` and `oldest_whole_at`',
    '`…` stands for any text',
  ])('leaves: %s', (text) => {
    expect(wordsIn(text)).toEqual([]);
  });

  it('names the line of a page', () => {
    expect(checkLines('A title\n\nIt tells all.\n')).toEqual([
      { line: 3, word: 'tells', text: 'It tells all.' },
    ]);
  });

  it('reads comments of a source, line by line', () => {
    const source = '/**\n * A list.\n * It tells all.\n */\nexport const stood = 1; // as it came\n';
    expect(checkComments(source).map(({ line, word }) => [line, word])).toEqual([
      [3, 'tells'],
      [5, 'as it came'],
    ]);
  });

  it('reads literals and templates of a source', () => {
    const source = [
      '/** The whole story. */',
      "const whole = 'whole';",
      "const hint = 'read the whole list';",
      'const text = `${whole} stands there`;',
    ].join('\n');
    expect(checkLiterals(source).map(({ line, word }) => [line, word])).toEqual([
      [3, 'whole'],
      [4, 'stands'],
    ]);
  });

  it.each([
    ["const hint = 'first line\\nwhole list';", 'whole'],
    ["const hint = 'bold \\u001b[1m\\x1bstands here';", 'stands'],
    ['export const list = 1; // It tells all, as `a\\told`.', 'tells'],
  ])('reads comments and literals of a source together: %s', (source, word) => {
    expect(checkSource(source)).toMatchObject([{ line: 1, word }]);
    expect(checkSource('const isWhole = `told` === name; // there is no such list')).toEqual([]);
  });

  it('finds nothing in pages, messages, alerts and dashboards', () => {
    expect(checkRepository()).toEqual([]);
  });
});
