/** Writes as wire-notes.md, Restore and Secrets, has them: what is refused, dropped, merged and done besides. */
import { type Ask, type Reply, notFound, refusal, serverError } from './deployment.ts';
import { type Body, hoursAgo, ORG, OWN_USER, PEOPLE, uuid } from './deployment-records.ts';
import { shownComponent, shownExport, shownMembership, shownRecord } from './deployment-reads.ts';

/** New ids, whatever they are for. */
let made = 1000;

function invalid(detail: string, attr: string): Reply {
  return refusal(400, 'validation_error', 'invalid_input', detail, attr);
}

const notAllowed = refusal(405, 'invalid_request', 'method_not_allowed', 'Method not allowed.');

/** Config members that are stored apart and never shown. */
const HIDDEN = /^(aws_access_key_id|aws_secret_access_key|user|password|private_key.*|client_email|token.*)$/;

export function write(method: string, ask: Ask, body: Body): Reply {
  const { parts } = ask;
  const [root, , family, id, below] = parts;
  if (root === 'projects') return family === 'batch_exports' ? writeExport(method, ask, body) : notFound;
  if (parts.length === 2) return change(ask.state.organizations, ORG, method, body, ORGANIZATION);
  switch (family) {
    case 'projects':
      return writeProject(method, ask, body);
    case 'roles':
      return below === undefined ? writeRole(method, ask, body) : writeMembership(method, ask, body);
    case 'members':
      return writeMember(method, ask, body);
    case 'invites':
      return writeInvite(method, ask, body);
    case 'domains':
      return writeDomain(method, ask, body);
    case 'batch_exports':
      if (below === 'pause' || below === 'unpause') return pause(ask, id ?? '', below === 'pause');
      if (method === 'DELETE') return removed(ask.state.exports, id);
      return ask.traits.exportsWritableThere === true ? writeExport(method, ask, body) : serverError;
    case 'proxy_records':
      return writeProxy(method, ask, body);
    default:
      return writeComponent(method, ask, body);
  }
}

const ORGANIZATION = new Set(['name', 'logo_media_id', 'is_member_join_email_enabled', 'enforce_2fa']);

function find(records: readonly Body[], id: string | undefined): Body | undefined {
  return records.find((each) => String(each['id']) === id);
}

function removed(records: Body[], id: string | undefined, status = 204): Reply {
  const at = records.findIndex((each) => String(each['id']) === id);
  if (at < 0) return notFound;
  records.splice(at, 1);
  return { status, body: status === 204 ? null : {} };
}

/** Takes what it knows and drops the rest without a word. */
function change(
  records: Body[],
  id: string | undefined,
  method: string,
  body: Body,
  fields: ReadonlySet<string>,
): Reply {
  const record = find(records, id);
  if (record === undefined) return notFound;
  if (method === 'DELETE') return removed(records, id);
  if (method !== 'PATCH') return notAllowed;
  for (const [name, value] of Object.entries(body)) if (fields.has(name)) record[name] = value;
  return { status: 200, body: record };
}

const PROJECT = new Set(
  [
    'name',
    'timezone',
    'anonymize_ips',
    'session_recording_opt_in',
    'app_urls',
    'test_account_filters',
  ].concat('slack_incoming_webhook'),
);

function writeProject(method: string, ask: Ask, body: Body): Reply {
  const [, , , id] = ask.parts;
  if (method === 'POST') {
    const made = { id: 1 + Math.max(...ask.state.projects.map((each) => Number(each['id']))), ...body };
    ask.state.projects.push({ ...made, organization: ORG, created_at: hoursAgo(0) });
    return { status: 201, body: shownRecord(ask, 'projects', String(made.id)) };
  }
  const reply = change(ask.state.projects, id, method, body, PROJECT);
  return reply.status === 200 ? { status: 200, body: shownRecord(ask, 'projects', id ?? '') } : reply;
}

function writeRole(method: string, ask: Ask, body: Body): Reply {
  const [, , , id] = ask.parts;
  const { roles } = ask.state;
  const name = typeof body['name'] === 'string' ? body['name'] : '';
  // An unchanged name is taken for a second role of that name: its own.
  const isTaken = roles.some((each) => String(each['name']).toLowerCase() === name.toLowerCase());
  if (method !== 'DELETE' && 'name' in body && isTaken)
    return invalid('There is already a role with this name.', 'name');
  if (method === 'POST') {
    made += 1;
    const role = {
      id: uuid(3, made),
      name,
      created_at: hoursAgo(0),
      created_by: PEOPLE[0],
      is_default: false,
    };
    roles.push(role);
    return { status: 201, body: { ...role, members: [] } };
  }
  return change(roles, id, method, body, new Set(['name']));
}

