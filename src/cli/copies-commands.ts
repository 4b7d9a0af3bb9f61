/** The commands over copies of the mirror in another place. */
import type { CommandRow, OptionRow } from './command-row.ts';

const identityOption: OptionRow = {
  flags: '--identity <file>',
  description: 'age identity that opens an encrypted copy, as `age-keygen` writes it; repeatable',
  isRepeatable: true,
};

export const COPIES_COMMANDS: readonly CommandRow[] = [
  {
    name: 'copies',
    description: 'Copies of the whole mirror in another place: made, verified, put back',
    examples: [
      'tidemark copies',
      'tidemark copies make',
      'tidemark copies verify latest --identity ~/keys/tidemark.txt',
      'tidemark copies restore latest --to ./restored/mirror.db --identity ~/keys/tidemark.txt',
    ],
    load: async () => (await import('./copies.ts')).listCopies,
    commands: [
      {
        name: 'list',
        description: 'All of them, newest first',
        examples: ['tidemark copies list --json'],
        load: async () => (await import('./copies.ts')).listCopies,
      },
      {
        name: 'make',
        description: 'Makes one now, then does what retention and `copies.command` say',
        examples: ['tidemark copies make'],
        outlivesOutput: () => true,
        load: async () => (await import('./copies.ts')).makeCopyNow,
      },
      {
        name: 'verify',
        description:
          'Reads a copy to its end, opens it and checks every seal; without an identity, its file only',
        arguments: [
          {
            name: '[file]',
            key: 'file',
            values: 'copy',
            description: 'path, name in the directory of copies, or latest (default: latest)',
          },
        ],
        options: [identityOption],
        examples: ['tidemark copies verify', 'tidemark copies verify latest --identity ~/keys/tidemark.txt'],
        load: async () => (await import('./copies-read.ts')).verifyOneCopy,
      },
      {
        name: 'restore',
        description: 'Puts the mirror of a copy at a new path, verified first; nothing remote is touched',
        arguments: [
          {
            name: '<file>',
            key: 'file',
            description: 'path, name in the directory of copies, or latest',
            values: 'copy',
          },
        ],
        options: [
          { flags: '--to <path>', description: 'where the mirror goes; nothing may stand there' },
          identityOption,
        ],
        examples: ['tidemark copies restore latest --to ./restored/mirror.db --identity ~/keys/tidemark.txt'],
        outlivesOutput: () => true,
        load: async () => (await import('./copies-read.ts')).restoreOneCopy,
      },
    ],
  },
];
