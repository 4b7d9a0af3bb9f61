/**
 * Compares the catalog with an OpenAPI document of the service: paths and methods, fields of responses, fields of requests.
 * Pure; nothing is sent.
 */
import { CATALOG } from '../catalog/catalog.ts';
import type { FieldDefinition, FieldType, Operation } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { type Member, type Node, isNode, membersOf, resolved } from './openapi-schema.ts';

export type DifferenceCode =
  | 'operation_only_in_catalog'
  | 'operation_only_in_document'
  | 'field_only_in_catalog'
  | 'field_only_in_document'
  | 'type'
  | 'writable'
  | 'read_only';

interface ContractDifference {
  readonly code: DifferenceCode;
  /** Null for a path that is not of a kind. */
  readonly kind: Kind | null;
  /** Method and path. */
  readonly operation: string;
  /** Null for an entire operation. */
  readonly field: string | null;
  /** What each side has, in words. */
  readonly catalog: string;
  readonly document: string;
}

export interface Contract {
  readonly version: string;
  readonly title: string | null;
  readonly compared: { readonly operations: number; readonly fields: number };
  readonly differences: readonly ContractDifference[];
  /** The number of operations of the document outside the mirrored families. */
  readonly outside: number;
  /** Kinds for which the document has no fields of responses. */
  readonly withoutFields: readonly Kind[];
}

/**
 * The differences between the definitions and a parsed document.
 * @throws TidemarkError `usage` if it is not an OpenAPI 3 document, or has none of the paths of the catalog
 */
export function compareContract(definitions: readonly ResourceDefinition[], raw: unknown): Contract {
  const document = isNode(raw) ? raw : {};
  const version = document['openapi'];
  if (typeof version !== 'string' || !version.startsWith('3.') || !isNode(document['paths'])) {
    throw new TidemarkError(
      'usage',
      'this is not an OpenAPI 3 document: it has no `openapi: 3.…` with `paths`',
      { hint: 'give the JSON or YAML file of an OpenAPI 3.0 or 3.1 document' },
    );
  }
  const operations = new Map(operationsOf(document).map((operation) => [operation.place, operation]));
  const known = new Set(definitions.flatMap((each) => [...each.operations, ...others(each)].map(placeOf)));
  const shared = [...operations.keys()].filter((place) => known.has(place)).length;
  if (shared === 0) {
    throw new TidemarkError('usage', 'this document has none of the paths that the catalog knows', {
      hint: 'check that it is the document of this service, and that its `servers` name the path before its paths',
    });
  }
  const kinds = definitions.map((definition) => compareKind(document, operations, definition));
  // The operations of kinds that the source leaves out are known, but not mirrored.
  const leftOut = CATALOG.filter(({ kind }) => !definitions.some((each) => each.kind === kind));
  const unmirrored = new Set(leftOut.flatMap((each) => each.operations.map(placeOf)));
  const { differences, outside } = onlyInDocument(definitions, operations, known, unmirrored);
  const info = document['info'];
  const title = isNode(info) ? info['title'] : undefined;
  return {
    version,
    title: typeof title === 'string' ? title : null,
    compared: { operations: shared, fields: kinds.reduce((sum, { fields }) => sum + fields, 0) },
    differences: [...kinds.flatMap((kind) => kind.differences), ...differences],
    outside,
    withoutFields: kinds.filter(({ hasFields }) => !hasFields).map(({ kind }) => kind),
  };
}

type Operations = ReadonlyMap<string, DocumentOperation>;

/** The other paths that a profile names for writes. */
function others({ restore }: ResourceDefinition): Pick<Operation, 'method' | 'path'>[] {
  const { create, update } = restore.alternativePaths;
  return [
    ...(create === undefined ? [] : [{ method: 'POST' as const, path: create }]),
    ...(update === undefined ? [] : [{ method: 'PATCH' as const, path: update }]),
  ];
}

interface KindContract {
  readonly kind: Kind;
  readonly hasFields: boolean;
  readonly fields: number;
  readonly differences: readonly ContractDifference[];
}

