/** The HTTP endpoints of the daemon, and of `fleet serve`, as they are kept: opened, opened again when the configuration moves them, retried when the port is taken. */
import type { HttpConfig } from '../config/config.ts';
import { asTidemarkError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
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

interface EndpointOptions {
  /** Starts to listen as configured now. */
  readonly start: () => Promise<HttpServer>;
  /** Called with the address, and with null while nothing listens. */
  readonly setUrl: (url: string | null) => void;
  readonly problems: ActiveProblems;
}

export class HttpEndpoint {
  readonly #options: EndpointOptions;
  #server: HttpServer | null = null;
  #listening = '';

  constructor(options: EndpointOptions) {
    this.#options = options;
  }

  /** Has it listen as configured. What keeps it from that is reported once, and tried again at the next call. */
  async ensure(config: HttpConfig): Promise<void> {
    const { problems } = this.#options;
    try {
      await this.open(config);
      problems.end('http', 'HTTP is available again');
    } catch (error) {
      problems.begin('http', asTidemarkError(error));
    }
  }

  /** The same, for a caller that ends where nothing listens. @throws TidemarkError as starting to listen does */
  async open(config: HttpConfig): Promise<void> {
    const tokens = [config.token, config.triggerToken].map((token) => token?.reveal() ?? null);
    const listening = JSON.stringify({ ...config, tokens });
    if (this.#server !== null && listening === this.#listening) return;
    await this.close();
    this.#server = await this.#options.start();
    this.#listening = listening;
    this.#options.setUrl(this.#server.url);
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server === null) return;
    try {
      this.#options.setUrl(null);
    } catch {
      // A full disk: the file keeps a URL where nothing answers, until it is removed, or the check of the files writes it again.
    }
    await server.close();
  }
}
