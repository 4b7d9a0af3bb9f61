/** `tidemark drill [FROM]`: rehearses a restore in a sandbox and reports what would come back. Needs neither network nor key. */
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { definitionsFor, presentIn } from '../config/source.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { formatInteger, localTime } from '../core/wording.ts';
import { drillResult } from '../daemon/jobs/drill-job.ts';
import type { DrillDocument } from '../diff/drill-document.ts';
import { drillReport, drillVerdictText, outcomeText, renderDrillJson } from '../report/drill-report.ts';
import { groupedNotes } from '../report/notes.ts';
import type { ReportOptions } from '../report/options.ts';
import { renderHtml } from '../report/render-html.ts';
import { renderMarkdown } from '../report/render-markdown.ts';
import { renderText } from '../report/render-text.ts';
import { runbookReport } from '../report/runbook.ts';
import { runDrill } from '../restore/drill/drill.ts';
import { NO_DRILL_EVENTS, type DrillEvents } from '../restore/drill/rounds.ts';
import { configuredSecrets, NO_SECRETS } from '../restore/secrets.ts';
import { openDrillSandbox, type DrillSandbox } from '../server/drill-sandbox.ts';
import { createChance } from '../server/seed/chance.ts';
import { parentNames } from '../state/parent-names.ts';
import { STORED_STATE_FORMS, type Reference, parseReference } from '../state/reference.ts';
import { readConfig } from '../wire.ts';
import { isInteractive, printNote, type CommandContext, lineOptions } from './context.ts';
import { knownTo, sourcesOf, type ComparisonOptions } from './diff.ts';
import { withRealIds } from './real-ids.ts';
import { commandLog } from './command-log.ts';
import { Painter, untilInterrupted } from './painter.ts';
import { recordJob } from './record-job.ts';
import { deliver, formatOf, reportEach, type SourceReport } from './report-output.ts';
import { isOfMirror, snapshotNames, StateOpener } from './state-opener.ts';
import { writeAtomically } from './atomic-file.ts';
import { filterOf } from './filter-options.ts';

const RUNBOOK_VALUE = 2_000; // characters of a value in a runbook

interface DrillCommandOptions extends Pick<
  ComparisonOptions,
  'kind' | 'organization' | 'project' | 'id' | 'output' | 'showSecrets'
> {
  readonly from?: string;
  readonly damage?: number;
  readonly seed?: number;
  readonly format?: 'text' | 'json' | 'html';
  readonly runbook?: string;
}

/**
 * Exit 0 if every record that requests can restore was restored unchanged; 3 if one is blocked, was refused, came back different or was
 * never read into the snapshot. What only a person can do, and what no restore writes, does not count.
 */
export async function drill(context: CommandContext, asked: DrillCommandOptions): Promise<ExitCode> {
  const options = { ...asked, format: formatOf(context, asked, ['text', 'json', 'html']) };
  const from = parseReference(options.from ?? 'latest', systemClock.now(), {
    refuses: ['live'],
    snapshots: snapshotNames(context),
  });
  requireDrillOptions(options, from);
  const config = readConfig(context, context.options, 'unused');
  using opener = new StateOpener(context, config, 'drill');
  const { signal } = context;
  const runbooks: string[] = [];
  const finished: { source: string; startedAt: number; document: DrillDocument }[] = [];
  const sources = sourcesOf(context, config, opener, [from]);
  const results = await reportEach(sources, { signal, opener }, async (source) => {
    const startedAt = systemClock.now();
    const document = await drillSource(context, options, config, opener, { from, source });
    if (source !== null && isFullDrill(options, from)) finished.push({ source, startedAt, document });
    const shared = reportOptions(options, config, opener, { from, source });
    runbooks.push(renderMarkdown(runbookReport(document, shared), { level: 1, valueLimit: RUNBOOK_VALUE }));
    return sourceReport(context, options, document, shared, source);
  });
  if (options.runbook !== undefined && runbooks.length > 0) {
    await writeAtomically(resolve(context.cwd, options.runbook), [runbooks.join('\n')], context);
    printNote(context, [`runbook written to ${options.runbook}`]);
  }
  const code = await deliver(context, options, results);
  for (const { document, ...job } of finished)
    await recordJob(context, config, { name: 'drill', ...job, result: drillResult(document) });
  return code;
}

/** True for a drill of the entire latest state, restored from nothing, as the daemon's drills are: its result is recorded. */
function isFullDrill(
  { kind, organization, project, id, damage }: DrillCommandOptions,
  from: Reference,
): boolean {
  const filters = [kind, organization, project, id];
  return from.form === 'latest' && damage === undefined && filters.every((filter) => filter === undefined);
}

function requireDrillOptions({ damage, seed }: DrillCommandOptions, from: Reference): void {
  if (from.form === 'live') {
    throw new TidemarkError('usage', 'a drill needs a stored state', {
      hint: `name file:PATH, ${STORED_STATE_FORMS}`,
    });
  }
  if (seed !== undefined && damage === undefined) {
    throw new TidemarkError('usage', '--seed says which records --damage damages', {
      hint: 'add --damage PERCENT, or leave --seed out',
    });
  }
}

