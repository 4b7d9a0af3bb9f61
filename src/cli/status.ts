/**
 * `tidemark status`: the five answers of the dashboard (fresh, complete, verified, restorable, drift), what needs attention,
 * what runs next and where backups are. Sends nothing to the service.
 */
import { createColors } from 'picocolors';
import { BackupCatalog, unreadTarget } from '../backup/known-backups.ts';
import { addressOf } from '../backup/targets/target.ts';
import type { Config, TargetConfig } from '../config/config.ts';
import { mirrorConfigs, onlyMirrorConfig } from '../config/mirrors.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { asTidemarkError, combinedExitCode, EXIT, exitCodeFor, type ExitCode } from '../core/errors.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { DriftNow } from '../daemon/health/drift-now.ts';
import { type FoundDrifts, driftCounts, driftStatus } from '../daemon/health/drift-counts.ts';
import {
  type Answer,
  configuredOf,
  fiveAnswers,
  needsOf,
  type SyncedBy,
} from '../daemon/health/status-answers.ts';
import { readBackups } from '../daemon/health/backup-facts.ts';
import type { Health } from '../daemon/health/health.ts';
import { verifiedDocument } from '../daemon/health/verified.ts';
import { type HealthSnapshot, readHealthInputs, snapshotOf } from '../daemon/health/health-facts.ts';
import type { HealthView } from '../daemon/health/source-facts.ts';
import { waitProblem, waitProblemOf } from '../daemon/problems.ts';
import { Intervals } from '../daemon/schedule/intervals.ts';
import type { HealthCode } from '../daemon/health/reason.ts';
import type { ScheduleView } from '../daemon/view.ts';
import { retryTimes } from '../daemon/pending-jobs.ts';
import { Timetable, withRateLimitWaits, withRetries } from '../daemon/schedule/timetable.ts';
import { type LockHolder, withWriter } from '../mirror/lock.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { sourceDocuments } from '../state/source-documents.ts';
import { hasOtherSources, withDeadRun } from '../state/source-status.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import {
  isColoured,
  print,
  printReason,
  printShownReason,
  type CommandContext,
  terminalWidth,
  printJson,
} from './context.ts';
import { daemonOf } from './daemon-effects.ts';
import { type DaemonNow, queryDaemon, progressInDaemon, wrongKey } from './daemon-requests.ts';
import { errorLines } from './failure.ts';
import { explainMissing } from './missing-mirror.ts';
import { alteredReason, exitCode, statusReason, syncsThen } from './status-reason.ts';
import { diskReasons, isDiskFull, killedReasons, syncedByOf, withMachineProblems } from './status-machine.ts';
import { type StatusFacts, statusText } from './status-text.ts';
import { runningRestoreText } from '../daemon/http/wording.ts';
import { renderTable } from '../report/table.ts';
import { noteUnmaskedKeys } from './unmasked-keys.ts';

/**
 * Exit 0 if the mirror of every configured source is complete, 3 if not or if the disk is full, 1 if nothing was ever published
 * or another program altered the mirror. A source that is no longer configured is shown, but does not count.
 */
