/** The 2xx answer to a write, taken apart. */
import type { ResourceDefinition } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { idAt, parseLossless } from '../core/json.ts';
import { malformed, refuseHtml } from './envelope.ts';
import type { NeutralText } from './neutral-text.ts';
import type { Answer } from './transport.ts';
import type { WriteOutcome } from './write-outcome.ts';

/**
 * A success is believed when its body is empty or JSON about the record that was written. Anything else may come from
 * something in between (a login page with status 200), so that what happened is not known.
 * @param id the record that was written; null for a new one
 */
export function readWritten(
  answer: Answer,
  definition: ResourceDefinition,
  id: string | null,
  neutral: NeutralText,
): WriteOutcome {
  const { status } = answer;
  if (answer.text.trim() === '') return { outcome: 'done', status, id: null };
  try {
    refuseHtml(answer);
    const body = parseLossless(answer.text);
    const given = idAt(body, definition.idPath) ?? null;
    if (id !== null && given !== null && given.toLowerCase() !== id.toLowerCase()) {
      throw malformed(answer, `another ${definition.title.one} than the one written`);
    }
    return { outcome: 'done', status, id: given };
  } catch (error) {
    if (error instanceof TidemarkError) return { outcome: 'unknown', error };
    if (!(error instanceof SyntaxError)) throw error;
    return {
      outcome: 'unknown',
      error: malformed(answer, `no JSON: ${neutral(error.message)}`, { cause: error }),
    };
  }
}
