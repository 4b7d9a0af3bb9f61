/** Configuration as the rest of the program sees it: parsed once, completely, and frozen. */
import type { ProxySettings } from './proxy.ts';
import type { S3Place } from './backup-target.ts';
import type { KindRate } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Secret } from '../core/secret.ts';
import type { ChannelConfig, PingConfig } from './channels.ts';
import type { GitConfig } from './git.ts';
import type { ParsedOptions, ParsedSource } from './options.ts';

/** One limit, for the requests of these kinds together; the first one gives it its name. */
export interface KindRateLimits extends KindRate {
  readonly kinds: readonly [Kind, ...Kind[]];
}

export interface RateLimits {
  /** Requests in any 60 seconds; 0 means no limit. */
  readonly perMinute: number;
  /** Requests in any 60 minutes; 0 means no limit. */
  readonly perHour: number;
  readonly concurrency: number;
  /** Limits that kinds have of their own, beside those above. */
  readonly kinds?: readonly KindRateLimits[];
}

/** Values for the records of a kind that hold these texts. */
export interface SecretRule {
  readonly kind: Kind;
  /** Pointer into the body → text that must be there; empty: every record of the kind. */
  readonly match: Readonly<Record<string, string>>;
  /** Pointer into the body → value; those that are not there are in `unset`. */
  readonly values: Readonly<Record<string, Secret>>;
  /** Pointer into the body → why its value is not there: what is wrong with its variable or file; left out for none. */
  readonly unset?: Readonly<Record<string, string>>;
}

/** A source with everything that its options, its profile and its secrets give. Durations are in milliseconds. */
export interface SourceConfig extends Pick<
  ParsedSource,
  'name' | 'profile' | 'pageSize' | 'retry' | 'redact'
> {
  /** http or https, without credentials, query or fragment; may have a path prefix. */
  readonly baseUrl: URL;
  readonly apiKey: Secret;
  /** The option that the key came from, for errors; left out: it is not known. */
  readonly keyOption?: 'apiKey' | 'apiKeyFile';
  /** Where the key was given instead, for errors, where no file has it yet; left out: in an option. */
  readonly keyPlace?: string;
  /** HTTP proxies of the environment; left out: none. */
  readonly proxies?: ProxySettings;
  /** The path of the profile where any key can read what it may do. */
  readonly keyPath?: string;
  readonly organizations: 'all' | readonly string[];
  readonly projects: 'all' | readonly string[];
  readonly kinds: { readonly include: readonly Kind[] | null; readonly exclude: readonly Kind[] };
  readonly rate: RateLimits;
  /** 0 for no limit. */
  readonly sync: { readonly maxDurationMs: number };
  readonly recordings: { readonly sharingPerRun: number | 'all'; readonly fullSweepEveryMs: number };
  readonly removals: {
    readonly maxRecords: number;
    readonly maxShare: number;
    readonly confirmAfterMs: number;
  };
  readonly restore: {
    /** Of a kind with at least `minRecords` no larger share is changed, or removed. */
    readonly maxShare: number;
    readonly minRecords: number;
    /** Oldest state that `latest` may mean; 0 for no limit. */
    readonly maxAgeMs: number;
    /** The key's own user: uuid or e-mail address; null where it is not named. */
    readonly ownUser: string | null;
  };
  /** In the order of the file: the first that fits a record and has the place wins. */
  readonly secrets: readonly SecretRule[];
  /** The kinds below two of its keys, whatever their rules give; left out: none. */
  readonly given?: Readonly<Record<'secrets' | 'definitions', readonly string[]>>;
  /** Null where nothing is committed. */
  readonly git: GitConfig | null;
  /** Every kind as this source has it: the catalog, then the profile, then the source's own overrides. */
  readonly definitions: readonly ResourceDefinition[];
}

export interface Schedule {
  /** Five fields, or six with seconds first, single spaces between. */
  readonly cron: string;
  /** IANA name, e.g. `Europe/Berlin`. */
  readonly zone: string;
  readonly jitterMs: number;
  /** Names of configured sources, in the order of the configuration. */
  readonly sources: readonly string[];
}

