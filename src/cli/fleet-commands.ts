/** The commands of `tidemark fleet`: many sources on several machines. */
import { SEVERITIES } from '../catalog/definition.ts';
import {
  asOption,
  type CommandRow,
  type OptionRow,
  kindOption,
  positiveNumber,
  wholeNumber,
} from './command-row.ts';

const cellOption: OptionRow = {
  flags: '--cell <name>',
  values: 'free',
  description: 'only this cell, * for any text; repeatable',
  isRepeatable: true,
};

function limitOption(what: string, usual: number): OptionRow {
  return {
    flags: '--limit <n>',
    description: `${what} at most (default: ${usual})`,
    parse: positiveNumber,
  };
}

export const FLEET_COMMANDS: readonly CommandRow[] = [
  {
    name: 'fleet',
    group: 'Fleet',
    description: 'Mirror many sources on several machines',
    notes: [
      'A cell is one source with its own mirror, schedule and backups. A PostgreSQL database, fleet.database in the',
      'configuration, holds which cells there are and what their runs found; workers do the work. See docs/fleet.md.',
    ],
    examples: ['tidemark fleet apply cells.yaml', 'tidemark fleet status'],
    commands: [
      {
        name: 'apply',
        description: 'Register, change and retire cells as a file declares them',
        arguments: [
          { name: '<file>', key: 'file', description: 'file of cells, YAML or CSV', values: 'file' },
        ],
        options: [
          { flags: '--yes', description: 'do what the plan shows; without it nothing is changed' },
          {
            flags: '--max-retire <n>',
            description: 'retire up to n cells (default: 10, or a tenth of all where that is more)',
            parse: wholeNumber,
          },
        ],
        notes: [
          'Cells that the file does not declare are retired: no worker takes them any more. Their backups stay.',
          'Keys are named by reference, env:NAME or file:/PATH on the workers; a file with a key in it is refused.',
          'Exits with 2 if there is something to do and --yes is missing. The first --yes creates the tables.',
        ],
        examples: ['tidemark fleet apply cells.yaml', 'tidemark fleet apply cells.csv --yes'],
        outlivesOutput: ({ yes }) => yes === true,
        load: async () => (await import('./fleet-apply.ts')).fleetApply,
      },
      {
        name: 'status',
        description: 'Show all cells, those with the most wrong first',
        options: [
          cellOption,
          { flags: '--failing', description: 'only cells with something wrong' },
          limitOption('cells', 50),
        ],
        examples: ['tidemark fleet status', 'tidemark fleet status --failing --json'],
        outlivesOutput: () => true,
        load: async () => (await import('./fleet-status.ts')).fleetStatus,
      },
      {
        name: 'runs',
        description: 'List the runs of all cells, newest first',
        options: [
          cellOption,
          { flags: '--failing', description: 'only runs that are not complete' },
          limitOption('runs', 50),
        ],
        examples: ['tidemark fleet runs', 'tidemark fleet runs --failing', 'tidemark fleet runs --cell acme'],
        load: async () => (await import('./fleet.ts')).fleetRuns,
      },
      {
        name: 'changes',
        description: 'List what the runs of all cells changed, newest first',
        options: [
          {
            flags: '--since <time>',
            values: 'free',
            description: 'after this time, or younger than this age (default: 24h)',
          },
          cellOption,
          kindOption,
          {
            flags: '--organization <organization>',
            description: 'only this organization (id or name) and what is below it; repeatable',
            isRepeatable: true,
            values: 'free',
          },
          limitOption('lines', 200),
        ],
        notes: [
          'Where a run changed more than 10 records of a kind, as of session recordings, they are one line; --verbose and --json',
          'list each.',
        ],
        examples: [
          'tidemark fleet changes --since 24h',
          'tidemark fleet changes --since 7d --kind roles --json',
        ],
        load: async () => (await import('./fleet.ts')).fleetChanges,
      },
      {
        name: 'drift',
        description: 'List the open drift of all cells, worst first',
        options: [
          {
            flags: '--severity <level>',
            description: 'only findings of this severity or higher (default: low)',
            choices: SEVERITIES,
          },
          cellOption,
          limitOption('findings', 200),
        ],
        notes: [
          'Shows what each cell found when it last compared with its baseline. Exit code 2 with findings.',
        ],
        examples: ['tidemark fleet drift --severity high', 'tidemark fleet drift --cell acme --json'],
        outlivesOutput: () => true,
        load: async () => (await import('./fleet.ts')).fleetDrift,
      },
      {
        name: 'baseline',
        description: 'Set the baseline for drift in all cells, or in those named; without a name, list it',
        arguments: [
          { name: '[name]', key: 'name', description: 'name of the snapshot', values: 'free' },
          {
            name: '[ref]',
            key: 'reference',
            description: 'time of the state to pin (default: the newest run)',
            values: 'free',
          },
        ],
        options: [
          cellOption,
          {
            flags: '--owner <owner>',
            description: 'only cells of this owner; repeatable',
            isRepeatable: true,
            values: 'free',
          },
          {
            flags: '--no-wait',
            description:
              'do not wait until the workers have set it: exit code 0 once every cell is asked for',
          },
          asOption,
        ],
        notes: [
          'Pins the newest published run of each cell under the name, and measures drift from it; a cell that has a snapshot of',
          'that name keeps it. Workers do it with their next job, which is due at once; it waits for that, for 15 minutes at most.',
          'Asking again changes nothing where it is set. Exit code 3 if some cells cannot have it or do not have it yet.',
        ],
        examples: [
          'tidemark fleet baseline good-2026-03',
          "tidemark fleet baseline go-live 2026-03-01T12:00Z --cell 'shop-*'",
          'tidemark fleet baseline --owner team-a',
        ],
        outlivesOutput: () => true,
        load: async () => (await import('./fleet-baseline.ts')).fleetBaseline,
      },
      {
        name: 'sql',
        description: 'Answer one SELECT over all cells',
        arguments: [{ name: '<query>', key: 'query', description: 'one SELECT', values: 'free' }],
        options: [limitOption('rows', 1000)],
        notes: [
          'The views are cells, runs, findings, records and changes; records hold configuration only, without secrets. Nothing',
          'else of the database can be read, and nothing written. A query may take 15 seconds.',
        ],
        examples: [
          'tidemark fleet sql "SELECT cell, name FROM records WHERE kind = \'batch_exports\'"',
          'tidemark fleet sql "SELECT cell, count(*) FROM findings WHERE severity = \'high\' GROUP BY cell" --json',
        ],
        load: async () => (await import('./fleet.ts')).fleetSql,
      },
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
          'SIGTERM and SIGHUP let the cells under way end, for fleet.stopTimeout at most, and the worker leaves.',
          'Each worker needs a name of its own.',
        ],
        examples: ['tidemark fleet work', 'tidemark fleet work --name worker-2 --config /etc/tidemark.yaml'],
        outlivesOutput: () => true,
        load: async () => (await import('./fleet-work.ts')).fleetWork,
      },
      {
        name: 'serve',
        description: 'Serve all cells as a page, JSON and metrics',
        notes: [
          'Listens on http.listen, with the token and the proxies of the http section, and only reads the registry.',
          'It reads that section and its files again within a minute of a change, or at once on SIGHUP.',
        ],
        examples: ['tidemark fleet serve'],
        outlivesOutput: () => true,
        load: async () => (await import('./fleet-serve.ts')).fleetServe,
      },
      {
        name: 'drain',
        description: 'Let a worker finish what it does and leave',
        arguments: [{ name: '<worker>', key: 'worker', description: 'name of the worker', values: 'free' }],
        notes: [
          'It begins nothing new, and leaves once the cells under way have ended, each within fleet.timeLimit.',
          'The command does not wait for that: the worker learns of it at its next heartbeat. After SIGTERM it leaves within',
          'fleet.stopTimeout.',
        ],
        examples: ['tidemark fleet drain worker-1'],
        load: async () => (await import('./fleet.ts')).fleetDrain,
      },
      {
        name: 'checkout',
        description: 'Hold a cell and fetch its mirror here, for restore, undo or drill',
        arguments: [{ name: '<cell>', key: 'cell', description: 'name of the cell', values: 'free' }],
        options: [
          {
            flags: '--directory <dir>',
            description: 'where mirror and configuration go (default: the name of the cell)',
            values: 'file',
          },
          { flags: '--wait', description: 'wait up to 15 minutes for a worker that is working on it' },
          { flags: '--force', description: 'take it from a worker, which then publishes nothing' },
        ],
        notes: [
          'Until the checkin no worker takes the cell, nor another cell with the same key. The directory has a tidemark.yaml for',
          '--config; it refers to the key as the cell does: set that variable, or mount that file, to reach the service.',
        ],
        examples: [
          'tidemark fleet checkout acme --wait',
          'tidemark restore --config acme/tidemark.yaml run:41 --kind batch_exports',
        ],
        outlivesOutput: () => true,
        load: async () => (await import('./fleet-checkout.ts')).fleetCheckout,
      },
      {
        name: 'checkin',
        description: 'Store and publish a cell that was checked out, and give it back to the workers',
        arguments: [{ name: '<cell>', key: 'cell', description: 'name of the cell', values: 'free' }],
        options: [
          { flags: '--directory <dir>', description: 'where the checkout put it', values: 'file' },
          { flags: '--discard', description: 'give it back as it was; what was done here is dropped' },
          { flags: '--force', description: 'with --discard: also what somebody else checked out' },
        ],
        notes: [
          'The mirror has to verify and to continue the run that the registry knows. Its files here are removed once it is stored.',
        ],
        examples: ['tidemark fleet checkin acme', 'tidemark fleet checkin acme --discard'],
        outlivesOutput: () => true,
        load: async () => (await import('./fleet-checkout.ts')).fleetCheckin,
      },
    ],
  },
];
