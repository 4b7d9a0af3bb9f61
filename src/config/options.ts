/** The schema of the configuration: types, defaults, documentation, JSON Schema and environment variables come from it. */
import * as z from 'zod';
import { KINDS } from '../catalog/kinds.ts';
import { SEVERITIES } from '../catalog/definition.ts';
import { LOG_LEVELS } from '../core/logger.ts';
import { isRecipient } from './age-recipient.ts';
import { isTargetAddress, meantS3Address, TARGET_ADDRESS } from './backup-target.ts';
import { NOTICES, PINGS } from './channels.ts';
import * as t from './schema.ts';
import { section } from './schema.ts';
import { SOURCE } from './source-options.ts';

function schedule<More extends z.ZodRawShape>(what: string, cron: string, more: More, also = '') {
  return section(what, {
    cron: t.cronOrOff.prefault(cron).meta({
      description: `When: five cron fields, or six with seconds first; \`off\` for never.${also}`,
      example: cron,
    }),
    zone: t.zone.prefault('UTC').meta({ description: 'Time zone of the cron fields.', example: 'UTC' }),
    ...more,
    sources: t.texts.optional().meta({
      description: 'Names of the sources that it is for; default: all.',
      example: ['production'],
    }),
  });
}

const JITTER = t.duration.prefault('60s').meta({
  description:
    'Starts up to this much later, at random. With a mirror for each source, starts are spread instead: over the interval, an hour at most, each source always at the same point of it.',
  example: '60s',
});

/** The options of retention, for history and backups. */
function retentionRules(one: 'run' | 'backup') {
  const unit = `${one}s`;
  const kept = (periods: string) =>
    t
      .wholeNumber(1, 100_000)
      .optional()
      .meta({
        unit,
        description: `Keep the last ${one} of each of this many ${periods}.`,
        example: 7,
      });
  return {
    keepLast: t.wholeNumber(1, 100_000).optional().meta({
      unit,
      description: 'Keep this many of the newest.',
      example: 48,
    }),
    keepHourly: kept('hours'),
    keepDaily: kept('days'),
    keepWeekly: kept('weeks'),
    keepMonthly: kept('months'),
    keepYearly: kept('years'),
    keepWithin: t.duration
      .optional()
      .meta({ description: 'Keep everything younger than this.', example: '7d' }),
  };
}

const recipient = z
  .string()
  .trim()
  .refine(isRecipient)
  .meta({ expected: 'an age recipient, as `age-keygen -y` prints it: age1… with its checksum' });

const address = z
  .string()
  .superRefine((text, context) => {
    const meant = meantS3Address(text);
    if (meant !== undefined)
      context.addIssue({
        code: 'custom',
        message: `expected s3:// with two slashes; did you mean ${meant}?`,
      });
    else if (!isTargetAddress(text)) context.addIssue({ code: 'custom' });
  })
  .meta({ expected: TARGET_ADDRESS });

const keep = t.wholeNumber(1, 100_000).optional();

/** A target with options of its own. */
const targetMap = z.strictObject({
  address,
  objectLock: z
    .strictObject({ mode: z.enum(['governance', 'compliance']), days: t.wholeNumber(1, 36_500) })
    .optional(),
  keepAll: z.boolean().optional(),
  keepLast: keep,
  keepHourly: keep,
  keepDaily: keep,
  keepWeekly: keep,
  keepMonthly: keep,
  keepYearly: keep,
});

const backupTarget = z
  .union([address, targetMap])
  .transform((target): z.infer<typeof targetMap> =>
    typeof target === 'string' ? { address: target } : target,
  );

/** A JSON pointer in which `*` and `**` stand for segments, and `[id=…]` for the element with that id. */
const pattern = z
  .string()
  .regex(/^\/./)
  .refine((value) => !/~(?![01])/.test(value))
  .meta({ expected: 'a JSON pointer, * for one segment and ** for any number' });

const IGNORE_RULE = z
  .strictObject({
    source: t.text.optional(),
    kind: z.enum(KINDS).optional(),
    id: t.id.optional(),
    path: pattern.optional(),
    reason: z.string().refine((reason) => reason.trim() !== ''),
  })
  .refine(
    ({ kind, id, path }) => kind !== undefined || id !== undefined || path !== undefined,
    'expected a reason and at least one of kind, id and path',
  )
  .superRefine(({ kind, id, path }, context) => {
    // The same rule as in `diff/rules.ts`, which this module must not import.
    const isWide = path
      ?.split('/')
      .slice(1)
      .every((segment) => segment === '*' || segment === '**');
    if (kind !== undefined || id !== undefined || isWide !== true) return;
    const message = `expected a kind or an id beside ${path}: a path of wildcards alone would hide every change`;
    context.addIssue({ code: 'custom', path: ['path'], message });
  });

