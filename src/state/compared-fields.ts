/** `--field`: a pointer that names nothing anywhere would compare nothing, and look like "no differences". */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import { suggest } from '../core/suggest.ts';
import type { DiffDocument } from '../diff/change.ts';
import type { ComparisonMode } from '../diff/compare.ts';
import { resolvePointer, splitPointer } from '../diff/pointer.ts';
import type { StateFilter } from './filter.ts';
import type { LoadedState } from './state.ts';

interface FieldsAsked {
  readonly fields: readonly string[];
  readonly mode: ComparisonMode;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly states: readonly LoadedState[];
  readonly parts: readonly StateFilter[];
}

/**
 * Looks whether any of the named fields can have been compared: one that changed was, one that the catalog knows is,
 * unless the mode leaves it out; for any other the records are searched, until one has it.
 * @throws TidemarkError `not_found` when none of them was
 */
export function requireComparedFields(document: DiffDocument, asked: FieldsAsked): void {
  const { fields, mode, definitions } = asked;
  if (fields.length === 0 || document.changes.length > 0) return;
  const seen = new Set<Kind>();
  const known = new Set<string>();
  const left: string[] = [];
  for (const kind of kindsOf(asked)) {
    seen.add(kind);
    for (const field of definitions(kind).fields) {
      known.add(`/${field.name}`);
      const isNamed = fields.some((pointer) => splitPointer(pointer)[0] === field.name);
      if (!isNamed) continue;
      if (mode === 'all' || (!field.isVolatile && (mode === 'default' || field.isWritable))) return;
      left.push(`/${field.name}`);
    }
  }
  const [excluded] = left;
  if (excluded !== undefined) {
    throw nothing(
      `${excluded} ${mode === 'managed' ? 'is not managed' : 'changes by itself'}`,
      mode === 'managed' ? 'leave --managed-only out to compare it' : 'add --all to compare it',
    );
  }
  // A field that the catalog does not know is server-owned, so only a wider mode compares it.
  if (mode !== 'managed' && isAnywhere(asked)) return;
  const near = suggest(fields[0] ?? '', known);
  throw nothing(
    `no record has ${fields.join(' or ')}${near === undefined ? '' : `; did you mean ${near}?`}`,
    `fields are named by JSON pointers, like --field /destination/type${seen.size === 1 ? `; \`tidemark show ${[...seen][0] ?? ''} ID\` shows a record` : ''}`,
  );
}

function nothing(reason: string, hint: string): TidemarkError {
  return new TidemarkError('not_found', `nothing was compared: ${reason}`, { hint });
}

function kindsOf({ states, parts }: FieldsAsked): Set<Kind> {
  const kinds = new Set(states.flatMap((state) => state.collections().map(({ kind }) => kind)));
  return new Set([...kinds].filter((kind) => parts.some((part) => part.kinds?.includes(kind) !== false)));
}

function isAnywhere({ fields, states, parts }: FieldsAsked): boolean {
  for (const state of states) {
    for (const part of parts) {
      for (const { body } of state.records(part)) {
        const value = parseLossless(body);
        if (fields.some((pointer) => resolvePointer(value, pointer) !== undefined)) return true;
      }
    }
  }
  return false;
}
