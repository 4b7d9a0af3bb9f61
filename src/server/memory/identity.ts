/** Identifiers and tokens, from the random numbers of the server. */
import { randomInt } from 'node:crypto';

/** Cryptographic random numbers in [0, 1): invite ids and tokens are secrets. */
export function secureRandom(): number {
  const steps = 2 ** 48 - 1;
  return randomInt(steps) / steps;
}

/** A version 4 UUID. */
export function uuidFrom(random: () => number): string {
  const digits = Array.from({ length: 32 }, (_none, index) => {
    if (index === 12) return '4';
    const digit = Math.floor(random() * 16);
    return (index === 16 ? 8 + (digit % 4) : digit).toString(16);
  }).join('');
  return [
    digits.slice(0, 8),
    digits.slice(8, 12),
    digits.slice(12, 16),
    digits.slice(16, 20),
    digits.slice(20),
  ].join('-');
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** A token such as `phc_4fB…`: the prefix, then `length` letters and digits. */
export function tokenFrom(random: () => number, prefix: string, length = 40): string {
  const letters = Array.from({ length }, () => ALPHABET[Math.floor(random() * ALPHABET.length)] ?? 'A');
  return prefix + letters.join('');
}
