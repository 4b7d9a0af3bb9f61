import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CATALOG } from '../../src/catalog/catalog.ts';
import { NOT_MIRRORED } from '../../src/catalog/not-mirrored.ts';
import { KINDS } from '../../src/catalog/kinds.ts';

interface Endpoint {
  readonly method: string;
  readonly path: string;
  /** From the table; null where it lists none, undefined where the table has no such column. */
  readonly permission: string | null | undefined;
}

const text = readFileSync(new URL('../contract/interface.md', import.meta.url), 'utf8');

function section(title: string): string {
  const start = text.indexOf(`\n### ${title}`);
  expect(start, `section ${title}`).toBeGreaterThan(-1);
  const end = text.indexOf('\n### ', start + 1);
  return text.slice(start, end === -1 ? text.indexOf('\n## ', start + 1) : end);
}

/** Every row `| METHOD[, METHOD] | path | … |` of the document; `...` continues the last full collection path. */
function tableEndpoints(): Endpoint[] {
  const endpoints: Endpoint[] = [];
  let collection = '';
  for (const line of text.split('\n')) {
    const row =
      /^\| ((?:GET|POST|PATCH|PUT|DELETE)(?:, (?:GET|POST|PATCH|PUT|DELETE))*) \| (\S+) \|(?: ([^|]*) \|)?/.exec(
        line,
      );
    if (row === null) continue;
    const [, methods = '', shown = '', scope] = row;
    if (!shown.startsWith('...')) collection = shown;
    // `.../members/:id/` repeats the last segment of the collection before it.
    const path = shown.startsWith('...')
      ? collection.slice(0, collection.lastIndexOf('/', collection.length - 2)) + shown.slice(3)
      : shown;
    for (const method of methods.split(', ')) {
      const permission = scope === undefined ? undefined : scope === 'scope not listed' ? null : scope;
      endpoints.push({ method, path, permission });
    }
  }
  return endpoints;
}

/** The families that the document describes as "the same set of paths" as the destinations. */
function familyEndpoints(): Endpoint[] {
  const destinations = tableEndpoints().filter(({ path }) => path.includes('/pipeline_destinations/'));
  const others = ['pipeline_frontend_apps', 'pipeline_import_apps', 'pipeline_transformations', 'plugins'];
  return others.flatMap((name) => {
    expect(text).toContain(`/api/organizations/:organization_id/${name}/`);
    return destinations.map((endpoint) => ({
      method: endpoint.method,
      path: endpoint.path.replace('pipeline_destinations', name),
      permission: undefined,
    }));
  });
}

const documented = [...tableEndpoints(), ...familyEndpoints()];
const offered = CATALOG.flatMap((row) =>
  row.operations.map((operation) => ({ kind: row.kind, ...operation })),
);
const name = (endpoint: { method: string; path: string }): string => `${endpoint.method} ${endpoint.path}`;

describe('the catalog against the interface', () => {
  it('finds the endpoint tables', () => {
    // 5 organizations, 9 batch exports, 6 domains, 4 invites, 3 members, 5 x 13 components, 21 path-only, 4 recordings;
    // more where a kind was added.
    expect(documented.length).toBeGreaterThanOrEqual(5 + 9 + 6 + 4 + 3 + 5 * 13 + 21 + 4);
  });

  it('has every method and path of the interface, and no other', () => {
    expect(offered.map(name).sort()).toEqual(documented.map(name).sort());
  });

  it.each(
    documented
      .filter(({ permission }) => permission !== undefined)
      .map((endpoint) => [name(endpoint), endpoint] as const),
  )('asks the documented permission for %s', (_name, endpoint) => {
    const operation = offered.find((each) => name(each) === name(endpoint));
    expect(operation?.permission).toBe(endpoint.permission);
  });

  it('gives a reason for every operation that is not a list, retrieve or write of a kind, and for no other', () => {
    const actions = new Set(
      offered.filter(({ role }) => role === 'action').map(({ method, action }) => `${method} ${action}`),
    );
    expect(NOT_MIRRORED.map(({ method, action }) => `${method} ${action}`).sort()).toEqual(
      [...actions].sort(),
    );
    for (const row of NOT_MIRRORED) expect(row.reason.length).toBeGreaterThan(15);
  });

  it('has one row per kind, in the order in which the kinds are named, with a list or a retrieve', () => {
    expect(CATALOG.map(({ kind }) => kind)).toEqual(KINDS);
    for (const row of CATALOG) {
      const reads = row.operations.some(
        ({ role }) => role === (row.reading === 'each' ? 'retrieve' : 'list'),
      );
      expect(reads, row.kind).toBe(true);
    }
  });

  it.each([
    ['Organization', 'organizations'],
    ['Batch export', 'batch_exports'],
    ['Domain', 'domains'],
    ['Invite', 'invites'],
    ['Member', 'members'],
    ['Pipeline component (destination', 'pipeline_destinations'],
    ['Session recording', 'session_recordings'],
    ['Sharing configuration of a recording', 'recording_sharing'],
  ])('documents the fields of %s as the interface does', (title, kind) => {
    const rows = [...section(title).matchAll(/^\| ([a-z_0-9, >-]+?) \| ([^|]+) \|(?: ([^|]*) \|)?/gm)].filter(
      ([, field]) => field !== 'Field' && !/^-+$/.test(field ?? ''),
    );
    const fields = rows.flatMap(([, names = '', , notes = '']) =>
      names.split(', ').map((each) => ({ name: each.split(' -> ').at(-1), notes: notes.trim() })),
    );
    const definition = CATALOG.find((row) => row.kind === kind)!;
    expect(definition.fields.map((field) => field.name)).toEqual(fields.map((field) => field.name));
    for (const field of fields) {
      const ours = definition.fields.find((each) => each.name === field.name)!;
      if (/response only/.test(field.notes)) expect(ours.isWritable, field.name).toBe(false);
      if (/writable/.test(field.notes)) expect(ours.isWritable, field.name).toBe(true);
    }
  });
});
