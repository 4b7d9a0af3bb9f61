/** The commands about notices. */
import type { CommandRow } from './command-row.ts';

export const NOTIFY_COMMANDS: readonly CommandRow[] = [
  {
    name: 'notify',
    description: 'The channels that tell people what changed',
    examples: ['tidemark notify test', 'tidemark notify test ops'],
    commands: [
      {
        name: 'test',
        description: 'Sends a test notice through every configured channel, or those named, right now',
        arguments: [
          {
            name: '[channel...]',
            key: 'channels',
            description: 'names under `notices`',
            values: 'channel',
          },
        ],
        examples: ['tidemark notify test', 'tidemark notify test ops --json'],
        // What was sent cannot be taken back: the rest goes out too.
        outlivesOutput: () => true,
        load: async () => (await import('./notify.ts')).notifyTest,
      },
    ],
  },
];