function writeMembership(method: string, { state, parts }: Ask, body: Body): Reply {
  const [, , , role_id, , id] = parts;
  if (method === 'DELETE') return removed(state.memberships, id);
  if (method !== 'POST') return notAllowed;
  if (Object.keys(body).join() !== 'user_uuid') return invalid('This field is required.', 'user_uuid');
  const member = state.members.find(({ user }) => (user as Body)['uuid'] === body['user_uuid']);
  if (member === undefined) return invalid('User does not exist.', 'user_uuid');
  made += 1;
  const membership = {
    id: uuid(4, made),
    role_id,
    user: member['user'],
    organization_member: { id: member['id'], last_login: null },
    joined_at: hoursAgo(0),
    updated_at: hoursAgo(0),
    user_uuid: body['user_uuid'],
  };
  state.memberships.push(membership);
  return { status: 201, body: shownMembership(membership) };
}

function writeMember(method: string, { state, parts }: Ask, body: Body): Reply {
  const at = state.members.findIndex(({ user }) => (user as Body)['uuid'] === parts[3]);
  const member = state.members[at];
  if (member === undefined) return method === 'POST' ? notAllowed : notFound;
  if (method === 'DELETE') {
    state.members.splice(at, 1);
    return { status: 204, body: null };
  }
  if (parts[3] === OWN_USER)
    return refusal(
      403,
      'authentication_error',
      'permission_denied',
      "You can't change your own access level.",
    );
  member['level'] = body['level'];
  return { status: 200, body: member };
}

function writeInvite(method: string, { state, parts }: Ask, body: Body): Reply {
  if (method === 'DELETE') return removed(state.invites, parts[3]);
  if (method !== 'POST' || parts.length !== 3) return notAllowed;
  const open = state.invites.findIndex((each) => each['target_email'] === body['target_email']);
  if (open >= 0) state.invites.splice(open, 1);
  made += 1;
  const { send_email: isMailed = true, ...kept } = body;
  const invite = {
    id: uuid(6, made),
    private_project_access: [],
    message: null,
    ...kept,
    emailing_attempt_made: isMailed,
    is_expired: false,
    created_by: PEOPLE[0],
    created_at: hoursAgo(0),
    updated_at: hoursAgo(0),
  };
  state.invites.unshift(invite);
  return { status: 201, body: invite };
}

const UNTIL_VERIFIED = ['jit_provisioning_enabled', 'sso_enforcement'];
const DOMAIN = new Set([...UNTIL_VERIFIED, 'saml_entity_id', 'saml_acs_url', 'saml_x509_cert']);

function writeDomain(method: string, { state, parts }: Ask, body: Body): Reply {
  if (method === 'POST') {
    made += 1;
    const domain = {
      id: uuid(9, made),
      domain: body['domain'],
      is_verified: false,
      verified_at: null,
      verification_challenge: `c${made}`,
      jit_provisioning_enabled: false,
      sso_enforcement: '',
      has_saml: false,
      saml_entity_id: null,
      saml_acs_url: null,
      saml_x509_cert: null,
    };
    state.domains.push(domain);
    return { status: 201, body: domain };
  }
  const early = UNTIL_VERIFIED.find((name) => name in body);
  const isVerified = find(state.domains, parts[3])?.['is_verified'] === true;
  if (method === 'PATCH' && early !== undefined && !isVerified)
    return invalid('This can only be set on verified domains.', early);
  return change(state.domains, parts[3], method, body, DOMAIN);
}

const EXPORT = new Set(['name', 'model', 'interval', 'paused', 'last_paused_at', 'start_at', 'end_at']);

