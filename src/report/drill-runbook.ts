/** `drill --runbook FILE`: what a real restore would leave to people, in order, with the values; as Markdown. */
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { count } from '../core/wording.ts';
import type { FieldChange } from '../diff/compare.ts';
import type { DrillDocument, DrillTask } from '../diff/drill-document.ts';
import { splitPointer, pointerTo } from '../core/json-pointer.ts';
import {
  configurationAt,
  drillVerdictText,
  givenAnew,
  pluralVerdict,
  taskId,
  taskName,
  tasksByKind,
} from './drill.ts';
import { code, plain } from './markdown.ts';
import { maskedFields, isSecretId, maskedChange, withMaskedId } from './mask.ts';
import type { ReportOptions } from './options.ts';
import { pathText, placeText, referenceText, skippedText, nameText } from './sections.ts';
import { folded, valueText } from './value-text.ts';

const VALUE_LIMIT = 2_000; // characters of a value
const WAITING_SHOWN = 20; // names of one kind

/** The runbook as GitHub-flavoured Markdown. It never holds a secret, whatever the options say. */
export function renderRunbook(document: DrillDocument, given: ReportOptions): string {
  const options = { ...given, showsSecrets: false };
  const source = document.source === undefined ? '' : ` of ${plain(document.source)}`;
  const parts = [
    [
      `# Restore runbook${source}`,
      '',
      `From a drill of ${code(referenceText(document.from))}. ${plain(drillVerdictText(document))}.`,
      '',
      ...document.assumptions.map((line) => `- ${plain(line)}`),
    ],
    beforeLines(document, options),
    restoreLines(document),
    ...organizationParts(document, options),
    lostLines(document, options),
    proofLines(document),
  ];
  return `${parts
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')}\n`;
}

/** What has to be in the configuration before a restore can do its part. */
function beforeLines(document: DrillDocument, options: ReportOptions): string[] {
  const snippet = secretsSnippet(document.tasks, options);
  const settings = [
    ...new Set(
      document.tasks
        .filter(({ verdict, waits, needs }) => verdict === 'unknown' && !waits && needs.length === 0)
        .map(
          ({ kind, reason }) => `- [ ] ${plain(options.definitions(kind).title.many)}: ${reasonText(reason)}`,
        ),
    ),
  ];
  const lines = [
    ...(document.skipped.length === 0
      ? []
      : [
          'The snapshot does not hold these; let the key read them and sync, or keep them by other means:',
          '',
          ...document.skipped.map((skipped) => `- [ ] ${plain(skippedText(skipped, options))}`),
          '',
        ]),
    ...(snippet === null
      ? []
      : [
          '- [ ] Set these variables and add this to the source in `tidemark.yaml`; the service never shows the values, so they come from where the secrets are kept:',
          '',
          '```yaml',
          ...snippet,
          '```',
          '',
        ]),
    ...settings,
  ];
  if (lines.at(-1) === '') lines.pop();
  return lines.length === 0 ? [] : ['## Before', '', ...lines];
}

/** Configuration in a code span: copied, it is what it was. */
function reasonText(reason: string): string {
  const at = configurationAt(reason);
  return at < 0 ? plain(reason) : `${plain(reason.slice(0, at))}${code(reason.slice(at))}`;
}

function restoreLines(document: DrillDocument): string[] {
  const from = restoreReference(document);
  const source = document.source === undefined ? '' : ` --source ${document.source}`;
  return [
    '## Restore',
    '',
    `- [ ] Look at the plan: ${code(`tidemark restore ${from}${source}`)}`,
    `- [ ] Carry it out: ${code(`tidemark restore ${from}${source} --apply`)} (organizations that are gone too: add ${code('--create-organizations')})`,
    `- [ ] After each part below, restore again: what waited for it comes back then.`,
  ];
}

/** A reference that still means the same tomorrow. */
function restoreReference({ from }: DrillDocument): string {
  return from.run === undefined ? from.ref : `run:${from.run}`;
}

