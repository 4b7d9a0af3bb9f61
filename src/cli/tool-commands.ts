/** The rows of `serve`, `sandbox`, `catalog`, `config` and `demo`. */
import { isNetwork } from '../config/schema.ts';
import { type CommandRow, portNumber, positiveNumber, writtenFile } from './command-row.ts';

function network(text: string): string {
  if (!isNetwork(text)) throw new Error('expected an IP address or a CIDR range, e.g. 10.0.0.0/24');
  return text;
}

export const TOOL_COMMANDS: readonly CommandRow[] = [
  {
    name: 'serve',
    group: 'Run',
    description: 'Serve the mirror as a read-only replica of the API',
    options: [
      { flags: '--host <address>', description: 'address to listen on (default: 127.0.0.1)' },
      {
        flags: '--port <port>',
        description: 'port to listen on; 0 picks a free one (default: 8700)',
        parse: portNumber,
      },
      {
        flags: '--token-file <file>',
        description:
          'file with accepted tokens, one per line; read again when it changes (default: replica.token of the configuration)',
      },
      {
        flags: '--trusted-proxy <address>',
        description:
          'believe the forwarded headers of a proxy with this IP address, or in this CIDR range; repeatable (default: http.trustedProxies of the configuration)',
        parse: network,
        isRepeatable: true,
      },
    ],
    notes: [
      'Clients choose a state with ?as_of=latest, baseline, run:N, run:-1, snapshot:NAME, an age or a time. Any address but',
      'loopback requires a token. It belongs to the replica; never use the key of the service.',
    ],
    examples: [
      'tidemark serve',
      'tidemark serve --source production --host 0.0.0.0 --token-file /run/secrets/replica',
      'curl "http://127.0.0.1:8700/api/organizations/?as_of=2026-03-01"',
    ],
    load: async () => (await import('./serve.ts')).serve,
  },
  {
    name: 'sandbox',
    group: 'Run',
    description: 'Run a sandbox of the complete API, for trials',
    options: [
      { flags: '--host <address>', description: 'address to listen on (default: 127.0.0.1)' },
      {
        flags: '--port <port>',
        description: 'port to listen on; 0 picks a free one (default: 8600)',
        parse: portNumber,
      },
      { flags: '--data <file>', description: 'keep the data in this file (default: in memory)' },
      { flags: '--seed <name>', description: 'initial data (default: demo)', choices: ['demo', 'empty'] },
      {
        flags: '--profile <name>',
        description: 'answer as a deployment of this profile, e.g. posthog (default: the documented API)',
        values: 'profile',
      },
      { flags: '--key <key>', description: 'accepted API key (default: sandbox-key)' },
      {
        flags: '--permission <permission>',
        description: 'restrict the key to this permission; repeatable',
        isRepeatable: true,
      },
      {
        flags: '--rate-limit <n>',
        description: 'answer 429 with Retry-After beyond n requests in a minute (default: no limit)',
        parse: positiveNumber,
      },
      {
        flags: '--trusted-proxy <address>',
        description: 'trust forwarded headers from this proxy IP address or CIDR range; repeatable',
        parse: network,
        isRepeatable: true,
      },
    ],
    examples: [
      'tidemark sandbox',
      'tidemark sandbox --profile posthog',
      'tidemark sandbox --port 8600 --data sandbox.json --seed empty',
    ],
    load: async () => (await import('./sandbox.ts')).sandbox,
  },
  {
    name: 'catalog',
    group: 'Set up',
    description: 'List what is mirrored and restorable, kind by kind',
    examples: ['tidemark catalog', 'tidemark catalog --json'],
    load: async () => (await import('./catalog.ts')).catalog,
  },
  {
    name: 'config',
    group: 'Set up',
    description: 'Check the configuration, or print its schema',
    examples: ['tidemark config check', 'tidemark config schema > tidemark.schema.json'],
    commands: [
      {
        name: 'check',
        description: 'Check the configuration and list everything wrong with it',
        examples: ['tidemark config check', 'tidemark config check --config /etc/tidemark.yaml'],
        outlivesOutput: () => true,
        load: async () => (await import('./config-check.ts')).configCheck,
      },
      {
        name: 'schema',
        description: 'Print the JSON Schema of the configuration, for editors',
        examples: ['tidemark config schema > tidemark.schema.json'],
        load: async () => (await import('./config-check.ts')).configSchema,
      },
    ],
  },
  {
    name: 'demo',
    group: 'Set up',
    description: 'Try sync, drift and restore in a sandbox; no key needed',
    options: [
      {
        flags: '--output <dir>',
        description: 'directory of the demo mirror (default: ./data/demo)',
        parse: writtenFile,
      },
    ],
    examples: ['tidemark demo', 'tidemark demo --output ./try'],
    // Its sandbox is a separate process, which would otherwise be left running.
    outlivesOutput: () => true,
    load: async () => (await import('./demo.ts')).demo,
  },
];
