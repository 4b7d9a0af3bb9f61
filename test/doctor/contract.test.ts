import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { CATALOG } from '../../src/catalog/catalog.ts';
import { compareContract } from '../../src/doctor/contract.ts';
import { membersOf } from '../../src/doctor/openapi-schema.ts';
import { commandLine } from '../journeys/command-line.ts';
import { type Ended, scratch } from '../journeys/harness.ts';

const FILE = fileURLToPath(new URL('openapi.yaml', import.meta.url));

interface Loose {
  [name: string]: Loose;
}
const fixture = (): Loose => parse(readFileSync(FILE, 'utf8')) as Loose;
const organizations = CATALOG.filter(({ kind }) => kind === 'organizations');

function differences(document: unknown, kinds = organizations): string[] {
  return compareContract(kinds, document).differences.map(
    ({ code, field, catalog, document: other }) => `${code} ${field ?? ''}: ${catalog} / ${other}`,
  );
}

describe('the contract of a kind', () => {
  it('is kept by a document that says the same, through references, allOf, null and the servers’ path', () => {
    const contract = compareContract(organizations, fixture());
    expect(contract.differences.filter(({ kind }) => kind === 'organizations')).toEqual([]);
    expect(contract.compared).toEqual({ operations: 5, fields: 15 });
    expect(contract).toMatchObject({ version: '3.1.0', title: 'Harbor API', outside: 6, withoutFields: [] });
  });

  const schema = (document: Loose): Loose =>
    document['components']!['schemas']!['Organization']!['allOf']!['1']!['properties']!;
  it.each<[string, (document: Loose) => void, string]>([
    [
      'a field of another type',
      (d) => (schema(d)['metadata'] = { type: 'object' } as never),
      'type metadata: string / object',
    ],
    [
      'a field that the catalog does not know',
      (d) => (schema(d)['region'] = { type: 'string', readOnly: true } as never),
      'field_only_in_document region: not known / string',
    ],
    [
      'a field that the document lacks',
      (d) => delete schema(d)['slug'],
      'field_only_in_catalog slug: string / not there',
    ],
    [
      'a writable field that it calls readOnly',
      (d) => (schema(d)['name'] = { type: 'string', readOnly: true } as never),
      'writable name: writable / not in the request',
    ],
    [
      'a response field that it takes',
      (d) => delete schema(d)['customer_id']!['readOnly'],
      'writable customer_id: response only / writable',
    ],
    [
      'a method that it lacks',
      (d) => delete d['paths']!['/organizations/{id}/']!['delete'],
      'operation_only_in_catalog : remove / not there',
    ],
    [
      'a method more',
      (d) => (d['paths']!['/organizations/{id}/']!['put'] = { responses: {} } as never),
      'operation_only_in_document : not known / offered',
    ],
    [
      'a field marked readOnly where no request shows a body',
      (d) => {
        delete d['components']!['requestBodies'];
        schema(d)['name'] = { type: 'string', readOnly: true } as never;
      },
      'read_only name: writable / readOnly',
    ],
  ])('is broken by %s', (_name, change, expected) => {
    const document = fixture();
    change(document);
    expect(differences(document)).toContain(expected);
  });

  it('takes bare arrays, other slashes and broken references, and names families that are not mirrored', () => {
    const kinds = CATALOG.filter(({ kind }) => ['organizations', 'proxy_records'].includes(kind));
    const found = differences(fixture(), kinds);
    expect(found).toContain('type status: string / integer');
    expect(found).toContain('field_only_in_document domain: not known / string');
    expect(found).toContain('field_only_in_document lost: not known / any');
    expect(found).toContain('field_only_in_document circle: not known / any');
    expect(compareContract(kinds, fixture()).differences).toContainEqual(
      expect.objectContaining({
        kind: null,
        operation: 'GET /api/organizations/{organization_id}/webhooks/',
      }),
    );
  });

  it('follows schemas inside each other only so far', () => {
    const deep: { allOf?: unknown[] } = {};
    deep.allOf = [deep];
    expect(membersOf({}, deep)).toBe(null);
  });

  it.each([
    ['nothing', null],
    ['an older document', { swagger: '2.0', paths: {} }],
    ['a document without paths', { openapi: '3.0.0' }],
    ['a document of another service', { openapi: '3.0.0', paths: { '/pets/': { get: {} } } }],
  ])('refuses %s', (_name, document) => {
    expect(() => compareContract(organizations, document)).toThrow(
      expect.objectContaining({ code: 'usage' }),
    );
  });
});

