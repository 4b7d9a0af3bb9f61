/** An estimate for people and as `tidemark.estimate/1`. */
import type { Kind } from '../catalog/definition.ts';
import { count, duration, plural } from '../core/wording.ts';
import type { Basis, CollectionEstimate, SourceEstimate } from '../doctor/estimate.ts';
import type { What } from './estimate.ts';
import { foldedLine } from './folded-line.ts';
import { limitsText } from './rate-text.ts';
import { renderTable } from './table.ts';

export interface ShownEstimate extends SourceEstimate {
  /** Steps of a restore, as far as the mirror tells; null for anything else. */
  readonly steps: number | null;
  /** Of the steps: removals that the mirror holds back, so that its latest state still shows what is gone. */
  readonly held: number;
  /** Of everything, steps included. */
  readonly requests: number;
  /** Requests of the last hour that the limits still count. */
  readonly recent: number;
  /** Milliseconds. */
  readonly ms: number;
}

const BASES: Readonly<Record<Basis, string>> = {
  last_run: 'last run',
  count: 'count',
  guess: 'guess',
};

interface KindEstimate {
  readonly kind: Kind;
  readonly collections: number;
  readonly requests: number;
  readonly bytes: number;
  readonly records: number | null;
  /** The least certain of its collections'. */
  readonly basis: Basis;
}

function byKind(collections: readonly CollectionEstimate[]): KindEstimate[] {
  return [...Map.groupBy(collections, ({ kind }) => kind)].map(([kind, rows]) => ({
    kind,
    collections: rows.length,
    requests: rows.reduce((sum, { requests }) => sum + requests, 0),
    bytes: bytesOf(rows),
    records: rows.some(({ records }) => records === null)
      ? null
      : rows.reduce((sum, { records }) => sum + (records ?? 0), 0),
    basis:
      (['guess', 'count', 'last_run'] as const).find((basis) => rows.some((row) => row.basis === basis)) ??
      'guess',
  }));
}

function bytesOf(rows: readonly Pick<CollectionEstimate, 'bytes'>[]): number {
  return rows.reduce((sum, { bytes }) => sum + bytes, 0);
}

export function renderEstimate(what: What, shown: ShownEstimate, width: number | undefined): string {
  const { source, collections, requests, recent, ms, steps, held, known, guessed, asked, from } = shown;
  const limits = limitsText(source.rate);
  const lines = [
    `${what} of ${source.name}: about ${plural(requests, 'request')}, ${duration(ms)}, ${size(bytesOf(collections))}`,
    '',
    renderTable(
      ['kind', 'lists', 'records', 'requests', 'size', 'known from'],
      byKind(collections).map((row) => [
        row.kind,
        count(row.collections),
        row.records === null ? '?' : count(row.records),
        count(row.requests),
        size(row.bytes),
        BASES[row.basis],
      ]),
      ['left', 'right', 'right', 'right', 'right', 'left'],
      { width },
    ),
    '',
    `rate: ${limits === null ? 'no limit' : `at most ${limits}`}${recent > 0 ? `; ${plural(recent, 'request')} of the last hour count` : ''}`,
    ...known.map((line) => `known: ${line}`),
    ...guessed.map((line) => `guessed: ${line}`),
    ...aboutWhat(what, steps, held),
    from === 'mirror' ? 'asked: nothing, the mirror tells' : `asked: ${plural(asked, 'request')} to find out`,
  ];
  return lines.flatMap((line) => (line.includes('\n') ? [line] : foldedLine(line, width))).join('\n');
}

function aboutWhat(what: What, steps: number | null, held: number): string[] {
  if (what === 'diff')
    return ['of `latest` against `live`: a diff of two states of the mirror sends nothing'];
  if (what !== 'restore') return [];
  if (steps === null)
    return ['guessed: no steps are counted, as there is no mirror; each step costs 3 requests more'];
  return [
    `guessed: ${plural(steps, 'step')} at 3 requests, by what changed between that state and the latest run${held === 0 ? '' : ` and the ${plural(held, 'removal')} that it holds back`}; what changed since costs 3 each`,
  ];
}

function size(bytes: number): string {
  const kib = bytes / 1024;
  if (kib < 1024) return `${count(Math.ceil(kib))} KiB`;
  return `${(kib / 1024).toFixed(1)} MiB`;
}

export function estimateDocument(what: What, shown: readonly ShownEstimate[]): object {
  return {
    schema: 'tidemark.estimate/1',
    what,
    sources: shown.map((each) => ({
      source: each.source.name,
      from: each.from,
      requests: each.requests,
      minutes: Math.round((each.ms / 60_000) * 100) / 100,
      bytes: bytesOf(each.collections),
      steps: each.steps,
      rate: {
        per_minute: each.source.rate.perMinute,
        per_hour: each.source.rate.perHour,
        used: each.recent,
        kinds: (each.source.rate.kinds ?? []).map(({ kinds, perMinute, perHour }) => ({
          ...{ kinds, per_minute: perMinute, per_hour: perHour },
        })),
      },
      collections: each.collections.map(({ kind, scope, requests, bytes, records, basis }) => ({
        ...{ kind, scope, requests, bytes, records, basis },
      })),
      known: each.known,
      guessed: each.guessed,
      asked: each.asked,
    })),
  };
}
