/** The catalog's operations as a route table. Matching splits the raw path first and decodes afterwards. */
import { CATALOG } from '../catalog/catalog.ts';
import type { Operation, ResourceDefinition, Scope, ScopeKey } from '../catalog/definition.ts';

export interface Route {
  readonly definition: ResourceDefinition;
  readonly operation: Operation;
}

export interface RouteMatch {
  /** What each method of that path does. */
  readonly byMethod: ReadonlyMap<string, Route>;
  readonly scope: Scope;
  /** The decoded id, where the path names a record. */
  readonly id: string | null;
}

interface Pattern {
  readonly segments: readonly string[];
  readonly scopeAt: readonly { readonly key: ScopeKey; readonly index: number }[];
  readonly idAt: number | null;
  readonly byMethod: Map<string, Route>;
}

function compile(definition: ResourceDefinition, operation: Operation): Pattern {
  const segments = operation.path.split('/').slice(1, -1);
  const indexOf = (name: string): number => segments.indexOf(`:${name}`);
  const idAt = indexOf(definition.idParameter);
  return {
    segments,
    scopeAt: definition.scope.map((key) => ({ key, index: indexOf(key) })),
    idAt: idAt === -1 ? null : idAt,
    byMethod: new Map([[operation.method, { definition, operation }]]),
  };
}

function buildPatterns(): readonly Pattern[] {
  const byPath = new Map<string, Pattern>();
  for (const definition of CATALOG) {
    for (const operation of definition.operations) {
      const known = byPath.get(operation.path);
      if (known === undefined) byPath.set(operation.path, compile(definition, operation));
      else known.byMethod.set(operation.method, { definition, operation });
    }
  }
  // Fixed words before parameters: `invites/bulk/` is an action, not the invite called "bulk".
  return [...byPath.values()].sort((a, b) => parameterCount(a) - parameterCount(b));
}

function parameterCount(pattern: Pattern): number {
  return pattern.segments.filter((segment) => segment.startsWith(':')).length;
}

const PATTERNS = buildPatterns();

/**
 * The route of a raw request path (no query), e.g. `/api/organizations/a%2Fb/`: one segment is one value, so an
 * encoded slash, `..` or percent sign addresses one record and nothing else. Undefined where the interface has no such
 * path (also without the trailing slash, or where a segment is empty or not percent-decodable).
 */
export function matchRoute(rawPath: string): RouteMatch | undefined {
  if (!rawPath.startsWith('/') || !rawPath.endsWith('/') || rawPath.length < 3) return undefined;
  const raw = rawPath.slice(1, -1).split('/');
  const pattern = PATTERNS.find((each) => fits(each, raw));
  if (pattern === undefined) return undefined;
  try {
    const scope: Partial<Record<ScopeKey, string>> = {};
    for (const { key, index } of pattern.scopeAt) scope[key] = decodeURIComponent(raw[index] ?? '');
    const id = pattern.idAt === null ? null : decodeURIComponent(raw[pattern.idAt] ?? '');
    return { byMethod: pattern.byMethod, scope, id };
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}

function fits(pattern: Pattern, raw: readonly string[]): boolean {
  return (
    pattern.segments.length === raw.length &&
    pattern.segments.every((segment, index) =>
      segment.startsWith(':') ? raw[index] !== '' : raw[index] === segment,
    )
  );
}
