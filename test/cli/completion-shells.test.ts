/** The completion scripts in the shells themselves, at a terminal, by their keys: bash, zsh and fish where they are. */
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Shell } from '../../src/cli/completion/value-type.ts';
import { SHELLS } from '../../src/cli/completion/value-type.ts';
import { SCRIPTS } from '../../src/cli/completion.ts';
import { program, scratch, tidemark } from '../journeys/harness.ts';
import { ORG, open, sync } from '../mirror/fixture.ts';

/** How each is started without anybody's settings, and made to load the script. */
const STARTED: Readonly<Record<Shell, { readonly command: string; readonly load: string }>> = {
  bash: { command: 'bash --noprofile --norc -i', load: 'source ./script' },
  zsh: { command: 'zsh -f -i', load: 'autoload -Uz compinit; compinit -u -D; source ./script' },
  fish: { command: 'fish --no-config -i', load: 'source ./script' },
};

/** A terminal to type into: `script` of util-linux makes one. */
const hasTerminal = /util-linux/.test(String(spawnSync('script', ['--version']).stdout));

function why(shell: Shell): string {
  if (!hasTerminal) return `${shell} (left out: there is no \`script\` of util-linux to give it a terminal)`;
  const isThere = spawnSync(shell, ['--version']).status === 0;
  return isThere ? shell : `${shell} (left out: it is not installed)`;
}

const TAB = '\t';
/** What is typed, and the words that the program is then called with. */
const CASES: readonly (readonly [typed: string, called: readonly string[]])[] = [
  [`tidemark snapshots unp${TAB}before-m${TAB}`, ['snapshots', 'unpin', 'before-migration']],
  [`tidemark export --kind=batch${TAB}`, ['export', '--kind=batch_exports']],
  [`tidemark diff run:1 snapshot:b${TAB}`, ['diff', 'run:1', 'snapshot:before-migration']],
  [`tidemark diff file:saved${TAB}`, ['diff', 'file:saved plan.json']],
  [`tidemark --source nort${TAB}apply sav${TAB}`, ['--source', 'north', 'apply', 'saved plan.json']],
  [`tidemark drift --out${TAB}rep${TAB}`, ['drift', '--output', 'reports/']],
];

describe.each(SHELLS.map((shell) => [why(shell), shell] as const))('%s', (title, shell) => {
  it.skipIf(title !== shell)('completes as a person types', async () => {
    const directory = await prepared(shell);
    const terminal = openTerminal(shell, directory);
    await terminal.type(`${STARTED[shell].load}; tidemark ready\r`);
    for (const [typed, called] of CASES) {
      const words = await terminal.type(`${typed}\r`);
      // Some shells take the slash back at the line's end.
      expect(words, typed).toEqual(shell === 'zsh' ? called.map((word) => word.replace(/\/$/, '')) : called);
    }
    // Nothing to say, and nothing said.
    const unknown = 'tidemark --config missing.yaml runs show ';
    expect(await terminal.type(`${unknown}${TAB}\r`)).toEqual(['--config', 'missing.yaml', 'runs', 'show']);
    // Each time it was asked, it was given two seconds.
    expect(new Set(readFileSync(join(directory, 'limits'), 'utf8').split('\n'))).toEqual(new Set(['2', '']));
    expect(await terminal.leave()).not.toMatch(/error|no such|there is no|config_missing/i);
  });
});

