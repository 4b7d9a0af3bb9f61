/** A drill of the latest state of one source, as `tidemark drill` does it. */
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
import type { DrillSummary } from './summaries.ts';
import { type JobContext, jobResult, type JobResult, type JobWork, sourceOf } from './work.ts';

/** The job. */
export const DRILL_JOB: Pick<JobWork, 'run'> = {
  run: async (context) => drillResult(await performDrill(context)),
};

/** The result of a drill by the daemon or the command line: `partial` if it did not restore everything. */
export function drillResult(document: DrillDocument): JobResult {
  return jobResult(document.outcome === 'equal' ? 'done' : 'partial', summaryOf(document));
}

async function performDrill(context: JobContext): Promise<DrillDocument> {
  const { config, mirror, effects, signal } = context;
  const { clock, host, pid, random } = effects;
  const source = sourceOf(context);
  const definitions = definitionsFor(config, source.name);
  const resolvedState = resolvedStateOf(mirror, LATEST, { source: source.name });
  const state = openMirrorState(mirror, source.name, resolvedState);
  const services: DrillSandbox[] = [];
  // The log lines of the sandbox and its client do not belong in the daemon's log: the document has the results.
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
