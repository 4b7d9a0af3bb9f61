/** The pages that are opened in a browser: a hostile sample, and one with very much in it. */
import { definitionOf } from '../../src/catalog/catalog.ts';
import { diffStates } from '../diff/diff-states.ts';
import { diffReport } from '../../src/report/diff-report.ts';
import { renderHtml } from '../../src/report/render-html.ts';
import { auditReport, type ShownEntry } from '../../src/report/audit-report.ts';
import { planReport } from '../../src/report/plan-report.ts';
import { timelineReport } from '../../src/report/timeline-report.ts';
import { planOf, organization, record, stateOf, svc } from '../restore/states.ts';
import { HOSTILE, sampleDiff, sampleOptions, state } from '../report/sample.ts';

export const SAMPLE = renderHtml(diffReport(sampleDiff(), sampleOptions));

const LONG = `${'unbroken'.repeat(60)} ${'word '.repeat(400)}`;

/** 200 changed records with long and hostile values, names and pointers. */
export function largePage(): string {
  const side = (isAfter: boolean) =>
    Array.from({ length: 200 }, (_unused, index) =>
      state('batch_exports', { organization_id: 'o'.repeat(80) }, `id-${String(index).padStart(3, '0')}`, {
        name: index % 3 === 0 ? HOSTILE : `Export ${index} ${'x'.repeat(index)}`,
        paused: isAfter,
        ['long_key'.repeat(20)]: isAfter ? [LONG, index] : [index],
        destination: {
          config: { bucket: isAfter ? `${LONG}!` : LONG, note: '<img src=x onerror=alert(1)>' },
        },
      }),
    );
  const document = diffStates(
    { reference: { ref: `file:${'deep/'.repeat(40)}export.ndjson` }, records: side(false) },
    { reference: { ref: 'latest', run: 2, at: '2026-03-02T07:00:00.000Z' }, records: side(true) },
    { mode: 'default' },
  );
  return renderHtml(diffReport(document, { definitions: definitionOf, title: HOSTILE }));
}

/** A plan with a manual step that names a value of one long word. */
export function planPage(): string {
  const plan = planOf(
    stateOf([organization, record('roles', 'r1', { id: 'r1', name: 'Readers' })]),
    stateOf([organization]),
    { definitions: svc },
  );
  const by = `publish ${'dcgNVQ8OsOc9q8AXgIHWVFv8cWq'.repeat(3)} in DNS`;
  const [step] = plan.steps;
  const manual = { ...step!, action: 'manual' as const, request: null, reason: by };
  return renderHtml(planReport({ ...plan, steps: [...plan.steps, manual] }, { definitions: svc }));
}

/** A year with something on its last day. */
export function yearPage(): string {
  const event = { at: '2026-03-02T07:00:00.000Z', run: 1, kind: 'domains' as const, id: 'd', name: 'd' };
  return renderHtml(
    timelineReport(
      {
        firstDay: '2025-03-03',
        lastDay: '2026-03-02',
        events: [{ ...event, change: 'added' as const, fields: [] }],
      },
      { definitions: definitionOf },
    ),
  );
}

export function timelinePage(): string {
  const events = Array.from({ length: 60 }, (_unused, index) => ({
    at: new Date(Date.UTC(2026, 1, 1 + Math.floor(index / 2), index % 24)).toISOString(),
    run: index + 1,
    kind: (['domains', 'members', 'batch_exports', 'organizations'] as const)[index % 4]!,
    id: `id-${index}`,
    name: index % 5 === 0 ? HOSTILE : `Record ${index}`,
    change: (['added', 'changed', 'removed'] as const)[index % 3]!,
    fields: [{ path: '/level', from: 1, to: index % 2 === 0 ? LONG : 8 }],
  }));
  return renderHtml(
    timelineReport({ firstDay: '2026-02-01', lastDay: '2026-03-02', events }, { definitions: definitionOf }),
  );
}

/** An audit log for a file: with hashes, a long reason, and names that are one word. */
export function auditPage(): string {
  const entries = Array.from({ length: 6 }, (_unused, index) => ({
    ...{
      entry: 6 - index,
      at: `2026-03-0${6 - index}T07:00:00.000Z`,
      action: 'accept',
      isAltered: index === 2,
    },
    ...{ by: 'margarethe.overseer', via: 'margarethe@workstation-of-the-third-floor.example.com' },
    ...{
      hash: String(index).repeat(64),
      source: 'default',
      recordName: 'Nightly warehouse export',
      fromRun: null,
    },
    subject: {
      ...{
        about: 'acceptance',
        source: 'default',
        kind: 'batch_exports',
        scope: {},
        id: 'b',
        path: '/paused',
      },
      ...{ fingerprint: 'f', reason: `agreed on Monday, ${'with a long reason '.repeat(8)}`, acceptedAt: '' },
      ...{
        by: 'ann',
        via: 'ann@vm',
        until: '2026-06-01T07:00:00.000Z',
        measured: null,
        withdrawalReason: null,
      },
    },
    definitions: definitionOf,
  })) as unknown as ShownEntry[];
  return renderHtml(
    auditReport(entries, {
      ...{ period: 'all', generatedAt: '2026-03-07T07:00:00.000Z', timeText: (at) => at },
      ...{ namesSource: false, count: entries.length, hasHashes: true },
    }),
  );
}
