/** The URL of a server of this process, for people, for other processes of this machine, and for the log. */
import type { AddressInfo } from 'node:net';

/** Addresses that stand for all addresses of the machine, and the loopback address to use instead. */
const EVERY_ADDRESS: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/** Where a server listens. */
export interface ListeningAt {
  /** Without a trailing slash; can be opened on this machine. */
  readonly url: string;
  /** True if it listens on all addresses of this machine. */
  readonly isEverywhere: boolean;
}

/**
 * @param host as it was asked to listen
 * @param address as `server.address()` returns it
 */
export function listeningAt(host: string, address: AddressInfo | string | null): ListeningAt {
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  // Nobody can connect to 0.0.0.0 everywhere: browsers and some systems refuse it.
  const loopback = EVERY_ADDRESS[address.address];
  const name = loopback ?? host;
  return {
    url: `http://${name.includes(':') ? `[${name}]` : name}:${address.port}`,
    isEverywhere: loopback !== undefined,
  };
}
