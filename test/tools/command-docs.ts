/** The reference of the command line (docs/cli.md), written from the command table. */
import { type NamedCommand, described, namedCommands, synopsis } from '../../src/cli/command-row.ts';
import { COMMAND_GROUPS, type CommandRow } from '../../src/cli/command-row.ts';
import { FIRST_EXAMPLES, GLOBAL_OPTIONS, HELP_OPTION, VERSION_OPTION } from '../../src/cli/global-options.ts';

/** The whole page as Markdown. */
export function commandReference(rows: readonly CommandRow[]): string {
  const commands = namedCommands(rows);
  return [
    INTRODUCTION,
    '',
    '| command | does |',
    '|---|---|',
    ...COMMAND_GROUPS.flatMap((group) => [
      rowOf(`**${group}**`, ''),
      ...namedCommands(rows.filter((row) => row.group === group)).map(({ name, row }) =>
        rowOf(`[\`${name}\`](#${anchorOf(name)})`, row.description),
      ),
    ]),
    '',
    '## Options of every command',
    '',
    ...table('option', [
      ...GLOBAL_OPTIONS.map((option) => [option.flags, described(option)] as const),
      [HELP_OPTION.flags, HELP_OPTION.description],
      [VERSION_OPTION.flags, `${VERSION_OPTION.description}; of tidemark alone`],
    ]),
    '',
    '## Completion and the manual page',
    '',
    COMPLETION,
    ...commands.flatMap((command) => ['', ...commandPart(command)]),
    '',
  ].join('\n');
}

const INTRODUCTION = `# Commands

Look up a command or an option. \`tidemark COMMAND --help\` shows the same in a terminal, \`tidemark man\` in a manual page. Results go to stdout; progress, notes and logs to stderr.
[Exit codes](exit-codes.md) and [references such as \`run:-1\` or \`24h\`](concepts.md#name-a-state) are the same for all commands.

The page is generated from \`src/cli/command-table.ts\` (\`npx vitest run test/cli/reference.test.ts -u\`).

\`\`\`sh
${FIRST_EXAMPLES.join('\n')}
\`\`\``;

const COMPLETION = `\`tidemark completion bash\`, \`zsh\` or \`fish\` prints a script; its \`--help\` says where to put it. TAB then completes commands, options and
their choices, kinds, permissions, profiles, the sources, schedules and channels of the configuration, and the runs, snapshots and restores of the
mirror. The script only reads configuration and mirror, and waits two seconds at most, where the system has \`timeout\`.

\`tidemark man\` prints the manual page as roff; a built package has it at \`dist/man/tidemark.1\`.`;

function commandPart(command: NamedCommand): string[] {
  const { description, arguments: named = [], options = [], notes = [], examples = [] } = command.row;
  return [
    `## ${command.name}`,
    '',
    `${description}.`,
    '',
    '```text',
    synopsis(command),
    '```',
    ...part(
      table(
        'argument',
        named.map((argument) => [argument.name, described(argument)]),
      ),
    ),
    ...part(
      table(
        'option',
        options.map((option) => [option.flags, described(option)]),
      ),
    ),
    ...part(notes),
    ...part(examples.length === 0 ? [] : ['```sh', ...examples, '```']),
  ];
}

function part(lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : ['', ...lines];
}

function table(title: string, rows: readonly (readonly [term: string, text: string])[]): string[] {
  if (rows.length === 0) return [];
  return [
    `| ${title} | what it does |`,
    '|---|---|',
    ...rows.map(([term, text]) => rowOf(`\`${term}\``, text)),
  ];
}

function rowOf(...cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** As Markdown renderers name a heading. */
function anchorOf(heading: string): string {
  return heading.replaceAll(' ', '-');
}