/** How many to keep; a rule that is missing or 0 keeps nothing. */
export interface RetentionPolicy {
  /** The newest runs. */
  readonly last?: number;
  /** The newest run of each of the newest hours that have one, and so on. */
  readonly hourly?: number;
  readonly daily?: number;
  /** ISO weeks: from Monday on. */
  readonly weekly?: number;
  readonly monthly?: number;
  readonly yearly?: number;
  /** Every run at most this many milliseconds older than the source's newest one. */
  readonly withinMs?: number;
}

/** As the configuration and the command line name them. */
export interface KeepOptions {
  readonly keepLast?: number | undefined;
  readonly keepHourly?: number | undefined;
  readonly keepDaily?: number | undefined;
  readonly keepWeekly?: number | undefined;
  readonly keepMonthly?: number | undefined;
  readonly keepYearly?: number | undefined;
  /** Milliseconds. */
  readonly keepWithin?: number | undefined;
}

/** The rules that were given, and no others; empty if there is none. */
export function retentionOf(options: KeepOptions): RetentionPolicy {
  const { keepLast, keepHourly, keepDaily, keepWeekly, keepMonthly, keepYearly, keepWithin } = options;
  return {
    ...(keepLast === undefined ? {} : { last: keepLast }),
    ...(keepHourly === undefined ? {} : { hourly: keepHourly }),
    ...(keepDaily === undefined ? {} : { daily: keepDaily }),
    ...(keepWeekly === undefined ? {} : { weekly: keepWeekly }),
    ...(keepMonthly === undefined ? {} : { monthly: keepMonthly }),
    ...(keepYearly === undefined ? {} : { yearly: keepYearly }),
    ...(keepWithin === undefined ? {} : { withinMs: keepWithin }),
  };
}

/** A directory for backups, which has to exist. */
interface DirectoryTargetConfig {
  readonly type: 'directory';
  /** Absolute. */
  readonly path: string;
  /** The directory that has to exist, where `path` is made in it for one source. */
  readonly within?: string;
  /** Null: nothing is removed there. */
  readonly retention: RetentionPolicy | null;
}

export interface S3TargetConfig extends S3Place {
  /** HTTP proxies of the environment; left out: none. */
  readonly proxies?: ProxySettings;
  /** Until when nobody may remove or replace a backup; null without. */
  readonly objectLock: { readonly mode: 'governance' | 'compliance'; readonly days: number } | null;
  /** Null: nothing is removed there. */
  readonly retention: RetentionPolicy | null;
}

export type TargetConfig = DirectoryTargetConfig | S3TargetConfig;

/** Backups of the mirror in other places. */
export interface BackupConfig {
  /** At least one. */
  readonly targets: readonly TargetConfig[];
  /** Least time between two backups. */
  readonly everyMs: number;
  /** age recipients; empty, and no file, for backups that are not encrypted. */
  readonly recipients: readonly string[];
  /** Absolute path of a file of further recipients. */
  readonly recipientsFile: string | null;
  /** Program and arguments, with `{file}`, `{manifest}` and `{directory}` still in them. */
  readonly command: readonly string[] | null;
  readonly commandTimeoutMs: number;
}

export const SCHEDULE_NAMES = ['sync', 'drift', 'verify', 'forget', 'drill'] as const;
export type ScheduleName = (typeof SCHEDULE_NAMES)[number];

export interface HttpConfig {
  readonly host: string;
  readonly port: number;
  /** Null if none is configured, and where `tokenFile` could not be read (a warning says so). */
  readonly token: Secret | null;
  /** Absolute path; a daemon whose token file gave no token must not start. */
  readonly tokenFile: string | null;
  /** Starts a sync and opens nothing else. Null if none is configured, and where `triggerTokenFile` could not be read. */
  readonly triggerToken: Secret | null;
  /** True where `/mcp` serves read-only tools. */
  readonly mcp: boolean;
  /** Restores may be applied in the dashboard. */
  readonly allowRestore: boolean;
  /** Where people reach the dashboard, without a slash at its end; null where it is not known. */
  readonly publicUrl: string | null;
  /** IP addresses and CIDR ranges whose forwarded headers are believed. */
  readonly trustedProxies: readonly string[];
  /** Header in which these proxies name the user; null where they do not. */
  readonly userHeader: string | null;
}

