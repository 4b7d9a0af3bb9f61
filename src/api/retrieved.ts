/** The answer to a retrieve: one record, checked to be the one that was asked for. */
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { type JsonValue, idAt, isJsonObject, parseLossless } from '../core/json.ts';
import { malformed, refuseHtml } from './envelope.ts';
import type { NeutralText } from './neutral-text.ts';
import type { Answer } from './transport.ts';

/** A record's text as received, without the space around it, and what it says. */
export interface FoundRecord {
  readonly found: true;
  readonly text: string;
  readonly body: JsonValue;
}

export type Retrieved = FoundRecord | { readonly found: false };

/**
 * The record in the answer to a retrieve.
 * @throws TidemarkError `malformed`, retryable: HTML, cut or broken JSON, no object, another record
 */
export function readRecord(
  answer: Answer,
  definition: ResourceDefinition,
  id: string,
  neutral: NeutralText,
): FoundRecord {
  refuseHtml(answer);
  const one = definition.title.one;
  try {
    const body = parseLossless(answer.text);
    if (!isJsonObject(body)) throw malformed(answer, `no ${one}`);
    const given = idAt(body, definition.idPath);
    // Some servers answer with a default record instead of 404.
    if (given !== undefined && given.toLowerCase() !== id.toLowerCase()) {
      throw malformed(answer, `another ${one} than the one requested`);
    }
    return { found: true, text: answer.text.trim(), body };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw malformed(answer, `no ${one}: ${neutral(error.message)}`, { cause: error });
  }
}
