/** The catalog: every kind of the interface, parents before children. */
import { invites, members, roleMemberships, roles } from './access.ts';
import { batchExports } from './batch-exports.ts';
import {
  type Kind,
  type ResourceDefinition,
  type Scope,
  KINDS,
  SCOPE_KEYS,
  DEFAULT_LISTING,
} from './definition.ts';
import { action, verbs, volatile, owned } from './fields.ts';
import { domains, organizations } from './organizations.ts';
import {
  pipelineDestinations,
  pipelineFrontendApps,
  pipelineImportApps,
  pipelineTransformations,
  plugins,
} from './pipeline.ts';
import { PLAIN_RESTORE, neverRestored } from './restore-rules.ts';

// Session recordings and their sharing (interface.md: Session recording, Sharing configuration of a recording).

const RECORDING = { read: 'session_recording:read', write: 'session_recording:write' };

const recordingsPath = '/api/projects/:project_id/session_recordings/';

const sessionRecordings: ResourceDefinition = {
  kind: 'session_recordings',
  title: { one: 'session recording', many: 'session recordings' },
  path: recordingsPath,
  scope: ['project_id'],
  discovery: { from: 'projects' },
  reading: 'feed',
  idPath: ['id'],
  idType: 'string',
  idParameter: 'id',
  naturalKey: ['/id'],
  nameFrom: ['/person/name', '/distinct_id'],
  permission: { ...RECORDING, isDocumented: true },
  operations: verbs(recordingsPath, 'id', ['list', 'retrieve', 'remove'], RECORDING),
  hasDocumentedFields: true,
  fields: [
    owned('id', 'string', 'Identifier of the recording.'),
    owned('distinct_id', 'string', 'Identifier of the recorded user.'),
    volatile('viewed', 'boolean', "Whether the key's own user watched it."),
    owned('recording_duration', 'number', 'Length in seconds.'),
    owned('active_seconds', 'number', 'Seconds with activity.'),
    owned('inactive_seconds', 'number', 'Seconds without activity.'),
    owned('start_time', 'timestamp', 'When it begins.'),
    owned('end_time', 'timestamp', 'When it ends.'),
    owned('click_count', 'integer', 'Clicks.'),
    owned('keypress_count', 'integer', 'Key presses.'),
    owned('mouse_activity_count', 'integer', 'Mouse events.'),
    owned('console_log_count', 'integer', 'Console lines.'),
    owned('console_warn_count', 'integer', 'Console warnings.'),
    owned('console_error_count', 'integer', 'Console errors.'),
    owned('start_url', 'string', 'First page.'),
    owned('person', 'object', 'The recorded person: id, name, properties and more.'),
    owned('storage', 'string', 'Where the service keeps it.'),
    owned('snapshot_source', 'string', 'What recorded it.'),
    volatile('ongoing', 'boolean', 'Whether it is still being recorded.'),
  ],
  references: [],
  listing: DEFAULT_LISTING,
  family: null,
  restore: neverRestored('recordings are what users did: they cannot be created or changed'),
};

const sharingPath = '/api/projects/:project_id/session_recordings/:recording_id/sharing/';

const recordingSharing: ResourceDefinition = {
  kind: 'recording_sharing',
  title: { one: 'recording sharing', many: 'recording sharings' },
  path: sharingPath,
  // design.md, JSON documents: its scope is the project, its id the recording's.
  scope: ['project_id'],
  discovery: { from: 'session_recordings' },
  reading: 'each',
  idPath: [],
  idType: 'string',
  idParameter: 'recording_id',
  naturalKey: [],
  nameFrom: [],
  permission: {
    read: 'sharing_configuration:read',
    write: 'sharing_configuration:write',
    isDocumented: true,
  },
  operations: [
    {
      method: 'GET',
      path: sharingPath,
      role: 'retrieve',
      action: null,
      permission: 'sharing_configuration:read',
    },
  ],
  hasDocumentedFields: true,
  fields: [
    owned('created_at', 'timestamp', 'When sharing was set up.'),
    owned('enabled', 'boolean', 'Whether anybody with the link can watch.', { severity: 'critical' }),
    owned('access_token', 'string', 'The secret part of the link.', { isSecret: true, severity: 'high' }),
  ],
  references: [],
  listing: DEFAULT_LISTING,
  family: null,
  restore: neverRestored('the interface offers no way to write it'),
};

// Projects and proxy records (interface.md: path-only families). Their fields are not shown.

const projectsPath = '/api/organizations/:organization_id/projects/';

