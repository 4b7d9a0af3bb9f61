/** Where a request comes from: by its connection, and by the forwarded headers of proxies that the operator has named. */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';
import { actorName, nameProblem } from '../core/actor.ts';

/** A host as a `Host` header gives it: a name, an IPv4 address or an IPv6 address in brackets, perhaps a port. */
const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?$/i;

/** False for what is not a host, such as `1.2.3.4.5.6`, of which no URL can be made. */
export function isHost(text: string): boolean {
  return HOST.test(text) && URL.canParse(`http://${text}/`);
}

/** Whom a proxy names; without a name, `problem` says what is the matter with the header, after its name. */
type ProxyUser =
  { readonly name: string; readonly problem?: undefined } | { readonly name: null; readonly problem: string };

/** The text of a header, which Node.js gives a character for each byte; null where the bytes are not UTF-8. */
function utf8Of(header: string): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(header, 'latin1'));
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}

/** Whose forwarded headers are believed. */
export class TrustedProxies {
  readonly #list = new BlockList();
  readonly #path: string;

  /**
   * Takes addresses and CIDR ranges, e.g. `10.0.0.0/8` or `::1`.
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

  /** The address of the client: of the connection, or, where that is a proxy's, the one for which the proxy asks. */
  clientOf(incoming: IncomingMessage): string {
    const remote = plain(incoming.socket.remoteAddress ?? '');
    if (!this.#includes(remote)) return remote;
    const forwarded = [incoming.headers['x-forwarded-for'] ?? []].flat().join(',').split(',');
    // Each proxy adds whom it was asked by at the end: what is before the first stranger is that one's own word.
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

  /** The user whom a trusted proxy names in a header, or why that is nobody; null from anybody else, and without a name. */
  userOf(incoming: IncomingMessage, header: string): ProxyUser | null {
    if (!this.#includes(plain(incoming.socket.remoteAddress ?? ''))) return null;
    // A proxy that adds its own to the client's would give two: neither is believed.
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

  /** The first value of a forwarded header; undefined where it is missing, or not from a proxy that is trusted. */
  #forwarded(incoming: IncomingMessage, name: string): string | undefined {
    if (!this.#includes(plain(incoming.socket.remoteAddress ?? ''))) return undefined;
    return [incoming.headers[name] ?? []].flat()[0]?.split(',')[0]?.trim();
  }

  #includes(address: string): boolean {
    return isIP(address) !== 0 && this.#list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
  }
}

/** What counts as one caller: an IPv4 address, and of IPv6 the /64 that a single customer has. */
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

/** An IPv4 address that came over an IPv6 socket is the same address. */
function plain(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  return mapped?.[1] ?? address;
}
