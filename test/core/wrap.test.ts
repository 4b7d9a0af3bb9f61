import fc from 'fast-check';
import { createColors } from 'picocolors';
import { describe, expect, it } from 'vitest';
import { textWidth, wrapLines, wrapText } from '../../src/core/wrap.ts';

const { red, bold } = createColors(true);

describe('text of a terminal', () => {
  it.each<[what: string, line: string, wrapped: string[]]>([
    ['a short line', 'as it is', ['as it is']],
    ['an error', 'tidemark: the key was refused here', ['tidemark: the key', '  was refused here']],
    ['a hint', '  → set a token in the file', ['  → set a token in', '    the file']],
    ['a step', '   12 create role Readers', ['   12 create role', '      Readers']],
    ['code', 'first run `tidemark sync` now', ['first run', '  `tidemark sync`', '  now']],
    ['longer code', '`tidemark sync --kind roles` now', ['`tidemark sync', '  --kind roles` now']],
    ['JSON', '{"name":"a","level":1,"x":2}', ['{"name":"a",', '  "level":1,"x":2}']],
    ['an id', 'id 0190aaaa-0000-7000-8000-000000000001', ['id', '  0190aaaa-0000-7000-8000-000000000001']],
    ['wide characters', '名前 名前 名前 名前 名前', ['名前 名前 名前', '  名前 名前']],
    [
      'colours',
      `  ${red('! too many removals here')}`,
      [`  ${red('! too many')}`, `    ${red('removals here')}`],
    ],
    [
      'colours within colours',
      red(`a b ${bold('cccccc dddddd eeeeee')}`),
      [red(`a b ${bold('cccccc dddddd')}`), `  ${red(bold('eeeeee'))}`],
    ],
  ])('%s', (_what, line, wrapped) => {
    expect(wrapLines(line, 20).split('\n')).toEqual(wrapped);
  });

  it('keeps every character but the spaces at which it breaks, and the width wherever words let it', () => {
    const word = fc.string({
      minLength: 1,
      maxLength: 25,
      unit: fc.constantFrom('a', '`', ',', '界', 'é', '-'),
    });
    fc.assert(
      fc.property(
        fc.array(word, { minLength: 1, maxLength: 12 }).map((words) => words.join(' ')),
        fc.integer({ min: 20, max: 60 }),
        (text, width) => {
          const rows = wrapText(text, width);
          expect(rows.join('').replaceAll(' ', '')).toBe(text.replaceAll(' ', ''));
          for (const row of rows)
            if (textWidth(row) > width) expect(row.replace(/,$/, '')).not.toMatch(/[ ,]/);
        },
      ),
      { numRuns: 300 },
    );
  });
});
