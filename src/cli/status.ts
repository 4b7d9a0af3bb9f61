/**
 * `tidemark status`: the five answers of the dashboard (fresh, complete, verified, restorable, drift) with what needs a
 * person, what runs next and where backups are; with `--verbose` each kind. Reads the mirror only.
 */
import { hostname } from 'node:os';
import { createColors } from 'picocolors';
import { BackupCatalog, type BackupsShown } from '../backup/list.ts';
import type { Config, TargetConfig } from '../config/config.ts';
import { mirrorConfigs, onlyMirrorConfig } from '../config/mirrors.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { asTidemarkError, combinedExitCode, EXIT, exitCodeFor, type ExitCode } from '../core/errors.ts';
import { count, duration, plural } from '../core/wording.ts';
import { DriftNow } from '../daemon/http/drift-now.ts';
import {
  type Answer,
  type DriftCounts,
  driftCounts,
  fiveAnswers,
  needsOf,
  sinceOf,
  verdictText,
} from '../daemon/http/five-answers.ts';
import {
  type HealthSnapshot,
  type HealthView,
  lookAtBackups,
  readHealthSnapshot,
} from '../daemon/http/health-snapshot.ts';
import { ahead, byteSize } from '../daemon/http/wording.ts';
import { findDaemon } from '../daemon/lockfile.ts';
import { Timetable } from '../daemon/schedule/timetable.ts';
import type { ScheduleView } from '../daemon/view.ts';
import { type LockHolder, writerOf } from '../mirror/lock.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow, UnreadCollection } from '../mirror/run-rows.ts';
import type { RunProgress } from '../state/documents.ts';
import {
  type SourceStatus,
  isStuck,
  listedTwiceText,
  nextSteps,
  recentSchemaChanges,
  sourceDocuments,
} from '../state/source-status.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import { collectionsText, groupAlike, groupText, oldestOf } from './plan-reason.ts';
import { isColoured, print, printReason, type CommandContext, terminalWidth } from './context.ts';
import { progressInDaemon } from './daemon-requests.ts';
import { schemaChangeLines } from './run.ts';
import { wrapText } from '../core/wrap.ts';
import { renderTable } from '../report/table.ts';
import { age, runFailure } from './export-notes.ts';

/**
 * Exit 0 when the mirror of every configured source is complete, 3 when something is not, 1 when nothing was ever
 * published. A source that is no longer configured is shown and does not count.
 */
export async function status(context: CommandContext): Promise<ExitCode> {
  const loaded = readLoadedConfig(context, context.options, 'unused');
  const configs = mirrorConfigs(loaded);
  const { json, verbose } = context.options;
  if (configs.length > 1 && json !== true && verbose !== true) return await statusOfMirrors(context, configs);
  const config = onlyMirrorConfig(loaded);
  const mirror = openConfiguredMirror(config, 'read', 'status', context.pid);
  try {
    const now = systemClock.now();
    const { view, snapshot, hasDaemon } = lookAtHealth(context, config, mirror, now);
    const statuses = snapshot.sourceStatuses;
    const progress = await progressInDaemon(
      context,
      config,
      statuses.map(({ lastRun }) => lastRun),
    );
    if (context.options.json === true) {
      const sources = sourceDocuments(mirror, statuses, now, (source) => progress.get(source) ?? null);
      const document = { schema: 'tidemark.status/1', mirror: mirror.path, sources };
      await print(context, `${JSON.stringify(document)}\n`);
    } else if (statuses.length === 0) {
      await print(context, `${EMPTY}\n`);
    } else {
      const names = statuses.map(({ source }) => source);
      const found = await new DriftNow().ofAll(mirror, config, names, now);
      const backups = await lookAtBackups(view);
      await print(
        context,
        statusText(context, {
          config,
          mirror,
          snapshot,
          drift: driftCounts(snapshot, found),
          backups,
          schedules: view.schedules(),
          hasDaemon,
          progress,
        }),
      );
    }
    const own = statuses.filter(({ isConfigured }) => isConfigured);
    const code = exitCode(own);
    if (code !== EXIT.done) printReason(context, own.length === 0 ? [EMPTY] : own.flatMap(statusReason));
    return code;
  } finally {
    mirror.close();
  }
}