/** What opens the replica: never the token that opens pages and metrics, which mask what records hold. */
export interface ReplicaConfig {
  /** Null if none is configured, and where `tokenFile` could not be read (a warning says so). */
  readonly token: Secret | null;
  /** Absolute path. */
  readonly tokenFile: string | null;
}

/** Many sources on several machines. */
export interface FleetConfig {
  /** URL of the registry's database. Null if none is configured, and where it could not be read. */
  readonly database: Secret | null;
  /** Why the database that is configured is not known; null where it is, and if none is. */
  readonly databaseProblem: string | null;
  /** Where mirrors are between jobs; nothing is removed there by age. Null if none is configured. */
  readonly storage: TargetConfig | null;
  /** age recipients of mirrors in storage; empty for none. */
  readonly recipients: readonly string[];
  /** Absolute path of the file with age identities; null without. */
  readonly identityFile: string | null;
  /** Absolute path of the directory in which the keys of cells are. */
  readonly keyDirectory: string;
  /** Absolute path. */
  readonly cache: string;
  readonly heartbeatMs: number;
  readonly timeLimitMs: number;
  readonly stopTimeoutMs: number;
  /** Jobs that a worker does at a time. */
  readonly slots: number;
}

export interface Config {
  /** Absolute path of the configuration file; null if there is none. */
  readonly file: string | null;
  /** Absolute path of the mirror: of one file, whatever the configuration says (`mirrorConfigs` of `mirrors.ts`). */
  readonly mirror: string;
  /** Absolute path: the log of request starts is beside it, shared by all mirrors of the configuration. */
  readonly rateLogBeside: string;
  /** Absolute paths of all files that it was read from, or looked for in: without a change of theirs it is the same. */
  readonly files: readonly string[];
  /** Of what those files and the environment held: the same for the same configuration, secrets included. Hex. */
  readonly digest: string;
  /** Of the configuration file alone, without what its variables and other files hold; empty if there is none. Hex. */
  readonly fileHash: string;
  /** HTTP proxies of the environment. */
  readonly proxies: ProxySettings;
  /** The sources that this call is about. */
  readonly sources: readonly SourceConfig[];
  /** Every configured source: what the mirror holds of the others is still known, and masked, by their definitions. */
  readonly configured: readonly SourceConfig[];
  /** All secrets of the configuration, also of sources that have another mirror: no report shows them, and no program gets them. */
  readonly knownSecrets: readonly Secret[];
  /** The key files that could not be read, where no key is needed: `FILE does not exist`. What they hold is not masked. */
  readonly unmasked: readonly string[];
  /** The catalog with what no report may show, for sources that are not configured; `definitions` of the others have it too. */
  readonly unconfigured: readonly ResourceDefinition[];
  /** Null for a schedule that is off. */
  readonly schedules: Readonly<Record<ScheduleName, Schedule | null>>;
  /** Null where no rule is given: nothing is forgotten then. */
  readonly retention: RetentionPolicy | null;
  /** Null where no target is given. */
  readonly backup: BackupConfig | null;
  readonly daemon: ParsedOptions['daemon'];
  /** What counts as drift. A rule that names a source is for that one only. */
  readonly drift: ParsedOptions['drift'];
  /** Channels for the daemon's notices. */
  readonly notices: readonly ChannelConfig[];
  readonly pings: readonly PingConfig[];
  readonly http: HttpConfig;
  readonly replica: ReplicaConfig;
  readonly fleet: FleetConfig;
  readonly log: ParsedOptions['log'];
  /** Names of all variables that the file refers to, by `${NAME}`. */
  readonly variables: readonly string[];
  /** Names of the variables that secrets come from, by `${NAME}`. */
  readonly secretVariables: readonly string[];
  /** What is unwise but not wrong, one line each. */
  readonly warnings: readonly string[];
}