function organizationParts(document: DrillDocument, options: ReportOptions): string[][] {
  const open = document.tasks.filter(({ verdict, waits }) => verdict === 'needs_person' || waits);
  const groups = Map.groupBy(
    open,
    ({ kind, scope, id }) => scope.organization_id ?? (kind === 'organizations' ? id : ''),
  );
  return [...groups].map(([id, tasks]) => {
    const place = id === '' ? 'elsewhere' : placeText({ organization_id: id }, options);
    const byHand = tasks.filter(({ waits }) => !waits);
    const waiting = tasks.filter(({ waits }) => waits);
    return [
      `## ${plain(capital(place))}`,
      ...[...tasksByKind(byHand)].flatMap(([kind, own]) => [
        '',
        `### ${plain(capital(options.definitions(kind).title.many))} (${count(own.length)})`,
        '',
        ...own.flatMap((task) => taskLines(task, options)),
      ]),
      ...waitingLines(waiting, options),
    ];
  });
}

function taskLines(task: DrillTask, options: ReportOptions): string[] {
  const definition = options.definitions(task.kind);
  const fields = maskedFields(task.fields, definition).filter(({ to }) => to !== undefined);
  return [
    `- [ ] ${code(taskName(task, options))} (id ${code(taskId(task, options))}): ${plain(task.reason)}`,
    ...fields.map((field) => `  - ${fieldText(field)}`),
    ...valueLines(task, definition),
  ];
}

/** How to get a value that the service assigns again, and that users need. */
function valueLines({ kind, name, reason }: DrillTask, { restore, fields }: ResourceDefinition): string[] {
  return restore.byPerson.flatMap(({ reason: what, shows }) => {
    if (shows === undefined || !reason.includes(what)) return [];
    const member = splitPointer(shows)[0] ?? '';
    const isSecret = fields.some((field) => field.name === member && field.isSecret);
    const record = /^[\w.@-]+$/.test(name) ? name : JSON.stringify(name);
    const show = `tidemark show ${kind} ${record}${isSecret ? ' --show-secrets' : ''}`;
    return [
      `  - The report of the restore that creates it shows its new ${code(member)}; later ${code(`tidemark sync --kind ${kind}`)}, then ${code(show)} do.`,
    ];
  });
}

function fieldText(field: FieldChange): string {
  return `${code(pathText(field))}: ${code(folded(valueText(field.to), VALUE_LIMIT))}`;
}

function waitingLines(waiting: readonly DrillTask[], options: ReportOptions): string[] {
  if (waiting.length === 0) return [];
  return [
    '',
    '### Then restore again',
    '',
    ...[...tasksByKind(waiting)].map(([kind, own]) => {
      const names = own.slice(0, WAITING_SHOWN).map((task) => code(taskName(task, options)));
      const more = own.length - names.length;
      const { title } = options.definitions(kind);
      return `- [ ] ${count(own.length)} ${plain(own.length === 1 ? title.one : title.many)}: ${names.join(', ')}${more > 0 ? ` and ${count(more)} more` : ''}`;
    }),
  ];
}

function lostLines({ kinds }: DrillDocument, { definitions }: ReportOptions): string[] {
  const lost = kinds.flatMap(({ kind, reasons }) =>
    reasons
      .filter(({ verdict }) => verdict === 'cannot')
      .map(
        ({ reason, records }) =>
          `- ${count(records)} ${plain(records === 1 ? definitions(kind).title.one : definitions(kind).title.many)} ${pluralVerdict('cannot', records)}: ${plain(reason)}`,
      ),
  );
  const anew = kinds.flatMap((kind) => {
    const paths = givenAnew(kind);
    return paths.length === 0
      ? []
      : [`- ${plain(definitions(kind.kind).title.many)}: ${paths.map(code).join(', ')}`];
  });
  return [
    ...(lost.length === 0 ? [] : ['## What does not come back', '', ...lost]),
    ...(anew.length === 0
      ? []
      : [
          ...(lost.length === 0 ? [] : ['']),
          '## What is new afterwards',
          '',
          'The service assigns these values: whoever uses the old ones needs the new ones.',
          '',
          ...anew,
        ]),
  ];
}

function proofLines(document: DrillDocument): string[] {
  const source = document.source === undefined ? '' : ` --source ${document.source}`;
  return [
    '## Prove it',
    '',
    `- [ ] ${code(`tidemark sync${source}`)}`,
    `- [ ] ${code(`tidemark restore ${restoreReference(document)}${source}`)} plans nothing but what is listed above`,
  ];
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// The lines of configuration that would supply the secrets that a drill missed: names of variables, never values.

/** YAML for one source's `secrets`, a line each; null where nothing is missing. */
function secretsSnippet(tasks: readonly DrillTask[], options: ReportOptions): string[] | null {
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
  // The id names one record only; a secret one must not be in a file that is passed on.
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

// `drill --json`: the document `tidemark.drill/1` itself.

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