const EMPTY = 'no run yet, and no source is configured: set one up and run `tidemark sync`';

/** The mirror's health, of the sources that are asked for. */
function lookAtHealth(
  context: CommandContext,
  config: Config,
  mirror: Mirror,
  now: number,
): { readonly view: HealthView; readonly snapshot: HealthSnapshot; readonly hasDaemon: boolean } {
  const configured = config.sources.map(({ name }) => name);
  const hasDaemon = findDaemon(config.mirror, { pid: context.pid, host: hostname(), now }) !== null;
  const view = healthView(config, mirror, now, hasDaemon);
  const snapshot = readHealthSnapshot(view, now, {
    // Without a configured source, the mirror itself knows whose records it holds.
    sources: configured.length > 0 ? configured : mirror.runs.sources(),
    ...(context.options.source === undefined ? {} : { others: [] }),
  });
  return { view, snapshot, hasDaemon };
}

/** What the daemon's health check would see, without one: due times are those that the mirror remembers. */
function healthView(config: Config, mirror: Mirror, now: number, hasDaemon: boolean): HealthView {
  const timetable = new Timetable({ random: () => 0, isSpread: false, share: () => null });
  const rows = mirror.daemon.schedules();
  // Schedules that no daemon ever served are in force for nobody.
  if (hasDaemon || rows.length > 0) timetable.adopt(config, now, rows, () => false);
  const catalog = new BackupCatalog(systemClock);
  // Nothing is sent: what a bucket holds is for \`tidemark backup\`.
  const local = (targets: readonly TargetConfig[]): TargetConfig[] =>
    targets.filter(({ type }) => type === 'directory');
  return {
    startedAt: isoTime(now),
    config: () => config,
    configProblem: () => null,
    mirror: () => mirror,
    backups: {
      look: (targets, own) => catalog.look(local(targets), own),
      known: (targets, own) => catalog.known(local(targets), own),
      remembered: (targets) => catalog.remembered(local(targets)),
    },
    schedules: () => timetable.views(),
    running: () => [],
    queued: () => [],
    problems: () => [],
  };
}

function exitCode(sources: readonly SourceStatus[]): ExitCode {
  if (sources.every(({ lastPublished }) => lastPublished === null)) return EXIT.failed;
  return sources.every(({ state }) => state === 'whole') ? EXIT.done : EXIT.partial;
}

/** Why the mirror of a source is not complete, for stderr; nothing where it is. */
function statusReason({
  source,
  state,
  lastRun,
  lastEnded,
  lastWholeEnded,
  unread,
  held,
}: SourceStatus): string[] {
  if (state === 'whole') return [];
  const sync = `  → run \`tidemark sync --source ${source}\``;
  if (state === 'never_synced') return [`${source} was never synced`, sync];
  if (state === 'unpublished')
    return [`no run of ${source} was published yet`, ...(lastRun?.outcome === 'running' ? [] : [sync])];
  const run = [lastEnded, lastWholeEnded].find((each) => each !== null && each.outcome !== 'complete');
  const groups = groupAlike(unread, ({ outcome }) => outcome ?? '');
  return [
    `the mirror of ${source} is not up to date`,
    ...(run === undefined || run === null
      ? []
      : [`  run ${run.run} ended as ${run.outcome}${run.error === null ? '' : `: ${run.error}`}`]),
    ...groups.map((group) => `  ${collectionsText(group)}: ${group[0].outcome ?? 'not read yet'}`),
    ...(held.length === 0 ? [] : [`  removals are held in ${plural(held.length, 'collection')}`]),
    `${sync}; \`tidemark doctor --source ${source}\` shows what the key reaches`,
  ];
}

