/**
 * Answers as a deployment with a profile does: with other names and types of fields, other forms of lists, and other
 * paths for writes. All of this follows from the profile; the records are the same.
 */
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { KindOverride, Profile } from '../config/override-options.ts';
import { applyProfile } from '../config/profile.ts';
import type { Clock } from '../core/clock.ts';
import { splitPointer } from '../core/json-pointer.ts';
import {
  type JsonObject,
  type JsonValue,
  getOwn,
  isJsonObject,
  isRawNumber,
  parseLossless,
} from '../core/json.ts';
import type { Authenticate } from './authorization.ts';
import { type Interface, type WireAnswer, matchRoute, refusalAnswer, splitTarget } from './interface.ts';
import { pageWindow } from './page.ts';
import { RULES } from './rules/rules.ts';
import type { ReadableStore } from './store.ts';
import { valueText } from './value-text.ts';
import { invalid, permissionDenied, serverError, WireError } from './wire-error.ts';

type WireRequest = Parameters<Interface>[0];

interface Behind {
  readonly documented: Interface;
  readonly authenticate: Authenticate;
  readonly store: ReadableStore;
  readonly clock: Clock;
}

/** The definitions of a profile, with the documented names of fields: what a sandbox accepts beyond the documentation. */
export function acceptedBy({ kinds }: Profile): (kind: Kind) => ResourceDefinition {
  const documented = Object.entries(kinds).map(([kind, override]) => {
    const fields = Object.entries(override?.fields ?? {}).map(
      ([name, { was, ...field }]) => [was ?? name, field] as const,
    );
    return [kind, { ...override, fields: Object.fromEntries(fields) }] as const;
  });
  return byKind(applyProfile(CATALOG, { kinds: Object.fromEntries(documented) }, {}));
}

function byKind(definitions: readonly ResourceDefinition[]): (kind: Kind) => ResourceDefinition {
  const found = new Map(definitions.map((definition) => [definition.kind, definition]));
  return (kind) => {
    const definition = found.get(kind);
    if (definition === undefined) throw new Error(`a profile without ${kind}`);
    return definition;
  };
}