const projects: ResourceDefinition = {
  kind: 'projects',
  title: { one: 'project', many: 'projects' },
  path: projectsPath,
  scope: ['organization_id'],
  discovery: { from: 'organizations' },
  reading: 'list',
  idPath: ['id'],
  idType: 'integer',
  idParameter: 'id',
  naturalKey: ['/name'],
  nameFrom: ['/name'],
  // wire-notes.md, Errors: projects use project:*.
  permission: { read: 'project:read', write: 'project:write', isDocumented: false },
  operations: [
    ...verbs(projectsPath, 'id', ['list', 'create', 'retrieve', 'update', 'remove'], null),
    action('GET', projectsPath, ':id/activity/', null),
    action('GET', projectsPath, ':id/is_generating_demo_data/', null),
    action('PATCH', projectsPath, ':id/reset_token/', null),
  ],
  hasDocumentedFields: false,
  // Not documented by interface.md; wire-notes.md, Values and Secrets, names the ones that move or hold secrets.
  fields: [
    volatile('updated_at', 'timestamp', 'When the project last moved.'),
    volatile('live_events_token', 'string', 'Token that is new on every answer.', { isSecret: true }),
    owned('secret_api_token', 'string', 'Secret key of the project.', { isSecret: true, severity: 'high' }),
    owned('secret_api_token_backup', 'string', 'Previous secret key of the project.', {
      isSecret: true,
      severity: 'high',
    }),
    owned('slack_incoming_webhook', 'string', 'Address that accepts messages.', {
      isSecret: true,
      severity: 'high',
    }),
  ],
  references: [],
  listing: DEFAULT_LISTING,
  family: null,
  restore: { ...PLAIN_RESTORE, isRemovable: false },
};

const proxyRecordsPath = '/api/organizations/:organization_id/proxy_records/';

const proxyRecords: ResourceDefinition = {
  kind: 'proxy_records',
  title: { one: 'proxy record', many: 'proxy records' },
  path: proxyRecordsPath,
  scope: ['organization_id'],
  discovery: { from: 'organizations' },
  reading: 'list',
  idPath: ['id'],
  idType: 'uuid',
  idParameter: 'id',
  naturalKey: ['/domain'],
  nameFrom: ['/domain'],
  permission: { read: 'organization:read', write: 'organization:write', isDocumented: false },
  operations: verbs(proxyRecordsPath, 'id', ['list', 'create', 'retrieve', 'update', 'remove'], null),
  hasDocumentedFields: false,
  fields: [
    volatile('status', 'string', 'How far its set-up has come.'),
    volatile('message', 'string', 'What its set-up last said.'),
  ],
  references: [],
  listing: DEFAULT_LISTING,
  family: null,
  restore: PLAIN_RESTORE,
};

/** In the order in which they are read and restored (wire-notes.md, Restore). */
export const CATALOG: readonly ResourceDefinition[] = [
  organizations,
  projects,
  roles,
  roleMemberships,
  members,
  invites,
  domains,
  pipelineDestinations,
  pipelineFrontendApps,
  pipelineImportApps,
  pipelineTransformations,
  plugins,
  batchExports,
  proxyRecords,
  sessionRecordings,
  recordingSharing,
];

const BY_KIND: ReadonlyMap<Kind, ResourceDefinition> = new Map(CATALOG.map((row) => [row.kind, row]));

/** The row of a kind. Every `Kind` has one. */
export function definitionOf(kind: Kind): ResourceDefinition {
  const definition = BY_KIND.get(kind);
  if (definition === undefined) throw new Error(`the catalog has no row for ${kind}`);
  return definition;
}

export function isKind(name: string): name is Kind {
  return (KINDS as readonly string[]).includes(name);
}

/**
 * Fills a path of the catalog. Every value is percent-encoded, so an id with `/`, `%2F`, `..` or a space addresses
 * one record and nothing else.
 */
export function fillPath(path: string, values: Readonly<Record<string, string | undefined>>): string {
  const parts = partsOf(path);
  let filled = parts[0] ?? '';
  for (let at = 1; at < parts.length; at += 2) {
    const name = parts[at] ?? '';
    const value = values[name];
    if (value === undefined) throw new Error(`path ${path} needs ${name}`);
    filled += encodePathSegment(value) + (parts[at + 1] ?? '');
  }
  return filled;
}

const PARTS = new Map<string, readonly string[]>();

/** What stands in a path of the catalog, and the names of what it is filled with, in turn. Found once for each. */
function partsOf(path: string): readonly string[] {
  const known = PARTS.get(path);
  if (known !== undefined) return known;
  const parts = path.split(/:([a-z_]+)/);
  PARTS.set(path, parts);
  return parts;
}

/** Percent-encodes one path segment; `.` and `..` too, which URL parsers would otherwise resolve. */
export function encodePathSegment(value: string): string {
  if (/^[\w-]+$/.test(value)) return value;
  // A lone surrogate cannot be encoded in a URL; it becomes U+FFFD, as URL parsers do.
  const encoded = encodeURIComponent(value.toWellFormed());
  return encoded === '.' || encoded === '..' ? encoded.replaceAll('.', '%2E') : encoded;
}

/** A scope as text that is equal for equal scopes: JSON with the keys in `SCOPE_KEYS` order. */
export function scopeKey(scope: Scope): string {
  const ordered: Record<string, string> = {};
  for (const key of SCOPE_KEYS) {
    const value = scope[key];
    if (value !== undefined) ordered[key] = value;
  }
  return JSON.stringify(ordered);
}
