/** JSON Schema of the configuration file, for completion and checks in editors. */
import * as z from 'zod';
import { OPTIONS } from './options.ts';
import { aboutOf, inner, isWrapper } from './schema.ts';

type JsonSchema = z.core.JSONSchema.BaseSchema;

/** `${VAR}` stands for any single value. */
const REFERENCE: JsonSchema = { type: 'string', pattern: '\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}' };

/** The schema of `tidemark.yaml`, JSON Schema draft 2020-12, with a description for every option. */
export function configJsonSchema(): object {
  const schema = z.toJSONSchema(OPTIONS, { io: 'input', override, unrepresentable: 'any' });
  return { title: 'Tidemark configuration', ...schema };
}

function override({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodType; jsonSchema: JsonSchema }): void {
  const { description, unit, example } = aboutOf(zodSchema);
  for (const key of Object.keys(aboutOf(zodSchema))) Reflect.deleteProperty(jsonSchema, key);
  if (description !== undefined)
    jsonSchema.description = `${description}${unit === undefined ? '' : ` Unit: ${unit}.`}`;
  if (example !== undefined) jsonSchema.examples = [example];
  if (jsonSchema.pattern !== undefined) jsonSchema.pattern = portablePattern(jsonSchema.pattern);
  // Only lets the rest be checked (`missing`): not a default for people.
  if (zodSchema instanceof z.ZodDefault) delete jsonSchema.default;
  if (zodSchema instanceof z.ZodObject) {
    // A key with nothing after it is an empty section.
    Object.assign(jsonSchema, { type: ['object', 'null'] });
    const required = (jsonSchema.required ?? []).filter(
      (key) => !(zodSchema.shape[key] instanceof z.ZodPipe),
    );
    if (required.length > 0) jsonSchema.required = required;
    else delete jsonSchema.required;
  }
  const isSections = zodSchema instanceof z.ZodArray && inner(zodSchema.element) instanceof z.ZodObject;
  const isFreeText =
    isSections || (jsonSchema.type === 'string' && !('pattern' in jsonSchema) && !('enum' in jsonSchema));
  const isValue = ['string', 'number', 'integer', 'boolean', 'array'].includes(String(jsonSchema.type));
  if (
    !isValue ||
    isFreeText ||
    'const' in jsonSchema ||
    isWrapper(zodSchema) ||
    zodSchema instanceof z.ZodPipe
  )
    return;
  const own = { ...jsonSchema };
  for (const key of Object.keys(own)) Reflect.deleteProperty(jsonSchema, key);
  jsonSchema.anyOf = [own, { ...REFERENCE }];
}

/** Replaces `\p{C}` and `\p{Cc}` in character classes: the control characters, in a form that every validator can read. */
const CONTROL_CHARACTERS = String.raw`\x00-\x1f\x7f-\x9f`;

/**
 * The pattern without what many validators refuse or misread (JSON Schema 2020-12, 6.4): `\p{…}` in Python, and
 * lookarounds in Go. It accepts everything that the given one accepts, and some more: `config check` finds the rest.
 */
function portablePattern(pattern: string): string {
  const parts = pattern.replaceAll(/\\p\{Cc?\}/g, () => CONTROL_CHARACTERS).match(PATTERN_PARTS) ?? [];
  let portable = '';
  /** The number of open groups, counted from a lookaround; 0 outside of one. */
  let depth = 0;
  for (const part of parts) {
    const isLookaround = LOOKAROUND.test(part);
    if (isLookaround || (depth > 0 && part.startsWith('('))) depth += 1;
    else if (depth > 0) depth -= part === ')' ? 1 : 0;
    else portable += part;
  }
  return portable;
}

/** Escaped characters, classes, beginnings of groups, and any other character. */
const PATTERN_PARTS = /\\.|\[(?:\\.|[^\]\\])*\]|\((?:\?(?:[:=!]|<[=!]))?|./gs;
const LOOKAROUND = /^\(\?<?[=!]$/;
