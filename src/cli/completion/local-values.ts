/** Values that the configuration and the mirror of this machine know. Reads both as they are, and changes neither. */
import { loadConfig } from '../../config/load.ts';
import { hasMirrorPerSource, mirrorConfigs } from '../../config/mirrors.ts';
import { profileNames } from '../../config/profile.ts';
import type { RestoreRow } from '../../mirror/restores.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { type MirrorSummary, peekMirror } from '../../mirror/summary.ts';
import type { ValueType } from './value-type.ts';
import { localMinute } from '../../core/wording.ts';

/** The most runs or restores that are offered. */
const SHOWN = 20;
/** Rows read of all sources, to offer that many of one. */
const READ = 200;

/** Throws what reading the configuration and the mirror throws. */
export function localValues(sort: ValueType, question: LocalQuestion): Candidate[] {
  if (sort === 'profile')
    return profileNames().map((value) => ({ value, description: 'profile that ships' }));
  const { env, cwd, config: file } = question;
  const config = loadConfig({ file, env, cwd, keys: 'unused' });
  if (sort === 'channel')
    return config.notices.map(({ name }) => ({ value: name, description: 'channel of notices' }));
  if (sort === 'source' && config.sources.length > 0)
    return config.sources.map(({ name, baseUrl }) => ({ value: name, description: baseUrl.host }));
  const isAsked = ({ name }: { readonly name: string }): boolean =>
    question.sources.length === 0 || question.sources.includes(name);
  const found = mirrorConfigs(config).flatMap(({ mirror, sources }) => {
    const isOther = hasMirrorPerSource(config) && !sources.some(isAsked);
    const glance = isOther || question.isLate() ? null : peekMirror(mirror, READ);
    return glance === null ? [] : seen(sort, glance, question.sources);
  });
  // `run:7` of each of several mirrors is one word.
  return [...new Map(found.toReversed().map((each) => [each.value, each])).values()].toReversed();
}

function seen(sort: ValueType, glance: MirrorSummary, sources: readonly string[]): Candidate[] {
  const isAsked = ({ source }: { readonly source: string }): boolean =>
    sources.length === 0 || sources.includes(source);
  const runs = glance.runs.filter(isAsked).slice(0, SHOWN);
  const snapshots = glance.snapshots.map(({ name, run, isBaseline }) => ({
    value: name,
    description: `run ${run}${isBaseline ? ', the baseline' : ''}`,
  }));
  switch (sort) {
    case 'source':
      return glance.sources.map((name) => ({ value: name, description: 'in the mirror' }));
    case 'run':
      return runs.map((run) => ({ value: String(run.run), description: runDescription(run) }));
    case 'snapshot':
      return snapshots;
    case 'restore':
      return glance.restores
        .filter(isAsked)
        .slice(0, SHOWN)
        .map((restore) => ({
          value: String(restore.restore),
          description: runDescription({ ...restore, finishedAt: null }),
        }));
    case 'reference':
    case 'desired':
    case 'point':
      return [
        ...runs.map((run) => ({ value: `run:${run.run}`, description: runDescription(run) })),
        ...snapshots.map(({ value, description }) => ({ value: `snapshot:${value}`, description })),
      ];
    default:
      return [];
  }
}

/** A run by its end, a restore by its beginning. */
function runDescription(
  row: Pick<RunRow | RestoreRow, 'source' | 'startedAt' | 'finishedAt' | 'outcome'>,
): string {
  return `${localMinute(row.finishedAt ?? row.startedAt)} ${row.source}, ${row.outcome}`;
}
// A candidate for the word at the cursor.

export interface Candidate {
  readonly value: string;
  /** Shown beside it by shells that do that; one line. */
  readonly description: string;
}

/** What finds out the values that this machine knows. */
export interface LocalQuestion {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** As given so far on the command line. */
  readonly config: string | undefined;
  readonly sources: readonly string[];
  /** True when there is no time left to read more. */
  readonly isLate: () => boolean;
}