/** The API of a deployment with this profile, over the documented one. */
export function answerAs(profile: Profile, behind: Behind): Interface {
  const definitionOf = byKind(applyProfile(CATALOG, profile, {}));
  const writePaths = CATALOG.flatMap(({ kind }) =>
    Object.entries(definitionOf(kind).restore.alternativePaths).map(([role, path]) => ({ kind, role, path })),
  );
  return async (request) => {
    try {
      const { path, query } = splitTarget(request.target);
      if (path === profile.keyPath) return keyAnswer(behind.authenticate(request));
      const rewritten = documentedWrite(request, path);
      const match = matchRoute(splitTarget(rewritten.target).path);
      const route = match?.byMethod.get(request.method === 'HEAD' ? 'GET' : request.method);
      if (match === undefined || route === undefined) return await behind.documented(request);
      const { kind } = route.definition;
      const { role, permission } = route.operation;
      const shapes = new Shapes(definitionOf(kind), profile.kinds[kind] ?? {});
      if (role === 'action' && permission === null) {
        behind.authenticate(request);
        throw permissionDenied('This action does not support Personal API Key access');
      }
      // If the profile has a path of its own for this write, the documented one fails.
      if (rewritten === request && writePaths.some((each) => each.kind === kind && each.role === role)) {
        behind.authenticate(request);
        throw serverError();
      }
      if (role === 'list') return await listAnswer(rewritten, query, shapes);
      const answer = await behind.documented(shapes.asDocumented(rewritten));
      return mapped(answer, (record) => shapes.asAnswered(record));
    } catch (error) {
      if (error instanceof WireError) return refusalAnswer(error);
      throw error;
    }
  };

  /**
   * A write to a path of the profile, as a request to the documented path with the parameters in its body; other
   * requests unchanged.
   */
  function documentedWrite(request: WireRequest, pathname: string): WireRequest {
    const parts = pathname.split('/');
    for (const { kind, role, path } of writePaths) {
      const names = path.split('/');
      const isThis =
        request.method === (role === 'create' ? 'POST' : 'PATCH') &&
        names.length === parts.length &&
        names.every((name, index) => (name.startsWith(':') ? parts[index] !== '' : name === parts[index]));
      if (!isThis) continue;
      const given = Object.fromEntries(
        names.flatMap((name, index) => (name.startsWith(':') ? [[name.slice(1), parts[index] ?? '']] : [])),
      );
      const { project_id, team_id, id, ...others } = given;
      const project = project_id ?? team_id ?? '';
      const organization = behind.store.organizationOf(decodeURIComponent(project));
      if (organization === undefined) continue;
      const target = `${definitionOf(kind).path.replace(':organization_id', organization)}${id === undefined ? '' : `${id}/`}`;
      const added: JsonObject = { ...others, ...(team_id === undefined ? {} : { team_id: Number(team_id) }) };
      return withBody({ ...request, target }, (body) => ({ ...body, ...added }));
    }
    return request;
  }

  async function listAnswer(
    request: WireRequest,
    query: URLSearchParams,
    shapes: Shapes,
  ): Promise<WireAnswer> {
    const { listing, kind } = shapes.definition;
    if (!listing.acceptsQuery && query.size > 0) throw serverError();
    const row = (record: JsonObject): JsonObject => shapes.asRow(record);
    if (listing.isCountTrusted) {
      return mapped(await behind.documented(request), (page) => ({
        ...page,
        results: rowsIn(page).map(row),
      }));
    }
    const { path } = splitTarget(request.target);
    const all = await behind.documented({ ...request, target: `${path}?limit=${Number.MAX_SAFE_INTEGER}` });
    return mapped(all, (page) => {
      const rows = rowsIn(page).map(row);
      // More keys than `results` may have the records: a list without an envelope.
      if (listing.listKeys.length > 1) return rows;
      const shown = 'date_from' in listing.query ? recent(rows, kind, query) : rows;
      const { limit, offset } = pageWindow(query, { default: 50, max: null });
      return { results: shown.slice(offset, offset + limit), has_next: offset + limit < shown.length };
    });
  }

  /** Records of the last three days, or since `date_from`. */
  function recent(rows: readonly JsonObject[], kind: Kind, query: URLSearchParams): readonly JsonObject[] {
    const unknown = [...query.keys()].find((name) => !DATED_PARAMETERS.includes(name));
    if (unknown !== undefined) throw invalid(unknown, 'invalid_input', 'Unexpected parameter.');
    const { order } = RULES[kind];
    if (order.by !== 'newest') return rows;
    const [, amount = '3', unit = 'd'] = /^-(\d+)([dmy])$/.exec(query.get('date_from') ?? '') ?? [];
    const days = Number(amount) * (unit === 'y' ? 366 : unit === 'm' ? 31 : 1);
    const since = new Date(behind.clock.now() - days * DAY_MS).toISOString();
    return rows.filter((record) => valueText(record[order.field]) >= since);
  }
}

const DATED_PARAMETERS = ['limit', 'offset', 'date_from', 'date_to'];
const DAY_MS = 24 * 60 * 60 * 1000;

function keyAnswer({ permissions, organizations }: ReturnType<Authenticate>): WireAnswer {
  const body = JSON.stringify({
    scopes: permissions === 'all' ? ['*'] : permissions,
    scoped_teams: [],
    scoped_organizations: organizations ?? [],
  });
  return { status: 200, headers: { 'Content-Type': 'application/json' }, body };
}

function rowsIn(page: JsonObject): JsonObject[] {
  const rows = page['results'];
  return Array.isArray(rows) ? rows.filter((row) => isJsonObject(row)) : [];
}

