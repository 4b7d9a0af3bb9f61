/** Where a request comes from, by its connection, and by the forwarded headers of trusted proxies. */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';
import { actorName, nameProblem } from '../core/actor.ts';

/** The value of a `Host` header: a name, an IPv4 address or an IPv6 address in brackets, optionally with a port. */
const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?$/i;

/** False for texts that are not hosts in a URL, such as `1.2.3.4.5.6`. */
export function isHost(text: string): boolean {
  return HOST.test(text) && URL.canParse(`http://${text}/`);
}

/** The user whom a proxy names. Without a name, `problem` is the end of a sentence about the header. */
type ProxyUser =
  { readonly name: string; readonly problem?: undefined } | { readonly name: null; readonly problem: string };

/** The text of a header, which Node.js decodes as Latin-1; null if the bytes are not UTF-8. */
function utf8Of(header: string): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(header, 'latin1'));
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}

/** The proxies whose forwarded headers are trusted. */
export class TrustedProxies {
  readonly #list = new BlockList();
  readonly #path: string;

  /**
   * @param addresses addresses and CIDR ranges, e.g. `10.0.0.0/8` or `::1`
   * @param path below which clients see this server; empty at the root
   */
  constructor(addresses: readonly string[], path = '') {
    this.#path = path;
    for (const each of addresses) {
      const [address = '', bits] = each.split('/');
      const family = isIPv6(address) ? 'ipv6' : 'ipv4';
      if (bits === undefined) this.#list.addAddress(address, family);
      else this.#list.addSubnet(address, Number(bits), family);
    }
  }

  /** The address of the client: that of the connection, or, if this is a proxy, the client that the proxy names. */
  clientOf(incoming: IncomingMessage): string {
    const remote = plain(incoming.socket.remoteAddress ?? '');
    if (!this.#includes(remote)) return remote;
    const forwarded = [incoming.headers['x-forwarded-for'] ?? []].flat().join(',').split(',');
    // Each proxy adds its client at the end, so the last address that is not a proxy counts: that client may have
    // invented those before.
    const stranger = forwarded
      .map((each) => plain(each.trim()))
      .reverse()
      .find((each) => !this.#includes(each));
    return stranger !== undefined && isIP(stranger) !== 0 ? stranger : remote;
  }

  /** Scheme and host that the client used, with the path of this server. */
  originOf(incoming: IncomingMessage): string {
    const scheme =
      this.#forwarded(incoming, 'x-forwarded-proto')?.toLowerCase() === 'https' ? 'https' : 'http';
    return `${scheme}://${this.hostOf(incoming) ?? 'localhost'}${this.#path}`;
  }

  /** The host that the client used, with its port. */
  hostOf(incoming: IncomingMessage): string | undefined {
    const forwarded = this.#forwarded(incoming, 'x-forwarded-host');
    return forwarded !== undefined && isHost(forwarded) ? forwarded : incoming.headers.host;
  }

  /**
   * The user whom a trusted proxy names in a header, or what is wrong with the header; null without a name, or from any
   * other address.
   */
  userOf(incoming: IncomingMessage, header: string): ProxyUser | null {
    if (!this.#includes(plain(incoming.socket.remoteAddress ?? ''))) return null;
    // If a proxy adds the header although the client sent one, neither is trusted.
    const [value, ...others] = incoming.headersDistinct[header.toLowerCase()] ?? [];
    if (value === undefined) return null;
    if (others.length > 0) return { name: null, problem: 'came more than once' };
    const text = utf8Of(value);
    if (text === null) return { name: null, problem: 'is not UTF-8' };
    const problem = nameProblem(text);
    if (problem !== null) return { name: null, problem };
    const name = actorName(text);
    return name === undefined ? null : { name };
  }

  /** The first value of a forwarded header; undefined if it is missing, or not from a trusted proxy. */
  #forwarded(incoming: IncomingMessage, name: string): string | undefined {
    if (!this.#includes(plain(incoming.socket.remoteAddress ?? ''))) return undefined;
    return [incoming.headers[name] ?? []].flat()[0]?.split(',')[0]?.trim();
  }

  #includes(address: string): boolean {
    return isIP(address) !== 0 && this.#list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
  }
}

/** Addresses that count as one caller: an IPv4 address, or a /64 of IPv6, which a single customer has. */
export function addressGroup(address: string): string {
  const own = plain(address);
  if (!isIPv6(own)) return own;
  const [head = '', tail] = (own.split('%')[0] ?? '').split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const filled =
    tail === undefined
      ? before
      : [...before, ...Array<string>(Math.max(0, 8 - before.length - after.length)).fill('0'), ...after];
  return `${filled
    .slice(0, 4)
    .map((part) => Number.parseInt(part, 16).toString(16))
    .join(':')}::/64`;
}

/** The address, with one of IPv4 on an IPv6 socket in the form of IPv4. */
function plain(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  return mapped?.[1] ?? address;
}
