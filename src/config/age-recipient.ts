/** Public keys of age, to which backups are encrypted. */

const LETTERS = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l';
const GENERATOR = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3];

/**
 * True for a recipient as `age-keygen -y` prints it: Bech32 (BIP 173) without its limit of 90 characters, which
 * post-quantum keys exceed. The checksum finds a mistyped key when the configuration is read, not when a backup is due.
 */
export function isRecipient(text: string): boolean {
  const at = text.lastIndexOf('1');
  const prefix = text.slice(0, at);
  if (at < 0 || !/^age(1[a-z]+)?$/.test(prefix)) return false;
  const values = Array.from(text.slice(at + 1), (letter) => LETTERS.indexOf(letter));
  if (values.length < 7 || values.includes(-1)) return false;
  const codes = Array.from(prefix, (letter) => letter.charCodeAt(0));
  return checksum([...codes.map((code) => code >> 5), 0, ...codes.map((code) => code & 31), ...values]) === 1;
}

function checksum(values: readonly number[]): number {
  let sum = 1;
  for (const value of values) {
    const top = sum >> 25;
    sum = ((sum & 0x1ffffff) << 5) ^ value;
    for (const [bit, term] of GENERATOR.entries()) if (((top >> bit) & 1) === 1) sum ^= term;
  }
  return sum;
}
