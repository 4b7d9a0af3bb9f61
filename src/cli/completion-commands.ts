/** The commands that tell a shell and a reader of manuals what the other commands are. */
import type { CommandRow } from './command-row.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

export const COMPLETION_COMMANDS: readonly CommandRow[] = [
  {
    name: 'completion',
    description: 'Prints the script that completes commands, options, kinds and references in a shell',
    arguments: [{ name: '<shell>', key: 'shell', description: 'which shell', choices: SHELLS }],
    notes: [
      'The script asks the program itself at each TAB, and waits two seconds at most where the system has `timeout`:',
      'commands and options are always those of the version that is installed, sources and references those of the',
      'configuration that is in effect. It sends nothing, and only reads the mirror. For zsh, load compinit first.',
    ],
    examples: [
      'tidemark completion bash > ~/.local/share/bash-completion/completions/tidemark',
      'tidemark completion bash > /etc/bash_completion.d/tidemark',
      'tidemark completion zsh > "${fpath[1]}/_tidemark"',
      'tidemark completion fish > ~/.config/fish/completions/tidemark.fish',
    ],
    load: async () => (await import('./completion.ts')).completion,
  },
  {
    name: 'man',
    description: 'Prints the manual page, of every command, as roff',
    examples: ['tidemark man | man -l -', 'tidemark man > /usr/local/share/man/man1/tidemark.1'],
    load: async () => (await import('./man.ts')).man,
  },
  {
    name: '__complete',
    isHidden: true,
    description: 'What may stand in the place of the last word; for the scripts of `tidemark completion`',
    arguments: [{ name: '[word...]', key: 'words', description: 'all words so far', values: 'free' }],
    options: [{ flags: '--shell <shell>', description: 'whose words they are', choices: SHELLS }],
    load: async () => (await import('./complete.ts')).complete,
  },
];