async function drillSource(
  context: CommandContext,
  options: DrillCommandOptions,
  config: Config,
  opener: StateOpener,
  { from, source }: { readonly from: Reference; readonly source: string | null },
): Promise<DrillDocument> {
  const name = source ?? config.sources[0]?.name ?? '';
  const configured = config.sources.find((each) => each.name === name);
  const definitions = definitionsFor(config, name);
  const state = await opener.open(from, source, { filter: {} });
  const mirror = source === null ? null : opener.mirrorIfAny();
  const asked = await withRealIds(options, config, {
    ...knownTo(context, opener, [source], []),
    states: () => Promise.resolve([{ source, state }]),
  });
  const log = commandLog(context, 'error');
  const progress =
    isInteractive(context) && context.env['TERM'] !== 'dumb' ? showDrillProgress(context) : null;
  const services: DrillSandbox[] = [];
  try {
    return await runDrill({
      state,
      filter: filterOf(asked.options),
      definitions,
      secrets:
        configured === undefined
          ? NO_SECRETS
          : configuredSecrets(configured.secrets, mirror?.restores.idMap(name)),
      ownUser: configured?.restore.ownUser ?? null,
      damage: options.damage === undefined ? null : { percent: options.damage, seed: options.seed ?? 1 },
      random: (seed) => {
        const chance = createChance(seed);
        return () => chance.between(0, 2 ** 32 - 1) / 2 ** 32;
      },
      openService: async (userUuid) => {
        const service = await openDrillSandbox({ userUuid, definitions, clock: systemClock, log });
        services.push(service);
        return service;
      },
      reader: { command: 'drill', pid: context.pid, host: hostname(), clock: systemClock },
      clock: systemClock,
      log,
      signal: context.signal,
      events: progress?.events ?? NO_DRILL_EVENTS,
    });
  } finally {
    progress?.stop();
    for (const service of services) await service.close();
  }
}

function reportOptions(
  options: DrillCommandOptions,
  config: Config,
  opener: StateOpener,
  { from, source }: { readonly from: Reference; readonly source: string | null },
): ReportOptions {
  const name = source ?? config.sources[0]?.name ?? '';
  const definitions = definitionsFor(config, name);
  const mirror = isOfMirror(from) ? opener.mirrorIfAny() : null;
  return {
    definitions,
    present: presentIn(config, name),
    showsSecrets: options.showSecrets === true,
    generatedAt: isoTime(systemClock.now()),
    ...(mirror === null || source === null ? {} : { parentName: parentNames(mirror, source, definitions) }),
  };
}

function sourceReport(
  context: CommandContext,
  options: DrillCommandOptions,
  document: DrillDocument,
  shared: ReportOptions,
  source: string | null,
): SourceReport {
  const hasRunbook = options.runbook !== undefined;
  return {
    source,
    exitCode: document.outcome === 'equal' ? EXIT.done : EXIT.partial,
    reason: document.outcome === 'equal' ? [] : shortReason(document, shared, hasRunbook),
    json: () => renderDrillJson(document, shared).trimEnd(),
    render: (format) =>
      format === 'html'
        ? renderHtml(drillReport(document, { ...shared, hasRunbook }))
        : renderText(
            drillReport(document, { ...shared, hasRunbook, timeText: localTime }),
            lineOptions(context, { isFile: options.output !== undefined }),
          ),
  };
}

function shortReason(document: DrillDocument, { definitions }: ReportOptions, hasRunbook: boolean): string[] {
  return [
    outcomeText(document),
    `  ${drillVerdictText(document)}`,
    ...groupedNotes('not in the snapshot', document.skipped, definitions).map((line) => `  ${line}`),
    ...(hasRunbook ? [] : ['  → `tidemark drill --runbook FILE` writes down what is left to do']),
  ];
}

// The progress on a terminal: one line, with a bar if the steps can be counted.

const BAR = 24; // characters
const DOING: Readonly<Record<Parameters<DrillEvents['phase']>[0], string>> = {
  reading: 'reading the sandbox back',
  planning: 'planning',
  restoring: 'restoring',
  comparing: 'comparing with the snapshot',
};

/** Shows the progress until `stop` removes it, or until the command is interrupted. */
function showDrillProgress(context: Pick<CommandContext, 'stderr' | 'signal'>): {
  readonly events: DrillEvents;
  readonly stop: () => void;
} {
  const painter = new Painter(context.stderr);
  const { stopped, stop } = untilInterrupted(
    context,
    painter,
    () => 'ending the drill (Ctrl-C again to quit at once)',
  );
  let [what, done, steps] = ['preparing', 0, null as number | null];
  const paint = (): void => {
    if (stopped.aborted) return;
    painter.paint([lineOf(what, done, steps).slice(0, painter.size.columns - 1)]);
  };
  paint();
  return {
    events: {
      phase: (name, counted) => {
        [what, done, steps] = [DOING[name], 0, counted];
        paint();
      },
      stepEnded: () => {
        done += 1;
        paint();
      },
    },
    stop,
  };
}

function lineOf(what: string, done: number, steps: number | null): string {
  if (steps === null || steps === 0) return `drill: ${what}`;
  const filled = Math.round((Math.min(done, steps) / steps) * BAR);
  return `drill: ${what} ${'█'.repeat(filled)}${'░'.repeat(BAR - filled)} ${formatInteger(done)} of ${formatInteger(steps)} steps`;
}
