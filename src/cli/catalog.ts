/** `tidemark catalog`: what is mirrored, compared and restorable. */
import { CATALOG } from '../catalog/catalog.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { NOT_MIRRORED } from '../catalog/not-mirrored.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { readLoadedConfig } from '../wire.ts';
import { print, type CommandContext, terminalWidth } from './context.ts';
import { renderTable } from '../report/table.ts';

export async function catalog(context: CommandContext): Promise<ExitCode> {
  const definitions = effectiveDefinitions(context);
  if (context.options.json === true) {
    await print(
      context,
      `${JSON.stringify({ schema: 'tidemark.catalog/1', kinds: definitions.map(kindDocument), not_mirrored: NOT_MIRRORED })}\n`,
    );
    return EXIT.done;
  }
  const table = renderTable(
    ['kind', 'below', 'read', 'permission', 'managed fields', 'restored by'],
    definitions.map((definition) => [
      definition.kind,
      definition.scope.map((key) => key.replace('_id', '')).join(', ') || '—',
      READING[definition.reading],
      definition.permission.read + (definition.permission.isDocumented ? '' : ' *'),
      managed(definition),
      writes(definition).join(', ') || 'nothing: never written',
    ]),
    [],
    { width: terminalWidth(context) },
  );
  const lines = [table, '', '* not documented by the API; observed in deployments', '', 'Not mirrored:'];
  for (const { method, action, reason } of NOT_MIRRORED)
    lines.push(`  ${method.padEnd(5)} ${action}: ${reason}`);
  await print(context, `${lines.join('\n')}\n`);
  return EXIT.done;
}

const READING = {
  list: 'completely in every run',
  feed: 'newest; completely on a cadence',
  each: 'one by one, in turns',
} as const;

/** The first source's definitions if there is a configuration; else the unchanged catalog. */
function effectiveDefinitions(context: CommandContext): readonly ResourceDefinition[] {
  try {
    return readLoadedConfig(context, context.options, 'unused').sources[0]?.definitions ?? CATALOG;
  } catch (error) {
    if (
      error instanceof TidemarkError &&
      error.code === 'config_missing' &&
      context.options.config === undefined
    )
      return CATALOG;
    throw error;
  }
}

function writes(definition: ResourceDefinition): string[] {
  const verbs = (['create', 'update'] as const).filter((role) => definition.operation(role) !== undefined);
  const actions = definition.operations
    .filter(({ action }) => action === 'pause' || action === 'unpause')
    .map(({ action }) => action ?? '');
  if (definition.reading !== 'list') return [];
  if (!definition.fields.some(({ isWritable }) => isWritable))
    return ['blocked until a profile names writable fields'];
  return [...verbs, ...actions];
}

function managed(definition: ResourceDefinition): string {
  const writable = definition.fields.filter(({ isWritable, isVolatile }) => isWritable && !isVolatile).length;
  if (definition.fields.length === 0) return 'not documented';
  return `${writable} of ${definition.fields.length}`;
}

function kindDocument(definition: ResourceDefinition): object {
  return {
    kind: definition.kind,
    path: definition.path,
    scope: definition.scope,
    reading: definition.reading,
    permission: definition.permission,
    operations: definition.operations,
    fields: definition.fields,
    has_documented_fields: definition.hasDocumentedFields,
  };
}