export async function status(context: CommandContext): Promise<ExitCode> {
  // The log of requests, which shows until when a sync would wait, is found by the key.
  const loaded = readLoadedConfig(context, context.options, 'optional');
  noteUnmaskedKeys(context, loaded);
  const configs = mirrorConfigs(loaded);
  const { json, verbose } = context.options;
  if (configs.length > 1 && json !== true && verbose !== true) return await statusOfMirrors(context, configs);
  const config = onlyMirrorConfig(loaded);
  using mirror = openConfiguredMirror(config, 'read', 'status', context.pid);
  const now = systemClock.now();
  const { view, found, ...facts } = await readHealth(context, config, mirror, now);
  const { snapshot, upkeep } = facts;
  const statuses = snapshot.sourceStatuses;
  const progress = await progressInDaemon(
    context,
    config,
    statuses.map(({ lastRun }) => lastRun),
  );
  const own = configuredOf(snapshot);
  if (context.options.json === true) {
    const hasOthers = hasOtherSources(config, statuses);
    const sources = sourceDocuments(
      mirror,
      statuses,
      { now, hasOthers },
      {
        progressOf: (source) => progress.get(source)?.progress ?? null,
        driftOf: (source) => driftStatus(found, snapshot.lastJobs, source),
      },
    );
    const verified = verifiedDocument(snapshot);
    const document = { schema: 'tidemark.status/1', mirror: mirror.path, verified, sources };
    await printJson(context, document);
  } else if (statuses.length === 0) {
    await print(context, `${EMPTY}\n`);
  } else {
    await print(
      context,
      statusText(context, {
        ...facts,
        config,
        mirror,
        drift: driftCounts(snapshot, found),
        schedules: view.schedules(),
        progress,
      }),
    );
  }
  const isFull = isDiskFull(mirror.path);
  const code = exitCode(own, snapshot, isFull);
  const reason = [
    ...alteredReason(snapshot),
    ...(isFull ? diskReasons([config]) : []),
    ...own.flatMap((each) => statusReason(withDeadRun(mirror, each), config, upkeep)),
  ];
  if (code !== EXIT.done) printShownReason(context, own.length === 0 ? [EMPTY] : reason);
  return code;
}

const EMPTY = 'no run yet, and no source is configured: set one up and run `tidemark sync`';

interface HealthShown extends Pick<
  StatusFacts,
  'snapshot' | 'writer' | 'backups' | 'hasDaemon' | 'knowsMore' | 'upkeep'
> {
  readonly view: HealthView;
  readonly found: FoundDrifts;
}

/** How long to wait for a directory of backups: it may be on a network disk that hangs. */
const BACKUPS_WAIT_MS = 3_000;
/** The same for further mirrors, once a directory could not be read: hundreds of mirrors may share a disk. */
const BACKUPS_IMPATIENT_MS = 250;

interface LookOptions {
  readonly waitMs?: number;
  /** What the daemon answered; null if none could be asked, undefined if it was not asked yet. */
  readonly daemon?: DaemonNow | null | undefined;
}

/** The mirror's health, for the configured or selected sources. @throws TidemarkError what reading the mirror throws */
async function readHealth(
  context: CommandContext,
  config: Config,
  mirror: Mirror,
  now: number,
  { waitMs = BACKUPS_WAIT_MS, daemon }: LookOptions = {},
): Promise<HealthShown> {
  const configured = config.sources.map(({ name }) => name);
  const card = daemonOf(context, config.mirror);
  const hasDaemon = card?.isOnce === false;
  let living = daemon ?? null;
  const known = syncedByOf(mirror, configured[0] ?? mirror.runs.sources()[0] ?? '', hasDaemon, {
    pid: context.pid,
    now,
  });
  const upkeep = card?.isOnce === true ? 'once' : known;
  const view = healthView(config, mirror, now, { upkeep, daemon: () => living });
  // Before the snapshot, which uses what is known of backups by then.
  const backups = await readBackups(view, waitMs);
  const { inputs, writer } = readWithWriter(mirror, () =>
    readHealthInputs(view, mirror, now, {
      // Without a configured source, all sources of the mirror.
      sources: configured.length > 0 ? configured : mirror.runs.sources(),
      ...(context.options.source === undefined ? {} : { others: [] }),
    }),
  );
  // If something is late or failed, only the daemon may know why, for example that the service hangs; otherwise it is not asked.
  const isFirst = configuredOf(inputs).some(({ lastComplete }) => lastComplete === null);
  const isUnexplained = (): boolean =>
    needsOf(snapshotOf(view, inputs, now, mirror)).some(({ code }) => ASKED_ABOUT.has(code));
  if (daemon === undefined && hasDaemon && (isFirst || isUnexplained()))
    living = await queryDaemon(context, config);
  const drift = new DriftNow();
  const names = configuredOf(inputs).map(({ source }) => source);
  const found = await drift.ofAll(mirror, config, names, now);
  const seen = snapshotOf(view, { ...inputs, damage: drift.damage(mirror) }, now, mirror);
  const health = withMachineProblems(seen.health, mirror, context.pid, now);
  const wrong = [{ source: null, reasons: health.reasons }, ...health.sources].flatMap(
    ({ source, reasons }) => reasons.map(({ code }) => wrongKey(code, source)),
  );
  const knowsMore = hasDaemon && living?.wrong.every((each) => wrong.includes(each)) !== true;
  return { view, snapshot: { ...seen, health }, found, writer, backups, hasDaemon, knowsMore, upkeep };
}