function writeExport(method: string, ask: Ask, body: Body): Reply {
  const { state, parts } = ask;
  const id = parts[3];
  const destination = body['destination'] as { type?: string; config?: Body } | undefined;
  if (destination !== undefined && destination.type === undefined)
    return invalid('This field is required.', 'destination__type');
  const config = Object.entries(destination?.config ?? {});
  const masked = config.find(([, value]) => typeof value === 'string' && /^\*{4,}/.test(value));
  // What a service would do without a word: the test must hear of it.
  if (masked !== undefined) return invalid('A mask was written back.', `destination__config__${masked[0]}`);
  const secret = Object.fromEntries(config.filter(([name]) => HIDDEN.test(name)));
  const open = Object.fromEntries(config.filter(([name]) => !HIDDEN.test(name)));
  if (method === 'POST') {
    const needed = { S3: 'aws_secret_access_key', Postgres: 'password' }[String(destination?.type)];
    if (needed !== undefined && secret[needed] === undefined)
      return invalid(`Configuration missing required field: '${needed}'`, 'destination__config');
    made += 1;
    const record = {
      model: 'events',
      start_at: null,
      end_at: null,
      last_paused_at: null,
      paused: false,
      ...body,
      id: uuid(7, made),
      team_id: Number(parts[1]),
      destination: { type: destination?.type, config: open },
      created_at: hoursAgo(0),
      last_updated_at: hoursAgo(0),
      latest_runs: [],
      schema: schemaOf(body, null),
    };
    state.exports.unshift(record);
    state.secrets.set(record.id, secret);
    return { status: 201, body: shownExport(ask, record) };
  }
  const record = find(state.exports, id);
  if (record === undefined || id === undefined) return notFound;
  for (const [name, value] of Object.entries(body)) if (EXPORT.has(name)) record[name] = value;
  record['schema'] = schemaOf(body, record['schema']);
  if (destination !== undefined) {
    const stored = record['destination'] as { config: Body };
    record['destination'] = { type: destination.type, config: { ...stored.config, ...open } };
    state.secrets.set(id, { ...state.secrets.get(id), ...secret });
  }
  return { status: 200, body: shownExport(ask, record) };
}

/** What it makes of a query: the only place where an answer shows it. */
function schemaOf({ hogql_query: query }: Body, before: unknown): unknown {
  return typeof query === 'string' ? { hogql_query: query, fields: [{ alias: 'event' }] } : before;
}

function pause({ state }: Ask, id: string, isPaused: boolean): Reply {
  const record = find(state.exports, id);
  if (record === undefined) return notFound;
  record['paused'] = isPaused;
  if (isPaused) record['last_paused_at'] = hoursAgo(0);
  return { status: 200, body: null };
}

/** Only the domain, and only at first; DELETE answers 200. */
function writeProxy(method: string, { state, parts }: Ask, body: Body): Reply {
  if (method === 'DELETE') return removed(state.proxies, parts[3], 200);
  if (method !== 'POST') return change(state.proxies, parts[3], method, {}, new Set());
  const extra = Object.keys(body).find((name) => name !== 'domain');
  if (extra !== undefined) return invalid('Unexpected field.', extra);
  made += 1;
  const record = {
    id: uuid(10, made),
    domain: body['domain'],
    target_cname: `${made}.proxy.example.net`,
    status: 'waiting',
    message: null,
    created_at: hoursAgo(0),
    updated_at: hoursAgo(0),
    created_by: 1,
  };
  state.proxies.push(record);
  return { status: 201, body: record };
}

const COMPONENT = new Set(
  ['plugin_type', 'name', 'description', 'icon', 'config_schema', 'tag', 'is_global'].concat(
    'capabilities',
    'public_jobs',
  ),
);

function writeComponent(method: string, { state, parts }: Ask, body: Body): Reply {
  const [, , family = '', id] = parts;
  if (method === 'POST') {
    if (body['plugin_type'] !== 'source' && typeof body['url'] !== 'string')
      return invalid('This field is required.', 'url');
    made += 1;
    const component = {
      views: ['plugins', family],
      ...body,
      id: made,
      organization_id: ORG,
      organization_name: 'Harbor Lights',
      latest_tag: null,
      metrics: {},
      hog_function_migration_available: true,
    };
    state.components.push(component);
    return { status: 201, body: shownComponent(component) };
  }
  const found = state.components.find((each) => String(each['id']) === id);
  if (found !== undefined && found['organization_id'] !== ORG)
    return refusal(403, 'authentication_error', 'permission_denied', 'This plugin is not yours.');
  return change(state.components, id, method, body, COMPONENT);
}
