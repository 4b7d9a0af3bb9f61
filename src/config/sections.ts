/** The sections of the configuration beside the sources: schedules, retention, backup, HTTP, replica, fleet. */
import { isLoopback } from '../core/local-url.ts';
import { Secret } from '../core/secret.ts';
import { parseS3Address } from './backup-target.ts';
import { absolutePath, type Checking, checkSourceNames, fileSecret, withWideNamed } from './checking.ts';
import {
  type BackupConfig,
  type Config,
  type FleetConfig,
  type HttpConfig,
  type KeepOptions,
  type ReplicaConfig,
  type RetentionPolicy,
  retentionOf,
  type Schedule,
  SCHEDULE_NAMES,
  type ScheduleName,
  type TargetConfig,
} from './config.ts';
import { place } from './mistakes.ts';
import type { ParsedOptions } from './options.ts';
import { valueAt } from './tree.ts';

export function checkSchedules(
  checking: Checking,
  parsed: ParsedOptions,
  configured: readonly string[],
): Config['schedules'] {
  const schedules = SCHEDULE_NAMES.map((name): [ScheduleName, Schedule | null] => {
    const { cron, zone, sources } = parsed.schedules[name];
    const jitterMs = name === 'sync' ? parsed.schedules.sync.jitter : 0;
    checkSourceNames(checking, ['schedules', name, 'sources'], sources ?? [], configured);
    if (cron === 'off') return [name, null];
    const named = configured.filter((source) => sources?.includes(source) ?? true);
    return [name, { cron, zone, jitterMs, sources: named }];
  });
  return Object.fromEntries(schedules) as Record<ScheduleName, Schedule | null>;
}

/** Null if no rule was given. */
export function rulesOf(options: KeepOptions): RetentionPolicy | null {
  const rules = retentionOf(options);
  return Object.keys(rules).length === 0 ? null : rules;
}

/** Two dozen files, each of which has the entire history. */
const BACKUP_RETENTION: RetentionPolicy = { daily: 7, weekly: 4, monthly: 12 };

export function checkBackupOptions(checking: Checking, { backup }: ParsedOptions): BackupConfig | null {
  const { tree, mistakes } = checking;
  const { targets: given, command: words } = backup;
  if (given === undefined) {
    const isEmpty = Object.keys(valueAt(tree.root, ['backup']) ?? {}).length === 0;
    // An invalid target is reported already.
    const isWrong = mistakes.covers(tree, ['backup']) || mistakes.isBelow(tree, ['backup', 'targets']);
    if (!isEmpty && !isWrong) {
      mistakes.add(tree, ['backup', 'targets'], 'missing; expected where backups go');
    }
    return null;
  }
  const retention = rulesOf(backup) ?? BACKUP_RETENTION;
  const targets = given.map((option, index): TargetConfig => {
    const own = rulesOf(option);
    const rules = option.keepAll === true ? null : (own ?? retention);
    const s3 = parseS3Address(option.address);
    const { objectLock = null } = option;
    const place = ['backup', 'targets', index];
    if (option.keepAll === true && own !== null)
      mistakes.add(tree, place, 'expected keepAll: true or rules of its own (keepLast, …), got both');
    if (s3 !== null) return { ...s3, objectLock, retention: rules, proxies: checking.proxies };
    if (objectLock !== null) mistakes.add(tree, place, 'objectLock is for s3:// addresses only');
    return { type: 'directory', path: absolutePath(checking, place, option.address), retention: rules };
  });
  const places = targets.map((target) =>
    target.type === 'directory'
      ? target.path
      : JSON.stringify([target.bucket, target.prefix, target.endpoint, target.region]),
  );
  for (const [index, place] of places.entries()) {
    const first = places.indexOf(place);
    if (first < index)
      mistakes.add(tree, ['backup', 'targets', index], `is the same place as backup.targets[${first}]`);
  }
  const command = words === undefined || words.length === 0 ? null : words;
  if (command !== null && !targets.some(({ type }) => type === 'directory')) {
    mistakes.add(
      tree,
      ['backup', 'command'],
      'needs a directory among backup.targets: it is started with a file there',
    );
  }
  const { recipients = [], recipientsFile } = backup;
  return {
    targets,
    everyMs: backup.every,
    recipients: [...new Set(recipients)],
    recipientsFile:
      recipientsFile === undefined
        ? null
        : absolutePath(checking, ['backup', 'recipientsFile'], recipientsFile),
    command,
    commandTimeoutMs: backup.commandTimeout,
  };
}

