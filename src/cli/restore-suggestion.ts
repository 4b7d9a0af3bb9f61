/** The trap of `restore` without FROM: a sync that ran after the damage has made the damage the latest state. */
import { type Kind, KINDS } from '../catalog/definition.ts';
import { systemClock } from '../core/clock.ts';
import { plural } from '../core/wording.ts';
import type { DiffDocument } from '../diff/change.ts';
import { type Plan, isExecutable } from '../restore/plan.ts';
import { idLookup } from '../restore/id-map.ts';
import { isPublished } from '../state/published-run.ts';
import type { Reference } from '../state/reference.ts';
import { filterOf } from './diff.ts';
import type { RestoreOptions } from './restore.ts';
import type { RestoreSession } from './restore-session.ts';
import { changesBetween } from './run-changes.ts';
import { age } from './wording.ts';

/** Runs that are looked through for losses, newest first. */
const RUNS_SEARCHED = 20;

/** Lines that name the state before the last losses, where `latest` gives nothing to send. */
export function earlierStateNotes(
  { mirror, config, source, definitions }: RestoreSession,
  plan: Plan,
  reference: Reference,
  options: RestoreOptions,
): string[] {
  if (reference.form !== 'latest' || mirror === null || plan.steps.some(isExecutable)) return [];
  const runs = mirror.runs({ source: source.name }).filter(isPublished);
  const kinds = (options.kind ?? KINDS).filter((kind) => definitions(kind).restore.never === null);
  const filter = { ...filterOf(options), kinds };
  const newId = idLookup(mirror.idMap(source.name));
  for (const [index, run] of runs.slice(0, RUNS_SEARCHED).entries()) {
    const before = runs[index + 1];
    if (before === undefined) break;
    const found = changesBetween(mirror, config, { from: before, to: run }, filter);
    const lost = lossesIn(found, (kind, id) => newId(kind, id) !== undefined);
    if (lost === '') continue;
    const when = age(run.finishedAt, systemClock.now());
    const why =
      plan.steps.length === 0
        ? 'the latest run already holds what is live now'
        : 'of what differs from the latest run nothing can be sent';
    return [
      `${why}; run ${run.run} (${when}) recorded ${lost}`,
      `  → \`tidemark restore run:${before.run}\` puts back what was before it; \`tidemark diff run:${before.run} run:${run.run}\` shows what that was`,
    ];
  }
  return [];
}

/** What a run found gone or altered; a record that a restore created again under another id is not gone. */
function lossesIn({ changes }: DiffDocument, isBack: (kind: Kind, id: string) => boolean): string {
  const removed = changes.filter(({ change, kind, id }) => change === 'removed' && !isBack(kind, id)).length;
  const changed = changes.filter(
    ({ change, created_again: again }) => change === 'changed' && again === undefined,
  ).length;
  const parts = [
    ...(removed === 0 ? [] : [`${plural(removed, 'record')} removed`]),
    ...(changed === 0 ? [] : [`${plural(changed, 'record')} changed`]),
  ];
  return parts.join(', ');
}
