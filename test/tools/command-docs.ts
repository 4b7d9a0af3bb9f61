/** The reference of the command line (docs/cli.md), written from the command table and the exit codes. */
import { type NamedCommand, described, namedCommands, synopsis } from '../../src/cli/command-row.ts';
import { COMMAND_GROUPS, type CommandRow } from '../../src/cli/command-row.ts';
import { EXIT_CODES } from '../../src/cli/exit-codes.ts';
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
    '## Exit codes',
    '',
    '| code | says |',
    '|---|---|',
    ...EXIT_CODES.map(({ code, meaning }) => rowOf(String(code), meaning)),
    '',
    '## References',
    '',
    REFERENCES,
    '',
    '## Completion and the manual page',
    '',
    COMPLETION,
    ...commands.flatMap((command) => ['', ...commandPart(command)]),
    '',
  ].join('\n');
}

const INTRODUCTION = `# Commands

This page is written from the command table (\`src/cli/command-table.ts\`); \`test/cli/reference.test.ts\` holds it up to date, and rewrites it when run
with \`npx vitest run test/cli/reference.test.ts -u\`. \`tidemark COMMAND --help\` shows the same in a terminal, \`tidemark man\` in a manual page.

Results go to stdout; progress, notes and logs to stderr. Wrong usage is reported in one line with the nearest right word, and is exit code 4.

\`\`\`sh
${FIRST_EXAMPLES.join('\n')}
\`\`\``;

const REFERENCES = `A state is named by \`latest\`, \`live\`, \`baseline\`, \`run:N\`, \`run:-1\` for the run before the latest, \`snapshot:NAME\`, an age such as \`30m\`,
\`24h\`, \`7d\` or \`2w\`, \`yesterday\`, a time such as \`2026-03-01\` or \`2026-03-01T12:00Z\`, or \`file:PATH\` for an export. [Concepts](concepts.md#name-a-state) has
what each one means.`;

const COMPLETION = `\`tidemark completion bash\`, \`zsh\` or \`fish\` prints a script; its \`--help\` says where to put it. From then on TAB completes commands, options and
their choices, kinds, permissions, profiles, the sources, schedules and channels of the configuration, and the runs, snapshots and restores of the
mirror; file names where a path is expected. The script asks the program (\`tidemark __complete\`) and waits two seconds at most, where the system
has \`timeout\`. It reads the mirror without upgrading or copying it, sends nothing, and shows nothing where there is no configuration or no mirror.

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