const SEVERITY_RULE = z.strictObject({
  source: t.text.optional(),
  kind: z.enum(KINDS).optional(),
  path: pattern.optional(),
  severity: z.enum(SEVERITIES),
});

/** The schedules of the daemon, and of workers of a fleet. */
export const SCHEDULES = section('When the daemon does what.', {
  sync: schedule('Sync the sources.', '*/30 * * * *', { jitter: JITTER }),
  drift: schedule(
    'Compare with the baseline, where one is set.',
    '0 7 * * *',
    {},
    ' The daemon also compares after each of its syncs that changed something, unless this is `off`.',
  ),
  verify: schedule('Verify the mirror.', '0 3 * * 0', {}),
  forget: schedule('Drop history by `retention`; never where that keeps nothing.', '30 3 * * *', {}),
  drill: schedule('Rehearse a restore in the sandbox.', '0 5 * * 1', {}),
});

export const RETENTION = section(
  'History that `forget` keeps, on its schedule and as a command without rules of its own; without any of these the daemon forgets nothing. Pinned snapshots stay.',
  retentionRules('run'),
);

export const DRIFT = section('What counts as drift, for all sources.', {
  ignore: z
    .array(IGNORE_RULE)
    .prefault([])
    .meta({
      type: 'list of rules',
      expected:
        'a list of {kind, id, path, source, reason}: reason and at least one of kind, id and path, path as a JSON pointer; one of wildcards alone needs a kind or an id',
      description:
        'Drift that is not reported. Each rule names at least one of kind, id and path (a JSON pointer with `*` for one segment, `**` for any number), and says why; with source, it holds for that source only. Elements that carry an id are named by it, `/teams/[id=12]/name`, or by `*`: an index never fits them, since another one may stand there tomorrow. A path of wildcards alone needs a kind or an id.',
      example: [{ kind: 'batch_exports', path: '/destination/config/prefix', reason: 'set by the pipeline' }],
    }),
  severities: z
    .array(SEVERITY_RULE)
    .prefault([])
    .meta({
      type: 'list of rules',
      expected:
        'a list of {kind, path, source, severity}: severity one of critical, high, medium, low; path as a JSON pointer',
      description:
        'How much a change matters, over the catalog; the first rule that fits decides. Without path: for records that came or went. Paths as in `drift.ignore`.',
      example: [{ kind: 'organizations', path: '/name', severity: 'low' }],
    }),
});

