/** The lines of configuration that would supply the secrets that a drill missed: names of variables, never values. */
import type { DrillTask } from '../diff/drill-document.ts';
import { pointerTo, splitPointer } from '../diff/pointer.ts';
import { isSecretId } from './mask.ts';
import type { ReportOptions } from './options.ts';
import { nameText } from './sections.ts';

/** YAML for one source's `secrets`, a line each; null where nothing is missing. */
export function secretsSnippet(tasks: readonly DrillTask[], options: ReportOptions): string[] | null {
  const missing = tasks.filter(({ needs }) => needs.length > 0);
  if (missing.length === 0) return null;
  const taken = new Set<string>();
  return [
    'secrets:',
    ...[...Map.groupBy(missing, ({ kind }) => kind)].flatMap(([kind, own]) => [
      `  ${kind}:`,
      ...own.flatMap((task) => ruleLines(task, options, taken)),
    ]),
  ];
}

function ruleLines(task: DrillTask, { definitions }: ReportOptions, taken: Set<string>): string[] {
  const definition = definitions(task.kind);
  // The id names one record only; a secret one must not stand in a file that is passed on.
  const [pointer = ''] = definition.nameFrom;
  const match = isSecretId(definition)
    ? `${JSON.stringify(pointer)}: ${JSON.stringify(task.name)}`
    : `${JSON.stringify(pointerTo(definition.idPath))}: ${JSON.stringify(task.id)}`;
  return [
    `    - match: { ${match} } # ${nameText(task.name)}`,
    '      values:',
    ...task.needs.map(([first = '', ...others]) => {
      const or = others.length === 0 ? '' : ` # or ${others.join(' or ')}`;
      return `        ${JSON.stringify(first)}: \${${variableName(task.name, first, taken)}}${or}`;
    }),
  ];
}

/** E.g. `NIGHTLY_S3_AWS_SECRET_ACCESS_KEY`; a number behind what is taken. */
function variableName(name: string, pointer: string, taken: Set<string>): string {
  const words = `${name} ${splitPointer(pointer).at(-1) ?? ''}`
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^A-Za-z0-9]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
    .toUpperCase();
  const wanted = /^[A-Z]/.test(words) ? words : `SECRET_${words}`;
  let free = wanted;
  for (let n = 2; taken.has(free); n += 1) free = `${wanted}_${n}`;
  taken.add(free);
  return free;
}
