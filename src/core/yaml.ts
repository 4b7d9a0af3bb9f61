/** YAML for people to review: stable, and exact for numbers that JavaScript would bend. */
import { Document, visit } from 'yaml';
import type { ScalarTag } from 'yaml';
import { isRawNumber } from './json.ts';
import type { JsonValue, RawNumber } from './json.ts';

const rawNumber: ScalarTag = {
  identify: (value) => isRawNumber(value),
  default: true,
  tag: 'tag:yaml.org,2002:float',
  // Only written, never matched on reading.
  test: /^\b\B$/,
  resolve: (text) => text,
  stringify: ({ value }) => (value as RawNumber).rawJSON,
};

/** One YAML document, keys in the order given. Numbers kept as text are written digit by digit. */
export function stringifyYaml(value: JsonValue): string {
  const document = new Document(value, {
    customTags: (tags) => [rawNumber, ...tags],
    aliasDuplicateObjects: false,
    compat: 'yaml-1.1',
  });
  visit(document, {
    Scalar: (_key, node) => {
      if (typeof node.value === 'string' && !isPlain(node.value)) node.type = 'QUOTE_DOUBLE';
    },
  });
  return document.toString({ lineWidth: 0 });
}

/** False for text that a reviewer could not see as it is, or that UTF-8 could not carry: quoted, it is escaped. */
function isPlain(text: string): boolean {
  // Control characters, bidirectional marks, line separators, byte order mark.
  return (
    text.isWellFormed() &&
    !/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/.test(text)
  );
}
