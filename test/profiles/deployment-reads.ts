/** GET as wire-notes.md, Lists, Secrets and Values, has it: which shape each list has, and what a row leaves out. */
import { type Ask, type Reply, refusal, serverError } from './deployment.ts';
import { type Body, type State, hoursAgo } from './deployment-records.ts';

/** What the list of projects shows of one. */
const PROJECT_ROW = [
  'id',
  'uuid',
  'organization',
  'name',
  'created_at',
  'updated_at',
  'api_token',
  'timezone',
];

/** A list's answer; undefined where the path is none. */
export function readList(ask: Ask): Reply | undefined {
  const { parts, state, query, traits } = ask;
  const [root, parent = '', family, id, below] = parts;
  if (root === 'projects' && family === 'session_recordings' && id === undefined) return recordings(ask);
  if (root !== 'organizations') return undefined;
  if (parts.length === 1) return page(ask, state.organizations);
  if (family === 'roles' && below === 'role_memberships' && parts.length === 5) {
    return page(ask, state.memberships.filter(({ role_id }) => role_id === id).map(shownMembership));
  }
  if (id !== undefined || family === undefined || parent === '') return undefined;
  switch (family) {
    case 'projects':
      return page(ask, state.projects.map(projectRow));
    case 'roles': {
      // Every parameter is taken for a filter on the table.
      if (query.size > 0 && traits.rolesTakeQueries !== true) return serverError;
      return page(
        ask,
        state.roles.map((role) => shownRole(state, role)),
      );
    }
    case 'members':
      return page(ask, state.members.toReversed());
    case 'invites':
      return page(ask, state.invites);
    case 'domains':
      return page(
        ask,
        state.domains.toSorted((a, b) => String(a['domain']).localeCompare(String(b['domain']))),
      );
    case 'batch_exports':
      return page(
        ask,
        state.exports.map((record) => shownExport(ask, record)),
      );
    case 'proxy_records':
      if (traits.proxiesInObject === true)
        return { status: 200, body: { results: state.proxies, max_proxy_records: 5 } };
      return { status: 200, body: state.proxies };
    default: {
      const rows = state.components.filter(({ views }) => views.includes(family));
      return ['plugins', ...VIEWS].includes(family) ? page(ask, rows.map(shownComponent)) : undefined;
    }
  }
}

const VIEWS = [
  'pipeline_destinations',
  'pipeline_frontend_apps',
  'pipeline_import_apps',
  'pipeline_transformations',
];

/** One record's answer; undefined where there is none. */
export function readRecord(ask: Ask): Reply | undefined {
  const { parts, state } = ask;
  const [root, parent = '', family, id, below] = parts;
  if (root === 'projects' && family === 'session_recordings') {
    const found = state.recordings.get(parent)?.find((each) => each['id'] === id);
    if (found === undefined) return undefined;
    if (below === undefined) return { status: 200, body: found };
    return below === 'sharing'
      ? { status: 200, body: { created_at: null, enabled: false, access_token: `share-${String(id)}` } }
      : undefined;
  }
  if (parts.length === 2) return { status: 200, body: state.organizations[0] };
  if (parts.length !== 4 || family === undefined) return undefined;
  const body = shownRecord(ask, family, id ?? '');
  return body === undefined ? undefined : { status: 200, body };
}

export function shownRecord(ask: Ask, family: string, id: string): Body | undefined {
  const { state } = ask;
  const of = (records: readonly Body[]): Body | undefined =>
    records.find((each) => String(each['id']) === id);
  switch (family) {
    case 'projects': {
      const project = of(state.projects);
      liveTokens += 1;
      return project && { ...project, live_events_token: `live-${liveTokens}` };
    }
    case 'roles': {
      const role = of(state.roles);
      return role && shownRole(state, role);
    }
    case 'domains':
      return of(state.domains);
    case 'batch_exports': {
      const record = of(state.exports);
      return record && shownExport(ask, record);
    }
    case 'proxy_records':
      return of(state.proxies);
    // Neither members nor invites can be retrieved.
    case 'members':
    case 'invites':
      return undefined;
    default: {
      const found = state.components.find((each) => each.views.includes(family) && String(each['id']) === id);
      return found && shownComponent(found);
    }
  }
}

let liveTokens = 0;

function projectRow(project: Body): Body {
  return Object.fromEntries(PROJECT_ROW.map((name) => [name, project[name]]));
}

function shownRole(state: State, role: Body): Body {
  const members = state.memberships.filter(({ role_id }) => role_id === role['id']).map(shownMembership);
  return { ...role, members };
}

/** `user_uuid` is for requests alone. */
export function shownMembership(membership: Body): Body {
  return without(membership, 'user_uuid');
}

function without(body: Body, name: string): Body {
  return Object.fromEntries(Object.entries(body).filter(([each]) => each !== name));
}

export function shownComponent(component: Body): Body {
  return without(component, 'views');
}

export function shownExport({ state, traits }: Ask, record: Body): Body {
  if (traits.mask === undefined) return record;
  const { type, config } = record['destination'] as { type: string; config: Body };
  const names = Object.keys(state.secrets.get(String(record['id'])) ?? {});
  const masks = Object.fromEntries(names.map((name) => [name, traits.mask]));
  return { ...record, destination: { type, config: { ...config, ...masks } } };
}

/** The envelope. `limit=0` or rubbish is the default; there is no largest page; links name the server's own address. */
function page({ path, query, ownOrigin }: Ask, records: readonly Body[]): Reply {
  const limit = Number.parseInt(query.get('limit') ?? '', 10) || 100;
  const offset = Number.parseInt(query.get('offset') ?? '', 10) || 0;
  const link = (from: number): string => `${ownOrigin}${path}?limit=${limit}&offset=${from}`;
  return {
    status: 200,
    body: {
      count: records.length,
      next: offset + limit < records.length ? link(offset + limit) : null,
      previous: offset > 0 ? link(Math.max(0, offset - limit)) : null,
      results: records.slice(offset, offset + limit),
    },
  };
}

const RECORDING_PARAMETERS = new Set(['limit', 'offset', 'after', 'date_from', 'date_to']);
const DAYS: Readonly<Record<string, number>> = { d: 1, m: 31, y: 366 };

/** Newest first, no count, fifty unless asked otherwise, three days unless asked for more. */
function recordings({ state, parts, query }: Ask): Reply | undefined {
  const all = state.recordings.get(parts[1] ?? '');
  if (all === undefined) return undefined;
  const unknown = [...query.keys()].find((name) => !RECORDING_PARAMETERS.has(name));
  if (unknown !== undefined)
    return refusal(400, 'validation_error', 'invalid_input', 'Unexpected parameter.', unknown);
  const [, amount = '3', unit = 'd'] = /^-(\d+)([dmy])$/.exec(query.get('date_from') ?? '-3d') ?? [];
  const since = hoursAgo(Number(amount) * (DAYS[unit] ?? 1) * 24);
  const shown = all.filter(({ start_time }) => String(start_time) >= since);
  const limit = Number.parseInt(query.get('limit') ?? '', 10) || 50;
  const offset = Number.parseInt(query.get('offset') ?? '', 10) || 0;
  const results = shown.slice(offset, offset + limit);
  return { status: 200, body: { results, has_next: offset + limit < shown.length, version: 4 } };
}