/** Problems whose cause only the daemon may know. */
const ASKED_ABOUT: ReadonlySet<string> = new Set<HealthCode>(['stale', 'run_failed', 'backup_overdue']);

/** Reads, then looks who holds the writer lock; reads again if a run ended in between, whose results would be missing. */
function readWithWriter<Inputs extends Pick<HealthSnapshot, 'sourceStatuses'>>(
  mirror: Mirror,
  read: () => Inputs,
): { readonly inputs: Inputs; readonly writer: LockHolder | null | undefined } {
  for (;;) {
    const inputs = read();
    const found = inputs.sourceStatuses.flatMap(({ lastRun }) =>
      lastRun?.outcome === 'running' ? [lastRun] : [],
    );
    const { rows, writer } = withWriter(mirror.path, found, ({ run }) => mirror.runs.get(run));
    if (rows.every(({ outcome }) => outcome === 'running')) return { inputs, writer };
  }
}

/** What the daemon's health check would see, also without a daemon: due times are those stored in the mirror. */
function healthView(
  config: Config,
  mirror: Mirror,
  now: number,
  { upkeep, daemon }: { readonly upkeep: SyncedBy; readonly daemon: () => DaemonNow | null },
): HealthView {
  const names = config.sources.map(({ name }) => name);
  const isOwn = ({ source }: { readonly source: string | null }): boolean =>
    source === null || names.includes(source);
  const timetable = new Timetable({ random: () => 0, isSpread: false, share: () => null });
  const rows = mirror.daemon.schedules();
  // Schedules that no daemon has ever used are not in force.
  if (upkeep === 'daemon' || rows.length > 0) timetable.adopt(config, now, rows, () => null);
  const intervals = new Intervals();
  intervals.adopt(config, timetable.views(), now, mirror.daemon.intervals());
  const catalog = new BackupCatalog(systemClock);
  const sync = timetable.views().find(({ schedule }) => schedule === 'sync');
  const retries = sync === undefined ? new Map<string, number>() : retryTimes(mirror, config, sync.dueAt);
  const waits = config.sources.flatMap((source) => {
    const wait = waitProblem(source, config, systemClock, syncsThen(upkeep));
    const isPutOff =
      sync?.sources.includes(source.name) === true && !((wait?.freeAt ?? 0) < Date.parse(sync.dueAt ?? ''));
    return wait !== null && (isPutOff || wait.isAsked) ? [{ ...wait, source: source.name, isPutOff }] : [];
  });
  const putOff = new Map(
    waits.flatMap(({ source, freeAt, isPutOff }) => (isPutOff ? [[source, freeAt]] : [])),
  );
  const problems = waits.map(({ source, error }) => ({
    ...{ about: waitProblemOf(source), since: isoTime(now), error },
  }));
  // Directories only: `status` sends nothing, so buckets are left to `tidemark backup`.
  const local = (targets: readonly TargetConfig[]): TargetConfig[] =>
    targets.filter(({ type }) => type === 'directory');
  return {
    startedAt: isoTime(now),
    addedAt: () => isoTime(now),
    scheduledAt: () => null,
    config: () => config,
    configProblem: () => null,
    mirror: () => mirror,
    completeRuns: new Map(),
    backups: {
      look: async (targets, own, givenMs) => {
        const waitMs = givenMs ?? BACKUPS_WAIT_MS;
        await catalog.look(local(targets), own, waitMs);
        return local(targets).map((target) => {
          const [shown] = catalog.remembered([target]);
          return shown ?? unreadTarget(addressOf(target), `it has not answered for ${waitMs / 1000} s`);
        });
      },
      known: (targets, own) => catalog.known(local(targets), own),
      remembered: (targets) => catalog.remembered(local(targets)),
    },
    schedules: () =>
      withRateLimitWaits(
        withRetries(
          timetable.views().map((each) => withPauses(each, daemon())),
          retries.values(),
        ),
        (source) => putOff.get(source) ?? null,
      ),
    intervalChange: (name) => intervals.changeOf(name),
    running: () => (daemon()?.running ?? []).filter(isOwn),
    queued: () => (daemon()?.queued ?? []).filter(isOwn),
    problems: () => problems,
    readsChannels: true,
  };
}

