/** JSON Schema of the configuration file, for completion and checks in editors. */
import * as z from 'zod';
import type { Option, OptionNode } from './option.ts';
import { OPTIONS } from './options.ts';

type JsonSchema = Record<string, unknown>;

const DRAFT = 'https://json-schema.org/draft/2020-12/schema';

/** `${VAR}` stands for any single value. */
const REFERENCE = { type: 'string', pattern: '\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}' };

/** The schema of `tidemark.yaml`, JSON Schema draft 2020-12, with a description for every option. */
export function configJsonSchema(): object {
  return { $schema: DRAFT, title: OPTIONS.description, ...schemaOf(OPTIONS) };
}

function schemaOf(node: OptionNode): JsonSchema {
  if (node.node === 'option') return optionSchema(node as Option<unknown>);
  const { description } = node;
  if (node.node === 'list') return { type: ['array', 'null'], description, items: schemaOf(node.of) };
  if (node.node === 'map') {
    const of = schemaOf(node.of);
    const names = node.keys;
    if (names === null) return { type: ['object', 'null'], description, additionalProperties: of };
    return {
      type: ['object', 'null'],
      description,
      properties: Object.fromEntries(names.map((name) => [name, of])),
      additionalProperties: false,
    };
  }
  return {
    // A key with nothing after it is an empty section.
    type: ['object', 'null'],
    description,
    properties: Object.fromEntries(
      Object.entries(node.options).map(([name, child]) => [name, schemaOf(child)]),
    ),
    additionalProperties: false,
  };
}

function optionSchema(option: Option<unknown>): JsonSchema {
  const value: JsonSchema = { ...z.toJSONSchema(option.value.schema, { io: 'input' }) };
  Reflect.deleteProperty(value, '$schema');
  const unit = option.unit === null ? '' : ` Unit: ${option.unit}.`;
  return {
    ...withReference(value),
    description: `${option.description}${unit}`,
    ...(option.default === undefined ? {} : { default: option.default }),
    examples: [option.example],
  };
}

function withReference(value: JsonSchema): JsonSchema {
  const isFreeText = value['type'] === 'string' && !('pattern' in value) && !('enum' in value);
  return isFreeText ? value : { anyOf: [value, REFERENCE] };
}
