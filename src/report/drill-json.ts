/** `drill --json`: the document `tidemark.drill/1` itself. */
import type { DrillDocument } from '../diff/drill-document.ts';
import { maskedChange, maskedFields, withMaskedId } from './mask.ts';
import type { ReportOptions } from './options.ts';

/** The document as JSON. Secrets are masked unless they are shown; ids that are secrets as marks. */
export function renderDrillJson(document: DrillDocument, options: ReportOptions): string {
  const { definitions, showsSecrets } = options;
  const shown: DrillDocument =
    showsSecrets === true
      ? document
      : {
          ...document,
          remaining: document.remaining.map((change) => {
            const definition = definitions(change.kind);
            return withMaskedId(maskedChange(change, definition), definition);
          }),
          tasks: document.tasks.map((task) => {
            const definition = definitions(task.kind);
            return withMaskedId({ ...task, fields: maskedFields(task.fields, definition) }, definition);
          }),
        };
  return `${JSON.stringify(shown, null, 2)}\n`;
}
