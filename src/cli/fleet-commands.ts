/** The commands about many sources on several machines, as data. */
import type { CommandRow } from './command-row.ts';

export const FLEET_COMMANDS: readonly CommandRow[] = [
  {
    name: 'fleet',
    group: 'Run',
    description: 'Work on many sources with several machines',
    notes: ['docs/fleet.md explains the registry, the storage of mirrors and how workers share the work.'],
    examples: ['tidemark fleet work --name worker-1'],
    commands: [
      {
        name: 'work',
        description: 'Work on the cells that are due, until stopped',
        options: [
          {
            flags: '--name <name>',
            description: 'name of this worker, unique in the fleet (default: the host name)',
            values: 'free',
          },
        ],
        notes: [
          'SIGTERM lets the cells under way end and leaves. Each worker of one machine needs a name of its own.',
        ],
        examples: ['tidemark fleet work', 'tidemark fleet work --name worker-2 --config /etc/tidemark.yaml'],
        outlivesOutput: () => true,
        load: async () => (await import('./fleet-work.ts')).fleetWork,
      },
    ],
  },
];
