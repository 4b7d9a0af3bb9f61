/** The configuration for the rest of the program: parsed once, completely, and frozen. */
import type { ProxySettings } from './proxy.ts';
import type { S3Place } from './backup-target.ts';
import type { KindRate } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Secret } from '../core/secret.ts';
import type { ChannelConfig, PingConfig } from './channels.ts';
import type { GitConfig } from './git.ts';
import type { ParsedOptions, ParsedSource } from './options.ts';

/** One limit for the requests of these kinds together, named after the first. */
export interface KindRateLimits extends KindRate {
  readonly kinds: readonly [Kind, ...Kind[]];
}

export interface RateLimits {
  /** Requests in any 60 seconds; 0 means no limit. */
  readonly perMinute: number;
  /** Requests in any 60 minutes; 0 means no limit. */
  readonly perHour: number;
  readonly concurrency: number;
  /** Limits of kinds, in addition to those above. */
  readonly kinds?: readonly KindRateLimits[];
}

/** Secret values for the records of a kind that match. */
export interface SecretRule {
  readonly kind: Kind;
  /** Pointer into the body → text that must be there; empty for every record of the kind. */
  readonly match: Readonly<Record<string, string>>;
  /** Pointer into the body → value; missing values are in `unset`. */
  readonly values: Readonly<Record<string, Secret>>;
  /** Pointer into the body → why its value is missing: what is wrong with its variable or file. */
  readonly unset?: Readonly<Record<string, string>>;
}

/** A source, from its options, its profile and its secrets. Durations are in milliseconds. */
export interface SourceConfig extends Pick<
  ParsedSource,
  'name' | 'profile' | 'pageSize' | 'retry' | 'redact'
> {
  /** http or https, without credentials, query or fragment; may have a path prefix. */
  readonly baseUrl: URL;
  readonly apiKey: Secret;
  /** The option with the key, for errors; omitted if it is not known. */
  readonly keyOption?: 'apiKey' | 'apiKeyFile';
  /** For errors: where the key was given, if not in an option. */
  readonly keyPlace?: string;
  /** HTTP proxies of the environment; omitted for none. */
  readonly proxies?: ProxySettings;
  /** From the profile: the path where any key can read its permissions. */
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
    /** The largest share of a kind with at least `minRecords` that is changed, or removed. */
    readonly maxShare: number;
    readonly minRecords: number;
    /** The oldest state that `latest` may mean; 0 for no limit. */
    readonly maxAgeMs: number;
    /** The key's own user: uuid or e-mail address; null if it is not named. */
    readonly ownUser: string | null;
  };
  /** In the order of the file: the first rule that matches a record and has the pointer wins. */
  readonly secrets: readonly SecretRule[];
  /** The kinds that the file names below these two keys. */
  readonly given?: Readonly<Record<'secrets' | 'definitions', readonly string[]>>;
  /** Null if nothing is committed. */
  readonly git: GitConfig | null;
  /** Every kind: the catalog, with the overrides of the profile, then those of the source. */
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

/** How many runs to keep; a rule that is missing or 0 keeps none. */
export interface RetentionPolicy {
  /** The newest runs. */
  readonly last?: number;
  /** The newest run of each of the newest hours that have one; the others likewise. */
  readonly hourly?: number;
  readonly daily?: number;
  /** ISO weeks, from Monday. */
  readonly weekly?: number;
  readonly monthly?: number;
  readonly yearly?: number;
  /** Every run at most this many milliseconds older than the source's newest one. */
  readonly withinMs?: number;
}

/** The same by the names of the configuration and the command line. */
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

/** The rules that were given; empty if there are none. */
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

interface DirectoryTargetConfig {
  readonly type: 'directory';
  /** Absolute; it has to exist, if `within` is not given. */
  readonly path: string;
  /** If `path` is one source's own directory: the directory above it, which has to exist. */
  readonly within?: string;
  /** Null: nothing is removed there. */
  readonly retention: RetentionPolicy | null;
}

export interface S3TargetConfig extends S3Place {
  /** HTTP proxies of the environment; omitted for none. */
  readonly proxies?: ProxySettings;
  /** How long nobody may remove or replace a backup; null for no lock. */
  readonly objectLock: { readonly mode: 'governance' | 'compliance'; readonly days: number } | null;
  /** Null: nothing is removed there. */
  readonly retention: RetentionPolicy | null;
}

export type TargetConfig = DirectoryTargetConfig | S3TargetConfig;

/** Backups of the mirror in other places. */
export interface BackupConfig {
  /** At least one. */
  readonly targets: readonly TargetConfig[];
  /** The shortest time between two backups. */
  readonly everyMs: number;
  /** age recipients. Without any, and without a file, backups are not encrypted. */
  readonly recipients: readonly string[];
  /** Absolute path of a file with more recipients. */
  readonly recipientsFile: string | null;
  /** Program and arguments, with the placeholders `{file}`, `{manifest}` and `{directory}`. */
  readonly command: readonly string[] | null;
  readonly commandTimeoutMs: number;
}