// Sources with mirrors of their own: a line each.

interface MirrorLine {
  readonly source: string;
  readonly records: number;
  /** Empty where the mirror could not be opened. */
  readonly answers: readonly Answer[];
  readonly reason: readonly string[];
  readonly exitCode: ExitCode;
}

const TONES_WORST_FIRST = ['bad', 'warn', 'plain', 'good'] as const;

/** One screen for all of them: the five answers of each in a word, the worst first. `--source` has the rest. */
async function statusOfMirrors(context: CommandContext, configs: readonly Config[]): Promise<ExitCode> {
  const lines: MirrorLine[] = [];
  for (const config of configs) lines.push(await mirrorLine(context, config));
  const rankOf = ({ answers, exitCode }: MirrorLine): number =>
    TONES_WORST_FIRST.indexOf(exitCode === EXIT.done ? worstTone(answers) : 'bad');
  const ordered = lines.toSorted((one, other) => rankOf(one) - rankOf(other));
  const questions = ordered.find(({ answers }) => answers.length > 0)?.answers ?? [];
  const table = renderTable(
    ['source', ...questions.map(({ question }) => question.toLowerCase()), 'records'],
    ordered.map(({ source, answers, records }) => [
      source,
      ...questions.map((_question, index) => answers[index]?.word ?? 'No mirror'),
      count(records),
    ]),
    ['left', ...questions.map(() => 'left' as const), 'right'],
    { width: terminalWidth(context) },
  );
  const tally = TONES_WORST_FIRST.map((tone, rank) => ({
    word: { bad: 'failing', warn: 'to look at', plain: 'not scheduled or not checked', good: 'fine' }[tone],
    times: lines.filter((line) => rankOf(line) === rank).length,
  })).filter(({ times }) => times > 0);
  const summary = tally.map(({ word, times }) => `${count(times)} ${word}`).join(', ');
  const { bold } = createColors(isColoured(context));
  const head = bold(`${plural(lines.length, 'source')} with mirrors of their own: ${summary}.`);
  await print(context, `${head}\n\n${table}\n\nDetails: tidemark status --source NAME\n`);
  printReason(
    context,
    ordered.flatMap(({ reason }) => reason),
  );
  return combinedExitCode(lines.map(({ exitCode: code }) => code));
}

function worstTone(answers: readonly Answer[]): Answer['tone'] {
  return TONES_WORST_FIRST.find((tone) => answers.some((answer) => answer.tone === tone)) ?? 'plain';
}

/** A mirror that cannot be opened is reported with its source, and the others are shown. */
async function mirrorLine(context: CommandContext, config: Config): Promise<MirrorLine> {
  const source = config.sources.map(({ name }) => name).join(', ');
  let mirror: Mirror | null = null;
  try {
    mirror = openConfiguredMirror(config, 'read', 'status', context.pid);
    const now = systemClock.now();
    const { snapshot } = lookAtHealth(context, config, mirror, now);
    const own = snapshot.sourceStatuses.filter(({ isConfigured }) => isConfigured);
    const drift = driftCounts(snapshot, await new DriftNow().ofAll(mirror, config, [source], now));
    return {
      source,
      records: own.reduce((sum, { records }) => sum + records, 0),
      answers: fiveAnswers(snapshot, drift),
      reason: own.flatMap(statusReason),
      exitCode: exitCode(own),
    };
  } catch (thrown) {
    const { code, message, hint } = asTidemarkError(thrown);
    const reason = [`${source}: ${message}`, ...(hint === undefined ? [] : [`  → ${hint}`])];
    return { source, records: 0, answers: [], reason, exitCode: exitCodeFor(code) };
  } finally {
    mirror?.close();
  }
}

// The text: one screen of 80 columns, but for what is wrong.

