/** Projects of an organization (interface.md: path-only families). */
import { DEFAULT_LISTING, defineKind } from '../definition.ts';
import { action, owned, verbs, volatile } from '../fields.ts';
import { PLAIN_RESTORE } from '../restore-rules.ts';

const projectsPath = '/api/organizations/:organization_id/projects/';

export const projects = defineKind({
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
  // Not documented in interface.md. wire-notes.md, Values and Secrets, names those that change or have secrets.
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
});
