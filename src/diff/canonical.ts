/** One text per JSON value, whatever the order of its keys and the spelling of its numbers. */
import { hash } from 'node:crypto';
import { type JsonValue, isJsonObject, isRawNumber, sortedKeys } from '../core/json.ts';
import { canonicalNumber, numberText } from './name.ts';

type Piece = { readonly text: string } | { readonly value: JsonValue };

/** Deeper than any record is; what nests deeper is written without recursion, so that it cannot exhaust the stack. */
const MOST_RECURSION = 64;

/** Names of members as they are written: the same few hundred in every record. */
const writtenNames = new Map<string, string>();
const MOST_NAMES = 4096;

/**
 * The value as JSON with sorted keys (by code units) and canonical numbers: equal texts mean equal values and the other
 * way round, however deep it nests. Lone surrogates stay distinct (`JSON.stringify` escapes them).
 */
export function canonicalText(value: JsonValue): string {
  return written(value, 0);
}

function written(value: JsonValue | undefined, depth: number): string {
  if (value === undefined) return '';
  if (typeof value === 'string') return JSON.stringify(value);
  if (depth > MOST_RECURSION) return writtenFlat(value);
  if (Array.isArray(value)) {
    if (depth < PLAIN_DEPTH && isPlain(value, depth)) return JSON.stringify(value);
    let out = '[';
    for (let i = 0; i < value.length; i += 1) out += (i > 0 ? ',' : '') + written(value[i], depth + 1);
    return `${out}]`;
  }
  if (!isJsonObject(value)) return scalarText(value);
  let out = '{';
  for (const key of sortedKeys(value)) {
    out += (out === '{' ? '' : ',') + nameText(key) + written(value[key], depth + 1);
  }
  return `${out}}`;
}

/** Each such level is searched once more: lists of a record's members are no deeper. */
const PLAIN_DEPTH = 3;

/** True for lists, of lists, of what JSON writes in one way only: no numbers, and no members that have an order. */
function isPlain(list: readonly JsonValue[], depth: number): boolean {
  for (const element of list) {
    if (typeof element === 'string' || typeof element === 'boolean' || element === null) continue;
    if (!Array.isArray(element) || depth > MOST_RECURSION || !isPlain(element, depth + 1)) return false;
  }
  return true;
}

function nameText(name: string): string {
  const known = writtenNames.get(name);
  if (known !== undefined) return known;
  const text = `${JSON.stringify(name)}:`;
  if (writtenNames.size < MOST_NAMES) writtenNames.set(name, text);
  return text;
}

function writtenFlat(value: JsonValue): string {
  let out = '';
  const stack: Piece[] = [{ value }];
  for (let piece = stack.pop(); piece !== undefined; piece = stack.pop()) {
    if ('text' in piece) {
      out += piece.text;
    } else if (Array.isArray(piece.value)) {
      const elements = piece.value;
      out += '[';
      stack.push({ text: ']' });
      for (let i = elements.length - 1; i >= 0; i -= 1) {
        const element = elements[i];
        if (element !== undefined) stack.push({ value: element });
        if (i > 0) stack.push({ text: ',' });
      }
    } else if (isJsonObject(piece.value)) {
      const members = piece.value;
      const keys = sortedKeys(members);
      out += '{';
      stack.push({ text: '}' });
      for (let i = keys.length - 1; i >= 0; i -= 1) {
        const key = keys[i] ?? '';
        const member = members[key];
        if (member !== undefined) stack.push({ value: member });
        stack.push({ text: `${i > 0 ? ',' : ''}${nameText(key)}` });
      }
    } else {
      out += scalarText(piece.value);
    }
  }
  return out;
}

function scalarText(value: JsonValue): string {
  if (typeof value === 'number' || isRawNumber(value)) return canonicalNumber(numberText(value));
  return JSON.stringify(value);
}

/** SHA-256 (hex) of a value's canonical text; an absent value has a digest of its own. */
export function valueDigest(value: JsonValue | undefined): string {
  // No JSON text begins like this, so absent equals no value, null included.
  return hash('sha256', value === undefined ? '(absent)' : canonicalText(value), 'hex');
}
