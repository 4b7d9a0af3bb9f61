/** The manual page: all that the tables know, as roff that formatters take without a warning. */
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { OPTION_ROWS } from '../../src/config/environment.ts';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { namedCommands, synopsis } from '../../src/cli/command-row.ts';
import { EXIT_CODES } from '../../src/cli/exit-codes.ts';
import { manPage } from '../../src/cli/man.ts';
import { roffText } from '../../src/cli/man.ts';
import { EXIT } from '../../src/core/errors.ts';
import { commandLine } from '../journeys/command-line.ts';

const page = manPage('1.2.3', COMMANDS);
const SECTIONS = [
  'NAME',
  'SYNOPSIS',
  'DESCRIPTION',
  'COMMANDS',
  'OPTIONS',
  'ENVIRONMENT',
  'FILES',
  'EXIT STATUS',
  'EXAMPLES',
  'SEE ALSO',
];

describe('the manual page', () => {
  it('has the sections in their order', () => {
    expect([...page.matchAll(/^\.SH (.*)$/gm)].map(([, title]) => title)).toEqual(SECTIONS);
    expect(page).toMatch(/^\.TH TIDEMARK 1 "" "Tidemark 1\.2\.3"/);
    expect(page).toMatch(/^tidemark \\- /m);
  });

  it('is of characters and requests that every formatter knows', () => {
    expect(page).toMatch(/^[\n -~]*$/);
    const requests = new Set([...page.matchAll(/^[.'](\S*)/gm)].map(([, request = '']) => request));
    const known = ['TH', 'SH', 'SS', 'PP', 'TP', 'B', 'BR', 'RS', 'RE', 'nf', 'fi', 'nh', 'ad'];
    expect([...requests].filter((request) => !known.includes(request))).toEqual([]);
    const count = (request: string): number => page.split(`\n.${request}`).length;
    expect(count('nf\n')).toBe(count('fi\n'));
    expect(count('RS ')).toBe(count('RE\n'));
    expect(page).not.toMatch(/\n\n/);
  });

  it('tells every command with its options, every variable and every exit code', () => {
    for (const command of namedCommands(COMMANDS)) {
      expect(page).toContain(`.SS "${roffText(synopsis(command))}"`);
      for (const { flags } of command.row.options ?? []) expect(page).toContain(`.B "${roffText(flags)}"`);
      for (const example of command.row.examples ?? []) expect(page).toContain(`\n${roffText(example)}\n`);
    }
    expect(page).not.toContain('__complete');
    for (const { variable } of OPTION_ROWS) expect(page).toContain(`.B "${variable}"`);
    expect(EXIT_CODES.map(({ code }) => code).toSorted((a, b) => a - b)).toEqual(
      Object.values(EXIT).toSorted((a, b) => a - b),
    );
    for (const { code } of EXIT_CODES) expect(page).toContain(`.B "${code}"`);
  });

  it('is what `tidemark man` prints', async () => {
    const { code, stdout } = await commandLine(['man'], { env: {}, cwd: '/' });
    expect(code).toBe(0);
    expect(stdout.replace(/Tidemark \d+\.\d+\.\d+\S*"/, 'Tidemark 1.2.3"')).toBe(page);
  });
});

it.each([
  ['.TH', '\\&.TH'],
  ['a\n.b', 'a\n\\&.b'],
  ["'quoted'", '\\(aqquoted\\(aq'],
  ['C:\\x --y', 'C:\\ex \\-\\-y'],
  ['0190… ✓ 😀', '0190\\[u2026] \\[u2713] \\[u1F600]'],
  ['~/`^', '\\(ti/\\(ga\\(ha'],
])('%j is shown by roff as it is', (text, expected) => {
  expect(roffText(text)).toBe(expected);
});

const hasGroff = spawnSync('groff', ['--version']).status === 0;

describe.skipIf(!hasGroff)(`groff${hasGroff ? '' : ' (left out: it is not installed)'}`, () => {
  it('formats it without a warning, and what was written can be read', () => {
    const { stdout, stderr, status } = spawnSync('groff', ['-man', '-Tutf8', '-ww', '-P-cbou'], {
      input: page,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], LC_ALL: 'C.UTF-8' },
    });
    expect([status, stderr]).toEqual([0, '']);
    for (const title of SECTIONS) expect(stdout).toMatch(new RegExp(`^${title}$`, 'm'));
    expect(stdout).toContain('tidemark drift accept batch_exports 0190… --field /paused');
    expect(stdout).toContain('tidemark completion bash > ~/.local/share/');
    expect(stdout).toContain('stderr names the list');
    // Nothing of roff is left over.
    expect(stdout).not.toMatch(/\\\[|\\e|\\-|\\\(|^\./m);
  });
});
