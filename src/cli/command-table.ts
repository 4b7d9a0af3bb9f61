/** Every command as data: names, arguments, options, help. A command's file is named after it. */
import { KINDS } from '../catalog/definition.ts';
import { suggest } from '../core/suggest.ts';
import type { CommandAction } from './context.ts';

export interface ArgumentRow {
  /** As commander writes it: `<required>` or `[optional]`. */
  readonly name: string;
  /** Under which key the command finds it. */
  readonly key: string;
  readonly description: string;
}

export interface OptionRow {
  readonly flags: string;
  readonly description: string;
  readonly choices?: readonly string[];
  readonly parse?: (text: string) => unknown;
  readonly isRepeatable?: boolean;
}

export interface CommandRow {
  readonly name: string;
  readonly description: string;
  readonly arguments?: readonly ArgumentRow[];
  readonly options?: readonly OptionRow[];
  readonly examples?: readonly string[];
  readonly commands?: readonly CommandRow[];
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- each command types its own options
  readonly load?: () => Promise<CommandAction<any>>;
}

function wholeNumber(text: string): number {
  if (!/^\d+$/.test(text)) throw new Error('expected a whole number');
  return Number(text);
}

function portNumber(text: string): number {
  const port = wholeNumber(text);
  if (port > 65_535) throw new Error('expected a port from 0 to 65535');
  return port;
}

/** A kind, or a usage error with the nearest one. */
function kindName(text: string): string {
  if ((KINDS as readonly string[]).includes(text)) return text;
  const near = suggest(text, KINDS);
  throw new Error(
    near === undefined ? `there is no such kind; see \`tidemark catalog\`` : `did you mean ${near}?`,
  );
}

const kindOption: OptionRow = {
  flags: '--kind <kind>',
  description: 'only this kind; repeatable',
  isRepeatable: true,
  parse: kindName,
};

const filterOptions: readonly OptionRow[] = [
  kindOption,
  {
    flags: '--organization <id>',
    description: 'only below this organization; repeatable',
    isRepeatable: true,
  },
  { flags: '--project <id>', description: 'only below this project; repeatable', isRepeatable: true },
  { flags: '--id <id>', description: 'only this remote id; repeatable', isRepeatable: true },
];

export const COMMANDS: readonly CommandRow[] = [
  {
    name: 'sync',
    description: 'One run now: read the service, bring the mirror up to date',
    options: [
      kindOption,
      { flags: '--full', description: 'list session recordings whole, not only the newest' },
      {
        flags: '--accept-removals <n>',
        description: 'let up to n held removals happen now',
        parse: wholeNumber,
      },
    ],
    examples: [
      'tidemark sync',
      'tidemark sync --kind batch_exports --json',
      'tidemark sync --accept-removals 12',
    ],
    load: async () => (await import('./sync.ts')).sync,
  },
  {
    name: 'status',
    description: 'How fresh and how whole the mirror is, per collection',
    examples: ['tidemark status', 'tidemark status --json'],
    load: async () => (await import('./status.ts')).status,
  },
  {
    name: 'runs',
    description: 'Past runs',
    options: [
      { flags: '--limit <n>', description: 'how many, newest first (default: 20)', parse: wholeNumber },
    ],
    examples: ['tidemark runs', 'tidemark runs show 3'],
    load: async () => (await import('./runs.ts')).runs,
    commands: [
      {
        name: 'show',
        description: 'One run with its sweeps',
        arguments: [{ name: '<run>', key: 'run', description: 'number of the run' }],
        load: async () => (await import('./runs.ts')).showRun,
      },
    ],
  },
  {
    name: 'export',
    description: "Writes the mirror's records",
    options: [
      {
        flags: '--format <format>',
        description: 'how (default: ndjson)',
        choices: ['ndjson', 'json', 'yaml', 'csv'],
      },
      { flags: '--output <dir>', description: 'into this directory instead of stdout' },
      { flags: '--at <ref>', description: 'which state (default: latest)' },
      ...filterOptions,
    ],
    examples: [
      'tidemark export > backup.ndjson',
      'tidemark export --format yaml --output ./config-tree',
      'tidemark export --format csv --kind members > members.csv',
    ],
    load: async () => (await import('./export.ts')).exportRecords,
  },
  {
    name: 'verify',
    description: 'Checks that the mirror holds what it sealed: contents, histories, the chain of runs',
    examples: ['tidemark verify', 'tidemark verify --json'],
    load: async () => (await import('./verify.ts')).verify,
  },
  {
    name: 'sandbox',
    description: 'An embedded server of the whole interface, to try things on',
    options: [
      { flags: '--host <address>', description: 'address to listen on (default: 127.0.0.1)' },
      {
        flags: '--port <port>',
        description: 'port to listen on; 0 for any (default: 8600)',
        parse: portNumber,
      },
      { flags: '--data <file>', description: 'keep the state in this file (default: in memory)' },
      {
        flags: '--seed <name>',
        description: 'what it starts with (default: demo)',
        choices: ['demo', 'empty'],
      },
      { flags: '--key <key>', description: 'the API key it accepts (default: sandbox-key)' },
      {
        flags: '--permission <permission>',
        description: 'limit the key to this permission; repeatable',
        isRepeatable: true,
      },
    ],
    examples: ['tidemark sandbox', 'tidemark sandbox --port 8600 --data sandbox.json --seed empty'],
    load: async () => (await import('./sandbox.ts')).sandbox,
  },
  {
    name: 'catalog',
    description: 'What is mirrored, compared and restorable, kind by kind',
    examples: ['tidemark catalog', 'tidemark catalog --json'],
    load: async () => (await import('./catalog.ts')).catalog,
  },
  {
    name: 'config',
    description: 'The configuration: checked, or its schema',
    commands: [
      {
        name: 'check',
        description: 'Reads the configuration and says what is wrong with it, all at once',
        load: async () => (await import('./config-check.ts')).configCheck,
      },
      {
        name: 'schema',
        description: 'Prints the JSON Schema, for editors',
        load: async () => (await import('./config-schema.ts')).configSchema,
      },
    ],
  },
  {
    name: 'demo',
    description: 'The whole story against an embedded sandbox, no key needed',
    options: [{ flags: '--output <dir>', description: 'where the demo mirror goes (default: ./data/demo)' }],
    load: async () => (await import('./demo.ts')).demo,
  },
];
