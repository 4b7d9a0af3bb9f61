/** What a profile, and a source's `definitions`, may change about each kind: the table of `definitions.KIND`. */
import * as z from 'zod';
import type { FieldType, SecretsNeeded } from '../catalog/definition.ts';
import { KINDS } from '../catalog/kinds.ts';
import { SEVERITIES } from '../catalog/severities.ts';
import { type Parsed, mapOf, optional, section } from './option.ts';
import { choice, flag, pointers, structured, text, textByName, texts, wholeNumber } from './value-types.ts';

const FIELD_TYPES = [
  'string',
  'uuid',
  'timestamp',
  'integer',
  'number',
  'boolean',
  'object',
  'array',
  'any',
] as const satisfies readonly FieldType[];

const SECRETS_NEEDED = z.strictObject({
  by: z.string().regex(/^\/./),
  byText: z.record(z.string(), z.array(z.array(z.string().regex(/^\/./)).min(1))),
});

const FIELD = section('One field of the records.', {
  was: optional(text, {
    description: "The catalog's name of this field, where the service calls it otherwise: renames it.",
    example: 'svcql_query',
  }),
  type: optional(choice(FIELD_TYPES), {
    description:
      'Type of the value. Needed for a field that the catalog does not have; never enforced on read.',
    example: 'string',
  }),
  description: optional(text, { description: 'One line about the field.', example: 'Display name.' }),
  writable: optional(flag, {
    description:
      'The API accepts the field in a request body: it is compared as managed and can be restored.',
    example: true,
  }),
  volatile: optional(flag, {
    description: 'Changes though nobody configured anything: never a change, never a revision.',
    example: false,
  }),
  secret: optional(flag, {
    description: 'Holds a secret in clear in responses: masked in output.',
    example: false,
  }),
  secretPointers: optional(pointers, {
    description:
      'Where, below this field, there are secrets that the service omits or masks; `*` is every element.',
    example: ['/config/token'],
  }),
  secretsNeeded: optional(
    structured<SecretsNeeded>(
      'secrets by type',
      'a mapping {by, byText: {TEXT: [[POINTER, …], …]}}',
      SECRETS_NEEDED,
    ),
    {
      description:
        'Which of these a value needs when it is sent whole, by the text at a pointer below the field; each entry is met by any one of its pointers.',
      example: { by: '/type', byText: { HTTP: [['/config/token']] } },
    },
  ),
  createOnly: optional(flag, {
    description:
      'Accepted when a record is created, never afterwards. Compared as managed only if it is writable too.',
    example: true,
  }),
  merged: optional(flag, {
    description:
      'PATCH merges the members of this object over what is stored: secrets that are left out survive.',
    example: true,
  }),
  requires: optional(text, {
    description: 'Pointer to a boolean of the live record that must be true before the field can be set.',
    example: '/is_verified',
  }),
  unordered: optional(flag, {
    description: 'An array whose order carries no meaning.',
    example: false,
  }),
  shownAt: optional(text, {
    description:
      'Pointer to the value in the record when the service does not return the field; that value is sent instead.',
    example: '/schema/query',
  }),
  severity: optional(choice(SEVERITIES), {
    description: 'How much a change matters in a drift report.',
    example: 'high',
  }),
  values: optional(
    structured(
      'list of texts or `any`',
      'a list of texts, or "any"',
      z.union([z.literal('any'), z.array(z.string())]),
    ),
    { description: 'The values that the service documents; `any` opens a closed set.', example: 'any' },
  ),
});

const WRITES_WITH_PATH = ['create', 'update'] as const;

const REFERENCE = z.strictObject({
  pointer: z.string().regex(/^\/./),
  kind: z.enum(KINDS),
  target: z.string().regex(/^\/./),
});

const WRITE_PATHS = z.partialRecord(z.enum(WRITES_WITH_PATH), z.string().regex(/^\/./));

const KIND = section('One kind.', {
  permission: section('API key permissions that the kind needs.', {
    read: optional(text, { description: 'To list and retrieve.', example: 'organization:read' }),
    write: optional(text, { description: 'To create, update and remove.', example: 'organization:write' }),
  }),
  naturalKey: optional(pointers, {
    description: 'Pointers that together name a record, to match one that was recreated by hand.',
    example: ['/name'],
  }),
  nameFrom: optional(pointers, {
    description: "Pointers tried in turn for a record's display name.",
    example: ['/name'],
  }),
  references: optional(
    structured<readonly z.output<typeof REFERENCE>[]>(
      'list of references',
      'a list of {pointer, kind, target}',
      z.array(REFERENCE),
    ),
    {
      description: 'Members of a body that name a record of another kind; replaces the list of the catalog.',
      example: [{ pointer: '/user/uuid', kind: 'members', target: '/user/uuid' }],
    },
  ),
  listing: section('How a list of the kind answers.', {
    listKeys: optional(texts, {
      description: 'Envelope members that may hold the records, tried in turn. A bare array is always taken.',
      example: ['results'],
    }),
    acceptsQuery: optional(flag, {
      description:
        'False where the list answers wrongly to any query string: the first request goes without.',
      example: true,
    }),
    query: optional(textByName, {
      description: 'Query parameters sent beside limit and offset.',
      example: { date_from: '-5y' },
    }),
    countTrusted: optional(flag, {
      description: 'False where `count` is known to be wrong or missing.',
      example: true,
    }),
    needsRetrieve: optional(flag, {
      description: 'True where a list row is a reduced form and only retrieve gives the whole record.',
      example: false,
    }),
  }),
  rate: section("Limits of the kind's requests, beside those of the key.", {
    perMinute: optional(wholeNumber(0, 1_000_000), {
      description: 'Most requests for the kind in any 60 seconds; 0 means no limit.',
      unit: 'requests a minute',
      example: 240,
    }),
    perHour: optional(wholeNumber(0, 10_000_000), {
      description: 'Most requests for the kind in any 60 minutes, counted across restarts; 0 means no limit.',
      unit: 'requests an hour',
      example: 1200,
    }),
  }),
  writePaths: optional(
    structured<z.output<typeof WRITE_PATHS>>(
      'mapping of paths',
      'a mapping of create and update to paths with :parameters',
      WRITE_PATHS,
    ),
    {
      description:
        'Paths that take the same body, used in place of the documented ones; after a 404, 405 or 5xx the documented one is tried. Parameters beside scope and id are fields of the body.',
      example: { create: '/api/projects/:team_id/batch_exports/' },
    },
  ),
  fields: mapOf('Fields by name.', 'field', null, FIELD, { name: { type: 'string', writable: true } }),
});

/** Overrides by kind. */
export const KIND_OVERRIDES = mapOf(
  'Changes to what is known about each kind, over the profile: field roles, list shapes, permissions.',
  'kind',
  KINDS,
  KIND,
  { roles: { fields: { name: { type: 'string', writable: true } } } },
);

type Loose<T> = T extends readonly unknown[] | SecretsNeeded
  ? T
  : T extends Readonly<Record<string, string>>
    ? T
    : string extends keyof T
      ? { readonly [K in keyof T]: Loose<T[K]> }
      : T extends object
        ? { readonly [K in keyof T]?: Loose<T[K]> | undefined }
        : T;

export type FieldOverride = Loose<Parsed<typeof FIELD>>;
export type KindOverride = Loose<Parsed<typeof KIND>>;
/** Overrides by kind; every part may be missing. */
export type KindOverrides = Readonly<Record<string, KindOverride>>;