interface StatusFacts {
  readonly config: Config;
  readonly mirror: Mirror;
  readonly snapshot: HealthSnapshot;
  /** Null where there is no baseline. */
  readonly drift: DriftCounts | null;
  readonly backups: BackupsShown | null;
  readonly schedules: readonly ScheduleView[];
  readonly hasDaemon: boolean;
  /** By source: what a run under way has read so far. */
  readonly progress: ReadonlyMap<string, RunProgress>;
}

function statusText(context: CommandContext, facts: StatusFacts): string {
  const { snapshot, mirror, drift } = facts;
  const { sourceStatuses: statuses, now } = snapshot;
  const { bold } = createColors(isColoured(context));
  const width = terminalWidth(context);
  const records = statuses.reduce((sum, status) => sum + status.records, 0);
  const names = statuses.map(({ source }) => source).join(', ');
  const twice = statuses.flatMap(({ kinds }) => listedTwiceText(kinds) ?? [])[0];
  const lines = [
    `${names}: ${plural(records, 'record')}, mirror ${mirror.path}`,
    ...(twice === undefined ? [] : wrapText(`(${twice})`, width ?? Infinity)),
    ...needsLines(facts),
    ...statuses.flatMap((status) => sourceLines(status, facts, context.options.verbose === true)),
    '',
    nextLine(facts),
    backupLine(facts.config, facts.backups, now),
  ];
  const needs = needsOf(snapshot).length;
  const text = [
    bold(`${verdictText(snapshot, drift, needs)}.`),
    ...answerLines(context, fiveAnswers(snapshot, drift, facts.config.sources.length > 0), width),
    '',
    ...lines.flatMap((line) => line.split('\n')).map(escapeControlCharacters),
  ];
  return `${text.join('\n')}\n`;
}

/** A line an answer: the question, the word, and what it rests on. */
function answerLines(
  context: CommandContext,
  answers: readonly Answer[],
  width: number | undefined,
): string[] {
  const { green, yellow, red, dim } = createColors(isColoured(context));
  const color = { good: green, warn: yellow, bad: red, plain: dim };
  const longest = Math.max(...answers.map(({ word }) => word.length));
  return answers.flatMap(({ question, tone, word, line }) => {
    const head = `  ${question.padEnd(12)}${color[tone](word)}${' '.repeat(longest - word.length + 2)}`;
    const indent = 2 + 12 + longest + 2;
    const [first = '', ...rest] = wrapText(escapeControlCharacters(line), (width ?? Infinity) - indent);
    return [head + first, ...rest.map((each) => ' '.repeat(indent) + each)];
  });
}

/** What concerns a source is explained with the source. */
function needsLines({ snapshot }: StatusFacts): string[] {
  const needs = needsOf(snapshot);
  if (needs.length === 0) return [];
  return [
    '',
    'Needs attention:',
    ...needs.flatMap((need) => {
      const { source, message, hint } = need;
      const since = sinceOf(need);
      return [
        `  ${source === null ? '' : `${source}: `}${message}${since === null ? '' : `, ${age(since, snapshot.now)}`}`,
        ...(hint === null || source !== null ? [] : [`    → ${hint}`]),
      ];
    }),
  ];
}

/** What is wrong with a source, and what to do; with `isVerbose` its runs and kinds as well. */
function sourceLines(
  status: SourceStatus,
  { mirror, snapshot, progress }: StatusFacts,
  isVerbose: boolean,
): string[] {
  const { sourceStatuses, now } = snapshot;
  const hasOthers = sourceStatuses.length > 1;
  const steps = nextSteps(status, hasOthers).map((step) => `  → ${step}`);
  const isTold = isVerbose || steps.length > 0;
  const changes = recentSchemaChanges(mirror, status.source, now);
  return [
    ...(isTold
      ? [
          '',
          `${status.source}:`,
          ...runLines(status, writerFor(mirror, status), now, progress.get(status.source)).map(
            (line) => `  ${line}`,
          ),
        ]
      : []),
    ...(status.lastPublished === null || !isVerbose ? [] : ['', kindTable(status, now)]),
    ...unreadLines(status, now, isVerbose),
    ...(isTold && isVerbose ? [''] : []),
    ...steps,
    ...schemaLines(changes, now),
  ];
}

