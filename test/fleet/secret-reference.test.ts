/** Which keys a worker gives to a cell, and which secrets of its own it keeps. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ReadSecret, secretReader } from '../../src/fleet/secret-reference.ts';

let scratch: string;
let keys: string;
let read: ReadSecret;

beforeAll(() => {
  scratch = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-secrets-')));
  keys = join(scratch, 'keys');
  mkdirSync(join(keys, 'team'), { recursive: true });
  mkdirSync(join(scratch, 'keys-of-others'));
  writeFileSync(join(keys, 'acme'), 'key-of-acme\n');
  writeFileSync(join(keys, 'team', 'globex'), 'key-of-globex');
  writeFileSync(join(keys, 'empty'), '\n');
  writeFileSync(join(scratch, 'database-url'), 'postgresql://secret');
  writeFileSync(join(scratch, 'keys-of-others', 'key'), 'secret');
  symlinkSync(join(scratch, 'database-url'), join(keys, 'link'));
  symlinkSync(keys, join(scratch, 'linked-keys'));
  const env = { ACME_KEY: ' key-of-acme ', DATABASE_URL: 'secret', AWS_SECRET_ACCESS_KEY: 'secret' };
  read = secretReader({ env, own: ['DATABASE_URL'], keyDirectory: join(scratch, 'linked-keys') });
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe('a key of a cell', () => {
  it.each([
    ['env:ACME_KEY', 'key-of-acme'],
    ['file:keys/acme', 'key-of-acme'],
    ['file:keys/team/globex', 'key-of-globex'],
    ['file:linked-keys/acme', 'key-of-acme'],
  ])('is read from %s', (reference, key) => {
    expect(read(reference.replace('file:', `file:${scratch}/`)).reveal()).toBe(key);
  });

  it.each([
    ['env:DATABASE_URL', 'is a secret of the worker'],
    ['env:AWS_SECRET_ACCESS_KEY', 'is a secret of the worker'],
    ['env:OTHER', 'has no variable OTHER'],
    ['file:database-url', 'is not in the directory for keys'],
    ['file:keys/../database-url', 'is not in the directory for keys'],
    ['file:keys/link', 'is not in the directory for keys'],
    ['file:keys-of-others/key', 'is not in the directory for keys'],
    ['file:keys/empty', 'holds no key'],
    ['file:keys/none', 'none'],
    ['other:x', 'refers to no key'],
  ])('is not read from %s', (reference, message) => {
    expect(() => read(reference.replace('file:', `file:${scratch}/`))).toThrow(message);
  });
});
