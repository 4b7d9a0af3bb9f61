/** Bytes of a request as JSON, losslessly. */
import { type JsonValue, parseLossless } from '../core/json.ts';
import { mediaTypeUnsupported, parseFailed } from './wire-error.ts';

/**
 * The body's JSON value; an empty body is `{}`, since the operations that interface.md marks "none" have nothing to say.
 * @throws WireError 415 for another content type than JSON, 400 for what is not JSON in UTF-8
 */
export function parseBody(bytes: Uint8Array, contentType: string | undefined): JsonValue {
  if (bytes.byteLength === 0) return {};
  const mediaType = (contentType ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
  if (mediaType !== 'application/json' && !mediaType.endsWith('+json')) {
    throw mediaTypeUnsupported(contentType ?? '');
  }
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) throw parseFailed('the body is not UTF-8');
    throw error;
  }
  try {
    return parseLossless(text);
  } catch (error) {
    if (error instanceof SyntaxError) throw parseFailed(error.message);
    // Nesting deeper than the parser's stack.
    if (error instanceof RangeError) throw parseFailed('nested too deeply');
    throw error;
  }
}