/** The schedule with the pauses of its sources, which only the daemon knows. */
function withPauses(view: ScheduleView, daemon: DaemonNow | null): ScheduleView {
  if (view.schedule !== 'sync') return view;
  const own = daemon?.pauses.find(({ paused }) => paused.some(({ source }) => view.sources.includes(source)));
  return own === undefined ? view : { ...view, ...own };
}

// Sources with mirrors of their own: a line per source.

interface MirrorLine {
  readonly source: string;
  readonly records: number;
  /** The daemon's own answer, if one runs; else by the same rules, and `failing` if the mirror could not be opened. */
  readonly state: Health['state'];
  /** Empty if the mirror could not be opened. */
  readonly answers: readonly Answer[];
  readonly upkeep: SyncedBy;
  /** False if a directory of its backups could not be read. */
  readonly areBackupsRead: boolean;
  /** Lines about a restore that is being applied. */
  readonly restoring: readonly string[];
  readonly reason: readonly string[];
  readonly exitCode: ExitCode;
}

/** The conditions that the summary counts, worst first: the state of health, or for a healthy mirror what its answers say. */
const CONDITIONS = [
  'failing',
  'degraded',
  'starting',
  'to look at',
  'not synced by a schedule',
  'fine',
] as const;

function conditionOf({ state, answers, exitCode }: MirrorLine): (typeof CONDITIONS)[number] {
  if (state !== 'ok') return state;
  const isWrong = answers.some(({ tone }) => tone === 'bad' || tone === 'warn');
  if (exitCode !== EXIT.done || isWrong) return 'to look at';
  const isFollowed = answers.some(({ question, tone: own }) => question === 'Fresh' && own === 'good');
  return isFollowed ? 'fine' : 'not synced by a schedule';
}

/** `16 fine, of which 12 not verified yet`. A mirror that was never verified counts as fine. */
function tallyText(word: (typeof CONDITIONS)[number], lines: readonly MirrorLine[]): string {
  const unverified = lines.filter(({ answers }) =>
    answers.some(({ question, tone }) => question === 'Verified' && tone === 'plain'),
  ).length;
  const text = `${formatInteger(lines.length)} ${word}`;
  if (word !== 'fine' || unverified === 0) return text;
  if (unverified === lines.length) return `${text}, not verified yet`;
  return `${text}, of which ${formatInteger(unverified)} not verified yet`;
}

