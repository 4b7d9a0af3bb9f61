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
  // A default that only lets the rest be checked is none for people.
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
