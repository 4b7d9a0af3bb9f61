/**
 * HTTP proxies from the environment, as curl and others read them: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`; names in
 * lower case take precedence. Requests to this machine never use one.
 */
import { BlockList, isIP } from 'node:net';
import { TidemarkError } from '../core/errors.ts';
import { isLoopback } from '../core/local-url.ts';

/** Texts, since they are passed to other processes. They may contain credentials: only `shownProxy` may print them. */
export interface ProxySettings {
  /** Null for none. */
  readonly https: string | null;
  readonly http: string | null;
  /** Hosts without a proxy, from `NO_PROXY`, in lower case. */
  readonly exceptions: readonly string[];
}

export const NO_PROXIES: ProxySettings = { https: null, http: null, exceptions: [] };

/** The settings in an environment. */
export function proxySettings(env: Readonly<Record<string, string | undefined>>): ProxySettings {
  const read = (name: string): string => (env[name.toLowerCase()] ?? env[name] ?? '').trim();
  const proxy = (name: string): string | null => (read(name) === '' ? null : read(name));
  return {
    https: proxy('HTTPS_PROXY'),
    http: proxy('HTTP_PROXY'),
    exceptions: read('NO_PROXY')
      .toLowerCase()
      .split(/[\s,]+/)
      .filter((part) => part !== ''),
  };
}

/**
 * The proxy for requests to a URL; null if they are sent directly.
 * @throws TidemarkError `config_invalid` for the URL of a proxy that does not use HTTP
 */
export function proxyFor(url: URL, settings: ProxySettings): URL | null {
  const isSecure = url.protocol === 'https:';
  const text = isSecure ? settings.https : settings.http;
  if (text === null || isLoopback(url.hostname) || isException(url, settings.exceptions)) return null;
  // As in curl, `proxy.example:3128` is an HTTP proxy.
  const whole = text.includes('://') ? text : `http://${text}`;
  const proxy = URL.parse(whole);
  if (proxy !== null && (proxy.protocol === 'http:' || proxy.protocol === 'https:')) return proxy;
  throw new TidemarkError(
    'config_invalid',
    `${isSecure ? 'HTTPS_PROXY' : 'HTTP_PROXY'} is not the URL of an HTTP proxy`,
    { hint: 'set it to http://HOST:PORT or https://HOST:PORT, or name the host in NO_PROXY' },
  );
}

/** A proxy for messages, without its credentials. */
export function shownProxy(proxy: URL): string {
  return proxy.origin;
}

function isException(url: URL, exceptions: readonly string[]): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '').toLowerCase();
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port;
  return exceptions.some((exception) => {
    if (exception === '*') return true;
    if (exception.includes('/')) return isInNetwork(host, exception);
    const bare = exception.replace(/^\[|\](?=$|:)/g, '');
    if (isIP(bare) !== 0) return bare === host;
    const [, name = '', onlyPort] = /^(.*?)(?::(\d+))?$/.exec(bare) ?? [];
    const domain = name.replace(/^\*?\./, '');
    if (onlyPort !== undefined && onlyPort !== port) return false;
    return host === domain || host.endsWith(`.${domain}`);
  });
}

/** @param network such as `10.0.0.0/8` */
function isInNetwork(host: string, network: string): boolean {
  const [address = '', bits = ''] = network.split('/');
  const [family, own] = [isIP(address), isIP(host)];
  if (family === 0 || own !== family || !/^\d{1,3}$/.test(bits) || Number(bits) > (family === 4 ? 32 : 128))
    return false;
  const list = new BlockList();
  list.addSubnet(address, Number(bits), family === 4 ? 'ipv4' : 'ipv6');
  return list.check(host, family === 4 ? 'ipv4' : 'ipv6');
}
