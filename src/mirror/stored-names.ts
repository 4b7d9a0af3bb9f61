/** Reads kinds, scopes and paths as rows store them. */
import { splitPointer } from '../core/json-pointer.ts';
import { isKind } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import { RESTORE_HINT } from '../core/hints.ts';

/** @throws TidemarkError `mirror_corrupt` for a kind that the catalog does not have: only those are ever written */
export function knownKind(kind: string): Kind {
  if (!isKind(kind)) throw damagedName('kind', kind);
  return kind;
}

/** @throws TidemarkError `mirror_corrupt` for a text that is not a JSON pointer */
export function storedPath(text: string): string {
  try {
    splitPointer(text);
    return text;
  } catch (error) {
    throw damagedName('path', text, error);
  }
}

/** @throws TidemarkError `mirror_corrupt` for a text that is not a JSON object of ids */
export function storedScope(text: string): Scope {
  let scope: unknown;
  try {
    scope = JSON.parse(text);
  } catch (error) {
    throw damagedName('scope', text, error);
  }
  if (isScope(scope)) return scope;
  throw damagedName('scope', text);
}

function isScope(value: unknown): value is Scope {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((id) => typeof id === 'string');
}

/** A stored value as text: SQLite lets other programs store a number or a BLOB in a text column. */
export function textOf(stored: unknown): string {
  return String(stored);
}

function damagedName(what: string, text: string, cause?: unknown): TidemarkError {
  return new DamagedRow(`there is no ${what} ${JSON.stringify(textOf(text))}`, cause);
}

/** The error for a row that another program altered. */
export class DamagedRow extends TidemarkError {
  /** What is wrong with it, in a few words. */
  readonly what: string;

  constructor(what: string, cause?: unknown) {
    super('mirror_corrupt', `the mirror is damaged: ${what}`, {
      hint: `\`tidemark verify\` says what else is damaged; ${RESTORE_HINT}`,
      cause,
    });
    this.what = what;
  }
}