function compareKind(document: Node, operations: Operations, definition: ResourceDefinition): KindContract {
  const { kind } = definition;
  const missing = definition.operations
    .filter((operation) => !operations.has(placeOf(operation)))
    .map((operation): ContractDifference => ({
      code: 'operation_only_in_catalog',
      kind,
      operation: `${operation.method} ${operation.path}`,
      field: null,
      catalog: operation.action ?? operation.role,
      document: 'not there',
    }));
  const shown = shownMembers(document, operations, definition);
  if (shown === null) return { kind, hasFields: false, fields: 0, differences: missing };
  const bodies = {
    create: bodyMembers(document, operations, definition, 'create'),
    update: bodyMembers(document, operations, definition, 'update'),
  };
  const names = new Set([
    ...shown.members.keys(),
    ...(bodies.create?.keys() ?? []),
    ...(bodies.update?.keys() ?? []),
    ...definition.fields.map(({ name }) => name),
  ]);
  const differences = [...names].flatMap((name) =>
    compareField(name, definition, shown.members.get(name), bodies).map((difference) => ({
      ...difference,
      kind,
      operation: shown.operation,
      field: name,
    })),
  );
  return { kind, hasFields: true, fields: names.size, differences: [...missing, ...differences] };
}

interface Bodies {
  readonly create: ReadonlyMap<string, Member> | null;
  readonly update: ReadonlyMap<string, Member> | null;
}

type FieldDifference = Pick<ContractDifference, 'code' | 'catalog' | 'document'>;

function compareField(
  name: string,
  { fields }: ResourceDefinition,
  shown: Member | undefined,
  bodies: Bodies,
): FieldDifference[] {
  const field = fields.find((each) => each.name === name);
  const sent = bodies.update?.get(name) ?? bodies.create?.get(name);
  if (field === undefined) {
    const where = shown === undefined ? 'request only, ' : '';
    const type = (shown ?? sent)?.type ?? 'any';
    return [{ code: 'field_only_in_document', catalog: 'not known', document: `${where}${type}` }];
  }
  if (shown === undefined && sent === undefined)
    return [{ code: 'field_only_in_catalog', catalog: field.type, document: 'not there' }];
  const differences: FieldDifference[] = [];
  const type = (shown ?? sent)?.type ?? 'any';
  if (!isSameType(field.type, type)) differences.push({ code: 'type', catalog: field.type, document: type });
  const writing = writableDifference(name, field, bodies);
  if (writing !== null) differences.push(writing);
  else if (shown?.isReadOnly === true && field.isWritable)
    differences.push({ code: 'read_only', catalog: 'writable', document: 'readOnly' });
  return differences;
}

/** How requests differ in this field; null also if the document shows no body. */
function writableDifference(name: string, field: FieldDefinition, bodies: Bodies): FieldDifference | null {
  const takes = (body: Bodies['create']): boolean => body?.get(name)?.isReadOnly === false;
  const isSentOnUpdate = field.isWritable && !field.isCreateOnly;
  const difference = (catalog: string, document: string): FieldDifference => ({
    code: 'writable',
    catalog,
    document,
  });
  const { create, update } = bodies;
  if (isSentOnUpdate && update !== null && !takes(update))
    return difference('writable', takes(create) ? 'taken on creation only' : 'not in the request');
  if (isSentOnUpdate && update === null && create !== null && !takes(create))
    return difference('writable', 'not in the request');
  if (field.isCreateOnly && create !== null && !takes(create))
    return difference('taken on creation', 'not in the request');
  if (!field.isWritable && (takes(update) || (takes(create) && !field.isCreateOnly)))
    return difference('response only', takes(update) ? 'writable' : 'taken on creation');
  return null;
}

const TEXTS: ReadonlySet<FieldType> = new Set(['string', 'uuid', 'timestamp']);

/** `any` is equal to every type, and a string to the formats of strings, which are not always documented. */
function isSameType(catalog: FieldType, document: FieldType): boolean {
  if (catalog === document || catalog === 'any' || document === 'any') return true;
  return TEXTS.has(catalog) && TEXTS.has(document) && (catalog === 'string' || document === 'string');
}

/** The fields of one record in the response of retrieve, or else of the list. */
function shownMembers(
  document: Node,
  operations: Operations,
  definition: ResourceDefinition,
): { readonly operation: string; readonly members: ReadonlyMap<string, Member> } | null {
  for (const role of ['retrieve', 'list'] as const) {
    const operation = definition.operation(role);
    const found = operation && operations.get(placeOf(operation));
    if (operation === undefined || found === undefined) continue;
    const schema = role === 'list' ? elementSchema(document, definition, found.answer) : found.answer;
    const members = membersOf(document, schema);
    if (members !== null) return { operation: `${operation.method} ${operation.path}`, members };
  }
  return null;
}

/** The schema of an element: of a bare array, or of the member that holds the records. */
function elementSchema(document: Node, { listing }: ResourceDefinition, answer: unknown): unknown {
  const list = resolved(document, answer);
  if (list?.['items'] !== undefined) return list['items'];
  const properties = list?.['properties'];
  if (!isNode(properties)) return undefined;
  const key = listing.listKeys.find((name) => Object.hasOwn(properties, name));
  return key === undefined ? undefined : resolved(document, properties[key])?.['items'];
}

