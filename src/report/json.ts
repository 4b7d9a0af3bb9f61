/** `--format json`: the document `tidemark.diff/1` itself. */
import type { DiffDocument } from '../diff/change.ts';
import { maskedDocument } from './mask.ts';
import { escapeForTerminal } from '../core/escape-control.ts';
import type { ReportOptions } from './options.ts';

/** The document as JSON, numbers digit by digit as received. Secrets are masked unless they are shown. */
export function renderJson(document: DiffDocument, options: ReportOptions): string {
  const shown = options.showsSecrets === true ? document : maskedDocument(document, options.definitions);
  return escapeForTerminal(`${JSON.stringify(shown, null, 2)}\n`);
}
