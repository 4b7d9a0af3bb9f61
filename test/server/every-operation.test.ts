/** Every method and path of the interface, once, against the running sandbox. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CATALOG } from '../../src/catalog/catalog.ts';
import type { Operation } from '../../src/catalog/definition.ts';
import type { ResourceDefinition } from '../../src/catalog/resource-definition.ts';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';
import { type Answer, type RunningSandbox, startSandbox } from './running-sandbox.ts';
import { smallDemo } from './small-demo.ts';

const document = readFileSync(new URL('../contract/interface.md', import.meta.url), 'utf8');

/** `METHOD path` of every row of the endpoint tables, the families described in words written out. */
function documentedOperations(): string[] {
  const operations: string[] = [];
  let collection = '';
  for (const row of document.matchAll(/^\| ((?:GET|POST|PATCH|DELETE)(?:, \w+)*) \| (\S+) \|/gm)) {
    const [, methods = '', shown = ''] = row;
    const isShort = shown.startsWith('...');
    const parent = collection.split('/').slice(0, -2).join('/');
    const path = isShort ? parent + shown.slice(3) : shown;
    if (!isShort) collection = shown;
    operations.push(...methods.split(', ').map((method) => `${method} ${path}`));
  }
  const families = ['pipeline_frontend_apps', 'pipeline_import_apps', 'pipeline_transformations', 'plugins'];
  const components = operations.filter((each) => each.includes('/pipeline_destinations/'));
  return [
    ...operations,
    ...families.flatMap((family) => components.map((each) => each.replace('pipeline_destinations', family))),
  ];
}

/** Of the kinds for which their name alone, any text, is not enough. */
const BODIES: Readonly<Record<string, unknown>> = {
  domains: { domain: 'every-operation.example' },
  invites: { target_email: 'every@operation.example' },
  batch_exports: { name: 'Every', interval: 'hour', destination: { type: 'NoOp', config: {} } },
  proxy_records: { domain: 'every.operation.example' },
};
const COMPONENT = { plugin_type: 'local', name: 'Every operation' };

/** The operation's path over the demo: the first record of the collection stands for the id. */
async function addressOf(
  { call }: RunningSandbox,
  definition: ResourceDefinition,
  operation: Operation,
): Promise<string> {
  const first = async (path: string): Promise<Record<string, unknown>> => {
    const listed = (await call('GET', `${path}?limit=1000`)).json['results'] as Record<string, unknown>[];
    // The newest member, and no component that belongs to the other organization.
    return listed.find((each) => (each['organization_id'] ?? KITTIWAKE_ID) === KITTIWAKE_ID)!;
  };
  const organization = `/api/organizations/${KITTIWAKE_ID}/`;
  const role = await first(`${organization}roles/`);
  const base = operation.path
    .replace(':organization_id', KITTIWAKE_ID)
    .replace(':role_id', role['id'] as string)
    .replace(':project_id', '1');
  if (!operation.path.includes(`:${definition.idParameter}`)) return base;
  const collection =
    definition.reading === 'each' ? '/api/projects/1/session_recordings/' : base.split(':')[0]!;
  const record = await first(collection);
  const [outer = 'id', inner] = definition.idPath;
  const value = inner === undefined ? record[outer] : (record[outer] as Record<string, unknown>)[inner];
  return base.replace(`:${definition.idParameter}`, encodeURIComponent(String(value)));
}

async function bodyOf(
  { call }: RunningSandbox,
  definition: ResourceDefinition,
  operation: Operation,
): Promise<unknown> {
  if (definition.family === 'components') return COMPONENT;
  if (definition.kind === 'proxy_records' && operation.role === 'update') return {};
  if (definition.kind === 'members') return { level: 1 };
  if (definition.kind !== 'role_memberships') {
    return (
      BODIES[definition.kind] ??
      Object.fromEntries(definition.naturalKey.map((pointer) => [pointer.slice(1), 'Every operation']))
    );
  }
  // The newest member takes none of the demo's roles.
  const members = await call('GET', `/api/organizations/${KITTIWAKE_ID}/members/`);
  return { user_uuid: (members.json['results'] as { user: { uuid: string } }[])[0]!.user.uuid };
}

async function perform(definition: ResourceDefinition, operation: Operation): Promise<Answer> {
  const running = await startSandbox({ seed: smallDemo() });
  const path = await addressOf(running, definition, operation);
  const body =
    operation.method === 'POST' || operation.method === 'PATCH'
      ? await bodyOf(running, definition, operation)
      : undefined;
  return running.call(operation.method, path, body);
}

function expectedStatus(operation: Operation): number {
  if (operation.role === 'create') return 201;
  return operation.role === 'remove' ? 204 : 200;
}

const OPERATIONS = CATALOG.flatMap((definition) =>
  definition.operations.map((operation) => ({
    definition,
    operation,
    name: `${operation.method} ${operation.path}`,
  })),
);

describe('every operation of the interface', () => {
  it('is the list of the document', () => {
    const documented = documentedOperations();
    expect(documented.length).toBeGreaterThan(110);
    expect(OPERATIONS.map(({ name }) => name).sort()).toEqual(documented.sort());
  });

  it.each(OPERATIONS)('answers $name', async ({ definition, operation }) => {
    const answer = await perform(definition, operation);
    expect(answer.text.includes('"code"') ? answer.text : '').toBe('');
    expect(answer.status).toBe(expectedStatus(operation));
    if (operation.role === 'list') {
      expect(Object.keys(answer.json)).toEqual(['count', 'next', 'previous', 'results']);
      expect(answer.json['count']).toBeGreaterThan(0);
    } else if (operation.role === 'retrieve' || operation.role === 'create' || operation.role === 'update') {
      const fields = definition.fields.map((field) => field.name).filter((name) => name !== 'send_email');
      for (const field of fields) expect(answer.json).toHaveProperty(field);
    } else if (definition.kind !== 'projects') {
      expect(answer.text).toBe('');
    }
  });

  it.each(OPERATIONS.filter(({ operation }) => operation.method !== 'GET'))(
    'a read-only key gets 403 for $name naming the permission',
    async ({ definition, operation }) => {
      const read = [...new Set(CATALOG.map((row) => row.permission.read))];
      const running = await startSandbox({ keys: [{ key: 'reader', permissions: read }] });
      const path = operation.path.replaceAll(/:\w+/g, 'x');
      const answer = await running.call(operation.method, path, {}, { key: 'reader' });
      expect(answer.status).toBe(403);
      expect(answer.json).toEqual({
        type: 'authentication_error',
        code: 'permission_denied',
        detail: `API key missing required scope '${operation.permission ?? definition.permission.write}'`,
        attr: null,
      });
    },
  );
});
