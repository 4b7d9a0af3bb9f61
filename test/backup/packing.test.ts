import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { beforeAll, describe, expect, it } from 'vitest';
import { isRecipient } from '../../src/config/age-recipient.ts';
import { Secret } from '../../src/core/secret.ts';
import { readIdentities } from '../../src/backup/encryption.ts';
import { digestOf, formatOf, pack, unpack } from '../../src/backup/packing.ts';
import { temporaryDirectory } from '../mirror/fixture.ts';

interface Keys {
  readonly identity: Secret;
  readonly recipient: string;
}

async function keys(): Promise<Keys> {
  const identity = await generateIdentity();
  return { identity: new Secret(identity), recipient: await identityToRecipient(identity) };
}

let alice: Keys;
let bob: Keys;
let eve: Keys;
beforeAll(async () => {
  [alice, bob, eve] = [await keys(), await keys(), await keys()];
});

/** Some that compresses and some that does not, over several blocks of either layer. */
const content = Buffer.concat([Buffer.alloc(500_000, 'abc '), randomBytes(300_000)]);

async function packed(recipients: readonly string[], bytes = content) {
  const directory = temporaryDirectory();
  const plain = join(directory, 'plain');
  const file = join(directory, 'packed');
  writeFileSync(plain, bytes);
  const digests = await pack(plain, file, { recipients });
  return { file, out: join(directory, 'out'), digests };
}

