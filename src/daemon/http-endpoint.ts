/** Keeps the HTTP server of the daemon, or of `fleet serve`, listening: again after a change of the configuration, or if the port was in use. */
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
 * Starts to listen as configured.
 * @param localToken accepted besides the configured one: this machine's commands read it from a private file
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

  /** Makes it listen as configured. A failure is reported once, and tried again at the next call. */
  async ensure(config: HttpConfig): Promise<void> {
    const { problems } = this.#options;
    try {
      await this.open(config);
      problems.end('http', 'HTTP is available again');
    } catch (error) {
      problems.begin('http', asTidemarkError(error));
    }
  }

  /** The same for a caller that cannot continue without it. @throws TidemarkError as `StartHttp` */
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
      // The disk is full: the file keeps the URL until it is removed, or the check of the files writes it again.
    }
    await server.close();
  }
}
