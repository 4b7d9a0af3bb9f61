/** What a tool returns: the document of a command, cut to what a model can read, as text and as data. */
import { type JsonObject, type JsonValue, isJsonObject, setOwn } from '../core/json.ts';
import { formatInteger } from '../core/wording.ts';
import { stringifyYaml } from '../core/yaml.ts';
import type { Printed } from './child-command.ts';

interface Answer {
  readonly [key: string]: unknown;
  readonly content: [{ readonly type: 'text'; readonly text: string }];
  readonly structuredContent: Record<string, unknown>;
}

/** Characters of a document as JSON: some 8,000 tokens. */
const MOST_CHARACTERS = 30_000;
/** Elements of each list, tried in this order until the document fits. */
const LENGTHS = [500, 200, 100, 50, 20, 10, 5, 2, 1];
/** Elements of a list of plain values, at least. */
const PLAIN_LENGTH = 100;
/** Characters of one text, likewise: the last one fits whatever it is, as good as always. */
const TEXTS = [4_000, 1_000, 200, 50];

/** @param narrow how to ask for less, as an instruction */
export function answerOf({ document, notes }: Printed, narrow: string): Answer {
  const { shown, cuts } = fitting(document);
  const whole = isJsonObject(shown) ? shown : { value: shown };
  const named = cuts.slice(0, CUTS_NAMED).join('; ');
  const more = cuts.length > CUTS_NAMED ? `; and ${formatInteger(cuts.length - CUTS_NAMED)} more` : '';
  const parts = [
    ...(notes === '' ? [] : [notes]),
    ...(cuts.length === 0 ? [] : [`Cut: ${named}${more}. ${narrow}`]),
    ...(typeof whole['cut'] === 'string'
      ? [`There are more rows than these (limit of ${whole['cut']}). ${narrow}`]
      : []),
  ];
  const head = parts.join('\n');
  return {
    content: [{ type: 'text', text: `${head}${head === '' ? '' : '\n\n'}${textOf(whole)}` }],
    structuredContent: parts.length === 0 ? whole : { ...whole, notes: head },
  };
}

/** YAML; a table as a line for each row, which is half as long. */
function textOf(document: JsonObject): string {
  const { columns, rows } = document;
  if (!Array.isArray(columns) || !Array.isArray(rows)) return stringifyYaml(document);
  return [columns, ...rows].map((row) => `${JSON.stringify(row)}\n`).join('');
}

const CUTS_NAMED = 5;

function fitting(document: JsonValue): { shown: JsonValue; cuts: readonly string[] } {
  let last: { shown: JsonValue; cuts: readonly string[] } = { shown: document, cuts: [] };
  if (sizeOf(document) <= MOST_CHARACTERS) return last;
  for (const text of TEXTS) {
    for (const length of LENGTHS) {
      const cuts: string[] = [];
      last = { shown: shortened(document, '', { length, text }, cuts), cuts };
      if (sizeOf(last.shown) <= MOST_CHARACTERS) return last;
    }
  }
  return { shown: null, cuts: ['all of it, it is too large'] };
}

function sizeOf(value: JsonValue): number {
  return JSON.stringify(value).length;
}

function shortened(
  value: JsonValue,
  path: string,
  most: { readonly length: number; readonly text: number },
  cuts: string[],
): JsonValue {
  if (typeof value === 'string') {
    if (value.length <= most.text) return value;
    cuts.push(`${path} shows ${most.text} of ${formatInteger(value.length)} characters`);
    return `${value.slice(0, most.text)}…`;
  }
  if (Array.isArray(value)) {
    // The columns of a row, the kinds of a run: short lists that the rest is understood by.
    const isPlain = value.every((each) => typeof each !== 'object' || each === null);
    const length = isPlain ? Math.max(most.length, PLAIN_LENGTH) : most.length;
    if (value.length > length) cuts.push(`${path} shows ${length} of ${formatInteger(value.length)}`);
    return value.slice(0, length).map((each, index) => shortened(each, `${path}[${index}]`, most, cuts));
  }
  if (!isJsonObject(value)) return value;
  const object: JsonObject = {};
  for (const [name, member] of Object.entries(value))
    setOwn(object, name, shortened(member, path === '' ? name : `${path}.${name}`, most, cuts));
  return object;
}