describe('doctor --openapi', () => {
  const SOURCE = 'baseUrl: "http://127.0.0.1:1", apiKey: "${NOT_SET}"';

  function run(directory: string, ...args: string[]): Promise<Ended> {
    return commandLine(['doctor', ...args], { env: {}, cwd: directory });
  }

  it('is 2 where they differ, in a table and as a document, without key or service', async () => {
    const directory = scratch();
    copyFileSync(FILE, join(directory, 'openapi.yaml'));
    const shown = await run(directory, '--openapi', 'openapi.yaml');
    expect(shown.code).toBe(2);
    expect(shown.stdout).toContain('OpenAPI 3.1.0, Harbor API');
    expect(shown.stdout).toMatch(/proxy_records +status +string +integer/);
    const { stdout, code } = await run(directory, '--openapi', 'openapi.yaml', '--json');
    expect(code).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({ schema: 'tidemark.contract/1', openapi: '3.1.0' });
  });

  it('says of a path that went, a method that went, a field that came and another type what each means', async () => {
    const directory = scratch();
    const document = fixture();
    const paths = document['paths']!;
    delete paths['/organizations/{organization_id}/proxy_records'];
    delete paths['/organizations/{id}/']!['delete'];
    const properties = document['components']!['schemas']!['Organization']!['allOf']!['1']!['properties']!;
    Object.assign(properties, { region: { type: 'string' }, slug: { type: 'integer', readOnly: true } });
    writeFileSync(join(directory, 'openapi.json'), JSON.stringify(document));
    writeFileSync(
      join(directory, 'tidemark.yaml'),
      `sources:\n  - { ${SOURCE}, kinds: { include: [organizations, proxy_records] } }\n`,
    );
    const { code, stdout } = await run(directory, '--openapi', 'openapi.json');
    expect(code).toBe(2);
    for (const line of [
      /^organizations +DELETE \/api\/organizations\/:id\/$/m,
      /^proxy_records +GET \/api\/organizations\/:organization_id\/proxy_records\/$/m,
      /^organizations +region +not known +string$/m,
      /^organizations +slug +string +integer$/m,
      /^→ a list that is not offered makes a run partial/m,
      /^→ mirrored and compared as received/m,
      /^→ values are kept as received/m,
    ])
      expect(stdout).toMatch(line);
  });

  it('is 0 where they do not, for the kinds that the source mirrors; JSON is read too', async () => {
    const directory = scratch();
    const document = fixture();
    delete document['paths']!['/organizations/{organization_id}/webhooks/'];
    writeFileSync(join(directory, 'openapi.json'), JSON.stringify(document));
    writeFileSync(
      join(directory, 'tidemark.yaml'),
      `sources:\n  - { ${SOURCE}, kinds: { include: [organizations] } }\n`,
    );
    const { code, stdout, stderr } = await run(directory, '--openapi', 'openapi.json');
    expect(code, stdout + stderr).toBe(0);
    expect(stdout).toContain('no differences');
  });

  it.each([
    ['a file that is not there', null],
    ['a file that is neither', '{"openapi": '],
    ['a file of something else', 'hello: world\n'],
  ])('is 4 for %s', async (_name, text) => {
    const directory = scratch();
    if (text !== null) writeFileSync(join(directory, 'file'), text);
    const { code, stderr } = await run(directory, '--openapi', 'file');
    expect(code).toBe(4);
    expect(stderr).toContain('→');
  });
});
