/** The five component families (interface.md: Pipeline component; Endpoints: Pipeline …, Path-only families). */
import { type FieldDefinition, type Operation, defineKind, DEFAULT_LISTING } from '../definition.ts';
import { action, owned, verbs, volatile, writable } from '../fields.ts';
import { PLAIN_RESTORE } from '../restore-rules.ts';

const PLUGIN = { read: 'plugin:read', write: 'plugin:write' };

const componentFields: readonly FieldDefinition[] = [
  owned('id', 'integer', 'Identifier of the component.'),
  writable('plugin_type', 'string', 'How its code is provided.', { severity: 'high' }),
  writable('name', 'string', 'Display name.', { severity: 'low' }),
  writable('description', 'string', 'What it does, for people.', { severity: 'low' }),
  owned('url', 'string', 'Where its code comes from.', { severity: 'high' }),
  writable('icon', 'string', 'Picture shown beside the name.', { severity: 'low' }),
  writable('config_schema', 'any', 'Settings that it asks for.'),
  writable('tag', 'string', 'Version in use.', { severity: 'high' }),
  volatile('latest_tag', 'string', 'Newest version known to the service.'),
  writable('is_global', 'boolean', 'Whether other organizations can use it.', { severity: 'critical' }),
  owned('organization_id', 'uuid', 'Organization that owns it.'),
  // A copy of the organization's name, so that renaming the organization does not change every component.
  volatile(
    'organization_name',
    'string',
    'Name of the organization that owns it, as the organization has it.',
  ),
  writable('capabilities', 'any', 'What its code can do.', { severity: 'high' }),
  // Writable by the API, yet the service changes it without a request (wire-notes.md, Values): not compared, not
  // restored.
  { ...volatile('metrics', 'any', 'Figures that it reports.'), isWritable: true },
  writable('public_jobs', 'any', 'Jobs that people can start.'),
  owned('svc_function_migration_available', 'string', 'Whether it can be moved to the successor.'),
];

/** The operations that every family has, with permissions only if interface.md lists them. */
function familyOperations(path: string, permission: typeof PLUGIN | null): readonly Operation[] {
  return [
    ...verbs(path, 'id', ['list', 'create', 'retrieve', 'update', 'remove'], permission),
    action('GET', path, ':id/check_for_updates/', null),
    action('GET', path, ':id/source/', null),
    action('PATCH', path, ':id/update_source/', null),
    action('POST', path, ':id/upgrade/', null),
    action('GET', path, 'activity/', null),
    action('GET', path, 'exports_unsubscribe_configs/', null),
    action('GET', path, 'repository/', null),
    action('GET', path, 'unused/', null),
  ];
}

function family<const Name extends string>(
  kind: Name,
  one: string,
  many: string,
  hasDocumentedFields: boolean,
) {
  const path = `/api/organizations/:organization_id/${kind}/`;
  return defineKind({
    kind,
    title: { one, many },
    path,
    scope: ['organization_id'],
    discovery: { from: 'organizations' },
    reading: 'list',
    idPath: ['id'],
    idType: 'integer',
    idParameter: 'id',
    naturalKey: ['/name'],
    nameFrom: ['/name', '/url'],
    permission: { ...PLUGIN, isDocumented: hasDocumentedFields },
    operations: familyOperations(path, hasDocumentedFields ? PLUGIN : null),
    // interface.md, Resources, has one table of fields for all five families, but Open points retracts it for three of
    // them. For those the fields only define columns, and nothing is writable without a profile.
    hasDocumentedFields,
    fields: hasDocumentedFields
      ? componentFields
      : componentFields.map((field) => ({ ...field, isWritable: false })),
    references: [],
    listing: DEFAULT_LISTING,
    family: 'components',
    restore: {
      ...PLAIN_RESTORE,
      owner: '/organization_id',
      lacks:
        'the API offers only the form of its settings (config_schema): enter them by hand, and check that the component works',
    },
  });
}

export const pipelineDestinations = family(
  'pipeline_destinations',
  'pipeline destination',
  'pipeline destinations',
  true,
);
export const pipelineFrontendApps = family('pipeline_frontend_apps', 'frontend app', 'frontend apps', true);
export const pipelineImportApps = family('pipeline_import_apps', 'import app', 'import apps', false);
export const pipelineTransformations = family(
  'pipeline_transformations',
  'transformation',
  'transformations',
  false,
);
export const plugins = {
  ...family('plugins', 'plugin', 'plugins', false),
  isUnionOfFamily: true,
} as const;
