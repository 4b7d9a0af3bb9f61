/** `drill --runbook FILE`: what people have to do in a real restore, in order, with the values. */
import { groupsBy } from '../core/group.ts';
import { shellWord } from '../core/hints.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { splitPointer } from '../core/json-pointer.ts';
import { formatInteger, plural } from '../core/wording.ts';
import type { DrillDocument, DrillTask } from '../diff/drill-document.ts';
import {
  type Item,
  type Part,
  type ReportDocument,
  type Text,
  codePart,
  listPart,
  recordsPart,
} from './document.ts';
import { drillVerdictText, newValuesText, pluralVerdict, taskFacts } from './drill-report.ts';
import { maskedFields } from './mask.ts';
import { placeText, referenceText, skippedText } from './notes.ts';
import type { ReportOptions } from './options.ts';
import { secretLines } from './plan-report.ts';

const WAITING_SHOWN = 20; // names of one kind

/** The runbook, to be rendered as Markdown. It never has a secret, whatever the options are. */
export function runbookReport(document: DrillDocument, given: ReportOptions): ReportDocument {
  const options = { ...given, showsSecrets: false };
  const { source, from, assumptions } = document;
  return {
    title: `Restore runbook${source === undefined ? '' : ` of ${source}`}`,
    summary: drillVerdictText(document),
    detail: `from a drill of ${referenceText(from)}`,
    parts: [
      ...(assumptions.length === 0 ? [] : [{ type: 'list', items: assumptions } as const]),
      ...beforeParts(document, options),
      ...restoreParts(document),
      ...organizationParts(document, options),
      ...lostParts(document, options),
      ...proofParts(document),
    ],
  };
}

/** What the configuration needs before a restore. */
function beforeParts({ skipped, tasks }: DrillDocument, options: ReportOptions): Part[] {
  const unknown = tasks.filter(
    ({ verdict, waits, needs }) => verdict === 'unknown' && !waits && needs.length === 0,
  );
  const settings = new Map(
    unknown.map(({ kind, reason }) => [
      `${kind} ${reason}`,
      [`${options.definitions(kind).title.many}: `, ...configurationSpans(reason)],
    ]),
  );
  const lacking = tasks.map(({ needs, unset = [], ...task }) => {
    const named = new Set(unset.map((each) => each.any_of.join(' ')));
    return {
      ...task,
      needs: needs.filter((each) => !named.has(each.join(' '))).map((anyOf) => ({ any_of: anyOf })),
    };
  });
  const unset = tasks.flatMap((task) =>
    (task.unset ?? []).map((each): Text => [
      `${each.reason}: `,
      { code: each.any_of.join(' or ') },
      ` of ${options.definitions(task.kind).title.one} `,
      { code: taskFacts(task, options).name },
    ]),
  );
  const parts: Part[] = [
    ...checklist(
      'The snapshot lacks these; let the key read them and sync, or back them up by other means:',
      skipped.map((each) => skippedText(each, options)),
    ),
    ...checklist('Set these variables and supply these files; the configuration already names them:', unset),
    ...codePart(
      'Set these variables and add this to the source in the configuration; the service never shows the values, so take them from where you keep your secrets',
      'yaml',
      secretLines(lacking, options),
    ),
    ...checklist('Configure what the service does not say:', [...settings.values()]),
  ];
  return parts.length === 0 ? [] : [{ type: 'list', heading: 'Before', items: [] }, ...parts];
}

function checklist(intro: string, items: readonly Text[]): Part[] {
  return items.length === 0 ? [] : [{ type: 'list', intro, items, isChecklist: true }];
}

/** The reason with its configuration as code, to be copied. */
function configurationSpans(reason: string): Exclude<Text, string> {
  const at = reason.indexOf('definitions: {');
  return at < 0 ? [reason] : [reason.slice(0, at), { code: reason.slice(at) }];
}

function restoreParts(document: DrillDocument): Part[] {
  const command = restoreCommand(document);
  return listPart(
    'Restore',
    [
      ['Review the plan: ', { code: command }],
      [
        'Apply it: ',
        { code: `${command} --apply` },
        ' (if organizations are gone too, add ',
        { code: '--create-organizations' },
        ')',
      ],
      'After each part below, restore again: what waited for it comes back then.',
    ],
    { isChecklist: true },
  );
}

