/** What requests carry against what interface.md takes, field by field: a strict service answers 400 to any other one. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { CATALOG } from '../../src/catalog/catalog.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { filledBody, filledPath } from '../../src/restore/apply/ready-step.ts';
import type { Plan } from '../../src/restore/plan/plan.ts';
import { creatableFields, writableFields } from '../../src/restore/plan/settings.ts';
import { organization, planOf, record, svc, withBody } from './states.ts';

const text = readFileSync(new URL('../contract/interface.md', import.meta.url), 'utf8');

/** The fields of the "Request" column of a kind's POST (or else PATCH) row, up to what follows on the list; none without such a row. */
function requestFields(kind: Kind): string[] {
  const lines = text.split('\n');
  const row =
    lines.find((line) => new RegExp(`^\\| POST \\| \\S*/${kind}/ \\|`).test(line)) ??
    lines.find((line) => new RegExp(`^\\| PATCH \\| \\S*/${kind}/:\\w+/ \\|`).test(line));
  const list = /body:? ([a-z0-9_, ]+)/.exec(row?.split('|')[4] ?? '')?.[1];
  return list?.split(',').map((name) => name.trim().split(' ')[0] ?? '') ?? [];
}

const COMPONENT = requestFields('pipeline_destinations');
const TAKEN: Partial<Record<Kind, readonly string[]>> = {
  ...Object.fromEntries(CATALOG.map(({ kind }) => [kind, requestFields(kind)])),
  // interface.md, Pipeline frontend apps: "same body as for destinations".
  pipeline_frontend_apps: COMPONENT,
};

describe('the fields of requests', () => {
  it('are found in the contract', () => {
    expect(TAKEN).toMatchObject({
      organizations: ['name', 'logo_media_id', 'is_member_join_email_enabled', 'enforce_2fa'],
      batch_exports: [
        ...['name', 'model', 'destination', 'interval', 'paused', 'last_paused_at', 'start_at', 'end_at'],
        'svcql_query',
      ],
      domains: [
        ...['domain', 'jit_provisioning_enabled', 'sso_enforcement', 'saml_entity_id', 'saml_acs_url'],
        'saml_x509_cert',
      ],
      invites: ['target_email', 'first_name', 'level', 'message', 'private_project_access', 'send_email'],
      members: ['level'],
      pipeline_destinations: COMPONENT,
      pipeline_frontend_apps: COMPONENT,
    });
    expect(COMPONENT).toEqual([
      ...['plugin_type', 'name', 'description', 'icon', 'config_schema', 'tag', 'is_global', 'capabilities'],
      ...['metrics', 'public_jobs'],
    ]);
  });

  it.each(CATALOG.map(({ kind }) => kind))('%s: what the default profile can send is taken', (kind) => {
    const definition = svc(kind);
    const taken = [...(TAKEN[kind] ?? [])].sort();
    const names = (fields: readonly { readonly name: string }[]) => fields.map(({ name }) => name).sort();
    // What the service moves by itself is taken and never sent.
    const moving = definition.fields.filter(({ isWritable, isVolatile }) => isWritable && isVolatile);
    expect([...names(writableFields(definition)), ...names(moving)].sort()).toEqual(taken);
    expect(taken).toEqual(expect.arrayContaining(names(creatableFields(definition))));
  });
});

/** Takes what the contract names and nothing else. */
async function strictService() {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString() || '{}') as object;
      const family = /^\/api\/organizations\/(?:[^/]+\/([a-z_]+)\/)?/.exec(request.url ?? '')?.[1];
      const taken = TAKEN[(family ?? 'organizations') as Kind] ?? [];
      const extra = Object.keys(body).filter((name) => !taken.includes(name));
      seen.push(`${request.method} ${family ?? 'organizations'} ${extra.length === 0 ? 'ok' : extra.join()}`);
      response.writeHead(extra.length === 0 ? 200 : 400).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return {
    seen,
    send: async (plan: Plan) => {
      for (const { request } of plan.steps) {
        if (request === null) continue;
        const values = { idOf: () => 'made-1', secret: () => undefined, desired: null };
        const answer = await fetch(`http://127.0.0.1:${port}${filledPath(request, values)}`, {
          method: request.method,
          body: filledBody(request, values),
        });
        await answer.text();
      }
    },
  };
}

/** A record with every documented field, server-owned ones included. */
function full(kind: Kind, id: string, changes: object) {
  const body = Object.fromEntries(
    svc(kind).fields.map(({ name, type }) => [
      name,
      type === 'boolean' ? true : type === 'array' ? [] : name,
    ]),
  );
  return record(kind, id, { ...body, id, ...changes });
}

describe('a service that refuses fields that it does not take', () => {
  it('takes every creation and every change', async () => {
    const records = [
      full('batch_exports', 'b1', {
        team_id: 7,
        name: 'Nightly',
        model: 'events',
        paused: false,
        destination: { type: 'NoOp', config: {} },
        schema: null,
      }),
      full('domains', 'd1', { domain: 'a.example', is_verified: true }),
      full('pipeline_destinations', '5', { organization_id: 'org-1' }),
      full('pipeline_frontend_apps', '6', { organization_id: 'org-1', name: 'Other' }),
      full('invites', 'i1', { target_email: 'a@a.example', level: 1, is_expired: false }),
    ];
    const member = record('members', 'u1', {
      id: 'm1',
      user: { uuid: 'u1', email: 'b@b.example' },
      level: 8,
    });
    const project = record('projects', '7', { id: 7, name: 'Web' });
    const about = { definitions: svc };
    const service = await strictService();
    await service.send(
      planOf([organization, project, member, ...records], [organization, project, member], about),
    );
    const changed = records
      .filter(({ kind }) => kind !== 'invites')
      .map((each) =>
        withBody(each, each.kind === 'domains' ? { saml_acs_url: 'x' } : { name: 'Renamed', paused: true }),
      );
    const live = [withBody(organization, { enforce_2fa: false }), withBody(member, { level: 1 }), ...changed];
    await service.send(planOf([organization, member, ...records], live, about));
    expect(service.seen.filter((line) => !line.endsWith(' ok'))).toEqual([]);
    for (const { kind } of records) expect(service.seen).toContain(`POST ${kind} ok`);
    for (const kind of ['organizations', 'members', 'batch_exports', 'domains', 'pipeline_destinations'])
      expect(service.seen).toContain(`PATCH ${kind} ok`);
  });
});
