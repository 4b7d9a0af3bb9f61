/** Import blocks for PostHog's Terraform provider (registry: PostHog/posthog), with what it does not cover as comments. */
import { createHash } from 'node:crypto';
import { definitionOf } from '../../catalog/catalog.ts';
import { isIdSecret } from '../../catalog/resource-definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { escapeControlCharacters } from '../../core/escape-control.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { parseLossless } from '../../core/json.ts';
import { plural } from '../../core/wording.ts';
import type { ExportRecord } from './documents.ts';

/** The resource of a kind and the parts of its import id, which slashes join. */
interface Covered {
  readonly type: string;
  readonly id: readonly ('organization_id' | 'role_id' | 'id')[];
}

const NONE = 'the provider has no resource for them';
const NO_PLUGINS = 'the provider manages Hog functions, and no plugins';
const ACTIVITY = 'not configuration';

/** The ids are those of the provider's documentation of each resource, under Import. It has no resource for other kinds. */
const RESOURCES: Readonly<Partial<Record<Kind, Covered | string>>> = {
  projects: { type: 'posthog_project', id: ['organization_id', 'id'] },
  roles: { type: 'posthog_role', id: ['organization_id', 'id'] },
  role_memberships: { type: 'posthog_role_membership', id: ['organization_id', 'role_id', 'id'] },
  members: { type: 'posthog_organization_member', id: ['organization_id', 'id'] },
  pipeline_destinations: NO_PLUGINS,
  pipeline_frontend_apps: NO_PLUGINS,
  pipeline_import_apps: NO_PLUGINS,
  pipeline_transformations: NO_PLUGINS,
  plugins: NO_PLUGINS,
  proxy_records: { type: 'posthog_proxy_record', id: ['organization_id', 'id'] },
  session_recordings: ACTIVITY,
  recording_sharing: ACTIVITY,
};

/** Numbers of records: import blocks, and comments for what the provider does not cover. */
export interface TerraformCounts {
  blocks: number;
  comments: number;
}

/** @param forNames the same records, read first: a name that several of a type have gets a part of the hash of the id */
export function* terraformImports(
  forNames: Iterable<ExportRecord>,
  records: Iterable<ExportRecord>,
  counts: TerraformCounts = { blocks: 0, comments: 0 },
): Generator<string> {
  const times = new Map<string, number>();
  for (const record of forNames) {
    const resource = RESOURCES[record.kind] ?? NONE;
    if (typeof resource === 'string') continue;
    const address = `${resource.type}.${identifier(record)}`;
    times.set(address, (times.get(address) ?? 0) + 1);
  }
  yield '# Import blocks for the Terraform provider PostHog/posthog (Terraform 1.5 or later).\n';
  yield '# `terraform plan -generate-config-out=generated.tf` writes the resources.\n';
  let last: Kind | null = null;
  let unnamed = 0;
  for (const record of records) {
    const resource = RESOURCES[record.kind] ?? NONE;
    if (record.kind !== last && unnamed > 0) yield `#   ${plural(unnamed, 'record')}\n`;
    if (record.kind !== last) unnamed = 0;
    if (record.kind !== last && typeof resource === 'string') yield `\n# ${record.kind}: ${resource}\n`;
    last = record.kind;
    counts[typeof resource === 'string' ? 'comments' : 'blocks'] += 1;
    if (resource === ACTIVITY) unnamed += 1;
    else if (typeof resource === 'string') yield `#   ${comment(record)}\n`;
    else yield importBlock(record, resource, times);
  }
  if (unnamed > 0) yield `#   ${plural(unnamed, 'record')}\n`;
}

function importBlock(
  record: ExportRecord,
  { type, id }: Covered,
  times: ReadonlyMap<string, number>,
): string {
  const plain = `${type}.${identifier(record)}`;
  const parts = id.map((part) => (part === 'id' ? record.id : (record.scope[part] ?? '')));
  const address = times.get(plain) === 1 && !/_[0-9a-f]{8}$/.test(plain) ? plain : `${plain}_${mark(parts)}`;
  return [
    '',
    `# ${comment(record)}`,
    'import {',
    `  to = ${address}`,
    `  id = ${quoted(parts.join('/'))}`,
    '}',
    '',
  ].join('\n');
}

function mark(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 8);
}

/** The record's name in ASCII letters, digits and underscores, beginning with a letter. */
function identifier(record: ExportRecord): string {
  const plain = nameOf(record)
    .normalize('NFKD')
    .replaceAll(/\p{M}+/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
    .slice(0, 60);
  if (plain === '') return 'unnamed';
  return /^[a-z]/.test(plain) ? plain : `n_${plain}`;
}

function nameOf({ kind, id, body }: ExportRecord): string {
  const value = parseLossless(body);
  for (const pointer of definitionOf(kind).nameFrom) {
    const name = resolvePointer(value, pointer);
    if (typeof name === 'string' && name !== '') return name;
  }
  return id;
}

function comment(record: ExportRecord): string {
  const name = escapeControlCharacters(nameOf(record));
  return isIdSecret(definitionOf(record.kind)) ? name : `${name} (${escapeControlCharacters(record.id)})`;
}

/** A quoted string of HCL, without templates. */
function quoted(text: string): string {
  return JSON.stringify(text).replaceAll(/[$%](?=\{)/g, (sign) => sign + sign);
}
