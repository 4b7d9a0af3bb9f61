/** A drill of the latest state of one source, as `tidemark drill` does it. */
import { EXIT } from '../../core/errors.ts';
import { definitionsFor } from '../../config/source.ts';
import type { DrillDocument } from '../../diff/drill-document.ts';
import { runDrill } from '../../restore/drill/drill.ts';
import { NO_DRILL_EVENTS } from '../../restore/drill/rounds.ts';
import { configuredSecrets } from '../../restore/secrets.ts';
import { type DrillSandbox, openDrillSandbox } from '../../server/drill-sandbox.ts';
import { openMirrorState } from '../../state/mirror-diff.ts';
import { resolvedStateOf } from '../../state/resolved-state.ts';
import { LATEST } from '../../state/reference.ts';
import { silentLogger } from '../../core/logger.ts';
import { type DrillSummary, storedSummary } from './summaries.ts';
import { type JobContext, type JobResult, type JobWork, sourceOf } from './work.ts';

export const DRILL_JOB: Pick<JobWork, 'run'> = {
  run: async (context) => drillResult(await performDrill(context)),
};

/** What is recorded of a drill, by the daemon or the command line. */
export function drillResult(document: DrillDocument): JobResult {
  const isEqual = document.outcome === 'equal';
  return {
    outcome: isEqual ? 'done' : 'partial',
    exitCode: isEqual ? EXIT.done : EXIT.partial,
    run: null,
    summary: storedSummary(summaryOf(document)),
    error: null,
    report: null,
  };
}

async function performDrill(context: JobContext): Promise<DrillDocument> {
  const { config, mirror, effects, signal } = context;
  const { clock, host, pid, random } = effects;
  const source = sourceOf(context);
  const definitions = definitionsFor(config, source.name);
  const resolvedState = resolvedStateOf(mirror, LATEST, { source: source.name });
  const state = openMirrorState(mirror, source.name, resolvedState);
  const services: DrillSandbox[] = [];
  // Log lines of the sandbox and its client are left out of the daemon's log: the document has the results.
  const log = silentLogger;
  try {
    return await runDrill({
      state,
      filter: {},
      definitions,
      secrets: configuredSecrets(source.secrets, mirror.restores.idMap(source.name)),
      ownUser: source.restore.ownUser,
      damage: null,
      random: () => random,
      openService: async (userUuid) => {
        const service = await openDrillSandbox({ userUuid, definitions, clock, log });
        services.push(service);
        return service;
      },
      reader: { command: 'daemon', pid, host, clock },
      clock,
      log,
      signal,
      events: NO_DRILL_EVENTS,
    });
  } finally {
    state.close();
    for (const service of services) await service.close();
  }
}

function summaryOf({ outcome, score, from, kinds, tasks, seconds }: DrillDocument): DrillSummary {
  return {
    job: 'drill',
    outcome,
    score,
    from: from.run ?? null,
    kinds: kinds.map((each) => ({
      kind: each.kind,
      records: each.records,
      comesBack: each.comes_back,
      needsSecret: each.needs_secret,
      needsPerson: each.needs_person,
      cannot: each.cannot,
      unknown: each.unknown,
      score: each.score,
      restored: each.restored,
    })),
    tasks: tasks.length,
    seconds,
  };
}