function bodyMembers(
  document: Node,
  operations: Operations,
  definition: ResourceDefinition,
  role: 'create' | 'update',
): ReadonlyMap<string, Member> | null {
  const operation = definition.operation(role);
  const found = operation && operations.get(placeOf(operation));
  return found?.body === undefined ? null : membersOf(document, found.body);
}

/** The operations that only the document has within the mirrored families, and the number of those outside. */
function onlyInDocument(
  definitions: readonly ResourceDefinition[],
  operations: Operations,
  known: ReadonlySet<string>,
  unmirrored: ReadonlySet<string>,
): { readonly differences: ContractDifference[]; readonly outside: number } {
  const families = definitions.map(({ kind, path }) => ({
    kind,
    place: placeOf({ method: '', path }).trim(),
  }));
  const differences: ContractDifference[] = [];
  let outside = 0;
  for (const { method, path, place } of operations.values()) {
    if (known.has(place)) continue;
    const at = place.slice(place.indexOf('/'));
    const owners = families.filter((each) => at === each.place || at.startsWith(`${each.place}/`));
    const owner = owners.toSorted((a, b) => b.place.length - a.place.length)[0];
    // Below an organization, an unknown family is one that could be mirrored.
    const isWithin = owner !== undefined || at.startsWith('/api/organizations/{}/');
    if (unmirrored.has(place) || !isWithin) {
      outside += 1;
      continue;
    }
    const isOwn = owner !== undefined && (owner.kind !== 'organizations' || at.split('/').length <= 4);
    differences.push({
      code: 'operation_only_in_document',
      kind: isOwn ? owner.kind : null,
      operation: `${method} ${path}`,
      field: null,
      catalog: 'not known',
      document: 'offered',
    });
  }
  return { differences, outside };
}

interface DocumentOperation {
  readonly method: string;
  /** As in the document, with the path of the server before it. */
  readonly path: string;
  /** `placeOf` the operation. */
  readonly place: string;
  /** Schema of the JSON body of the first response 2xx; undefined without one. */
  readonly answer: unknown;
  /** Schema of the JSON body of the request. */
  readonly body: unknown;
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;

/** Method and path with every parameter as `{}` and without the last slash: equal for two spellings of one place. */
function placeOf({ method, path }: Pick<DocumentOperation, 'method' | 'path'>): string {
  const segments = path
    .split('/')
    .filter((part) => part !== '')
    .map((part) => (/^:|^\{.*\}$/.test(part) ? '{}' : part));
  return `${method.toUpperCase()} /${segments.join('/')}`;
}

function operationsOf(document: Node): DocumentOperation[] {
  const prefix = serverPath(document);
  const paths = isNode(document['paths']) ? document['paths'] : {};
  return Object.entries(paths).flatMap(([path, value]) => {
    const item = resolved(document, value);
    if (item === undefined) return [];
    const whole = path.startsWith(`${prefix}/`) ? path : `${prefix}${path}`;
    return METHODS.flatMap((method): DocumentOperation[] => {
      const operation = resolved(document, item[method]);
      if (operation === undefined) return [];
      return [
        {
          method: method.toUpperCase(),
          path: whole,
          place: placeOf({ method, path: whole }),
          answer: answerSchema(document, operation),
          body: contentSchema(document, operation['requestBody']),
        },
      ];
    });
  });
}

function serverPath(document: Node): string {
  const servers = document['servers'];
  const first: unknown = Array.isArray(servers) ? servers[0] : undefined;
  const url = isNode(first) ? first['url'] : undefined;
  if (typeof url !== 'string') return '';
  return (URL.parse(url, 'http://here.invalid')?.pathname ?? '').replace(/\/+$/, '');
}

function answerSchema(document: Node, operation: Node): unknown {
  const responses = isNode(operation['responses']) ? operation['responses'] : {};
  const status = Object.keys(responses)
    .filter((each) => /^2/.test(each))
    .toSorted()[0];
  return status === undefined ? undefined : contentSchema(document, responses[status]);
}

/** The schema of the JSON content or, without any, of the first content. */
function contentSchema(document: Node, value: unknown): unknown {
  const content = resolved(document, value)?.['content'];
  if (!isNode(content)) return undefined;
  const [first] = Object.values(content);
  const media = content['application/json'] ?? first;
  return isNode(media) ? media['schema'] : undefined;
}
