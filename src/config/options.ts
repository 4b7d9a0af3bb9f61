/** The one table of options: types, defaults, documentation, JSON Schema and environment variables come from it. */
import { KINDS } from '../catalog/kinds.ts';
import { LOG_LEVELS } from '../core/logger.ts';
import { type Parsed, listOf, option, optional, section } from './option.ts';
import { backupCommand, recipients } from './backup-rules.ts';
import { DRIFT_IGNORE, DRIFT_SEVERITIES } from './drift-rules.ts';
import { NOTICES } from './notice-rules.ts';
import { KIND_OVERRIDES } from './override-options.ts';
import { PINGS } from './ping-rules.ts';
import { SECRETS } from './secret-rules.ts';
import {
  baseUrl,
  choice,
  choices,
  cronOrOff,
  duration,
  flag,
  idsOrAll,
  listenAddress,
  networks,
  path,
  secret,
  share,
  sourceName,
  text,
  texts,
  wholeNumber,
  wholeNumberOrAll,
  zone,
} from './value-types.ts';

const FROM_PROFILE = 'from the profile';

/** How much is asked of the service; a profile gives the defaults. */
const RATE = section('How much is asked of the service, per key. Bursts are allowed within the window.', {
  perMinute: option(wholeNumber(0, 1_000_000), {
    default: 480,
    defaultNote: FROM_PROFILE,
    unit: 'requests a minute',
    description: 'Most requests in any 60 seconds; 0 means no limit.',
    example: 480,
  }),
  perHour: option(wholeNumber(0, 10_000_000), {
    default: 4800,
    defaultNote: FROM_PROFILE,
    unit: 'requests an hour',
    description: 'Most requests in any 60 minutes, counted across restarts; 0 means no limit.',
    example: 4800,
  }),
  concurrency: option(wholeNumber(1, 100), {
    default: 4,
    defaultNote: FROM_PROFILE,
    unit: 'requests',
    description: 'Most requests under way at once.',
    example: 4,
  }),
});