/** A shorter token causes a warning if other machines can reach the server; in characters. */
const SHORTEST_TOKEN = 16;

/**
 * The token, from the option or the file. A file that cannot be read is only a warning: other commands than the daemon
 * do not need it.
 */
function tokenAt(
  checking: Checking,
  [section, key]: readonly ['http' | 'replica', 'token' | 'triggerToken'],
  text: string | undefined,
  file: string | undefined,
): Secret | null {
  const read = fileSecret(checking, [section], key, file, (line) => checking.warnings.push(line));
  const value = read ?? text;
  return value === undefined ? null : new Secret(value);
}

/**
 * First parts of the daemon's own paths. They cannot be the path of the proxy: a request of which the proxy stripped
 * the path would look like one of which it did not.
 */
const OWN_PATHS: ReadonlySet<string> = new Set(
  'actions api audit audit.csv changes drift drill favicon.ico healthz icon.svg login logout mcp metrics organizations readyz records replica restore restores runs sources'.split(
    ' ',
  ),
);

export function checkHttp(checking: Checking, parsed: ParsedOptions): HttpConfig {
  const { tree, mistakes, warnings } = checking;
  const { listen, token: text, tokenFile: file, trustedProxies, publicUrl } = parsed.http;
  const token = tokenAt(checking, ['http', 'token'], text, file);
  const isTokenNamed = text !== undefined || file !== undefined || mistakes.covers(tree, ['http', 'token']);
  if (!isLoopback(listen.host) && !isTokenNamed) {
    mistakes.add(
      tree,
      ['http', 'listen'],
      `${listen.host} is not a loopback address and needs http.token or http.tokenFile`,
    );
  }
  const { triggerToken: triggerText, triggerTokenFile: triggerFile } = parsed.http;
  const triggerToken = tokenAt(checking, ['http', 'triggerToken'], triggerText, triggerFile);
  const triggerAt = ['http', triggerFile === undefined ? 'triggerToken' : 'triggerTokenFile'];
  for (const [secret, path] of [
    [token, ['http', file === undefined ? 'token' : 'tokenFile']],
    [triggerToken, triggerAt],
  ] as const) {
    if (isLoopback(listen.host) || secret === null || secret.reveal().length >= SHORTEST_TOKEN) continue;
    warnings.push(
      `${place(tree, path)}a token this short can be guessed by whoever reaches ${listen.host}; \`openssl rand -hex 32\` makes one`,
    );
  }
  if (triggerToken !== null && triggerToken.reveal() === token?.reveal())
    mistakes.add(tree, triggerAt, 'expected a separate token, got http.token');
  const [, below = ''] = publicUrl?.pathname.split('/') ?? [];
  if (OWN_PATHS.has(below))
    mistakes.add(
      tree,
      ['http', 'publicUrl'],
      `/${below} is a path of the daemon itself: choose another one for the proxy`,
    );
  if (parsed.http.allowRestore && !isTokenNamed)
    warnings.push(
      `${place(tree, ['http', 'allowRestore'])}nobody can log in without http.token: the dashboard applies no restore`,
    );
  return {
    ...listen,
    token,
    tokenFile: file === undefined ? null : absolutePath(checking, ['http', 'tokenFile'], file),
    triggerToken,
    mcp: parsed.http.mcp,
    allowRestore: parsed.http.allowRestore,
    publicUrl: publicUrl?.href.replace(/\/+$/, '') ?? null,
    trustedProxies: withWideNamed(checking, trustedProxies),
    userHeader: checkedUserHeader(checking, parsed.http, isTokenNamed),
  };
}

