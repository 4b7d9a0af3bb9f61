/** Which host names are of this machine, and the URL of a server of this process. */
import { type AddressInfo, isIPv4 } from 'node:net';

/** Addresses that stand for all addresses of the machine, and the loopback address to use instead. */
const EVERY_ADDRESS: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/** Where a server listens. */
export interface ListeningAt {
  /** A URL that can be opened on this machine, without a trailing slash. */
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
  // Browsers and some systems refuse to connect to 0.0.0.0.
  const loopback = EVERY_ADDRESS[address.address];
  const name = loopback ?? host;
  return {
    url: `http://${name.includes(':') ? `[${name}]` : name}:${address.port}`,
    isEverywhere: loopback !== undefined,
  };
}

/** True for a host name or address of this machine only. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, '').toLowerCase();
  return (
    name === 'localhost' ||
    name.endsWith('.localhost') ||
    name === '::1' ||
    (isIPv4(name) && name.startsWith('127.'))
  );
}
