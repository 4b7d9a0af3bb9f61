/** `tidemark man`: the manual page. */
import { CONFIG_VARIABLE, OPTION_ROWS } from '../config/environment.ts';
import { EXIT } from '../core/errors.ts';
import { programVersion } from '../core/package-root.ts';
import { type CommandRow, type NamedCommand, described, namedCommands, synopsis } from './command-row.ts';
import { type CommandAction, printDocument } from './context.ts';
import { EXIT_CODES } from './exit-codes.ts';
import { FIRST_EXAMPLES, GLOBAL_OPTIONS, HELP_OPTION, SUMMARY, VERSION_OPTION } from './global-options.ts';

/** The action of `tidemark man`, for a program with these commands. */
export function man(rows: readonly CommandRow[]): CommandAction<unknown> {
  return async (context) => {
    await printDocument(context, manPage(programVersion(), rows));
    return EXIT.done;
  };
}

/**
 * The manual page tidemark(1) as roff, from the command table, the options table and the exit codes. It has no date, so that
 * a version always makes the same page.
 */
export function manPage(version: string, rows: readonly CommandRow[]): string {
  const commands = namedCommands(rows);
  return [
    `.TH TIDEMARK 1 "" ${JSON.stringify(`Tidemark ${version}`)} "User Commands"`,
    // Left-aligned and not hyphenated: option names and paths are not broken.
    '.ad l',
    '.nh',
    section('NAME'),
    roffText('tidemark - mirror, history, drift and restore of a remote configuration'),
    section('SYNOPSIS'),
    '.B tidemark',
    roffText('COMMAND [options] [arguments]'),
    section('DESCRIPTION'),
    roffText(SUMMARY),
    ...DESCRIPTION.map(paragraph),
    section('COMMANDS'),
    ...commands.flatMap(commandPart),
    section('OPTIONS'),
    roffText('Every command takes these:'),
    ...[...GLOBAL_OPTIONS, HELP_OPTION].map((option) => entry(option.flags, described(option))),
    paragraph('And tidemark alone:'),
    entry(VERSION_OPTION.flags, VERSION_OPTION.description),
    section('ENVIRONMENT'),
    entry(CONFIG_VARIABLE, 'the configuration file, where --config names none'),
    ...OPTION_ROWS.map(({ variable, about }) => entry(variable, about.description ?? '')),
    ...ENVIRONMENT.map(([name, text]) => entry(name, text)),
    section('FILES'),
    ...FILES.map(([path, text]) => entry(path, text)),
    section('EXIT STATUS'),
    ...EXIT_CODES.map(({ code, meaning }) => entry(String(code), meaning)),
    section('EXAMPLES'),
    verbatim(FIRST_EXAMPLES),
    ...EXAMPLES.flatMap(([text, lines]) => [paragraph(text), verbatim(lines)]),
    section('SEE ALSO'),
    ...['sqlite3 (1),', 'cron (8),', 'systemd.timer (5),', 'jq (1)'].map((page) => `.BR ${page}`),
    paragraph('tidemark COMMAND --help shows one command. The documentation is in docs/ of the package.'),
    '',
  ].join('\n');
}

function commandPart(command: NamedCommand): string[] {
  const { arguments: named = [], options = [], description, notes, examples } = command.row;
  return [
    `.SS ${quoted(synopsis(command))}`,
    `${roffText(description)}.`,
    ...named.map((argument) => entry(argument.name, described(argument))),
    ...options.map((option) => entry(option.flags, described(option))),
    ...(notes === undefined ? [] : [paragraph(notes.join(' '))]),
    ...(examples === undefined ? [] : [verbatim(examples)]),
  ];
}

const DESCRIPTION = [
  'Results go to stdout; progress, notes and logs go to stderr. With --json a command prints one versioned document. What only reads cannot send anything but GET; restore, apply and undo print what they would send, and send it with --apply.',
  'A state is named by a reference: latest, live, baseline, run:N, run:-1 for the run before the latest, snapshot:NAME, an age such as 24h or 7d, yesterday, a time such as 2026-03-01T12:00Z, or file:PATH for an export.',
];

const ENVIRONMENT: readonly (readonly [name: string, text: string])[] = [
  ['NO_COLOR', 'no colours, where it is set to anything'],
  ['TIDEMARK_PAGER, PAGER', 'the pager of long results on a terminal (default: less)'],
  ['TZ', 'the time zone of times in text'],
  ['CI', 'no progress bars and no questions, where it is set'],
];

const FILES: readonly (readonly [path: string, text: string])[] = [
  ['./tidemark.yaml', 'the configuration; tidemark init writes one, tidemark config check reads it'],
  [
    './data/mirror.db',
    'the mirror, a SQLite database; beside it, while it is in use, files that begin with its name',
  ],
  ['config/example.yaml', 'of the package: every option with its explanation'],
  ['config/profiles/*.yaml', 'of the package: what is known about kinds of deployments'],
];

const EXAMPLES: readonly (readonly [text: string, lines: readonly string[]])[] = [
  [
    'From cron: what is due by the schedules of the configuration:',
    ['*/15 * * * * cd /srv/tidemark && tidemark daemon --once'],
  ],
  [
    'What was deleted since last night, and the way back for just that:',
    ['tidemark diff latest live --kind batch_exports', 'tidemark restore --kind batch_exports --apply'],
  ],
  ['A question in SQL:', ['sqlite3 data/mirror.db "SELECT name FROM batch_exports WHERE paused"']],
];

// The few man macros (man(7), groff_man(7)) that this page needs.

/** Escapes text so that roff shows it unchanged in any encoding and takes no line of it for a request. */
export function roffText(text: string): string {
  return Array.from(text)
    .map((character) => {
      if (character === '\\') return '\\e';
      // Otherwise man prints typographic quotes, hyphens and circumflexes, which cannot be pasted into a shell.
      if (character === '-') return '\\-';
      if (character === "'") return '\\(aq';
      if (character === '`') return '\\(ga';
      if (character === '^') return '\\(ha';
      if (character === '~') return '\\(ti';
      const code = character.codePointAt(0) ?? 0;
      return code > 0x7e ? `\\[u${code.toString(16).toUpperCase().padStart(4, '0')}]` : character;
    })
    .join('')
    .replaceAll(/^\./gm, '\\&.');
}

function section(title: string): string {
  return `.SH ${title}`;
}

function paragraph(text: string): string {
  return `.PP\n${roffText(text)}`;
}

/** A term in bold, with its description. */
function entry(term: string, text: string): string {
  return `.TP\n.B ${quoted(term)}\n${roffText(text)}`;
}

/** Lines that keep their breaks. */
function verbatim(lines: readonly string[]): string {
  return ['.PP', '.nf', '.RS 4', ...lines.map(roffText), '.RE', '.fi'].join('\n');
}

function quoted(text: string): string {
  return `"${roffText(text).replaceAll('"', '\\(dq')}"`;
}
