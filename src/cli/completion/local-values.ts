/** Values from the configuration and the mirrors on this machine. Changes neither. */
import { loadConfig } from '../../config/load.ts';
import { hasMirrorPerSource, mirrorConfigs } from '../../config/mirrors.ts';
import { profileNames } from '../../config/profile.ts';
import type { RestoreRow } from '../../mirror/restores.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { type MirrorSummary, peekMirror } from '../../mirror/summary.ts';
import type { ValueType } from './value-type.ts';
import { localMinute } from '../../core/wording.ts';

/** Runs or restores that are offered at most. */
const SHOWN = 20;
/** Rows that are read, so that there are as many of a single source. */
const READ = 200;

/** @throws what reading the configuration and the mirror throws */
export function localValues(type: ValueType, question: LocalQuestion): Candidate[] {
  if (type === 'profile')
    return profileNames().map((value) => ({ value, description: 'profile that ships' }));
  const { env, cwd, config: file } = question;
  const config = loadConfig({ file, env, cwd, keys: 'unused' });
  if (type === 'channel')
    return config.notices.map(({ name }) => ({ value: name, description: 'channel of notices' }));
  if (type === 'source' && config.sources.length > 0)
    return config.sources.map(({ name, baseUrl }) => ({ value: name, description: baseUrl.host }));
  const isNamed = (source: string): boolean =>
    question.sources.length === 0 || question.sources.includes(source);
  const found = mirrorConfigs(config).flatMap(({ mirror, sources }) => {
    const isOther = hasMirrorPerSource(config) && !sources.some(({ name }) => isNamed(name));
    const summary = isOther || question.isLate() ? null : peekMirror(mirror, READ);
    return summary === null ? [] : valuesIn(type, summary, isNamed);
  });
  // Several mirrors may each have a `run:7`.
  return [...new Map(found.toReversed().map((each) => [each.value, each])).values()].toReversed();
}

function valuesIn(
  type: ValueType,
  summary: MirrorSummary,
  isNamed: (source: string) => boolean,
): Candidate[] {
  const runs = summary.runs.filter(({ source }) => isNamed(source)).slice(0, SHOWN);
  const snapshots = summary.snapshots.map(({ name, run, isBaseline }) => ({
    value: name,
    description: `run ${run}${isBaseline ? ', the baseline' : ''}`,
  }));
  switch (type) {
    case 'source':
      return summary.sources.map((name) => ({ value: name, description: 'in the mirror' }));
    case 'run':
      return runs.map((run) => ({ value: String(run.run), description: runDescription(run) }));
    case 'snapshot':
      return snapshots;
    case 'restore':
      return summary.restores
        .filter(({ source }) => isNamed(source))
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

/** With the time of its end, if there is one. */
function runDescription(
  row: Pick<RunRow | RestoreRow, 'source' | 'startedAt' | 'finishedAt' | 'outcome'>,
): string {
  return `${localMinute(row.finishedAt ?? row.startedAt)} ${row.source}, ${row.outcome}`;
}

/** A candidate for the word at the cursor. */
export interface Candidate {
  readonly value: string;
  /** One line, which some shells show. */
  readonly description: string;
}

export interface LocalQuestion {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** `--config` so far on the command line. */
  readonly config: string | undefined;
  /** `--source`, likewise. */
  readonly sources: readonly string[];
  /** True if there is no time left to read another mirror. */
  readonly isLate: () => boolean;
}
