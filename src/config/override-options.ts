/** The schema of a profile file, and of a source's `definitions`: what they may change about each kind. */
import * as z from 'zod';
import { type FieldType, SEVERITIES } from '../catalog/definition.ts';
import { KINDS } from '../catalog/kinds.ts';
import * as t from './schema.ts';

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

const FIELD = t.section('One field of the records.', {
  was: t.text.optional().meta({
    description: "The catalog's name of this field, where the service calls it otherwise: renames it.",
    example: 'svcql_query',
  }),
  type: z.enum(FIELD_TYPES).optional().meta({
    description:
      'Type of the value. Needed for a field that the catalog does not have; never enforced on read.',
    example: 'string',
  }),
  description: t.text.optional().meta({ description: 'One line about the field.', example: 'Display name.' }),
  writable: z.boolean().optional().meta({
    description:
      'The API accepts the field in a request body: it is compared as managed and can be restored.',
    example: true,
  }),
  volatile: z.boolean().optional().meta({
    description: 'Changes without a change of configuration: never a change, never a revision.',
    example: false,
  }),
  secret: z.boolean().optional().meta({
    description: 'Holds a secret in clear in responses: masked in output.',
    example: false,
  }),
  secretPointers: t.pointers.optional().meta({
    description:
      'Where, below this field, there are secrets that the service omits or masks; `*` is every element.',
    example: ['/config/token'],
  }),
  secretsNeeded: z
    .strictObject({ by: t.pointer, byText: z.record(z.string(), z.array(z.array(t.pointer).min(1))) })
    .optional()
    .meta({
      type: 'secrets by type',
      expected: 'a mapping {by, byText: {TEXT: [[POINTER, …], …]}}',
      description:
        'Which of these a complete value needs when it is sent, by the text at a pointer below the field; each entry is met by any one of its pointers.',
      example: { by: '/type', byText: { HTTP: [['/config/token']] } },
    }),
  createOnly: z.boolean().optional().meta({
    description:
      'Accepted when a record is created, never afterwards. Compared as managed only if it is writable too.',
    example: true,
  }),
  merged: z.boolean().optional().meta({
    description:
      'PATCH merges the members of this object over what is stored: secrets that are left out survive.',
    example: true,
  }),
  requires: t.pointer.optional().meta({
    description: 'Pointer to a boolean of the live record that must be true before the field can be set.',
    example: '/is_verified',
  }),
  unordered: z.boolean().optional().meta({
    description: 'An array whose order carries no meaning.',
    example: false,
  }),
  shownAt: t.pointer.optional().meta({
    description:
      'Pointer to the value in the record when the service does not return the field; that value is sent instead.',
    example: '/schema/query',
  }),
  severity: z.enum(SEVERITIES).optional().meta({
    description: 'How much a change matters in a drift report.',
    example: 'high',
  }),
  values: z
    .union([z.literal('any'), z.array(z.string())])
    .optional()
    .meta({
      type: 'list of strings or `any`',
      expected: 'a list of strings, or "any"',
      description: 'The values that the service documents; `any` opens a closed set.',
      example: 'any',
    }),
});

/** The rates of a source; a profile may have defaults. */
export const RATE = {
  perMinute: t.wholeNumber(0, 1_000_000),
  perHour: t.wholeNumber(0, 10_000_000),
  concurrency: t.wholeNumber(1, 100),
} as const;