/** Checks the header: whoever can send it can claim any name, so only known proxies may. */
function checkedUserHeader(
  { tree, mistakes }: Checking,
  { userHeader, trustedProxies }: ParsedOptions['http'],
  isTokenNamed: boolean,
): string | null {
  if (userHeader === undefined) return null;
  const path = ['http', 'userHeader'];
  const everybody = trustedProxies.find((each) => each.endsWith('/0'));
  if (!isTokenNamed)
    mistakes.add(tree, path, 'needs http.token or http.tokenFile, for who does not come by a proxy');
  if (trustedProxies.length === 0 && !mistakes.covers(tree, ['http', 'trustedProxies']))
    mistakes.add(tree, path, 'needs http.trustedProxies: the addresses from which it is believed');
  if (everybody !== undefined)
    mistakes.add(
      tree,
      ['http', 'trustedProxies'],
      `expected the addresses of the proxies, got ${everybody}: everybody could send ${userHeader}`,
    );
  return userHeader;
}

/** Checks that the token of the replica is different from all others. */
export function checkReplica(
  checking: Checking,
  parsed: ParsedOptions,
  { http, sources }: Pick<Config, 'http' | 'sources'>,
): ReplicaConfig {
  const { tree, mistakes } = checking;
  const { tokenFile: file } = parsed.replica;
  const token = tokenAt(checking, ['replica', 'token'], parsed.replica.token, file);
  const others = [
    { what: 'http.token', secret: http.token },
    { what: 'http.triggerToken', secret: http.triggerToken },
    ...sources.map(({ name, apiKey }) => ({ what: `the key of source ${name}`, secret: apiKey })),
  ];
  for (const { what, secret } of others) {
    if (token === null || secret === null || secret.reveal() !== token.reveal()) continue;
    const at = ['replica', file === undefined ? 'token' : 'tokenFile'];
    mistakes.add(tree, at, `expected a separate token, got ${what}`);
  }
  const tokenFile = file === undefined ? null : absolutePath(checking, ['replica', 'tokenFile'], file);
  return { token, tokenFile };
}

const LEAST_HEARTBEAT_MS = 10_000;

/** A missing database is not a mistake: only the commands of the fleet need it, and report `databaseProblem`. */
export function checkFleet(checking: Checking, { fleet }: ParsedOptions): FleetConfig {
  const { tree, mistakes } = checking;
  const problems = mistakes.removeUnset(tree, ['fleet', 'database']);
  const read = fileSecret(checking, ['fleet'], 'database', fleet.databaseFile, (line) => problems.push(line));
  const s3 = fleet.storage === undefined ? null : parseS3Address(fleet.storage);
  if (fleet.recipients !== undefined && fleet.identityFile === undefined)
    mistakes.add(tree, ['fleet', 'recipients'], 'needs identityFile: workers read what they stored');
  if (fleet.heartbeat < LEAST_HEARTBEAT_MS)
    mistakes.add(tree, ['fleet', 'heartbeat'], 'expected at least 10s');
  return {
    database: read === undefined ? (fleet.database ?? null) : new Secret(read),
    databaseProblem: problems[0] ?? null,
    storage:
      fleet.storage === undefined
        ? null
        : s3 === null
          ? {
              type: 'directory',
              path: absolutePath(checking, ['fleet', 'storage'], fleet.storage),
              retention: null,
            }
          : { ...s3, objectLock: null, retention: null, proxies: checking.proxies },
    recipients: fleet.recipients ?? [],
    identityFile:
      fleet.identityFile === undefined
        ? null
        : absolutePath(checking, ['fleet', 'identityFile'], fleet.identityFile),
    keyDirectory: absolutePath(checking, ['fleet', 'keyDirectory'], fleet.keyDirectory),
    cache: absolutePath(checking, ['fleet', 'cache'], fleet.cache),
    heartbeatMs: fleet.heartbeat,
    timeLimitMs: fleet.timeLimit,
    stopTimeoutMs: fleet.stopTimeout,
    slots: fleet.slots,
  };
}