/** Every option. */
export const OPTIONS = section('Tidemark configuration', {
  mirror: t.mirrorPath.prefault('./data/mirror.db').meta({
    description:
      'The SQLite file. With `{source}`, each source has a file of its own: `./data/{source}.db`; backups are then below the name of the source, and `tidemark mirror move` goes from one form to the other. A relative path starts at the directory of the configuration file, or at the current one where there is no file.',
    example: './data/mirror.db',
  }),
  sources: t.listOf('The services to mirror.', SOURCE),
  schedules: SCHEDULES,
  retention: RETENTION,
  backup: section(
    'Backups of the mirror in another place, made after complete runs; none without a target. Without a keep rule, the newest backup of each of seven days, four weeks and twelve months is kept.',
    {
      targets: z
        .array(backupTarget)
        .min(1)
        .optional()
        .meta({
          type: 'list of targets',
          expected: `a list of targets, each ${TARGET_ADDRESS}`,
          description:
            'Where backups go, each to all of these: a directory, which has to exist (name a directory on the disk, not its mount point: it is then missing while the disk is not mounted, and nothing is stored in its place), or S3-compatible storage. Credentials of S3 come from the environment, ~/.aws or a web identity. A map in place of an address adds what applies to this target only: `address`, `objectLock: { mode: governance | compliance, days }`, its own `keep…` rules, or `keepAll: true`, with which nothing is removed there.',
          example: ['/var/backups/tidemark', 's3://backups/tidemark?region=eu-central-1'],
        }),
      every: t.duration.prefault('24h').meta({
        description: 'Least time between two backups; 0s makes one after every complete run.',
        example: '24h',
      }),
      ...retentionRules('backup'),
      recipients: z
        .array(recipient)
        .optional()
        .meta({
          type: 'list of recipients',
          expected: 'a list of age recipients, each as `age-keygen -y` prints it: age1…',
          description: 'Encrypt backups so that only the holders of these age keys can read them.',
          example: ['age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p'],
        }),
      recipientsFile: t.path.optional().meta({
        description: 'File of further recipients, one a line; it is read for each backup.',
        example: '/etc/tidemark/recipients.txt',
      }),
      command: z
        .array(z.string())
        .refine(([program]) => program === undefined || program.trim() !== '')
        .optional()
        .meta({
          isJson: true,
          type: 'list of strings',
          expected: 'a list of strings, the program and its arguments',
          description:
            'Program to start after each backup, with its arguments and without a shell: {file}, {manifest} and {directory} in them stand for paths, and TIDEMARK_BACKUP_FILE, TIDEMARK_BACKUP_MANIFEST and TIDEMARK_BACKUP_DIRECTORY of its environment hold them too.',
          example: ['restic', 'backup', '{directory}'],
        }),
      commandTimeout: t.duration.prefault('1h').meta({
        description: 'Longest time that the command may take.',
        example: '1h',
      }),
    },
  ),
  daemon: section('The daemon as a process.', {
    shutdownGraceMs: t.wholeNumber(0, 600_000).prefault(10_000).meta({
      unit: 'milliseconds',
      description: 'Longest time that work under way is given to end after SIGTERM.',
      example: 10_000,
    }),
    slots: t.wholeNumber(1, 64).prefault(2).meta({
      unit: 'jobs',
      description:
        'Jobs that run at the same time, of different mirrors (`mirror: ./data/{source}.db`). A mirror has one job at a time, and so have sources with the same address and key.',
      example: 2,
    }),
    jobTimeout: t.duration.prefault('6h').meta({
      description:
        'Longest time that a job may take; 0s disables the limit. For a sync, `sync.maxDuration` of its source counts instead. A job that takes longer fails, and what was published before stays.',
      example: '6h',
    }),
    noticeWait: t.duration.prefault('30s').meta({
      description:
        'With several sources, how long a notice waits for the same event of other sources, to be sent as one; 0s sends a message for each event.',
      example: '30s',
    }),
    noticeInterval: t.duration.prefault('5m').meta({
      description:
        'Least time between two notices about the same group of sources while it is not over; doubled with each, up to an hour.',
      example: '5m',
    }),
  }),
  drift: DRIFT,
  notices: NOTICES.meta({
    description:
      'Channels through which the daemon sends notices; docs/notices.md describes every key, event and message. Each has a name and a type (webhook, slack, teams, mattermost, discord, pagerduty, opsgenie, email, command), and may say which events (on), which sources, the least severity of drift, and a template. Give URLs and secrets by reference, as ${VAR}, or by the key with File at its end.',
    example: [{ name: 'ops', type: 'slack', url: '${SLACK_URL}', severity: 'high' }],
    isSecret: true,
  }),
  pings: PINGS.meta({
    description:
      "URLs of a dead man's switch, which raises the alarm when they are not called: start when a sync begins, success only when all of it was complete, fail when it was not. With sources, for those only. Give them by reference, as ${VAR}, or as startFile, successFile, failFile.",
    example: [{ sources: ['production'], success: '${PING_URL}', fail: '${PING_URL}/fail' }],
    isSecret: true,
  }),
  http: section("The daemon's HTTP endpoints. `serve` and `sandbox` take --host and --port.", {
    listen: t.listenAddress.prefault('127.0.0.1:8787').meta({
      description: 'Address and port. Any other than a loopback address needs a token.',
      example: '127.0.0.1:8787',
    }),
    token: t.secret.optional().meta({
      description: 'Token that callers must send. Give it by reference, as ${VAR}.',
      example: '${TIDEMARK_TOKEN}',
    }),
    tokenFile: t.path.optional().meta({
      description: 'File that holds the token; instead of token.',
      example: '/run/secrets/tidemark',
    }),
    triggerToken: t.secret.optional().meta({
      description:
        'Token for webhooks: it starts a sync by POST /api/v1/runs and opens nothing else. It must differ from `token`. Give it by reference, as ${VAR}.',
      example: '${TIDEMARK_TRIGGER_TOKEN}',
    }),
    triggerTokenFile: t.path.optional().meta({
      description: 'File that holds the token for webhooks; instead of triggerToken.',
      example: '/run/secrets/tidemark-trigger',
    }),
    mcp: z.boolean().prefault(false).meta({
      description:
        'Serve read-only tools to MCP clients at /mcp, to whoever may read. Off unless set, because tools run commands and some of them read the service.',
      example: true,
    }),
    allowRestore: z.boolean().prefault(false).meta({
      description:
        'Lets people who logged in to the dashboard apply a restore there, after a second confirmation. Without it the dashboard shows the command, and the daemon never writes to the service. Needs token.',
      example: false,
    }),
    publicUrl: t.baseUrl.optional().meta({
      description:
        'Address under which people reach the dashboard, such as that of a proxy in front of it: every notice links to it. With a path, such as https://ops.example.com/tidemark, links, forms and cookies of the pages have it, whether the proxy keeps it or strips it.',
      example: 'https://tidemark.example.com',
    }),
    trustedProxies: t.networks.prefault([]).meta({
      description:
        'Addresses and ranges of the proxies in front of the daemon or `serve` whose X-Forwarded-For, -Host and -Proto headers are believed. Those from other addresses are ignored.',
      example: ['10.0.0.7'],
    }),
    userHeader: t.headerName.optional().meta({
      description:
        'Header in which the trusted proxies name the user that they let in: no login is asked for then, and what the user does in the dashboard is recorded under this name. Ignored from any other address. Needs token, and trustedProxies that let in nobody else.',
      example: 'X-Forwarded-User',
    }),
  }),
  replica: section(
    'The read-only replica, served by `serve`, and by the daemon under /replica/ if it has a token. It answers unmasked records, including secrets that the service returns.',
    {
      token: t.secret.optional().meta({
        description:
          'Token that callers of the replica must send; another one than http.token. Give it by reference, as ${VAR}.',
        example: '${TIDEMARK_REPLICA}',
      }),
      tokenFile: t.path.optional().meta({
        description: 'File that holds the token; instead of token.',
        example: '/run/secrets/tidemark-replica',
      }),
    },
  ),
  fleet: section(
    'Many sources on several machines: `tidemark fleet` (docs/fleet.md). Nothing else reads this section.',
    {
      database: t.databaseUrl.optional().meta({
        description:
          'PostgreSQL database of the registry, as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with ?sslmode=verify-full to require TLS. Give it by reference, as ${VAR}.',
        example: '${DATABASE_URL}',
      }),
      databaseFile: t.path.optional().meta({
        description: 'File that holds this URL; instead of database.',
        example: '/run/secrets/database-url',
      }),
      storage: address.optional().meta({
        type: 'target',
        expected: TARGET_ADDRESS,
        description:
          'Where mirrors are kept between jobs, below a prefix for each cell: S3-compatible storage, or a directory that all workers share. Credentials of S3 come from the environment, ~/.aws or a web identity.',
        example: 's3://tidemark-fleet?region=eu-central-1',
      }),
      recipients: z
        .array(recipient)
        .optional()
        .meta({
          type: 'list of recipients',
          expected: 'a list of age recipients, each as `age-keygen -y` prints it: age1…',
          description: 'Encrypt mirrors in storage so that only the holders of these age keys can read them.',
          example: ['age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p'],
        }),
      identityFile: t.path.optional().meta({
        description:
          'File with the age identity by which workers read encrypted mirrors. Required with recipients.',
        example: '/run/secrets/fleet-identity',
      }),
      keyDirectory: t.path.prefault('/run/secrets/cells').meta({
        description:
          'Directory with the keys of cells on a worker. `secret: file:/PATH` of a cell must lead to a file in it, so that who may change the registry cannot have another file of the worker sent as a key. Keep nothing else there.',
        example: '/run/secrets/cells',
      }),
      cache: t.path.prefault('./data/fleet').meta({
        description:
          'Directory in which a worker keeps the mirrors that it had last, so that it need not fetch them again.',
        example: './data/fleet',
      }),
      heartbeat: t.duration.prefault('30s').meta({
        description:
          'If a worker is silent for this long, another one takes its cells. At least 10s, and the same on all workers.',
        example: '30s',
      }),
      timeLimit: t.duration.prefault('6h').meta({
        description:
          'Longest time for the jobs of one cell; then they are given up until the next time. A sync that receives nothing for 15 min is given up in any case.',
        example: '6h',
      }),
      stopTimeout: t.duration.prefault('20s').meta({
        description:
          'How long the jobs under way may take to end once a worker gets SIGTERM; then they are cut short and another worker does them again. Whoever sends SIGKILL later has to wait at least 15 s longer. After `fleet drain` a worker takes them to their end, within `timeLimit`.',
        example: '20s',
      }),
      slots: t.wholeNumber(1, 64).prefault(4).meta({
        unit: 'jobs',
        description: 'Jobs that one worker does at a time, each on another key.',
        example: 4,
      }),
    },
  ),
  log: section('Logs, on stderr.', {
    level: z.enum(LOG_LEVELS).prefault('info').meta({
      description: 'Least severe level that is written.',
      example: 'info',
    }),
  }),
});

export type ParsedOptions = z.output<typeof OPTIONS>;
export type ParsedSource = ParsedOptions['sources'][number];
