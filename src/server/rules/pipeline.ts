/**
 * Pipeline components (interface.md: Pipeline component). One row serves several lists (wire-notes.md, Lists): `plugins`
 * shows every component of the organization, a family those that were created through it, and both show global ones of
 * other organizations.
 */
import type { Kind } from '../../catalog/definition.ts';
import { pipelineDestinations as documented } from '../../catalog/pipeline.ts';
import type { JsonObject } from '../../core/json.ts';
import type { KindRules } from './kind-rules.ts';
import { acceptBody, type RequestRules } from './request-rules.ts';

// interface.md shows no payload for three of the families: they take the fields of the documented ones.
const request: RequestRules = {
  fields: documented.fields.filter((field) => field.isWritable),
  required: ['plugin_type'],
  notNull: ['is_global'],
  checks: {},
};

function componentRules(kind: Kind, family: Omit<NonNullable<KindRules['view']>, 'table'>): KindRules {
  return {
    order: { by: 'creation' },
    request,
    view: { table: 'components', ...family },
    isShared: (body) => body['is_global'] === true,
    create: (transaction, scope, accepted) => {
      const organizationId = scope.organization_id ?? '';
      const organization = transaction.body('organizations', {}, organizationId);
      const body: JsonObject = {
        id: transaction.nextNumber('components'),
        plugin_type: accepted['plugin_type'] ?? '',
        name: accepted['name'] ?? null,
        description: accepted['description'] ?? null,
        url: null,
        icon: accepted['icon'] ?? null,
        config_schema: accepted['config_schema'] ?? {},
        tag: accepted['tag'] ?? null,
        latest_tag: accepted['tag'] ?? null,
        is_global: accepted['is_global'] ?? false,
        organization_id: organizationId,
        organization_name: organization?.['name'] ?? null,
        capabilities: accepted['capabilities'] ?? {},
        metrics: accepted['metrics'] ?? {},
        public_jobs: accepted['public_jobs'] ?? {},
        svc_function_migration_available: 'false',
      };
      // Null and absent differ: a field that was sent as null stays null, also where the default is an empty object.
      return { body: { ...body, ...accepted }, note: family.note ?? {} };
    },
    update: (_transaction, target, accepted) => ({ ...target.body, ...accepted }),
    recordActions: {
      update_source: (transaction, target, body) => {
        const accepted = acceptBody(request, body, 'update');
        transaction.save(kind, target.scope, { ...target.body, ...accepted }, target.note);
        return 'nothing';
      },
      upgrade: (transaction, target, body) => {
        acceptBody(request, body, 'update');
        const latest = target.body['latest_tag'];
        if (typeof latest === 'string') {
          transaction.save(kind, target.scope, { ...target.body, tag: latest }, target.note);
        }
        return 'nothing';
      },
    },
  };
}

function familyRules(kind: Kind): KindRules {
  return componentRules(kind, { note: { family: kind }, shows: (note) => note.family === kind });
}

export const pipelineDestinations = familyRules('pipeline_destinations');
export const pipelineFrontendApps = familyRules('pipeline_frontend_apps');
export const pipelineImportApps = familyRules('pipeline_import_apps');
export const pipelineTransformations = familyRules('pipeline_transformations');
export const plugins = componentRules('plugins', { shows: () => true });
