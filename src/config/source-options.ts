/** `sources[]`: the options of one source. */
import * as z from 'zod';
import { KINDS } from '../catalog/kinds.ts';
import { GIT } from './git.ts';
import { KIND_OVERRIDES, RATE } from './override-options.ts';
import * as t from './schema.ts';
import { section } from './schema.ts';

const FROM_PROFILE = 'from the profile';

/** YAML reads an id of digits as a number, and `true` as a boolean: both are converted to text. */
const MATCHED = z.union([t.text, z.int().transform(String), z.boolean().transform(String)]);

/** Missing and empty values are accepted here: `secretRules` reports them, and the other secrets stay valid. */
const SECRET_VALUE = z
  .union([z.string(), z.strictObject({ file: z.string().optional() })])
  .meta({ isSecret: true, expected: '${VARIABLE} or {file: PATH}' });

const SECRETS = z
  .partialRecord(
    z.enum(KINDS),
    z.array(
      z.strictObject({
        match: z.record(t.text, MATCHED).optional(),
        values: z.record(t.pointer, SECRET_VALUE).meta({
          expected: 'a mapping of JSON pointers to ${VARIABLE} or {file: PATH}',
        }),
      }),
    ),
  )
  .meta({
    type: 'mapping by kind',
    keyTitle: 'kind',
    expected:
      'a mapping of kinds to lists of {match, values}: match a mapping of fields to texts (left out: every record), ' +
      'values a mapping of JSON pointers to ${VARIABLE} or {file: PATH}',
  });