/** With a reference that means the same later. */
function restoreCommand({ from, source }: DrillDocument): string {
  return `tidemark restore ${from.run === undefined ? shellWord(from.ref) : `run:${from.run}`}${sourceOption(source)}`;
}

function sourceOption(source: string | undefined): string {
  return source === undefined ? '' : ` --source ${source}`;
}

function organizationParts({ tasks }: DrillDocument, options: ReportOptions): Part[] {
  const open = tasks.filter(({ verdict, waits }) => verdict === 'needs_person' || waits);
  const groups = Map.groupBy(
    open,
    ({ kind, scope, id }) => scope.organization_id ?? (kind === 'organizations' ? id : ''),
  );
  return [...groups].flatMap(([id, own]): Part[] => {
    const place = id === '' ? 'elsewhere' : placeText({ organization_id: id }, options);
    const byKind = (waits: boolean) =>
      groupsBy(
        own.filter((task) => task.waits === waits),
        ({ kind }) => kind,
      );
    return [
      { type: 'list', heading: place, items: [] },
      ...byKind(false).flatMap((same) =>
        recordsPart(
          options.definitions(same[0].kind).title.many,
          same.map((task) => taskItem(task, options)),
          { isBelow: true, layout: 'tasks' },
        ),
      ),
      ...listPart(
        'Then restore again',
        byKind(true).map((same) => waitingText(same, options)),
        { isBelow: true, isChecklist: true },
      ),
    ];
  });
}

function taskItem(task: DrillTask, options: ReportOptions): Item {
  const definition = options.definitions(task.kind);
  return {
    ...taskFacts(task, options),
    lines: [task.reason, ...newValueLines(task, definition)],
    fields: maskedFields(task.fields, definition).filter(({ to }) => to !== undefined),
  };
}

/** How to get a value that the service assigns again, and that users need. */
function newValueLines({ kind, name, reason }: DrillTask, { restore, fields }: ResourceDefinition): Text[] {
  return restore.byPerson.flatMap(({ reason: what, shows }): Text[] => {
    if (shows === undefined || !reason.includes(what)) return [];
    const member = splitPointer(shows)[0] ?? '';
    const isSecret = fields.some((field) => field.name === member && field.isSecret);
    const record = /^[\w.@-]+$/.test(name) ? name : JSON.stringify(name);
    return [
      [
        'The report of the restore that creates it shows its new ',
        { code: member },
        '. To see it later: ',
        { code: `tidemark sync --kind ${kind}` },
        ', then ',
        { code: `tidemark show ${kind} ${record}${isSecret ? ' --show-secrets' : ''}` },
      ],
    ];
  });
}

function waitingText(tasks: readonly [DrillTask, ...DrillTask[]], options: ReportOptions): Text {
  const { one, many } = options.definitions(tasks[0].kind).title;
  const names = tasks.slice(0, WAITING_SHOWN).map((task) => ({ code: taskFacts(task, options).name }));
  const more = tasks.length - names.length;
  return [
    `${plural(tasks.length, one, many)}: `,
    ...names.flatMap((name, index) => (index === 0 ? [name] : [', ', name])),
    ...(more > 0 ? [` and ${formatInteger(more)} more`] : []),
  ];
}

function lostParts({ kinds }: DrillDocument, { definitions }: ReportOptions): Part[] {
  const lost = kinds.flatMap(({ kind, reasons }) =>
    reasons
      .filter(({ verdict }) => verdict === 'cannot')
      .map(({ reason, records }) => {
        const { one, many } = definitions(kind).title;
        return `${plural(records, one, many)} ${pluralVerdict('cannot', records)}: ${reason}`;
      }),
  );
  return [
    ...listPart('What does not come back', lost),
    ...listPart(
      'What is new afterwards',
      kinds.flatMap((kind) => newValuesText(kind, definitions(kind.kind))),
      { intro: 'The service assigns these values: whoever uses the old ones needs the new ones.' },
    ),
  ];
}

function proofParts(document: DrillDocument): Part[] {
  return listPart(
    'Prove it',
    [
      [{ code: `tidemark sync${sourceOption(document.source)}` }],
      [{ code: restoreCommand(document) }, ' plans nothing but what is listed above'],
    ],
    { isChecklist: true },
  );
}
