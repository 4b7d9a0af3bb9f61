/** `tidemark catalog`: what is mirrored, compared and restorable. */
import { CATALOG } from '../catalog/catalog.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { NOT_MIRRORED } from '../catalog/not-mirrored.ts';
import type { SourceConfig } from '../config/config.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { readLoadedConfig } from '../wire.ts';
import { print, printJson, type CommandContext, terminalWidth } from './context.ts';
import { renderTable } from '../report/table.ts';

export async function catalog(context: CommandContext): Promise<ExitCode> {
  const definitions = firstSource(context)?.definitions ?? CATALOG;
  if (context.options.json === true) {
    const kinds = definitions.map(kindDocument);
    await printJson(context, { schema: 'tidemark.catalog/1', kinds, not_mirrored: NOT_MIRRORED });
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

/** The first configured source, whose definitions a command about kinds uses; undefined without a configuration. Needs no key. */
export function firstSource(context: CommandContext): SourceConfig | undefined {
  try {
    return readLoadedConfig(context, context.options, 'unused').sources[0];
  } catch (error) {
    const isMissing = error instanceof TidemarkError && error.code === 'config_missing';
    if (isMissing && context.options.config === undefined) return undefined;
    throw error;
  }
}

function writes(definition: ResourceDefinition): string[] {
  const verbs = (['create', 'update'] as const).filter((role) => definition.operation(role) !== undefined);
  const actions = definition.operations.flatMap(({ action }) =>
    action === 'pause' || action === 'unpause' ? action : [],
  );
  if (definition.reading !== 'list') return [];
  if (!definition.fields.some(({ isWritable }) => isWritable))
    return ['blocked until a profile names writable fields'];
  return [...verbs, ...actions];
}

function managed({ fields }: ResourceDefinition): string {
  if (fields.length === 0) return 'not documented';
  return `${fields.filter(({ isWritable, isVolatile }) => isWritable && !isVolatile).length} of ${fields.length}`;
}

function kindDocument(definition: ResourceDefinition): object {
  const { kind, path, scope, reading, permission, operations, fields, hasDocumentedFields } = definition;
  return {
    ...{ kind, path, scope, reading, permission, operations, fields },
    has_documented_fields: hasDocumentedFields,
  };
}
