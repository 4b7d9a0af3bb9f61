import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { environment, scratch, tidemark } from './harness.ts';
import { FakeService, ORG } from './service.ts';

/** Values that tools bend: every one has to come back as it was sent. */
const NASTY: readonly string[] = [
  '{"id":"plain","name":"x"}',
  '{"id":"null","name":null}',
  '{"id":"absent"}',
  '{"id":"empty","name":"","list":[],"object":{}}',
  '{"id":"unknown","surprise":{"deep":[1,{"a":null}]}}',
  '{"id":"big","n":12345678901234567890,"m":-9007199254740993}',
  '{"id":"decimal","price":1.10,"tiny":1e-400,"huge":1E400,"zero":-0,"plus":1e+2}',
  '{"id":"proto","__proto__":{"polluted":true},"constructor":1,"toString":null,"hasOwnProperty":0}',
  '{"id":"unicode","a":"héé 日本語 🏴‍☠️ \\ud83d\\ude00","b":"\\u202e rtl","c":"\\u0000\\u001b[31m","lone":"\\ud800","line":"\\u2028"}',
  '{"id":"../../etc/passwd","name":"path"}',
  '{"id":"..","name":"dots"}',
  '{"id":"a%2Fb","name":"encoded"}',
  '{"id":"a/b","name":"slash"}',
  '{"id":"with space","name":"space"}',
  '{"id":"quote\\"s","name":"quote"}',
  '{"id":"Case","name":"upper"}',
  '{"id":"case","name":"lower"}',
  '{"id":"ünïcode","name":"id"}',
  '{ "id" : "spaced" , "name" : "x" }',
  '{"id":"nested","destination":{"type":"S3","config":{"bucket":"b","empty":null}}}',
];

async function exported(env: Record<string, string>): Promise<Map<string, string>> {
  const { code, stdout, stderr } = await tidemark(['export'], { env });
  expect(code, stderr).toBe(0);
  const records = new Map<string, string>();
  for (const line of stdout.trimEnd().split('\n')) {
    const { kind, id } = JSON.parse(line) as { kind: string; id: string };
    records.set(`${kind} ${id}`, line.slice(line.indexOf(',"body":') + 8, -1));
  }
  return records;
}

describe('after a sync, export equals the service', () => {
  it('value for value, for every kind and every nasty value', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    for (const kind of ['roles', 'invites', 'domains', 'batch_exports', 'proxy_records'])
      service.set(kind, NASTY);
    service.set('members', ['{"id":"m1","user":{"uuid":"u/1","email":"a@b.example"},"level":15}']);
    const components = [
      '{"id":7,"name":"geo","config_schema":[1.50]}',
      '{"id":12345678901234567890,"name":"big id"}',
    ];
    for (const kind of [
      'pipeline_destinations',
      'pipeline_frontend_apps',
      'pipeline_import_apps',
      'pipeline_transformations',
      'plugins',
    ]) {
      service.set(kind, components);
    }
    for (const text of NASTY) {
      const { id } = JSON.parse(text) as { id: string };
      service.lists.set(
        `/api/organizations/${ORG}/roles/${encodeURIComponent(id).replace(/^\.\.$/, '%2E%2E')}/role_memberships/`,
        [JSON.stringify({ id: `of ${id}`, user_uuid: 'u/1' })],
      );
    }
    service.lists.set('/api/projects/1/session_recordings/', [
      '{"id":"rec/1","viewed":false}',
      '{"id":"rec 2","viewed":true}',
    ]);
    service.objects.set(
      '/api/projects/1/session_recordings/rec%2F1/sharing/',
      '{"enabled":true,"access_token":"t","created_at":null}',
    );
    service.objects.set('/api/projects/1/session_recordings/rec%202/sharing/', '{"enabled":false}');

    const first = await tidemark(['sync', '--json'], { env });
    expect(first.code, first.stdout + first.stderr).toBe(0);
    const records = await exported(env);
    const expected = new Map([...service.state()].map(({ kind, id, body }) => [`${kind} ${id}`, body]));
    expected.set('recording_sharing rec/1', '{"enabled":true,"access_token":"t","created_at":null}');
    expected.set('recording_sharing rec 2', '{"enabled":false}');
    expect([...records].sort()).toEqual([...expected].sort());

    const tree = join(directory, 'tree');
    expect((await tidemark(['export', '--format', 'yaml', '--output', tree], { env })).code).toBe(0);
    const files = readdirSync(tree, { recursive: true, encoding: 'utf8' }).filter((file) =>
      file.endsWith('.yaml'),
    );
    expect(new Set(files.map((file) => file.toLowerCase())).size).toBe(expected.size);
    expect(
      readFileSync(
        join(
          tree,
          files.find((file) => file.includes('decimal'))!,
        ),
        'utf8',
      ),
    ).toContain('price: 1.10');
    expect((await tidemark(['verify'], { env })).code).toBe(0);
  });

  it('also when values change into one another: null, absent, empty, other types', async () => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    const bodies = [
      '{"id":"a"}',
      '{"id":"a","v":null}',
      '{"id":"a","v":""}',
      '{"id":"a","v":0}',
      '{"id":"a","v":false}',
      '{"id":"a","v":[]}',
      '{"id":"a","v":{}}',
      '{"id":"a","v":1.10}',
      '{"id":"a","v":1.1}',
      '{"id":"a"}',
    ];
    for (const body of bodies) {
      service.set('domains', [body]);
      expect((await tidemark(['sync'], { env })).code).toBe(0);
      expect((await exported(env)).get('domains a')).toBe(body);
    }
    expect((await tidemark(['verify'], { env })).code).toBe(0);
  });
});
