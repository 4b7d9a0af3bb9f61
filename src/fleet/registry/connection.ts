/** The one door to PostgreSQL: connections to the registry's database, and their errors as `TidemarkError`. */
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { type ErrorCode, TidemarkError } from '../../core/errors.ts';
import type { Secret } from '../../core/secret.ts';

export type Database = NodePgDatabase;
export type Transaction = Parameters<Parameters<Database['transaction']>[0]>[0];

const CONNECT_TIMEOUT_MS = 10_000;
const STATEMENT_TIMEOUT_MS = 60_000;

export interface Connections {
  readonly db: Database;
  /** The server and database, without user and password. */
  readonly place: string;
  /** Gives one connection to `work`, for statements that Drizzle does not have. */
  withClient<T>(work: (client: DatabaseClient) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export type DatabaseClient = pg.PoolClient;
export type QueryConfig = pg.QueryConfig;
export type QueryArrayConfig = pg.QueryArrayConfig;

/**
 * A pool of connections to this database, which are made when they are needed.
 * @param maxConnections at a time
 * @throws TidemarkError `config_invalid` if `url` is not the address of a PostgreSQL database
 */
export function openConnections(url: Secret, maxConnections: number): Connections {
  const place = databasePlace(url);
  const pool = new pg.Pool({
    connectionString: connectionText(url),
    max: maxConnections,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: STATEMENT_TIMEOUT_MS,
    application_name: 'tidemark',
    keepAlive: true,
    // Idle connections do not keep the process alive.
    allowExitOnIdle: true,
  });
  // A connection that breaks while it is idle is replaced for the next statement, which reports an error that lasts.
  pool.on('error', () => undefined);
  // If it breaks while it is in use, the statement fails with the reason.
  pool.on('connect', (client) => client.on('error', () => undefined));
  return {
    db: drizzle({ client: pool }),
    place,
    withClient: async (work) => {
      const client = await pool.connect();
      try {
        return await work(client);
      } finally {
        // Closed, not reused: `work` may have changed the session.
        client.release(true);
      }
    },
    close: async () => pool.end(),
  };
}

/**
 * The address for the driver. It treats every `sslmode` that asks for TLS as `verify-full`, and prints a warning for
 * other words; with `uselibpqcompat=true` they have their weaker meanings.
 */
export function connectionText(url: Secret): string {
  const text = url.reveal();
  if (text.includes('uselibpqcompat=')) return text;
  return text.replace(/(?<=[?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, 'verify-full');
}

/**
 * Server and database of an address, fit to print: `db.example.com:5432/tidemark`.
 * @throws TidemarkError `config_invalid`
 */
export function databasePlace(url: Secret): string {
  const parsed = URL.parse(url.reveal());
  if (parsed === null || !/^postgres(ql)?:$/.test(parsed.protocol)) {
    throw new TidemarkError('config_invalid', 'fleet.database is not the address of a PostgreSQL database', {
      hint: 'set it to postgresql://USER:PASSWORD@HOST:PORT/DATABASE, by reference: ${DATABASE_URL}',
    });
  }
  const host = parsed.searchParams.get('host') ?? (parsed.hostname || 'localhost');
  const port = parsed.searchParams.get('port') ?? (parsed.port || '5432');
  return `${host}:${port}${parsed.pathname === '' ? '/' : parsed.pathname}`;
}

/** The SQLSTATE or system code of an error of a statement; undefined for other errors. */
function databaseCode(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || thrown instanceof TidemarkError) return undefined;
  if ('code' in thrown && typeof thrown.code === 'string') return thrown.code;
  // An AggregateError has one error for each address of a host name; Drizzle wraps errors of statements.
  if (thrown instanceof AggregateError) return databaseCode(thrown.errors[0]);
  return databaseCode(thrown.cause);
}

function databaseMessage(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  if (thrown instanceof AggregateError) return databaseMessage(thrown.errors[0]);
  const inner = thrown.cause instanceof Error ? databaseMessage(thrown.cause) : thrown.message;
  return inner.split('\n', 1)[0] ?? '';
}

interface DatabaseProblem {
  readonly code: ErrorCode;
  /** Ends the sentence `PLACE …`; `{message}` stands for what PostgreSQL says. */
  readonly what: string;
  readonly hint: string;
  readonly isRetryable?: boolean;
}

const CHECK_URL = 'check fleet.database: user, password, host, port and database';
const UNREACHABLE: DatabaseProblem = {
  code: 'registry_unreachable',
  what: 'cannot be reached: {message}',
  hint: 'check that PostgreSQL runs there and that this machine may connect to it',
  isRetryable: true,
};
const CERTIFICATE: DatabaseProblem = {
  code: 'registry_unreachable',
  what: 'has a certificate that is not trusted: {message}',
  hint: "add sslrootcert=FILE with the certificate of the server's authority to fleet.database",
};

/** For missing tables, columns and functions: a newer version or a person removed them. */
const OTHER_SCHEMA: DatabaseProblem = {
  code: 'registry_version',
  what: 'lacks what this version of Tidemark uses: {message}',
  hint: 'update Tidemark on this machine; if it is the newest, somebody changed the schemas tidemark or tidemark_queue: restore the database from its backup',
};

/** By SQLSTATE, class of SQLSTATE (the first two characters), or system code. */
const PROBLEMS: Readonly<Record<string, DatabaseProblem>> = {
  '28P01': { code: 'registry_denied', what: 'refuses the user or the password', hint: CHECK_URL },
  '28': { code: 'registry_denied', what: 'refuses the connection: {message}', hint: CHECK_URL },
  '3D000': {
    code: 'registry_missing',
    what: 'does not exist: {message}',
    hint: 'create the database, or correct fleet.database; `tidemark fleet apply FILE --yes` creates the tables',
  },
  '42501': {
    code: 'registry_denied',
    what: 'does not allow it: {message}',
    hint: 'give the user of fleet.database CREATE on the database, or make it the owner of the schemas tidemark and tidemark_query',
  },
  '42P01': OTHER_SCHEMA,
  '42703': OTHER_SCHEMA,
  '42883': OTHER_SCHEMA,
  '25006': {
    code: 'registry_unreachable',
    what: 'is read-only: {message}',
    hint: 'connect to the primary server, not to a standby',
    isRetryable: true,
  },
  '53100': { code: 'disk_full', what: 'has no disk space left', hint: "free some on the database's server" },
  '57014': {
    code: 'registry_failed',
    what: 'did not answer in time: {message}',
    hint: 'look for long transactions in pg_stat_activity, then run the command again',
    isRetryable: true,
  },
  '40': {
    code: 'registry_failed',
    what: 'gave up a transaction: {message}',
    hint: 'run the command again',
    isRetryable: true,
  },
  '08': UNREACHABLE,
  '53': UNREACHABLE,
  '57': UNREACHABLE,
  ECONNREFUSED: UNREACHABLE,
  ECONNRESET: UNREACHABLE,
  ENOTFOUND: UNREACHABLE,
  EAI_AGAIN: UNREACHABLE,
  ETIMEDOUT: UNREACHABLE,
  EHOSTUNREACH: UNREACHABLE,
  ENETUNREACH: UNREACHABLE,
  EPIPE: UNREACHABLE,
  ENOENT: UNREACHABLE, // the socket's file
  EACCES: UNREACHABLE,
  SELF_SIGNED_CERT_IN_CHAIN: CERTIFICATE,
  DEPTH_ZERO_SELF_SIGNED_CERT: CERTIFICATE,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: CERTIFICATE,
  CERT_HAS_EXPIRED: CERTIFICATE,
  ERR_TLS_CERT_ALTNAME_INVALID: CERTIFICATE,
};

/** Errors of the driver have no code: they are recognized by their texts. */
const DRIVER_PROBLEMS: readonly (readonly [RegExp, DatabaseProblem])[] = [
  [
    /does not support SSL/,
    {
      code: 'registry_unreachable',
      what: 'does not offer TLS',
      hint: 'switch TLS on at the server, or set sslmode=disable in fleet.database',
    },
  ],
  [
    /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error/,
    UNREACHABLE,
  ],
  [
    /SASL|password must be a string/,
    { code: 'registry_denied', what: 'asks for a password', hint: CHECK_URL },
  ],
];

/** An error of PostgreSQL, of its driver or of the network as a `TidemarkError`; anything else is returned unchanged. */
export function asRegistryError(thrown: unknown, place: string): unknown {
  if (thrown instanceof TidemarkError) return thrown;
  const code = databaseCode(thrown);
  const message = databaseMessage(thrown);
  const isSqlState = code !== undefined && /^[0-9A-Z]{5}$/.test(code);
  const problem =
    code === undefined
      ? DRIVER_PROBLEMS.find(([pattern]) => pattern.test(message))?.[1]
      : (PROBLEMS[code] ?? (isSqlState ? PROBLEMS[code.slice(0, 2)] : undefined));
  if (problem === undefined) {
    if (!isSqlState) return thrown;
    return new TidemarkError('internal', `the registry ${place}: ${code}: ${message}`, {
      hint: 'this is a defect of Tidemark: run again with --log-level debug and report what it prints',
      cause: thrown,
    });
  }
  return new TidemarkError(
    problem.code,
    `the registry ${place} ${problem.what.replace('{message}', message)}`,
    {
      hint: problem.hint,
      isRetryable: problem.isRetryable ?? false,
      cause: thrown,
    },
  );
}
