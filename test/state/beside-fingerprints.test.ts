/** A state beside an export whose secrets are fingerprints of another mirror. */
import { expect, it } from 'vitest';
import { CATALOG } from '../../src/catalog/catalog.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { besideFingerprints, secretsFrom } from '../../src/state/export-secrets.ts';
import { openMirrorState } from '../../src/state/mirror-diff.ts';
import { redactionWith } from '../../src/sync/redaction.ts';
import { open, PROJECT, sync } from '../mirror/fixture.ts';
import { alterFile } from '../tools/alter.ts';

const KIND = 'session_recordings';

async function stateOf(mirror: Mirror, secret: unknown) {
  await sync(mirror, KIND, PROJECT, [`{"id":"a","secret":${JSON.stringify(secret)},"n":1}`]);
  return openMirrorState(mirror, 'production', { ref: 'latest', run: 1, at: '', isLatest: true });
}

it('counts an object as equal in which a name is a fingerprint', async () => {
  const state = await stateOf(open(), { 'https://u:s3cret@h.example/': 1, a: 2 });
  const other = await stateOf(open(), { '[redacted:0123456789abcdef]': 1, a: 2 });
  const beside = besideFingerprints(state, other);
  expect(beside.hidden).toBe(1);
  expect([...beside.state.records({})].map(({ body }) => body)).toEqual([
    '{"id":"a","secret":{"[redacted:0123456789abcdef]":1,"a":2},"n":1}',
  ]);
});

it('is refused by who believes it where a body does not match its hash', async () => {
  const mirror = open();
  const state = await stateOf(mirror, 's3cret');
  const other = await stateOf(open(), '[redacted:0123456789abcdef]');
  const beside = besideFingerprints(state, other);
  expect(beside.hidden).toBe(1);
  const bodies = (): string[] => [...beside.state.checked().records({})].map(({ body }) => body);
  expect(bodies()).toEqual(['{"id":"a","secret":"[redacted:0123456789abcdef]","n":1}']);
  alterFile(mirror.path, `UPDATE records SET body = replace(body, '"n":1', '"n":2')`);
  expect(bodies).toThrow(expect.objectContaining({ code: 'mirror_corrupt' }));
});

it('keeps what the state knows of its lists and of its past', async () => {
  const state = await stateOf(open(), 's3cret');
  const beside = besideFingerprints(state, await stateOf(open(), '[redacted:0123456789abcdef]')).state;
  const key = { kind: KIND, scope: PROJECT, id: 'a' } as const;
  expect(beside.lastReadAt?.(key)).toBe(state.lastReadAt?.(key));
  expect(beside.neverAsked?.('roles')).toBe(state.neverAsked?.('roles'));
  expect(state.neverAsked?.('roles')).not.toBeNull();
  expect(beside.replacedMembers?.()).toEqual(state.replacedMembers?.());
  expect(beside.firstReadsAfter?.([key])).toEqual([null]);
});

it('takes no secret from a version that does not match its hash', async () => {
  const mirror = open();
  const of = (secret: string): string =>
    `{"id":"a","secret":${JSON.stringify(secret)},"n":1,"https://u:p4ss@h.example/":2}`;
  const definition = CATALOG.find(({ kind }) => kind === KIND)!;
  await sync(mirror, KIND, PROJECT, [of('s3cret')]);
  const redaction = redactionWith(mirror.acceptances.fingerprintKey());
  const body = redaction.text(definition, of('s3cret'));
  const secrets = (): string =>
    secretsFrom(mirror, 'production', () => definition)({ kind: KIND, scope: PROJECT, id: 'a', body });
  expect(body).toContain('[redacted:');
  expect(body).not.toContain('p4ss');
  expect(secrets()).toBe(of('s3cret'));
  alterFile(mirror.path, `UPDATE records SET body = replace(body, '"n":1', '"n":2')`);
  expect(secrets).toThrow(expect.objectContaining({ code: 'mirror_corrupt' }));
});
