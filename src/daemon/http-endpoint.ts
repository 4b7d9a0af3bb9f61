/** The daemon's HTTP endpoints as it keeps them: opened, opened again when the configuration moves them, retried when the port is taken. */
import type { HttpConfig } from '../config/config.ts';
import { asTidemarkError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import type { DaemonRegistration } from './lockfile.ts';
import type { ActiveProblems } from './problems.ts';
import type { DaemonCells } from './cells.ts';

interface HttpServer {
  /** Without a trailing slash. */
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Starts to listen where the configuration says.
 * @param localToken accepted beside the configured one: this machine's command line has it from a private file
 * @throws TidemarkError `port_in_use` and others
 */
export type StartHttp = (cells: DaemonCells, localToken: Secret) => Promise<HttpServer>;

export class HttpEndpoint {
  readonly #start: StartHttp;
  readonly #cells: DaemonCells;
  readonly #registration: Pick<DaemonRegistration, 'token' | 'setUrl'>;
  readonly #problems: ActiveProblems;
  #server: HttpServer | null = null;
  #listening = '';

  constructor(
    start: StartHttp,
    cells: DaemonCells,
    registration: Pick<DaemonRegistration, 'token' | 'setUrl'>,
    problems: ActiveProblems,
  ) {
    this.#start = start;
    this.#cells = cells;
    this.#registration = registration;
    this.#problems = problems;
  }

  /** Has it listen as configured. What keeps it from that is reported once, and tried again at the next call. */
  async ensure(config: HttpConfig): Promise<void> {
    const tokens = [config.token, config.triggerToken].map((token) => token?.reveal() ?? null);
    const listening = JSON.stringify({ ...config, tokens });
    if (this.#server !== null && listening === this.#listening) return;
    await this.close();
    try {
      this.#server = await this.#start(this.#cells, this.#registration.token);
      this.#listening = listening;
      this.#registration.setUrl(this.#server.url);
      this.#problems.end('http', 'HTTP is available again');
    } catch (error) {
      this.#problems.begin('http', asTidemarkError(error));
    }
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server === null) return;
    try {
      this.#registration.setUrl(null);
    } catch {
      // A full disk: the file keeps a URL where nothing answers, until it is removed, or the check of the files writes it again.
    }
    await server.close();
  }
}