/** One screen for all mirrors, the worst first, each of the five answers in a word. `--source` shows the rest. */
async function statusOfMirrors(context: CommandContext, configs: readonly Config[]): Promise<ExitCode> {
  const lines: MirrorLine[] = [];
  // One daemon works on all mirrors; beside a mirror whose volume is not mounted, its lock file is missing.
  const followed = configs.find(({ mirror }) => daemonOf(context, mirror) !== null);
  const daemon = followed === undefined ? null : await queryDaemon(context, followed);
  for (const config of configs) {
    const isPatient = lines.every(({ areBackupsRead }) => areBackupsRead);
    const waitMs = isPatient ? BACKUPS_WAIT_MS : BACKUPS_IMPATIENT_MS;
    lines.push(await mirrorLine(context, config, { waitMs, daemon }));
  }
  const rankOf = (line: MirrorLine): number => CONDITIONS.indexOf(conditionOf(line));
  const ordered = lines.toSorted((one, other) => rankOf(one) - rankOf(other));
  const questions = ordered.find(({ answers }) => answers.length > 0)?.answers ?? [];
  const table = renderTable(
    ['source', ...questions.map(({ question }) => question.toLowerCase()), 'records'],
    ordered.map(({ source, answers, records }) => [
      source,
      ...questions.map((_question, index) => answers[index]?.word ?? 'Unknown'),
      formatInteger(records),
    ]),
    ['left', ...questions.map(() => 'left' as const), 'right'],
    { width: terminalWidth(context) },
  );
  const summary = CONDITIONS.flatMap((word) => {
    const those = lines.filter((line) => conditionOf(line) === word);
    return those.length === 0 ? [] : [tallyText(word, those)];
  }).join(', ');
  const { bold } = createColors(isColoured(context));
  const head = bold(`${plural(lines.length, 'source')} with mirrors of their own: ${summary}.`);
  const next = lines.every(({ upkeep }) => upkeep === 'once')
    ? 'Next: what is due, when `daemon --once` is called\n'
    : 'Next: no daemon is running; `tidemark daemon` starts what is scheduled\n';
  const restoring = ordered.flatMap((line) => line.restoring);
  const shown = restoring.length === 0 ? '' : `${restoring.join('\n')}\n\n`;
  const killed = killedReasons(configs, context.pid, systemClock.now());
  await print(
    context,
    `${head}\n\n${table}\n\n${shown}${followed === undefined ? next : ''}Details: tidemark status --source NAME\n`,
  );
  printReason(context, [...killed, ...diskReasons(configs), ...ordered.flatMap(({ reason }) => reason)]);
  return combinedExitCode(lines.map(({ exitCode: code }) => code));
}

/** The line of one source. If its mirror cannot be opened, the line says so. */
async function mirrorLine(
  context: CommandContext,
  config: Config,
  { waitMs, daemon }: Required<LookOptions>,
): Promise<MirrorLine> {
  const source = config.sources.map(({ name }) => name).join(', ');
  const daemonState = daemon?.states.get(source);
  try {
    using mirror = openConfiguredMirror(config, 'read', 'status', context.pid);
    const now = systemClock.now();
    const health = await readHealth(context, config, mirror, now, { waitMs, daemon });
    const { snapshot, found, backups, upkeep } = health;
    const own = configuredOf(snapshot).map((status) => withDeadRun(mirror, status));
    const drift = driftCounts(snapshot, found);
    return {
      source,
      records: own.reduce((sum, { records }) => sum + records, 0),
      state: daemonState ?? snapshot.health.state,
      answers: fiveAnswers(snapshot, drift, { config, upkeep }),
      upkeep,
      areBackupsRead: (backups?.problems ?? []).length === 0,
      restoring: snapshot.restoring.map((each) => `${source}: ${runningRestoreText(each, now)}`),
      reason: [
        ...alteredReason(snapshot).map((line) => (line.startsWith(' ') ? line : `${source}: ${line}`)),
        ...own.flatMap((each) => statusReason(each, config, upkeep)),
      ],
      exitCode: exitCode(own, snapshot, isDiskFull(mirror.path)),
    };
  } catch (thrown) {
    const { code, message, hint } = asTidemarkError(await explainMissing(context, thrown));
    const reason = errorLines({ message: `${source}: ${message}`, hint });
    return {
      source,
      records: 0,
      state: daemonState ?? 'failing',
      answers: [],
      upkeep: 'nobody',
      areBackupsRead: true,
      restoring: [],
      reason,
      exitCode: exitCodeFor(code),
    };
  }
}
