/**
 * `redact: true`: secrets that the service returns in clear text are not stored in the mirror. A keyed fingerprint is
 * stored instead, so that a diff can detect a change. The key is in the mirror, so that nobody without it can find a
 * short secret by trying values. A fingerprint counts as masked (`catalog/masks.ts`): a restore never sends it.
 */
import { createHmac } from 'node:crypto';
import { hasCertainSecret, isMask, maySecretsBeIn } from '../catalog/masks.ts';
import { isHeaderTuple, isSecretName, isSecretPair, isSecretVariable } from '../catalog/named-secrets.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { volatileFields } from '../catalog/volatile-names.ts';
import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  parseLossless,
  replaceValues,
  setOwn,
} from '../core/json.ts';
import { scanRecord, type ScannedRecord } from '../core/json-scan.ts';
import { canonicalText, valueDigest } from '../diff/canonical.ts';
import { isAt, resolvePointer, splitPointer } from '../core/json-pointer.ts';

export interface Redaction {
  /**
   * The JSON text of a record with every clear-text secret replaced; the same string if it has none.
   * @param seen called for each secret, with the JSON texts of fingerprint and secret
   */
  text(
    definition: ResourceDefinition,
    text: string,
    seen?: (fingerprint: string, secret: string) => void,
  ): string;
  /** The same for a scanned record. Its id stays, but its hash and text are without secrets. */
  record(definition: ResourceDefinition, record: ScannedRecord): ScannedRecord;
}

const FINGERPRINT = /^\[redacted:[0-9a-f]{16}\]$/;

/** True for a fingerprint that the mirror has instead of a secret. Two fingerprints differ if the secrets do. */
export function isRedacted(text: string): boolean {
  return FINGERPRINT.test(text);
}

/** Identifies the key of fingerprints without revealing it. */
export function fingerprintsName(key: Uint8Array): string {
  return createHmac('sha256', key).update('fingerprints').digest('hex').slice(0, 16);
}

/**
 * What counts as secret: the fields and places named in catalog, profile and configuration; by their names, members
 * below the top level and undocumented ones at the top; and texts and names of members with a secret in a URL or
 * connection string, of which the entire text is replaced. Null, the empty text, masked values and the id are kept.
 * @param key that of the mirror (`fingerprintKey`)
 */
export function redactionWith(key: Uint8Array): Redaction {
  const namesJudged = new Map<string, boolean>();
  const isNamedSo = (name: string): boolean => {
    const known = namesJudged.get(name) ?? isSecretName(name);
    namesJudged.set(name, known);
    return known;
  };
  // Kinds of a family have the same records, so fingerprints use the family.
  const fingerprint = (
    { kind, family }: ResourceDefinition,
    field: string | undefined,
    valueText: string,
  ): string => {
    const parts = [family ?? kind, field, valueDigest(parseLossless(valueText))];
    const digest = createHmac('sha256', key).update(JSON.stringify(parts)).digest('hex');
    return JSON.stringify(`[redacted:${digest.slice(0, 16)}]`);
  };
  const textOf: Redaction['text'] = (definition, text, seen) => {
    const { idPath, fieldsByName, secretPlaces } = definition;
    const replaced = (field: string | undefined, secret: string): string => {
      const mark = fingerprint(definition, field, secret);
      seen?.(mark, secret);
      return mark;
    };
    let pair = '';
    let tuple = '';
    const value = (path: readonly string[], valueText: () => string): string | null => {
      const isPlace = secretPlaces.some((place) => isAt(place, path));
      const name = path.at(-1) ?? '';
      const isByName =
        (path.length > 1 || !fieldsByName.has(name)) &&
        (isNamedSo(name) ||
          (name === 'value' && pair === path.slice(0, -1).join('/')) ||
          (name === '1' && tuple === path.slice(0, -1).join('/')));
      if (!isPlace && !isByName) {
        const whole = valueText();
        if (isPairText(whole, isNamedSo)) pair = path.join('/');
        if (isTupleText(whole)) tuple = path.join('/');
        return isWithUrlSecret(whole) ? replaced(path[0], whole) : null;
      }
      if (isAt(idPath, path)) return null;
      const whole = valueText();
      return isSecretValue(whole, isPlace) ? replaced(path[0], whole) : null;
    };
    const name = (path: readonly string[]): string | null => {
      const own = path.at(-1) ?? '';
      if (!maySecretsBeIn(own) || !hasCertainSecret(own)) return null;
      return replaced(path.length > 1 ? path[0] : undefined, JSON.stringify(own));
    };
    return replaceValues(text, value, name);
  };
  return {
    text: textOf,
    record: (definition, record) => {
      const text = textOf(definition, record.text);
      if (text === record.text) return record;
      const shape = { idPath: definition.idPath, volatile: volatileFields(definition) };
      return { ...scanRecord(text, shape), id: record.id };
    },
  };
}

/** The same for a value at an RFC 6901 pointer of a record of the kind. */
export function redactedValues(
  key: Uint8Array,
  definitions: (kind: Kind) => ResourceDefinition,
): (kind: Kind, pointer: string, value: JsonValue) => JsonValue {
  const redaction = redactionWith(key);
  return (kind, pointer, value) => {
    const body = splitPointer(pointer).reduceRight<JsonValue>((inner, name) => {
      const outer: JsonObject = {};
      setOwn(outer, name, inner);
      return outer;
    }, value);
    const text = canonicalText(body);
    const redacted = redaction.text(definitions(kind), text);
    return redacted === text ? value : (resolvePointer(parseLossless(redacted), pointer) ?? value);
  };
}

function isSecretValue(valueText: string, isPlace: boolean): boolean {
  const value = parseLossless(valueText);
  if (value === null || value === '') return false;
  // The name alone does not make a boolean a secret.
  if (typeof value === 'boolean') return isPlace;
  return typeof value !== 'string' || !isMask(value);
}

/** `{"name":"Authorization","value":"…"}` */
function isPairText(valueText: string, isNamedSo: (name: string) => boolean): boolean {
  if (!valueText.startsWith('{') || !valueText.includes('"value"')) return false;
  const names = valueText.matchAll(/"(?:name|key|header)"\s*:\s*"([^"]{1,60})"/g);
  if (!names.some(([, name = '']) => isNamedSo(name) || isSecretVariable(name))) return false;
  const value = parseLossless(valueText);
  return isJsonObject(value) && isSecretPair(value);
}

/** `["Authorization","…"]` */
function isTupleText(valueText: string): boolean {
  if (!/^\[\s*"[\w-]{1,60}"\s*,\s*"/.test(valueText)) return false;
  const value = parseLossless(valueText);
  return Array.isArray(value) && isHeaderTuple(value);
}

function isWithUrlSecret(valueText: string): boolean {
  if (!valueText.startsWith('"') || !maySecretsBeIn(valueText)) return false;
  const value = parseLossless(valueText);
  return typeof value === 'string' && hasCertainSecret(value);
}