describe.skipIf(why('bash') !== 'bash')('the function of bash', () => {
  /** Calls it as readline would, with a program that answers `answer`; in a shell that knows `type` and little else. */
  function asked(words: readonly string[], line: string, answer: string): string[] {
    const directory = scratch();
    writeFileSync(join(directory, 'script'), SCRIPTS.bash);
    const call = [
      'set -u',
      'source ./script',
      `tidemark() { printf '%s|' "$@" >&3; printf '%s' ${quoted(answer)}; echo problem >&2; }`,
      `COMP_WORDS=(${words.map(quoted).join(' ')}) COMP_CWORD=${words.length - 1}`,
      `COMP_LINE=${quoted(line)} COMP_POINT=\${#COMP_LINE}`,
      '_tidemark tidemark',
      `printf '%s\n' "\${COMPREPLY[@]+"\${COMPREPLY[@]}"}"`,
    ];
    const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', `exec 3>told\n${call.join('\n')}`], {
      cwd: directory,
      encoding: 'utf8',
    });
    expect(stderr).toBe('');
    return [readFileSync(join(directory, 'told'), 'utf8'), ...stdout.trimEnd().split('\n')];
  }
  const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

  it('joins what readline broke, and answers only what follows the break', () => {
    expect(
      asked(['tidemark', 'diff', 'run', ':', '1'], 'tidemark diff run:1', 'run:1\tx\nrun:12\ty\n'),
    ).toEqual(['__complete|--shell|bash|--|diff|run:1|', '1', '12']);
    expect(asked(['tidemark', '--kind', '=', ''], 'tidemark --kind= ', 'a\t\n')[0]).toBe(
      '__complete|--shell|bash|--|--kind=||',
    );
    expect(
      asked(['tidemark', 'diff', '--from', '=', 'run', ':'], 'tidemark diff --from=run:', '--from=run:7\t'),
    ).toEqual(['__complete|--shell|bash|--|diff|--from=run:|', '7']);
  });

  it('hands on nothing that a shell would carry out', () => {
    const name = '$(touch owned);`touch owned` & two';
    const [told, ...replies] = asked(
      ['tidemark', '--source', '$(touch owned)'],
      'tidemark --source $(touch owned)',
      `${name}\t\n`,
    );
    expect(told).toBe('__complete|--shell|bash|--|--source|$(touch owned)|');
    expect(replies).toEqual(['\\$\\(touch\\ owned\\)\\;\\`touch\\ owned\\`\\ \\&\\ two']);
  });

  it('has nothing to say where the program has nothing', () => {
    expect(asked(['tidemark', 'x'], 'tidemark x', '')[1]).toBe('');
  });
});

/** A directory with a mirror, and a `tidemark` that completes as it does and otherwise prints what it was called with. */
async function prepared(shell: Shell): Promise<string> {
  const mirror = open();
  await sync(mirror, 'roles', ORG, ['{"id":"r1","name":"One"}']);
  mirror.snapshots.pin('before-migration', 1);
  mirror.close();
  const directory = scratch();
  writeFileSync(join(directory, 'script'), (await tidemark(['completion', shell])).stdout);
  writeFileSync(join(directory, 'saved plan.json'), '{}');
  mkdirSync(join(directory, 'reports'));
  mkdirSync(join(directory, 'bin'));
  const sources = ['north', 'south'].map(
    (name) => `{ name: ${name}, baseUrl: "https://${name}.example.com" }`,
  );
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    `mirror: ${mirror.path}\nsources: [${sources.join(', ')}]\n`,
  );
  const shim = [
    '#!/bin/sh',
    'if [ "$1" = __complete ]; then',
    `  exec "${process.execPath}" "${program}" "$@"`,
    'fi',
    // In a form that what was typed does not have.
    `printf 'called'; printf ' <%s>' "$@"; echo ' end'`,
  ];
  writeFileSync(join(directory, 'bin', 'tidemark'), `${shim.join('\n')}\n`);
  // The limit is for people; a machine that is busy with other tests may take longer.
  writeFileSync(join(directory, 'bin', 'timeout'), '#!/bin/sh\necho "$1" >> limits; shift; exec "$@"\n');
  for (const name of ['tidemark', 'timeout']) chmodSync(join(directory, 'bin', name), 0o755);
  return directory;
}

interface Terminal {
  /** Types one line; resolves to the words that `tidemark` was then called with. */
  type(line: string): Promise<string[]>;
  /** Leaves the shell; resolves to all that the terminal showed. */
  leave(): Promise<string>;
}

function openTerminal(shell: Shell, directory: string): Terminal {
  const child = spawn('script', ['-qefc', STARTED[shell].command, '/dev/null'], {
    cwd: directory,
    env: {
      PATH: [join(directory, 'bin'), process.env['PATH']].join(delimiter),
      HOME: directory,
      TERM: 'dumb',
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const closed = new Promise<void>((resolve) => child.on('close', () => resolve()));
  onTestFinished(() => void child.kill('SIGKILL'));
  let shown = '';
  let answered: () => void = () => undefined;
  let ended: () => void = () => undefined;
  child.on('close', () => ended());
  const calls = (): string[] =>
    [...shown.matchAll(/called((?: <[^>]*>)*) end/g)].map(([, words = '']) => words);
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text;
    answered();
  });
  let count = 0;
  return {
    leave: async () => {
      child.stdin.end('exit\r');
      await closed;
      return shown;
    },
    type: async (line) => {
      const call = new Promise<void>((resolve, reject) => {
        answered = () => {
          if (calls().length > count) resolve();
        };
        ended = () => reject(new Error(`${shell} ended: ${shown}`));
      });
      child.stdin.write(line);
      await call;
      count += 1;
      return [...(calls()[count - 1] ?? '').matchAll(/ <([^>]*)>/g)].map(([, word = '']) => word);
    },
  };
}
