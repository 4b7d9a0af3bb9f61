/** The answer to a retrieve: one record, checked to be the one that was asked for. */
import type { ResourceDefinition } from '../catalog/definition.ts';
import { scanRecord } from '../core/json-scan.ts';
import { malformed, refuseHtml } from './envelope.ts';
import type { NeutralText } from './neutral-text.ts';
import type { Answer } from './transport.ts';

export type Retrieved = { readonly found: true; readonly text: string } | { readonly found: false };

/**
 * The record's text as received, without the space around it.
 * @throws TidemarkError `malformed`, retryable: HTML, cut or broken JSON, no object, another record
 */
export function readRecord(
  answer: Answer,
  definition: ResourceDefinition,
  id: string,
  neutral: NeutralText,
): string {
  refuseHtml(answer);
  const one = definition.title.one;
  try {
    JSON.parse(answer.text);
    const record = scanRecord(answer.text, { idPath: definition.idPath, volatile: new Set() });
    // Some servers answer with a default record instead of 404.
    if (record.id !== undefined && record.id.toLowerCase() !== id.toLowerCase()) {
      throw malformed(answer, `another ${one} than the one asked for`);
    }
    return record.text;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw malformed(answer, `no ${one}: ${neutral(error.message)}`, { cause: error });
  }
}