describe('a packed file', () => {
  it.each([
    ['content of many blocks', content],
    ['a block of the cipher to the byte', randomBytes(65_536)],
    ['one byte', Buffer.from('x')],
    ['nothing', Buffer.alloc(0)],
  ])('returns as it was: %s', async (_name, bytes) => {
    for (const recipients of [[], [alice.recipient, bob.recipient]]) {
      const { file, out, digests } = await packed(recipients, bytes);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(await formatOf(file)).toBe(recipients.length === 0 ? 'zstd' : 'age');
      expect(await digestOf(file)).toEqual(digests.packed);
      expect(await unpack(file, out, { identities: [bob.identity] })).toEqual(digests);
      expect(readFileSync(out).equals(bytes)).toBe(true);
      expect(statSync(out).mode & 0o777).toBe(0o600);
    }
  });

  it('is smaller than what is in it, and hides it where it is encrypted', async () => {
    const { digests } = await packed([]);
    expect(digests.packed.bytes).toBeLessThan(digests.plain.bytes / 2);
    const { file } = await packed([alice.recipient], Buffer.from('a secret that nobody reads'));
    expect(readFileSync(file, 'latin1')).not.toContain('secret');
    expect(readFileSync(file, 'latin1')).not.toContain(alice.recipient);
  });

  it('opens for its recipients only, and the refusal does not tell the key', async () => {
    const { file, out } = await packed([alice.recipient]);
    const refused = await unpack(file, out, { identities: [eve.identity] }).catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: 'usage',
      message: expect.stringContaining('none of the identities') as string,
    });
    expect(JSON.stringify(refused)).not.toContain(eve.identity.reveal());
    await expect(unpack(file, out, { identities: [] })).rejects.toMatchObject({ code: 'usage' });
    // Of one that was fetched, the user knows the address alone.
    const subject = 's3://backups/a.zst.age';
    await expect(unpack(file, out, { identities: [], subject })).rejects.toThrow(`${subject} is encrypted`);
    await expect(
      unpack(file, out, { identities: [new Secret('AGE-SECRET-KEY-1NONSENSE')] }),
    ).rejects.toMatchObject({
      code: 'usage',
      message: expect.not.stringContaining('NONSENSE') as string,
    });
  });

  it('is one frame, whenever the end of the content reaches the compressor', async () => {
    const sizes = new Set<number>();
    for (let time = 0; time < 60; time++) sizes.add((await packed([])).digests.packed.bytes);
    expect(sizes.size).toBe(1);
  });

  it.each(['plain', 'encrypted'])('is found damaged wherever a byte is wrong or missing: %s', async (how) => {
    const { file } = await packed(how === 'plain' ? [] : [alice.recipient]);
    const whole = readFileSync(file);
    const broken = [
      ...[0.3, 0.6, 0.999].map((share) => {
        const bytes = Buffer.from(whole);
        const at = Math.floor(bytes.length * share);
        bytes[at] = (bytes[at] ?? 0) ^ 1;
        return bytes;
      }),
      ...[0.5, 0.999].map((share) => whole.subarray(0, Math.floor(whole.length * share))),
      whole.subarray(0, whole.length - 1),
    ];
    for (const bytes of broken) {
      writeFileSync(file, bytes);
      await expect(unpack(file, null, { identities: [alice.identity] })).rejects.toMatchObject({
        code: 'mirror_corrupt',
      });
    }
  });

  it('is refused where it is none', async () => {
    const directory = temporaryDirectory();
    const file = join(directory, 'notes.txt');
    writeFileSync(file, 'notes');
    await expect(unpack(file, null, { identities: [] })).rejects.toMatchObject({ code: 'usage' });
    await expect(unpack(join(directory, 'missing'), null, { identities: [] })).rejects.toMatchObject({
      code: 'file_system',
    });
  });

  it('is unpacked as far as its manifest says and no further', async () => {
    const { file, out, digests } = await packed([], Buffer.alloc(16 * 1024 * 1024));
    const { bytes } = digests.plain;
    expect(digests.packed.bytes).toBeLessThan(bytes / 1000);
    await expect(unpack(file, out, { identities: [], mostBytes: bytes - 1 })).rejects.toMatchObject({
      code: 'mirror_corrupt',
      message: expect.stringContaining(`more than ${bytes - 1} bytes`) as string,
    });
    expect(statSync(out).size).toBeLessThan(bytes);
    const other = `${out}-2`;
    expect(await unpack(file, other, { identities: [], mostBytes: bytes })).toEqual(digests);
    const early = `${out}-3`;
    await expect(unpack(file, early, { identities: [], mostBytes: 1_000_000 })).rejects.toThrow(
      'unpacks to more',
    );
    expect(statSync(early).size).toBeLessThan(2_000_000);
  });

  it('that cannot be read is named itself, and not the file that it goes to', async () => {
    const directory = temporaryDirectory();
    const out = join(directory, 'out');
    for (const from of [directory, join(directory, 'missing')]) {
      await expect(pack(from, out, { recipients: [alice.recipient] })).rejects.toMatchObject({
        code: 'file_system',
        message: expect.stringMatching(`^${from} could not be read`) as string,
      });
      rmSync(out, { force: true });
    }
  });

  it('never goes over a file', async () => {
    const { file, out } = await packed([]);
    writeFileSync(out, 'mine');
    await expect(unpack(file, out, { identities: [] })).rejects.toMatchObject({ code: 'file_system' });
    expect(readFileSync(out, 'utf8')).toBe('mine');
    expect(existsSync(file)).toBe(true);
  });
});

describe('keys', () => {
  it('are read from files as age-keygen writes them', async () => {
    const path = join(temporaryDirectory(), 'key.txt');
    writeFileSync(path, `# created: today\n# public key: ${alice.recipient}\n${alice.identity.reveal()}\n\n`);
    expect((await readIdentities(path)).map((each) => each.reveal())).toEqual([alice.identity.reveal()]);
    writeFileSync(path, '# nothing\n');
    await expect(readIdentities(path)).rejects.toMatchObject({ code: 'usage' });
  });

  it('are known in the configuration, and a mistyped one is not', () => {
    for (const { recipient } of [alice, bob, eve]) {
      expect(isRecipient(recipient)).toBe(true);
      const other = recipient.endsWith('q') ? 'p' : 'q';
      expect(isRecipient(recipient.slice(0, -1) + other)).toBe(false);
      expect(isRecipient(recipient.slice(0, -1))).toBe(false);
    }
    for (const text of [
      '',
      'age1',
      'ssh-ed25519 AAAA',
      alice.identity.reveal(),
      alice.recipient.toUpperCase(),
    ]) {
      expect(isRecipient(text)).toBe(false);
    }
  });
});
