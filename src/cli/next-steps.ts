/** What a person can do about the state of a source: one sentence each, the most pressing first. */
import type { ErrorCode } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import { isWhole, type SourceStatus } from './source-status.ts';

/** Empty where nothing is to be done. `hasOthers`: commands then name the source. */
export function nextSteps(status: SourceStatus, hasOthers: boolean): string[] {
  const sync = `tidemark sync${hasOthers ? ` --source ${status.source}` : ''}`;
  if (!status.isConfigured)
    return [
      `${status.source} is no longer configured: its records stay as they were; configure a source of that name to go on`,
    ];
  if (status.state === 'never_synced') return [`run \`${sync}\``];
  const code = status.lastEnded?.errorCode ?? null;
  if (status.state === 'unpublished')
    return [`${code === null ? '' : (REMEDY[code] ?? '')}run \`${sync}\` again`];
  if (status.state === 'whole') return [];

  const steps: string[] = [];
  const held = status.held.reduce((sum, { records }) => sum + records, 0);
  const ceiling = status.held.reduce((sum, { records, below }) => sum + records + below, 0);
  if (held > 0) {
    const them = held === 1 ? 'it' : 'them';
    steps.push(
      `the service no longer shows ${plural(held, 'record')}, too many to believe at once: if ${them === 'it' ? 'it' : 'they'} really went, ` +
        `remove ${them} here with \`${sync} --accept-removals ${ceiling}\`, or let a later run find the same (removals.confirmAfter)`,
    );
  }
  const codes = new Set(
    status.collections
      .filter((row) => !isWhole(row) && row.lastOutcome !== 'held')
      .map(({ lastErrorCode }) => lastErrorCode),
  );
  if (status.lastEnded?.outcome === 'failed') codes.add(code);
  for (const each of codes) {
    const remedy = each === null ? undefined : REMEDY[each];
    if (remedy !== undefined) steps.push(`${remedy}run \`${sync}\` again`);
  }
  if (steps.length === 0) steps.push(`run \`${sync}\` again`);
  if (status.lastEnded !== null && status.lastEnded.outcome !== 'complete')
    steps.push(`\`tidemark runs show ${status.lastEnded.run}\` has every collection of that run`);
  return steps;
}

/** What comes before the next run, by what went wrong. What time may heal has none. */
const REMEDY: Partial<Record<ErrorCode, string>> = {
  unauthorized: 'check the key of this source (`tidemark config check`), then ',
  forbidden: 'give the key the permissions named above, or leave those kinds out (kinds.exclude), then ',
  not_found: 'leave out what the service does not offer (kinds.exclude), then ',
  unreachable: 'check the base URL and that the service is up, then ',
  disk_full: 'free some space, then ',
  read_only: "check the owner and mode of the mirror's directory, then ",
};