/** Who works on the mirror while a run has not ended: null if nobody does, undefined if that is not known. */
function writerFor({ path }: Mirror, { lastRun }: SourceStatus): LockHolder | null | undefined {
  if (lastRun?.outcome !== 'running') return undefined;
  try {
    return writerOf(path);
  } catch {
    // On a read-only disk the lock cannot be tried: the text says both.
    return undefined;
  }
}

function runLines(
  { state, lastRun, lastPublished, lastComplete }: SourceStatus,
  writer: LockHolder | null | undefined,
  now: number,
  progress?: RunProgress,
): string[] {
  if (lastRun === null || state === 'never_synced') return ['never synced'];
  const lines: string[] = [];
  if (lastRun.outcome === 'running') {
    const began = `run ${lastRun.run} began ${age(lastRun.startedAt, now)}`;
    if (writer === null) lines.push(`${began} and never ended: its process died`);
    else if (isStuck(lastRun, now)) lines.push(`${began} and never ended: its process probably died`);
    else if (writer === undefined)
      lines.push(`${began} and has not ended: it is running, or its process died`);
    else lines.push(`${began} and is running (${writer.command}, process ${writer.pid} on ${writer.host})`);
    if (progress !== undefined) {
      const { records, pages, requests } = progress;
      lines.push(
        `read so far: ${plural(records, 'record')} in ${plural(pages, 'page')}, ${plural(requests, 'request')}`,
      );
    }
  } else {
    const outcome = lastRun.outcome === 'failed' ? runFailure(lastRun) : lastRun.outcome;
    const ended = age(lastRun.finishedAt ?? lastRun.startedAt, now);
    lines.push(`last run: ${lastRun.run}, ${outcome}${narrowing(lastRun)}, ${ended}`);
  }
  if (lastPublished === null) {
    lines.push('no run was published yet: the mirror holds nothing of this source');
  } else if (lastPublished.run !== lastRun.run) {
    lines.push(
      `the mirror holds run ${lastPublished.run}: ${lastPublished.outcome}${narrowing(lastPublished)}, ${age(lastPublished.finishedAt, now)}`,
    );
  }
  if (lastPublished !== null && lastComplete?.run !== lastRun.run) {
    lines.push(
      lastComplete === null
        ? `no run${lastRun.kinds === null ? '' : ' of all kinds'} has been complete yet`
        : `last complete run: ${lastComplete.run}, ${age(lastComplete.finishedAt, now)}`,
    );
  }
  return lines;
}

/** ` (roles only)` for a run that was limited to some kinds. */
function narrowing({ kinds }: Pick<RunRow, 'kinds'>): string {
  return kinds === null ? '' : ` (${kinds.join(', ')} only)`;
}

function kindTable({ kinds, sampledKinds }: SourceStatus, now: number): string {
  return renderTable(
    ['kind', 'collections', 'records', 'last complete', 'state'],
    kinds.map(({ kind, collections, records, whole, oldestWholeAt }) => {
      const sampled = sampledKinds.find((each) => each.kind === kind);
      const stale = collections - whole;
      const word = oldestWholeAt === null ? 'incomplete' : 'stale';
      const current =
        sampled === undefined ? 'complete' : `sampled, ${count(records)} of ${count(sampled.of)}`;
      return [
        kind,
        count(collections),
        count(records),
        age(oldestWholeAt, now),
        stale === 0 ? current : stale === collections ? word : `${count(stale)} ${word}`,
      ];
    }),
    ['left', 'right', 'right', 'right', 'left'],
  );
}

const UNREAD_SHOWN = 5; // groups of collections; `--verbose` has the rest