export const SCHEDULE_NAMES = ['sync', 'drift', 'verify', 'forget', 'drill'] as const;
export type ScheduleName = (typeof SCHEDULE_NAMES)[number];

export interface HttpConfig {
  readonly host: string;
  readonly port: number;
  /** Null if none is configured, or `tokenFile` could not be read (a warning says so). */
  readonly token: Secret | null;
  /** Absolute path. If no token could be read from it, the daemon must not start. */
  readonly tokenFile: string | null;
  /** A token that can start a sync, and nothing else. Null if none is configured, or `triggerTokenFile` could not be read. */
  readonly triggerToken: Secret | null;
  /** True if `/mcp` serves read-only tools. */
  readonly mcp: boolean;
  /** True if restores may be applied in the dashboard. */
  readonly allowRestore: boolean;
  /** Address of the dashboard for people, without a slash at its end; null if it is not known. */
  readonly publicUrl: string | null;
  /** IP addresses and CIDR ranges whose forwarded headers are trusted. */
  readonly trustedProxies: readonly string[];
  /** Header in which these proxies name the user; null for none. */
  readonly userHeader: string | null;
}

/** Access to the replica: not with the token for pages and metrics, since the replica does not mask records. */
export interface ReplicaConfig {
  /** Null if none is configured, or `tokenFile` could not be read (a warning says so). */
  readonly token: Secret | null;
  /** Absolute path. */
  readonly tokenFile: string | null;
}

/** Many sources on several machines. */
export interface FleetConfig {
  /** URL of the registry's database. Null if none is configured, or it could not be read. */
  readonly database: Secret | null;
  /** Why the configured database could not be read; null otherwise. */
  readonly databaseProblem: string | null;
  /** Where mirrors are stored between jobs; nothing is removed there by age. Null if none is configured. */
  readonly storage: TargetConfig | null;
  /** age recipients of mirrors in storage; empty for none. */
  readonly recipients: readonly string[];
  /** Absolute path of the file with age identities; null for none. */
  readonly identityFile: string | null;
  /** Absolute path of the directory with the keys of cells. */
  readonly keyDirectory: string;
  /** Absolute path. */
  readonly cache: string;
  readonly heartbeatMs: number;
  readonly timeLimitMs: number;
  readonly stopTimeoutMs: number;
  /** How many jobs a worker does at a time. */
  readonly slots: number;
}

export interface Config {
  /** Absolute path of the configuration file; null if there is none. */
  readonly file: string | null;
  /** Absolute path of the one mirror that is meant (`mirrorConfigs` of `mirrors.ts`). */
  readonly mirror: string;
  /** Absolute path: the log of request starts is beside it, shared by all mirrors of the configuration. */
  readonly rateLogBeside: string;
  /** Absolute paths of all files that were read or looked for: the configuration changes only if one of them does. */
  readonly files: readonly string[];
  /** Hash of these files and the variables: the same for the same configuration, including its secrets. Hex. */
  readonly digest: string;
  /** Hash of the configuration file alone; empty if there is none. Hex. */
  readonly fileHash: string;
  /** HTTP proxies of the environment. */
  readonly proxies: ProxySettings;
  /** The sources that this call is about. */
  readonly sources: readonly SourceConfig[];
  /** Every configured source: with their definitions, the mirror's records of the others are masked too. */
  readonly configured: readonly SourceConfig[];
  /**
   * All secrets of the configuration, including those of sources with another mirror: no report shows them, no program
   * gets them.
   */
  readonly knownSecrets: readonly Secret[];
  /** Errors about key files that could not be read, if no key is needed: `FILE does not exist`. These keys are not masked. */
  readonly unmasked: readonly string[];
  /** The catalog with the secrets to mask, for sources that are not configured. */
  readonly unconfigured: readonly ResourceDefinition[];
  /** Null for a schedule that is off. */
  readonly schedules: Readonly<Record<ScheduleName, Schedule | null>>;
  /** Null if no rule is given: then nothing is forgotten. */
  readonly retention: RetentionPolicy | null;
  /** Null if no target is given. */
  readonly backup: BackupConfig | null;
  readonly daemon: ParsedOptions['daemon'];
  /** What counts as drift. A rule that names a source is only for that one. */
  readonly drift: ParsedOptions['drift'];
  /** Channels for the daemon's notices. */
  readonly notices: readonly ChannelConfig[];
  readonly pings: readonly PingConfig[];
  readonly http: HttpConfig;
  readonly replica: ReplicaConfig;
  readonly fleet: FleetConfig;
  readonly log: ParsedOptions['log'];
  /** Names of all variables that the file refers to as `${NAME}`. */
  readonly variables: readonly string[];
  /** Those of them that are used in secrets. */
  readonly secretVariables: readonly string[];
  /** Lines about what is valid but unwise. */
  readonly warnings: readonly string[];
}