const SOURCE = section('One remote service.', {
  name: option(sourceName, {
    default: 'default',
    description: 'Name of the source in commands and in the mirror; unique.',
    example: 'production',
  }),
  baseUrl: optional(baseUrl, {
    description: 'Address of the service, with a path prefix where it has one. Required.',
    example: 'https://svc.example.com',
  }),
  apiKey: optional(secret, {
    description: 'Personal API key. Give it by reference, as ${VAR}. This or apiKeyFile is required.',
    example: '${SVC_API_KEY}',
    isSecret: true,
  }),
  apiKeyFile: optional(path, {
    description: 'File that holds the key, e.g. a container secret; instead of apiKey.',
    example: '/run/secrets/svc',
  }),
  profile: option(text, {
    default: 'svc',
    description: 'What is known about the deployment: a name under config/profiles, or the path of a file.',
    example: 'svc',
  }),
  organizations: option(idsOrAll, {
    default: 'all',
    description: 'Organizations to mirror: all that the key sees, or a list of ids.',
    example: 'all',
  }),
  projects: option(idsOrAll, {
    default: 'all',
    description: 'Projects whose recordings are mirrored: all, or a list of ids.',
    example: 'all',
  }),
  kinds: section('Which kinds are mirrored: all, only those of include, or all but those of exclude.', {
    include: optional(choices(KINDS, 'kind'), {
      description:
        'Mirror these kinds only, and the kinds that lead to them: organizations for members, roles for role_memberships.',
      example: ['organizations', 'members', 'batch_exports'],
    }),
    exclude: optional(choices(KINDS, 'kind'), {
      description:
        'Mirror all kinds but these and what only they lead to: without roles there are no role_memberships.',
      example: ['session_recordings', 'recording_sharing'],
    }),
  }),
  rate: RATE,
  pageSize: option(wholeNumber(1, 10_000), {
    default: 500,
    unit: 'records',
    description: 'Page size to request. The service may return fewer; it is halved after timeouts.',
    example: 500,
  }),
  retry: section('What happens when a request fails.', {
    attempts: option(wholeNumber(1, 20), {
      default: 5,
      unit: 'requests',
      description: 'Most attempts of one request, the first included; 1 is never again.',
      example: 5,
    }),
    maxWaitSeconds: option(wholeNumber(0, 86_400), {
      default: 300,
      unit: 'seconds',
      description: 'Longest wait that the service may ask for; beyond it the collection fails for this run.',
      example: 300,
    }),
  }),
  sync: section('How a sync is bounded.', {
    maxDuration: option(duration, {
      default: '24h',
      description:
        'Longest time that one sync may take; 0s is no limit. What it had read by then is not kept, as after an interrupt, so set it well above the longest honest run: a first one, or one with sharingPerRun: all, may take hours within the rates.',
      example: '24h',
    }),
  }),
  recordings: section('Session recordings, which are many.', {
    sharingPerRun: option(wholeNumberOrAll(0, 10_000_000), {
      default: 200,
      unit: 'recordings a run',
      description: 'Recordings whose sharing is read in one run, a request each; 0 is off, all is every one.',
      example: 200,
    }),
    fullSweepEvery: option(duration, {
      default: '24h',
      description: 'How often the whole list is walked; the runs between read from the newest on.',
      example: '24h',
    }),
  }),
  removals: section('When a record that is missing from a complete sweep counts as removed.', {
    maxRecords: option(wholeNumber(0, 10_000_000), {
      default: 10,
      unit: 'records',
      description: 'Removals of one collection in one run beyond this and beyond maxShare are held.',
      example: 10,
    }),
    maxShare: option(share, {
      default: 0.1,
      unit: 'share of the collection',
      description: 'Removals beyond this share of the collection and beyond maxRecords are held.',
      example: 0.1,
    }),
    confirmAfter: option(duration, {
      default: '1h',
      description: 'Held removals are accepted when a run at least this much later finds the same.',
      example: '1h',
    }),
  }),
  restore: section('What a restore may do at most, and whom it leaves alone.', {
    maxShare: option(share, {
      default: 0.3,
      unit: 'share of the records of a kind',
      description:
        'A plan that changes, or removes, more than this share of a kind is refused; --max-share raises it.',
      example: 0.3,
    }),
    minRecords: option(wholeNumber(1, 10_000_000), {
      default: 10,
      unit: 'records',
      description: 'Kinds with fewer live records have no such limit.',
      example: 10,
    }),
    maxAge: option(duration, {
      default: '24h',
      description:
        'Oldest state that a restore without FROM, or from latest, puts back; 0s is no limit. A state named by run, snapshot or time may be any age.',
      example: '24h',
    }),
    ownUser: optional(text, {
      description:
        "The key's own user, who is never changed: uuid or e-mail address as in members. Without it every member of that user's level is left alone.",
      example: 'ops@example.com',
    }),
  }),
  redact: option(flag, {
    default: false,
    description:
      'Keeps secrets that the service sends in clear out of the mirror: a fingerprint is stored instead, by which a diff still detects a change. A restore then needs their values under secrets. History from before keeps the values until it is forgotten.',
    example: true,
  }),
  secrets: option(SECRETS, {
    default: {},
    description:
      'Values that the service never shows, for records that a restore creates again: by kind a list of {match, values}. match names fields with the texts that must be there (left out: every record); the first that fits and has the place wins. values are JSON pointers with ${VARIABLE} or {file: PATH}; what is not set blocks the steps that need it, nothing else.',
    example: {
      batch_exports: [
        {
          match: { name: 'Nightly S3' },
          values: { '/destination/config/aws_secret_access_key': '${NIGHTLY_S3_SECRET}' },
        },
      ],
    },
    isSecret: true,
  }),
  definitions: KIND_OVERRIDES,
});

function schedule(what: string, defaultCron: string, defaultJitter: string) {
  return section(what, {
    cron: option(cronOrOff, {
      default: defaultCron,
      description: 'When: five cron fields, or six with seconds first; `off` for never.',
      example: defaultCron,
    }),
    zone: option(zone, { default: 'UTC', description: 'Time zone of the cron fields.', example: 'UTC' }),
    jitter: option(duration, {
      default: defaultJitter,
      description: 'Starts up to this much later, at random.',
      example: '60s',
    }),
    sources: optional(texts, {
      description: 'Names of the sources that it is for; all of them where this is left out.',
      example: ['production'],
    }),
  });
}