/** The answer with a changed body, if it succeeded and has one. */
function mapped(answer: WireAnswer, change: (body: JsonObject) => JsonValue): WireAnswer {
  if (answer.body === null || answer.status >= 300) return answer;
  const text = typeof answer.body === 'string' ? answer.body : Buffer.concat(answer.body).toString();
  const value = parseLossless(text);
  return isJsonObject(value) ? { ...answer, body: JSON.stringify(change(value)) } : answer;
}

/** The request with a changed body; a body that is not a JSON object is refused later. */
function withBody(request: WireRequest, change: (body: JsonObject) => JsonObject): WireRequest {
  return {
    ...request,
    body: async () => {
      const bytes = await request.body();
      try {
        const value = parseLossless(new TextDecoder().decode(bytes));
        return isJsonObject(value) ? Buffer.from(JSON.stringify(change(value))) : bytes;
      } catch (error) {
        if (error instanceof SyntaxError) return bytes;
        throw error;
      }
    },
  };
}

/** Converts records of one kind between the documented form and that of the profile. */
class Shapes {
  readonly definition: ResourceDefinition;
  readonly #wireNames = new Map<string, string>();

  constructor(definition: ResourceDefinition, { fields }: KindOverride) {
    this.definition = definition;
    for (const [name, { was }] of Object.entries(fields ?? {}))
      if (was !== undefined && was !== name) this.#wireNames.set(was, name);
  }

  asDocumented(request: WireRequest): WireRequest {
    if (this.#wireNames.size === 0) return request;
    const names = new Map([...this.#wireNames].map(([was, name]) => [name, was]));
    return withBody(request, (body) => renamed(body, names));
  }

  asAnswered(record: JsonObject): JsonObject {
    const { fieldsByName, restore } = this.definition;
    const answered: JsonObject = {};
    for (const [name, value] of Object.entries(renamed(record, this.#wireNames))) {
      const field = fieldsByName.get(name);
      // A field of requests only: answers have it elsewhere.
      if (field?.isCreateOnly === true && restore.derived.some((each) => each.field === name)) continue;
      if (field?.shownAt !== undefined) continue;
      answered[name] = field === undefined ? value : typed(value, field.type);
    }
    // If answers have the value of a field in another one (`shownAt`), its name is changed there.
    for (const { shownAt } of fieldsByName.values()) {
      const [place = ''] = splitPointer(shownAt ?? '');
      const holder = getOwn(answered, place);
      if (holder !== undefined && isJsonObject(holder)) answered[place] = renamed(holder, this.#wireNames);
    }
    return answered;
  }

  /** A row of a list; without settings and secrets if only the path of a record shows them. */
  asRow(record: JsonObject): JsonObject {
    const answered = this.asAnswered(record);
    const { listing, nameFrom, fieldsByName } = this.definition;
    if (!listing.needsRetrieve) return answered;
    const isShown = (name: string): boolean => {
      const field = fieldsByName.get(name);
      if (nameFrom.includes(`/${name}`)) return true;
      return field !== undefined && !field.isWritable && !field.isSecret;
    };
    return Object.fromEntries(Object.entries(answered).filter(([name]) => isShown(name)));
  }
}

function renamed(record: JsonObject, names: ReadonlyMap<string, string>): JsonObject {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [names.get(name) ?? name, value]));
}

/** Converts a text to the object, integer or boolean that the profile defines; returns other values unchanged. */
function typed(value: JsonValue, type: string): JsonValue {
  if (typeof value !== 'string' || !['object', 'integer', 'boolean'].includes(type)) return value;
  try {
    const inner = parseLossless(value);
    const isOfType =
      type === 'object'
        ? isJsonObject(inner)
        : type === 'boolean'
          ? typeof inner === 'boolean'
          : typeof inner === 'number' || isRawNumber(inner);
    return isOfType ? inner : value;
  } catch {
    // SyntaxError: only a text.
    return value;
  }
}