export const SOURCE = section('One remote service.', {
  name: t.name.prefault('default').meta({
    description: 'Name of the source in commands and in the mirror; unique.',
    example: 'production',
  }),
  baseUrl: t.baseUrl.optional().meta({
    description: 'Address of the service, with a path prefix where it has one. Required.',
    example: 'https://svc.example.com',
  }),
  apiKey: t.secret.optional().meta({
    description: 'Personal API key. Give it by reference, as ${VAR}. This or apiKeyFile is required.',
    example: '${SVC_API_KEY}',
  }),
  apiKeyFile: t.path.optional().meta({
    description: 'File that holds the key, e.g. a container secret; instead of apiKey.',
    example: '/run/secrets/svc',
  }),
  profile: t.text.prefault('svc').meta({
    description: 'What is known about the deployment: a name under config/profiles, or the path of a file.',
    example: 'svc',
  }),
  organizations: t.idsOrAll.prefault('all').meta({
    description: 'Organizations to mirror: all that are visible to the key, or a list of ids.',
    example: 'all',
  }),
  projects: t.idsOrAll.prefault('all').meta({
    description: 'Projects whose recordings are mirrored: all, or a list of ids.',
    example: 'all',
  }),
  kinds: section('Which kinds are mirrored: all, only those of include, or all but those of exclude.', {
    include: t
      .choices(KINDS, 'a kind')
      .optional()
      .meta({
        description:
          'Mirror these kinds only, and the kinds that lead to them: organizations for members, roles for role_memberships.',
        example: ['organizations', 'members', 'batch_exports'],
      }),
    exclude: t
      .choices(KINDS, 'a kind')
      .optional()
      .meta({
        description:
          'Mirror all kinds but these and what only they lead to: without roles there are no role_memberships.',
        example: ['session_recordings', 'recording_sharing'],
      }),
  }),
  rate: section('Limits on requests to the service, per key. Bursts are allowed within the window.', {
    perMinute: RATE.perMinute.prefault(480).meta({
      defaultNote: FROM_PROFILE,
      unit: 'requests a minute',
      description: 'Most requests in any 60 seconds; 0 means no limit.',
      example: 480,
    }),
    perHour: RATE.perHour.prefault(4800).meta({
      defaultNote: FROM_PROFILE,
      unit: 'requests an hour',
      description: 'Most requests in any 60 minutes, counted across restarts; 0 means no limit.',
      example: 4800,
    }),
    concurrency: RATE.concurrency.prefault(4).meta({
      defaultNote: FROM_PROFILE,
      unit: 'requests',
      description: 'Most requests under way at once.',
      example: 4,
    }),
  }),
  pageSize: t.wholeNumber(1, 10_000).prefault(500).meta({
    unit: 'records',
    description: 'Page size to request. The service may return fewer; it is halved after timeouts.',
    example: 500,
  }),
  retry: section('What happens when a request fails.', {
    attempts: t.wholeNumber(1, 20).prefault(5).meta({
      unit: 'requests',
      description: 'Most attempts of one request, the first included; 1 means no retry.',
      example: 5,
    }),
    maxWaitSeconds: t.wholeNumber(0, 86_400).prefault(300).meta({
      unit: 'seconds',
      description:
        'Longest wait that the service, or rate.perHour, may ask for; beyond it the collection fails for this run, and the next one reads it first among lists of the same depth.',
      example: 300,
    }),
  }),
  sync: section('How a sync is bounded.', {
    maxDuration: t.duration.prefault('24h').meta({
      description:
        'Longest time that one sync may take; 0s disables the limit. A sync that exceeds it keeps nothing of that run, so set it well above your longest sync: a first one, or one with sharingPerRun: all, may take hours within rate.perMinute. A sync that receives nothing for 15 min, and does not wait for a rate, is given up by the daemon in any case.',
      example: '24h',
    }),
  }),
  recordings: section('Session recordings, which are many.', {
    sharingPerRun: z
      .union([z.literal('all'), t.wholeNumber(0, 10_000_000)])
      .prefault(200)
      .meta({
        type: 'whole number or `all`',
        expected: '"all" or a whole number from 0 to 10000000',
        unit: 'recordings a run',
        description:
          'Recordings whose sharing is read in one run, a request each, of all projects together; 0 is off, all is every one.',
        example: 200,
      }),
    fullSweepEvery: t.duration.prefault('24h').meta({
      description: 'How often the complete list is read; other runs read from the newest recording on.',
      example: '24h',
    }),
  }),
  removals: section('When a record that is missing from a completely read list counts as removed.', {
    maxRecords: t.wholeNumber(0, 10_000_000).prefault(10).meta({
      unit: 'records',
      description:
        'Removals of one collection in one run beyond this and beyond maxShare are held, and those of a collection of which all records are missing. Each collection counts alone: many short ones may each lose a few, and drift names them all. What is below a missing record is removed with it, without a check of its own; if more is below the missing records of a collection than this, and than maxShare of all records of the source, their removal is held.',
      example: 10,
    }),
    maxShare: t.share.prefault(0.1).meta({
      unit: 'share of the collection',
      description: 'Removals beyond this share of the collection and beyond maxRecords are held.',
      example: 0.1,
    }),
    confirmAfter: t.duration.prefault('1h').meta({
      description: 'Held removals are accepted when a run at least this much later finds the same.',
      example: '1h',
    }),
  }),
  restore: section('What a restore may do at most, and whom it leaves alone.', {
    maxShare: t.share.prefault(0.3).meta({
      unit: 'share of the records of a kind',
      description:
        'A plan that changes, or removes, more than this share of a kind is refused; --max-share raises it.',
      example: 0.3,
    }),
    minRecords: t.wholeNumber(1, 10_000_000).prefault(10).meta({
      unit: 'records',
      description: 'Kinds with fewer live records have no such limit.',
      example: 10,
    }),
    maxAge: t.duration.prefault('24h').meta({
      description:
        'Oldest state that a restore without FROM, or from latest, restores; 0s disables the limit. A state named by run, snapshot or time may have any age.',
      example: '24h',
    }),
    ownUser: t.text.optional().meta({
      description:
        "The key's own user, who is never changed: uuid or e-mail address as in members. Without it every member of that user's level is left alone.",
      example: 'ops@example.com',
    }),
  }),
  redact: z.boolean().prefault(false).meta({
    description:
      'Keeps secrets that the service sends in clear out of the mirror: a fingerprint is stored instead, by which a diff still detects a change. A restore then needs their values under secrets. History from before keeps the values until it is forgotten.',
    example: true,
  }),
  secrets: SECRETS.prefault({}).meta({
    isSecret: true,
    description:
      'Values that the service never shows, for records that a restore creates again: by kind a list of {match, values}. match names fields with the texts that must be there (left out: every record); the first that fits and has the place wins. values are JSON pointers with ${VARIABLE} or {file: PATH}; what is not set blocks the steps that need it, nothing else.',
    example: {
      batch_exports: [
        {
          match: { name: 'Nightly S3' },
          values: { '/destination/config/aws_secret_access_key': '${NIGHTLY_S3_SECRET}' },
        },
      ],
    },
  }),
  git: GIT,
  definitions: KIND_OVERRIDES,
});
