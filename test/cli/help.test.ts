/** The command table as people meet it: help, examples, and what is said to a wrong command line. */
import { describe, expect, it } from 'vitest';
import { isKind } from '../../src/catalog/catalog.ts';
import { COMMAND_GROUPS, type ArgumentRow } from '../../src/cli/command-row.ts';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { namedCommands } from '../../src/cli/command-row.ts';
import { valueTypeOf } from '../../src/cli/completion/value-type.ts';
import { FIRST_EXAMPLES, GLOBAL_OPTIONS } from '../../src/cli/global-options.ts';
import { parseReference } from '../../src/state/reference.ts';
import { callsIn, understand } from './command-lines.ts';

const ALL = namedCommands(COMMANDS);
const NAMED = ALL.map(({ name, row }) => [name, row] as const);
/** Without the program's name. */
const words = (name: string): string[] => name.split(' ').slice(1);

describe('the command table', () => {
  it('has commands to look at', () => {
    expect(ALL.length).toBeGreaterThan(40);
    expect(new Set(ALL.map(({ name }) => name)).size).toBe(ALL.length);
  });

  it.each(NAMED)('%s: says what it does, one line each, in one manner', (_name, row) => {
    expect(row.description).toMatch(/^[A-Z][^\n]*[^.\s]$/);
    for (const { description } of [...(row.options ?? []), ...(row.arguments ?? [])])
      expect(description).toMatch(/^[^A-Z\s][^\n]*[^.\s]$/);
    for (const note of row.notes ?? []) expect(note.length).toBeLessThanOrEqual(120);
    const flags = [...(row.options ?? []), ...GLOBAL_OPTIONS].map(
      ({ flags: text }) => /--\S+/.exec(text)?.[0],
    );
    expect(new Set(flags).size).toBe(flags.length);
  });

  it.each(NAMED)('%s: every value can be completed, or is known to be free', (_name, row) => {
    for (const [text, { choices, values }] of [
      ...(row.options ?? []).map((option) => [option.flags, option] as const),
      ...(row.arguments ?? []).map((argument) => [argument.name, argument] as const),
    ]) {
      if (valueTypeOf(text, 'free') === undefined) expect(text).not.toMatch(/[<[]/);
      else if (choices === undefined) expect(valueTypeOf(text, values), text).toBeDefined();
    }
  });
});

describe('--help', () => {
  it('of the program tells the first commands and where to read on', async () => {
    const { code, stdout } = await understand(['--help']);
    expect(code).toBe(0);
    for (const { name, row } of ALL.filter((each) => words(each.name).length === 1)) {
      expect(stdout).toContain(`\n  ${words(name)[0] ?? ''} `);
      expect(row.description).not.toBe('');
    }
    expect(stdout).toContain(FIRST_EXAMPLES[0]);
    expect(stdout).toContain('tidemark COMMAND --help');
    expect(stdout).not.toContain('__complete');
  });

  it('of the program lists every command in one line of its group, at 80 columns', async () => {
    const { stdout } = await understand(['--help']);
    const heads = [...stdout.matchAll(/^([A-Z][a-z ]+):$/gm)].map(([, head]) => head);
    expect(heads).toEqual(['Options', ...COMMAND_GROUPS, 'Examples']);
    for (const { row } of ALL.filter((each) => words(each.name).length === 1)) {
      expect(row.group, row.name).toBeDefined();
      const line = stdout.split('\n').find((each) => each.startsWith(`  ${row.name} `)) ?? '';
      expect(line).toContain(row.description);
      expect(line.length, line).toBeLessThanOrEqual(80);
    }
  });

  it.each(NAMED)('%s', async (name, row) => {
    for (const args of [
      [...words(name), '--help'],
      [...words(name), '-h'],
    ]) {
      const { code, stdout, called } = await understand(args);
      expect([code, called]).toEqual([0, null]);
      expect(stdout).toMatch(new RegExp(`^Usage: ${name}\\b`));
      expect(stdout.replaceAll(/\s+/g, ' ')).toContain(row.description);
      for (const example of row.examples ?? []) expect(stdout).toContain(`\n  ${example}\n`);
      for (const { flags } of row.options ?? []) expect(stdout).toContain(`\n  ${flags} `);
    }
  });
});

describe('the examples', () => {
  it.each(NAMED)('of %s are understood by the program, and one calls it', async (name, row) => {
    const examples = row.examples ?? [];
    expect(examples.length).toBeGreaterThan(0);
    const names: string[] = [];
    for (const example of examples) {
      const calls = callsIn(example);
      // The replica is for others to ask.
      if (calls.length === 0) expect(example).toMatch(/^curl /);
      for (const args of calls) {
        const { called, code, stderr } = await understand(args);
        expect([code, stderr], example).toEqual([0, '']);
        expect(called, example).not.toBeNull();
        if (called === null) continue;
        names.push(called.name);
        expectValues(called.name, called.options, example);
      }
    }
    expect(
      names.some((each) => each === name || (row.load === undefined && each.startsWith(`${name} `))),
    ).toBe(true);
  });

  it.each(FIRST_EXAMPLES)('at the head: %s', async (example) => {
    for (const args of callsIn(example)) expect((await understand(args)).code).toBe(0);
  });
});

/** What only the command itself would look at: kinds and references among its arguments and options. */
function expectValues(name: string, options: Readonly<Record<string, unknown>>, example: string): void {
  const row = ALL.find((each) => each.name === name)?.row;
  const asked = [
    ...(row?.arguments ?? []).map((each) => [each.key, valueTypeOf(each.name, each.values)] as const),
    ...(row?.options ?? []).map(
      (each) => [/^--([a-z]+)/.exec(each.flags)?.[1] ?? '', valueTypeOf(each.flags, each.values)] as const,
    ),
  ];
  for (const [key, sort] of asked) {
    for (const value of [options[key]].flat().filter((each) => typeof each === 'string')) {
      if (sort === 'kind') expect(isKind(value), example).toBe(true);
      const isState = sort === 'reference' || sort === 'desired' || sort === 'point';
      if (isState) expect(() => parseReference(value, 0), example).not.toThrow();
    }
  }
}

/** A value that the parser takes for an argument. */
function wellWritten({ name, choices }: ArgumentRow): string {
  return choices?.[0] ?? (name === '<kind>' ? 'roles' : 'x');
}

describe('a wrong command line', () => {
  it.each(NAMED)('of %s is reported in one line with the nearest right word, and is 4', async (name, row) => {
    const path = words(name);
    const needed = (row.arguments ?? []).filter((each) => each.name.startsWith('<'));
    const filled = needed.map(wellWritten);
    const wrong: [args: string[], said: RegExp][] = [
      [[...path, ...filled, '--jsn'], /unknown option '--jsn'; did you mean --json\?/],
      [[...path, ...filled, '--log-level', 'wran'], /--log-level wran is not one of .*; did you mean warn\?/],
    ];
    for (const { flags, choices, parse } of row.options ?? []) {
      const flag = flags.split(' ')[0] ?? '';
      const slip = `${flag.slice(0, -2)}${flag.slice(-1)}`;
      wrong.push([[...path, ...filled, slip], new RegExp(`unknown option '${slip}'; did you mean .*--`)]);
      if (flags.includes('<')) wrong.push([[...path, ...filled, flag], /argument missing/]);
      const [choice] = choices ?? [];
      if (choice !== undefined)
        wrong.push([
          [...path, ...filled, flag, `${choice}x`],
          new RegExp(`not one of .*did you mean ${choice}\\?`),
        ]);
      // A file may have any name but `-`.
      if (parse !== undefined)
        wrong.push([
          [...path, ...filled, flag, flag.startsWith('--out') ? '-' : 'organizatons'],
          /is not valid/,
        ]);
    }
    for (const { choices } of row.arguments ?? [])
      if (choices !== undefined) wrong.push([[...path, `${choices[0] ?? ''}x`], /did you mean/]);
    if (needed[0]?.name === '<kind>')
      wrong.push(
        [[...path, 'rols', 'x'], /kind rols is not valid; did you mean roles\?/],
        [[...path, 'import apps', 'x'], /did you mean pipeline_import_apps\?/],
        [[...path, 'transformation', 'x'], /did you mean pipeline_transformations\?/],
      );
    if (needed.length > 0) wrong.push([path, /missing required argument/]);
    if (row.commands !== undefined) {
      const first = row.commands.find(({ isHidden }) => isHidden !== true)?.name ?? '';
      const said = new RegExp(`there is no command .*; did you mean ${first}\\?`);
      wrong.push([[...path, `${first}x`], said], [[...path, `${first}x`, '--help'], said]);
    } else if (!(row.arguments ?? []).some((each) => each.name.includes('...'))) {
      const full = (row.arguments ?? []).map(wellWritten);
      wrong.push([[...path, ...full, 'more'], /takes .* argument/]);
    }
    for (const [args, said] of wrong) {
      const { code, stdout, stderr, called } = await understand(args);
      const line = `tidemark ${args.join(' ')}`;
      expect([code, called, stdout], line).toEqual([4, null, '']);
      expect(stderr, line).toMatch(said);
      expect(stderr, line).toMatch(/^tidemark: [^\n]*\n {2}→ [^\n]*\n$/);
    }
  });

  it.each(ALL.filter(({ name }) => words(name).length === 1).map(({ name }) => words(name)[0] ?? ''))(
    '%s is found by a slip',
    async (name) => {
      const slip = `${name.slice(0, 1)}x${name.slice(1)}`;
      const { code, stderr } = await understand([slip]);
      expect(code).toBe(4);
      expect(stderr).toContain(`there is no command ${slip}; did you mean `);
    },
  );

  it('sql says how the mirror is queried', async () => {
    const { code, stderr } = await understand(['sql', 'SELECT 1']);
    expect(code).toBe(4);
    expect(stderr).toMatch(
      /^tidemark: there is no command sql: [^\n]*\n {2}→ `sqlite3 -readonly MIRROR [^\n]*docs\/sql\.md/,
    );
  });

  it('what only programs call is never suggested', async () => {
    const hidden = COMMANDS.filter(({ isHidden }) => isHidden === true).map(({ name }) => name);
    expect(hidden).toContain('__complete');
    for (const name of hidden) {
      const slip = name.slice(0, -1);
      for (const args of [[slip], ['help', slip]]) {
        const { code, stderr } = await understand(args);
        expect(code).toBe(4);
        expect(stderr).not.toContain(name);
      }
      expect((await understand(['--help'])).stdout).not.toContain(name);
    }
  });
});