/** What is kept of a growing number of things, by age: history, backups. */
function retentionRules(one: 'run' | 'backup', unit: 'runs' | 'backups') {
  const kept = (periods: string) =>
    optional(wholeNumber(1, 100_000), {
      unit,
      description: `Keep the last ${one} of each of this many ${periods}.`,
      example: 7,
    });
  return {
    keepLast: optional(wholeNumber(1, 100_000), {
      unit,
      description: 'Keep this many of the newest.',
      example: 48,
    }),
    keepHourly: kept('hours'),
    keepDaily: kept('days'),
    keepWeekly: kept('weeks'),
    keepMonthly: kept('months'),
    keepYearly: kept('years'),
    keepWithin: optional(duration, { description: 'Keep everything younger than this.', example: '7d' }),
  };
}

const RETENTION = retentionRules('run', 'runs');

/** Every option that there is. */
export const OPTIONS = section('Tidemark configuration', {
  mirror: option(path, {
    default: './data/mirror.db',
    description:
      'The SQLite file. A relative path starts at the directory of the configuration file, or at the current one where there is no file.',
    example: './data/mirror.db',
  }),
  sources: listOf('The services to mirror.', SOURCE),
  schedules: section('When the daemon does what.', {
    sync: schedule('Mirror the sources.', '*/30 * * * *', '60s'),
    drift: schedule('Compare with the baseline, where one is set.', '0 7 * * *', '0s'),
    verify: schedule('Verify the mirror.', '0 3 * * 0', '0s'),
    forget: schedule('Drop history by `retention`; never where that keeps nothing.', '30 3 * * *', '0s'),
    drill: schedule('Practise a restore in the sandbox.', '0 5 * * 1', '0s'),
  }),
  retention: section(
    'History that `forget` keeps on its schedule; without any of these the daemon forgets nothing. Pinned snapshots stay.',
    RETENTION,
  ),
  backup: section(
    'Backups of the whole mirror in another place, made after complete runs; none without a directory. Where no rule says how many to keep, the newest of seven days, four weeks and twelve months stay.',
    {
      directory: optional(path, {
        description: 'Where backups go. It has to exist: a disk that is not mounted must not pass for one.',
        example: '/var/backups/tidemark',
      }),
      every: option(duration, {
        default: '24h',
        description: 'Least time between two backups; 0s makes one after every complete run.',
        example: '24h',
      }),
      ...retentionRules('backup', 'backups'),
      recipients: optional(recipients, {
        description: 'Encrypt backups so that only the holders of these age keys can read them.',
        example: ['age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p'],
      }),
      recipientsFile: optional(path, {
        description: 'File of further recipients, one a line; it is read for each backup.',
        example: '/etc/tidemark/recipients.txt',
      }),
      command: optional(backupCommand, {
        description:
          'Program to start after each backup, with its arguments and without a shell: {file}, {manifest} and {directory} in them stand for paths, and TIDEMARK_BACKUP_FILE, TIDEMARK_BACKUP_MANIFEST and TIDEMARK_BACKUP_DIRECTORY of its environment hold them too.',
        example: ['restic', 'backup', '{directory}'],
      }),
      commandTimeout: option(duration, {
        default: '1h',
        description: 'Longest time that the command may take.',
        example: '1h',
      }),
    },
  ),
  daemon: section('The daemon as a process.', {
    shutdownGraceMs: option(wholeNumber(0, 600_000), {
      default: 10_000,
      unit: 'milliseconds',
      description: 'Longest time that work under way is given to end after SIGTERM.',
      example: 10_000,
    }),
  }),
  drift: section('What counts as drift, for all sources.', {
    ignore: option(DRIFT_IGNORE, {
      default: [],
      description:
        'Drift that is not reported. Each rule names at least one of kind, id and path (a JSON pointer with `*` for one segment, `**` for any number), and says why; with source, it holds for that source only. Elements that carry an id are named by it, `/teams/[id=12]/name`, or by `*`: an index never fits them, since another one may stand there tomorrow. A path of wildcards alone needs a kind or an id.',
      example: [{ kind: 'batch_exports', path: '/destination/config/prefix', reason: 'set by the pipeline' }],
    }),
    severities: option(DRIFT_SEVERITIES, {
      default: [],
      description:
        'How much a change matters, over the catalog; the first rule that fits decides. Without path: for records that came or went. Paths as in `drift.ignore`.',
      example: [{ kind: 'organizations', path: '/name', severity: 'low' }],
    }),
  }),
  notices: option(NOTICES, {
    default: [],
    description:
      'Channels through which the daemon notifies people of what changed for better or worse; docs/notices.md describes every key, event and message. Each has a name and a type (webhook, slack, email, command), and may say which events (on), which sources, the least severity of drift, and a template. Give URLs and secrets by reference, as ${VAR}, or by the key with File at its end.',
    example: [{ name: 'ops', type: 'slack', url: '${SLACK_URL}', severity: 'high' }],
    isSecret: true,
  }),
  pings: option(PINGS, {
    default: [],
    description:
      "URLs of a dead man's switch, which raises the alarm when they are not called: start when a sync begins, success only when all of it was complete, fail when it was not. With sources, for those only. Give them by reference, as ${VAR}, or as startFile, successFile, failFile.",
    example: [{ sources: ['production'], success: '${PING_URL}', fail: '${PING_URL}/fail' }],
    isSecret: true,
  }),
  http: section("The daemon's HTTP endpoints. `serve` and `sandbox` take --host and --port.", {
    listen: option(listenAddress, {
      default: '127.0.0.1:8787',
      description: 'Address and port. Any other than a loopback address needs a token.',
      example: '127.0.0.1:8787',
    }),
    token: optional(secret, {
      description: 'Token that callers must send. Give it by reference, as ${VAR}.',
      example: '${TIDEMARK_TOKEN}',
      isSecret: true,
    }),
    tokenFile: optional(path, {
      description: 'File that holds the token; instead of token.',
      example: '/run/secrets/tidemark',
    }),
    trustedProxies: option(networks, {
      default: [],
      description:
        "Addresses and ranges of the proxies in front of the daemon or `serve` whose X-Forwarded-For, -Host and -Proto headers are believed. Nobody else's are.",
      example: ['10.0.0.0/8'],
    }),
  }),
  replica: section(
    'The read-only replica, which answers whole records, secrets that the service shows among them: under /replica/ of the daemon, which has none without a token, and by `serve`.',
    {
      token: optional(secret, {
        description:
          'Token that callers of the replica must send; another one than http.token. Give it by reference, as ${VAR}.',
        example: '${TIDEMARK_REPLICA}',
        isSecret: true,
      }),
      tokenFile: optional(path, {
        description: 'File that holds the token; instead of token.',
        example: '/run/secrets/tidemark-replica',
      }),
    },
  ),
  log: section('Logs, on stderr.', {
    level: option(choice(LOG_LEVELS), {
      default: 'info',
      description: 'Least severe level that is written.',
      example: 'info',
    }),
  }),
});

/** A profile file (config/profiles): what is known about one kind of deployment. */
export const PROFILE_OPTIONS = section('Profile of a deployment', {
  description: optional(text, {
    description: 'What the profile is for.',
    example: 'The documented interface.',
  }),
  keyPath: optional(text, {
    description: 'Path where any key can read its permissions: `doctor` requests it.',
    example: '/api/personal_api_keys/@current/',
  }),
  rate: section('Default rates.', {
    perMinute: optional(RATE.options.perMinute.value, { description: 'As rate.perMinute.', example: 480 }),
    perHour: optional(RATE.options.perHour.value, { description: 'As rate.perHour.', example: 4800 }),
    concurrency: optional(RATE.options.concurrency.value, {
      description: 'As rate.concurrency.',
      example: 4,
    }),
  }),
  kinds: KIND_OVERRIDES,
});

export type ParsedOptions = Parsed<typeof OPTIONS>;
export type ParsedSource = ParsedOptions['sources'][number];
