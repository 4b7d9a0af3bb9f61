/** Addresses of the network as people write them. */
import { isIP } from 'node:net';

/** True for an IP address, and for a range such as `10.0.0.0/8`. */
export function isNetwork(value: string): boolean {
  const [address = '', bits, ...more] = value.split('/');
  const family = isIP(address);
  if (family === 0 || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32));
}
