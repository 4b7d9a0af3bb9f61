/** What a verification found, fit to be shown: ids that are secrets themselves stay out of it. */
import { definitionOf } from '../../catalog/catalog.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source-definitions.ts';
import type { VerifyProblem } from '../../mirror/verify.ts';
import { isSecretId, maskedId } from '../../report/mask.ts';

/** An id that is a secret itself stays out of what is shown, whichever source makes it one. */
export function withMaskedId(problem: VerifyProblem, config: Config): VerifyProblem {
  const { id, recordKind } = problem;
  if (id === undefined || recordKind === undefined) return problem;
  const definitions = [
    definitionOf(recordKind),
    ...config.configured.map(({ name }) => definitionsFor(config, name)(recordKind)),
  ];
  const secret = definitions.find(isSecretId);
  return secret === undefined ? problem : { ...problem, id: maskedId(id, secret) };
}

/** One line: what is wrong, and where. */
export function problemLine({ kind, message, recordKind, id, run }: VerifyProblem): string {
  const [what = ''] = message.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('***'));
  const places = [
    ...(recordKind === undefined ? [] : [`${recordKind} ${id ?? ''}`.trim()]),
    ...(run === undefined ? [] : [`run ${run}`]),
  ];
  return `${kind}: ${what}${places.length === 0 ? '' : ` (${places.join(', ')})`}`;
}