const KIND = t.section('One kind.', {
  permission: t.section('API key permissions that the kind needs.', {
    read: t.text.optional().meta({ description: 'To list and retrieve.', example: 'organization:read' }),
    write: t.text
      .optional()
      .meta({ description: 'To create, update and remove.', example: 'organization:write' }),
  }),
  naturalKey: t.pointers.optional().meta({
    description: 'Pointers that together name a record, to match one that was recreated by hand.',
    example: ['/name'],
  }),
  nameFrom: t.pointers.optional().meta({
    description: "Pointers tried in turn for a record's display name.",
    example: ['/name'],
  }),
  references: z
    .array(z.strictObject({ pointer: t.pointer, kind: z.enum(KINDS), target: t.pointer }))
    .optional()
    .meta({
      type: 'list of references',
      expected: 'a list of {pointer, kind, target}',
      description: 'Members of a body that name a record of another kind; replaces the list of the catalog.',
      example: [{ pointer: '/user/uuid', kind: 'members', target: '/user/uuid' }],
    }),
  listing: t.section('How a list of the kind answers.', {
    listKeys: t.texts.optional().meta({
      description: 'Envelope members that may hold the records, tried in turn. A bare array is always taken.',
      example: ['results'],
    }),
    acceptsQuery: z.boolean().optional().meta({
      description:
        'False where the list answers wrongly to any query string: the first request goes without.',
      example: true,
    }),
    query: z
      .record(z.string(), z.string())
      .optional()
      .meta({
        type: 'mapping of strings',
        expected: 'a mapping of names to strings (quote numbers)',
        description: 'Query parameters sent beside limit and offset.',
        example: { date_from: '-5y' },
      }),
    countTrusted: z.boolean().optional().meta({
      description: 'False where `count` is known to be wrong or missing.',
      example: true,
    }),
    needsRetrieve: z.boolean().optional().meta({
      description: 'True if a list row is a reduced form and only retrieve returns the complete record.',
      example: false,
    }),
  }),
  rate: t.section("Limits of the kind's requests, beside those of the key.", {
    perMinute: t.wholeNumber(0, 1_000_000).optional().meta({
      description: 'Most requests for the kind in any 60 seconds; 0 means no limit.',
      unit: 'requests a minute',
      example: 240,
    }),
    perHour: t.wholeNumber(0, 10_000_000).optional().meta({
      description: 'Most requests for the kind in any 60 minutes, counted across restarts; 0 means no limit.',
      unit: 'requests an hour',
      example: 1200,
    }),
  }),
  writePaths: z
    .strictObject({ create: t.pointer.optional(), update: t.pointer.optional() })
    .optional()
    .meta({
      type: 'mapping of paths',
      expected: 'a mapping of create and update to paths with :parameters',
      description:
        'Paths that take the same body, used in place of the documented ones; after a 404 or 405, or two 5xx, the documented one is tried. Parameters beside scope and id are fields of the body.',
      example: { create: '/api/projects/:team_id/batch_exports/' },
    }),
  fields: z
    .preprocess((given) => given ?? {}, z.record(z.string(), FIELD))
    .meta({
      description: 'Fields by name.',
      keyTitle: 'field',
      example: { name: { type: 'string', writable: true } },
    }),
});

/** Overrides by kind. */
export const KIND_OVERRIDES = z
  .preprocess((given) => given ?? {}, z.partialRecord(z.enum(KINDS), KIND))
  .meta({
    description:
      'Changes to what is known about each kind, over the profile: field roles, list shapes, permissions.',
    keyTitle: 'kind',
    example: { roles: { fields: { name: { type: 'string', writable: true } } } },
  });

/** A profile file (config/profiles), about one kind of deployment. */
export const PROFILE_OPTIONS = t.section('Profile of a deployment', {
  description: t.text
    .optional()
    .meta({ description: 'What the profile is for.', example: 'The documented interface.' }),
  keyPath: t.text.optional().meta({
    description: 'Path where any key can read its permissions: `doctor` requests it.',
    example: '/api/personal_api_keys/@current/',
  }),
  rate: t.section('Default rates.', {
    perMinute: RATE.perMinute.optional().meta({ description: 'As rate.perMinute.', example: 480 }),
    perHour: RATE.perHour.optional().meta({ description: 'As rate.perHour.', example: 4800 }),
    concurrency: RATE.concurrency.optional().meta({ description: 'As rate.concurrency.', example: 4 }),
  }),
  kinds: KIND_OVERRIDES,
});

export type FieldOverride = z.output<typeof FIELD>;
export type KindOverride = Partial<z.output<typeof KIND>>;
/** Overrides by kind; every part may be missing. */
export type KindOverrides = Readonly<Record<string, KindOverride | undefined>>;
export type Profile = Omit<z.output<typeof PROFILE_OPTIONS>, 'description' | 'kinds'> & {
  readonly name: string;
  readonly kinds: KindOverrides;
};