/** What the last attempt could not read. What was skipped was skipped for one cause elsewhere: one line for all of it. */
function unreadLines({ unread, unreadCount }: SourceStatus, now: number, isVerbose: boolean): string[] {
  if (unread.length === 0) return [];
  const groups = groupAlike(unread, ({ kind, outcome, error }) =>
    JSON.stringify([outcome === 'skipped' ? null : kind, outcome, error]),
  );
  const shown = isVerbose ? groups : groups.slice(0, UNREAD_SHOWN);
  return [
    `  the last attempt did not read ${plural(unreadCount, 'collection')}:`,
    ...shown.flatMap((rows) => {
      const [{ outcome, error }] = rows;
      const kinds = new Set(rows.map(({ kind }) => kind)).size;
      const names = kinds === 1 ? groupText(rows) : `${plural(rows.length, 'collection')} of ${kinds} kinds`;
      const why = `${outcome ?? 'never read'}${error === null ? '' : `: ${error}`}`;
      return [`    ${names}: ${why}`, `      ${lastCompleteText(rows, now)}`];
    }),
    ...(groups.length > shown.length ? [`    and more: \`tidemark status --verbose\``] : []),
  ];
}

function lastCompleteText(rows: readonly UnreadCollection[], now: number): string {
  const oldest = oldestOf(rows.map(({ lastCompleteAt }) => lastCompleteAt));
  if (oldest !== null) return `last complete ${age(oldest, now)}`;
  return rows.every(({ lastCompleteAt }) => lastCompleteAt === null)
    ? 'never complete'
    : 'some of them never complete';
}

const SCHEMA_CHANGES_SHOWN = 20; // lines over all runs: `--json` has the rest

/** By the run that found them, newest first. */
function schemaLines(changes: ReturnType<typeof recentSchemaChanges>, now: number): string[] {
  const shown = changes.slice(0, SCHEMA_CHANGES_SHOWN);
  const more = changes.length - shown.length;
  return [
    ...[...Map.groupBy(shown, ({ run }) => run)].flatMap(([run, own]) => {
      const [heading = '', ...rest] = schemaChangeLines(own);
      const at = own[0]?.at;
      return ['', `run ${run}${at === undefined ? '' : `, ${age(at, now)}`}: ${heading}`, ...rest];
    }),
    ...(more > 0 ? [`… ${plural(more, 'more change')} of form in the last 30 days (--json)`] : []),
  ];
}

function nextLine({ config, schedules, hasDaemon, snapshot }: StatusFacts): string {
  // The times would be of the standard schedules, which may be nobody's.
  if (config.sources.length === 0) return 'Next: not known without a configuration';
  const due = schedules.flatMap(({ schedule, dueAt }) =>
    dueAt === null ? [] : [`${schedule} ${ahead(dueAt, snapshot.now)}`],
  );
  if (!hasDaemon && due.length === 0) return 'Next: nothing is scheduled, no daemon is running';
  if (!hasDaemon) return `Next: no daemon is running; due: ${due.join(', ')}`;
  return due.length === 0 ? 'Next: nothing is scheduled' : `Next: ${due.join(', ')}`;
}

function backupLine({ backup }: Config, shown: BackupsShown | null, now: number): string {
  if (backup === null) return 'Backups: none configured, the mirror is on this machine only';
  if (shown === null) return 'Backups: their directory has not answered';
  const [latest] = shown.whole;
  const problems = shown.problems.join('; ');
  if (latest === undefined && problems !== '') return `Backups: not readable: ${problems}`;
  if (latest === undefined) return `Backups: none yet; one is due every ${duration(backup.everyMs)}`;
  const encrypted = latest.isEncrypted ? ', encrypted' : ', not encrypted';
  const damaged = shown.damaged === 0 ? '' : `; ${count(shown.damaged)} more incomplete`;
  const unread = problems === '' ? '' : `\n  not readable: ${problems}`;
  return `Backups: ${count(shown.whole.length)}, the latest ${age(isoTime(Date.parse(latest.madeAt)), now)}, as of run ${latest.run}, ${byteSize(latest.bytes)}${encrypted}${damaged}${unread}`;
}
