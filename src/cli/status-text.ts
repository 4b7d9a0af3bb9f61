/** The text of `tidemark status` about one mirror: one screen of 80 columns, plus what is wrong; with `--verbose` each kind. */
import { withConfigOption } from '../core/hints.ts';
import { excludedKinds } from '../config/mirrored-kinds.ts';
import { createColors } from 'picocolors';
import { CONTRADICTING_HINT, contradictingText } from '../backup/chain.ts';
import { type BackupsShown, othersText } from '../backup/known-backups.ts';
import { mirrorDiskText } from '../backup/mirror-disk.ts';
import { type BackupConfig, type Config, SCHEDULE_NAMES } from '../config/config.ts';
import { isoTime } from '../core/clock.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { byteSize, duration, formatInteger, plural } from '../core/wording.ts';
import { wrapText } from '../core/wrap.ts';
import type { DriftCounts } from '../daemon/health/drift-counts.ts';
import {
  type Answer,
  configuredOf,
  fiveAnswers,
  leftSourcesText,
  needsOf,
  sinceOf,
  sinceWords,
  type SyncedBy,
  verdictText,
} from '../daemon/health/status-answers.ts';
import type { HealthSnapshot } from '../daemon/health/health-facts.ts';
import type { HealthCode } from '../daemon/health/reason.ts';
import { retryingChannels } from '../daemon/notices/known-channels.ts';
import { ahead, backupInterval, dueTimePrefix, runningRestoreText } from '../daemon/http/wording.ts';
import { parseCron } from '../daemon/schedule/cron.ts';
import type { ScheduleView } from '../daemon/view.ts';
import type { LockHolder } from '../mirror/lock.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow, UnreadCollection } from '../mirror/run-rows.ts';
import { renderTable } from '../report/table.ts';
import {
  type SourceStatus,
  isStuck,
  listedTwiceText,
  hasOtherSources,
  nextStepLines,
  recentMoveText,
  recentSchemaChanges,
} from '../state/source-status.ts';
import { ifDead } from '../state/runs.ts';
import { type LiveRun, progressText } from './daemon-requests.ts';
import { isColoured, type CommandContext, terminalWidth, toRun } from './context.ts';
import { age, runFailure } from './export-notes.ts';
import { groupAlike, groupText, oldestOf } from './plan-reason.ts';
import { pauseText, stepNow } from './status-reason.ts';
import { schemaChangeLines } from './run.ts';

export interface StatusFacts {
  readonly config: Config;
  readonly mirror: Mirror;
  readonly snapshot: HealthSnapshot;
  /** The process that writes the mirror, if a run has not ended: null if there is none, undefined if that is not known. */
  readonly writer: LockHolder | null | undefined;
  /** Null if there is no baseline. */
  readonly drift: DriftCounts | null;
  readonly backups: BackupsShown | null;
  readonly schedules: readonly ScheduleView[];
  readonly hasDaemon: boolean;
  /** True if the daemon may know problems that the mirror does not show. */
  readonly knowsMore: boolean;
  /** Who starts the syncs. */
  readonly upkeep: SyncedBy;
  /** What a run under way has read so far, by source. */
  readonly progress: ReadonlyMap<string, LiveRun>;
}

/** The entire text, with a line break at the end. */
export function statusText(context: CommandContext, facts: StatusFacts): string {
  const { snapshot, mirror, drift } = facts;
  const own = configuredOf(snapshot);
  const isVerbose = context.options.verbose === true;
  const left = isVerbose ? null : leftSourcesText(snapshot);
  const { bold } = createColors(isColoured(context));
  const width = terminalWidth(context);
  const records = own.reduce((sum, status) => sum + status.records, 0);
  const names = own.map(({ source }) => source).join(', ');
  const twice = own.flatMap(({ kinds }) => listedTwiceText(kinds) ?? [])[0];
  const excluded = excludedText(facts.config);
  const onDisk = facts.backups?.onMirrorDisk ?? [];
  const lines = [
    `${names}: ${plural(records, 'record')}, mirror ${mirror.path}`,
    ...(twice === undefined ? [] : wrapText(`(${twice})`, width ?? Infinity)),
    ...(excluded === null ? [] : wrapText(`(${excluded})`, width ?? Infinity)),
    ...(left === null ? [] : wrapText(left, width ?? Infinity)),
    ...restoringLines(snapshot).map((line) => `\n${line}`),
    ...needsLines(facts),
    ...retryingChannels(facts.config, mirror, snapshot.now).map((line) => `\n${line}`),
    ...(isVerbose ? snapshot.sourceStatuses : own)
      .flatMap((status) => sourceLines(status, facts, isVerbose))
      .map((line) => withConfigOption(line, context.options.config)),
    '',
    withConfigOption(nextLine(facts), context.options.config),
    withConfigOption(backupLine(facts), context.options.config),
    ...(isVerbose && onDisk.length > 0 ? [`  ${mirrorDiskText(onDisk)}`] : []),
  ];
  const needs = needsOf(snapshot).length;
  const text = [
    bold(`${verdictText(snapshot, drift, needs)}.`),
    ...answerLines(context, fiveAnswers(snapshot, drift, facts), width),
    '',
    ...lines
      .flatMap((line) => line.split('\n'))
      .map(escapeControlCharacters)
      .map((line) => (/^ *→ /.test(line) ? toRun(line, context.options) : line)),
  ];
  return `${text.join('\n')}\n`;
}

/** The line about excluded kinds; null without any. */
function excludedText({ sources }: Config): string | null {
  const texts = new Set(sources.map((source) => excludedKinds(source).join(', ')));
  const [first = '', ...others] = texts;
  if (others.length > 0) return 'kinds are excluded by the configuration: `tidemark config check` names them';
  return first === '' ? null : `excluded by the configuration: ${first}`;
}

/** A line per answer: the question, the answer in a word, and the facts. */
function answerLines(
  context: CommandContext,
  answers: readonly Answer[],
  width: number | undefined,
): string[] {
  const { green, yellow, red, dim } = createColors(isColoured(context));
  const color = { good: green, warn: yellow, bad: red, plain: dim };
  const longest = Math.max(...answers.map(({ word }) => word.length));
  return answers.flatMap(({ question, tone, word, line, whole = line }) => {
    const head = `  ${question.padEnd(12)}${color[tone](word)}${' '.repeat(longest - word.length + 2)}`;
    const indent = 2 + 12 + longest + 2;
    const [first = '', ...rest] = wrapText(escapeControlCharacters(whole), (width ?? Infinity) - indent);
    return [head + first, ...rest.map((each) => ' '.repeat(indent) + each)];
  });
}

/** A line for each restore that is being applied; with several sources, it names its own. */
function restoringLines({ restoring, sourceStatuses, now }: HealthSnapshot): string[] {
  return restoring.map((each) => {
    const name = sourceStatuses.length > 1 ? `${each.source}: ` : '';
    return `${name}${runningRestoreText(each, now)}`;
  });
}

/** Needs of a source that the part about the source does not explain. */
const WITH_HINT: ReadonlySet<string> = new Set(['restore_interrupted', 'drift_waiting']);

/** What needs attention. Hints about a source are in the part about that source. */
function needsLines(facts: StatusFacts): string[] {
  const { snapshot, hasDaemon, knowsMore, upkeep, writer } = facts;
  const needs = needsOf(snapshot);
  if (needs.length === 0) return [];
  const isFailing = snapshot.health.state === 'failing';
  // A sync is running already.
  const isAtWork =
    !hasDaemon &&
    writer !== null &&
    configuredOf(snapshot).some(
      ({ lastRun }) => lastRun?.outcome === 'running' && !isStuck(lastRun, snapshot.now),
    );
  return [
    '',
    'Needs attention:',
    ...needs.flatMap((need) => {
      const { source, code, message, hint } = need;
      const since = sinceOf(need);
      const ago = since === null ? '' : `${sinceWords(need)}${age(since, snapshot.now)}`;
      const when = ago === '' ? '' : message.endsWith('?') ? ` (${ago})` : `, ${ago}`;
      // Without a daemon the last line says what starts a sync.
      const isExplained = WITH_HINT.has(code) || (code === 'stale' && hasDaemon);
      return [
        `  ${source === null ? '' : `${source}: `}${message.replace(/\.$/, '')}${when}`,
        ...(hint === null || (source !== null && !isExplained) ? [] : [`    → ${hint}`]),
      ];
    }),
    ...(isFailing && (knowsMore || !hasDaemon) && !isAtWork
      ? hasDaemon
        ? [ASK_DAEMON]
        : upkeep === 'once'
          ? callLines(facts)
          : [upkeep === 'fleet' ? NOT_CHECKED_IN : NO_DAEMON]
      : []),
  ];
}

// Only the daemon may know why a mirror is not current: on a full disk it cannot record anything.
const ASK_DAEMON = '  → `tidemark daemon --check` says what the running daemon reports';
const NO_DAEMON = '  → no daemon is running: start it (`tidemark daemon`), or run `tidemark sync`';
const NOT_CALLED = 'see that cron or the timer still calls `tidemark daemon --once`';

/** Cron calls every quarter of an hour (getting-started.md): if something has been due for longer, no call came, or it did not do it. */
const CALLED_WITHIN_MS = 20 * 60_000;
/** At most this many sources are named with their last sync; each has lines of its own below. */
const ENDS_NAMED = 3;
/** Reasons that say more about the last sync than that it is too long ago. */
const ENDS: ReadonlySet<string> = new Set<HealthCode>([
  'key_refused',
  'run_failed',
  'run_partial',
  'removals_held',
]);
const END_WORDS = {
  failed: 'failed',
  refused: 'was refused',
  partial: 'was partial',
  interrupted: 'was interrupted',
} as const;

const NOT_CHECKED_IN =
  '  → the workers of its fleet sync it once it is checked in (`tidemark fleet checkin`); or run `tidemark sync`';

/** Why calls of `daemon --once` do not keep the mirror current, and what to do: no call came, or how the last one ended. */
function callLines({ mirror, schedules, snapshot }: StatusFacts): string[] {
  const { health, now } = snapshot;
  // A full disk, a used-up limit or a killed call is explained above, with what to do.
  if (health.reasons.some(({ code }) => code === 'daemon_problem')) return [];
  const due = schedules.flatMap(({ schedule, dueAt }) => (schedule === 'sync' ? (dueAt ?? []) : []))[0];
  const isLeft = due !== undefined && now - Date.parse(due) > CALLED_WITHIN_MS;
  const ends = health.sources.flatMap(({ source, reasons }) => {
    const [job] = mirror.daemon.jobs({ name: 'sync', source, limit: 1 });
    if (job === undefined || job.outcome === 'done' || job.outcome === 'running') return [];
    const reason = reasons.find(({ code }) => ENDS.has(code));
    const [last] = mirror.runs.list({ source, limit: 1 });
    const isLast = last === undefined || last.run === job.run || last.startedAt < job.startedAt;
    const own =
      job.run === null ? '`tidemark runs` shows the runs' : `\`tidemark runs show ${job.run}\` says why`;
    // For held removals, the lines below have the commands. The reason's hint is left out if a command has made a run since.
    const hint =
      reason?.code === 'removals_held' ? 'removals are held' : ((isLast ? reason?.hint : null) ?? own);
    const ago = age(job.finishedAt ?? job.startedAt, now);
    return `  → the last call of \`tidemark daemon --once\` that synced ${source}, ${ago}, ${END_WORDS[job.outcome]}: ${hint}`;
  });
  if (!isLeft && ends.length > 0) return ends.slice(0, ENDS_NAMED);
  const since = isLeft ? `, and what it prints: a sync was due ${age(due, now)}` : '';
  return [`  → ${NOT_CALLED}${since}; or run \`tidemark sync\``];
}

/** What is wrong with a source, and what to do; with `isVerbose` its runs and kinds as well. */
function sourceLines(
  status: SourceStatus,
  { config, mirror, snapshot, writer: ofMirror, progress, upkeep }: StatusFacts,
  isVerbose: boolean,
): string[] {
  const { sourceStatuses, now } = snapshot;
  const { lastRun } = status;
  const writer = lastRun?.outcome === 'running' ? ofMirror : undefined;
  const settled = writer === null && lastRun !== null ? { ...status, lastRun: ifDead(lastRun) } : status;
  const isAtWork = lastRun !== null && writer !== null && writer !== undefined && !isStuck(lastRun, now);
  const stepOf = (step: string): string => `  → ${stepNow(step, status.source, config, upkeep)}`;
  const steps = nextStepLines(settled, hasOtherSources(config, sourceStatuses), isAtWork).map(stepOf);
  const live = progress.get(status.source);
  const waits = isAtWork ? pauseText(status.source, config) : '';
  const kept = live === undefined ? waits : live.kept !== '' || waits === '' ? live.kept : `; ${waits}`;
  const read = live === undefined ? kept : `${progressText(live.progress)}${kept}`;
  const isShown = isVerbose || steps.length > 0 || writer === null || kept !== '';
  const moved = recentMoveText(mirror, status.source, now);
  const changes = recentSchemaChanges(mirror, status.source, now);
  return [
    ...(isShown
      ? ['', `${status.source}:`, ...runLines(status, writer, now, read).map((line) => `  ${line}`)]
      : []),
    ...(status.lastPublished === null || !isVerbose ? [] : ['', kindTable(status, now)]),
    ...unreadLines(status, now, isVerbose),
    ...(isVerbose && steps.length > 0 ? [''] : []),
    ...steps,
    ...(moved === null ? [] : ['', moved]),
    ...schemaLines(changes, now),
  ];
}

function runLines(
  { state, lastRun, lastPublished, lastComplete }: SourceStatus,
  writer: LockHolder | null | undefined,
  now: number,
  read: string,
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
    if (read !== '') lines.push(read);
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

function kindTable({ kinds, sampledKinds, unasked }: SourceStatus, now: number): string {
  const left = unasked.map(({ kind, collections, records, run }) => [
    ...[kind, formatInteger(collections), formatInteger(records), run === null ? 'never' : `run ${run}`],
    'no longer read',
  ]);
  const read = kinds.map(({ kind, collections, records, whole, oldestWholeAt }) => {
    const sampled = sampledKinds.find((each) => each.kind === kind);
    const stale = collections - whole;
    const word = oldestWholeAt === null ? 'incomplete' : 'stale';
    const current = sampled === undefined ? 'complete' : 'sampled';
    return [
      kind,
      formatInteger(collections),
      sampled === undefined
        ? formatInteger(records)
        : `${formatInteger(records)} of ${formatInteger(sampled.of)}`,
      age(oldestWholeAt, now),
      stale === 0 ? current : stale === collections ? word : `${formatInteger(stale)} ${word}`,
    ];
  });
  return renderTable(
    ['kind', 'collections', 'records', 'last complete', 'state'],
    [...read, ...left],
    ['left', 'right', 'right', 'right', 'left'],
  );
}

const UNREAD_SHOWN = 5; // groups of collections; `--verbose` has the rest

/** What the last attempt could not read. Lists that were skipped or throttled have a common cause elsewhere: one line for all. */
function unreadLines({ unread, unreadCount }: SourceStatus, now: number, isVerbose: boolean): string[] {
  if (unread.length === 0) return [];
  // Lists with held removals were read: health counts only the others as incomplete.
  const heldCount = unread.filter(({ outcome }) => outcome === 'held').length;
  const groups = groupAlike(unread, ({ kind, outcome, errorCode, error }) =>
    JSON.stringify([outcome === 'skipped' || errorCode === 'throttled' ? null : kind, outcome, error]),
  );
  const shown = isVerbose ? groups : groups.slice(0, UNREAD_SHOWN);
  const more = unreadCount - unread.length;
  return [
    unread.every(({ outcome }) => outcome === null)
      ? `  not read so far: ${plural(unreadCount, 'list')}, of which no run has a reading:`
      : heldCount === unread.length
        ? `  the last attempt held removals of ${plural(unreadCount, 'collection')}:`
        : `  the last attempt did not complete ${plural(unreadCount - heldCount, 'collection')}${heldCount === 0 ? '' : `, and held removals of ${formatInteger(heldCount)}`}:`,
    ...shown.flatMap((rows) => {
      const [{ outcome, error }] = rows;
      const kinds = new Set(rows.map(({ kind }) => kind)).size;
      const names = kinds === 1 ? groupText(rows) : `${plural(rows.length, 'collection')} of ${kinds} kinds`;
      const why = `${outcome ?? 'never read'}${error === null ? '' : `: ${error}`}`;
      // A list with held removals was read completely: only its missing records are in doubt.
      const last = lastCompleteText(rows, now);
      const since = outcome === 'held' ? last.replace('last complete', 'list read completely') : last;
      return [`    ${names}: ${why}`, `      ${since}`];
    }),
    ...(groups.length > shown.length ? [`    and more: \`tidemark status --verbose\``] : []),
    ...(more > 0 ? [`    and ${plural(more, 'more collection')}`] : []),
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

/** Changes of the form of records, grouped by the run that found them, newest first. */
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

function nextLine({ config, schedules, hasDaemon, snapshot, upkeep, writer }: StatusFacts): string {
  // The only times would be those of the default schedules, which perhaps nobody uses.
  if (config.sources.length === 0) return 'Next: not known without a configuration';
  const isOfOurs = ({ sources }: Pick<ScheduleView, 'sources'>): boolean =>
    config.sources.some(({ name }) => sources.includes(name));
  const due = schedules.flatMap((each) => {
    const { schedule, dueAt } = each;
    if (dueAt === null || !isOfOurs(each)) return [];
    return [
      `${schedule} ${dueTimePrefix(each, schedules, snapshot.withBaseline)}${ahead(dueAt, snapshot.now)}`,
    ];
  });
  if (upkeep === 'commands')
    return 'Next: whenever `tidemark sync` is called again (cron?); no daemon is running';
  if (!hasDaemon && due.length === 0) {
    const own = SCHEDULE_NAMES.flatMap((name) => {
      const schedule = config.schedules[name];
      if (schedule === null || !isOfOurs(schedule)) return [];
      if (name === 'forget' && config.retention === null) return [];
      return `${name} every ${duration(parseCron(schedule.cron, schedule.zone).intervalMs)}`;
    });
    if (own.length === 0) return 'Next: nothing is scheduled, and no daemon is running';
    return `Next: nothing so far; \`tidemark daemon\`, or \`daemon --once\` by cron, starts what is scheduled\n  (${own.join(', ')})`;
  }
  const atWork = writer?.command.startsWith('daemon') === true ? ', one is running' : '';
  if (upkeep === 'fleet')
    return `Next, by the workers of the fleet once it is checked in: ${due.join(', ') || 'nothing is due'}`;
  if (upkeep === 'once') return `Next, when \`daemon --once\` is called${atWork}: ${due.join(', ')}`;
  if (upkeep === 'not yet') return `Next, by a daemon or when \`daemon --once\` is called: ${due.join(', ')}`;
  if (!hasDaemon) return `Next: no daemon is running; due: ${due.join(', ')}`;
  return due.length === 0 ? 'Next: nothing is scheduled' : `Next: ${due.join(', ')}`;
}

/** The line about backups. `status` sends no requests, so nothing is known of buckets. */
function backupLine(facts: StatusFacts): string {
  const { backup } = facts.config;
  if (backup === null)
    return facts.upkeep === 'fleet'
      ? 'Backups: the storage of its fleet has it as it was checked out'
      : 'Backups: none configured, the mirror is on this machine only';
  const buckets = backup.targets.filter(({ type }) => type === 's3').length;
  if (buckets === backup.targets.length) return `Backups: ${unaskedText(buckets)}`;
  const beside = buckets === 0 ? '' : `\n  ${unaskedText(buckets)}`;
  return `${directoryLine(backup, facts)}${beside}`;
}

function unaskedText(buckets: number): string {
  const where = buckets === 1 ? 'the bucket was' : 'the buckets were';
  return `${where} not asked; \`tidemark backup list\` lists what is there`;
}

function directoryLine(backup: BackupConfig, facts: StatusFacts): string {
  const { backups: shown } = facts;
  const others = shown === null ? null : othersText(shown);
  const more = others === null ? '' : `\n  ${others}: \`tidemark backup list\` names them`;
  const unlike = contradictingText(shown?.contradicting ?? []);
  return `${ownBackupsLine(backup, facts)}${unlike === null ? '' : `\n  ${unlike}; ${CONTRADICTING_HINT}`}${more}`;
}

/** When the first backup is due, and what makes it. */
function firstBackupText(
  { everyMs }: BackupConfig,
  { hasDaemon, schedules, snapshot, upkeep, writer }: StatusFacts,
): string {
  const due = schedules.flatMap(({ schedule, dueAt }) =>
    schedule === 'sync' && dueAt !== null ? dueAt : [],
  );
  const [next] = due.sort();
  const isAtWork = writer !== null && writer !== undefined;
  const after = next === undefined ? '' : `, ${ahead(next, snapshot.now)}`;
  const when = isAtWork
    ? 'after the running sync, if that is complete'
    : `after its next complete sync${after}`;
  const maker = hasDaemon ? 'the daemon' : upkeep === 'once' ? '`daemon --once`' : null;
  // Until a daemon or a call has begun, its times are not known.
  const who = maker ?? (upkeep === 'not yet' && next !== undefined ? 'a daemon or `daemon --once`' : null);
  const how =
    who === null
      ? ', and nothing makes it: no daemon is running, and nothing calls `daemon --once`'
      : `; ${who} makes the first ${when}`;
  return `one is due ${backupInterval(everyMs)}${how}: \`tidemark backup create\` makes one now`;
}

function ownBackupsLine(backup: BackupConfig, facts: StatusFacts): string {
  const { backups: shown, snapshot } = facts;
  const { now } = snapshot;
  if (shown === null) return 'Backups: not known';
  const [latest] = shown.whole;
  const problems = shown.problems.join('; ');
  if (latest === undefined && problems !== '') return `Backups: not readable: ${problems}`;
  if (latest === undefined && shown.emptied.length > 0)
    return `Backups: none in ${shown.emptied.join(', ')} any more`;
  if (latest === undefined) return `Backups: none yet; ${firstBackupText(backup, facts)}`;
  const encrypted = latest.isEncrypted ? ', encrypted' : ', not encrypted';
  const damaged = shown.damaged === 0 ? '' : `; ${formatInteger(shown.damaged)} more incomplete`;
  const unread = problems === '' ? '' : `\n  not readable: ${problems}`;
  return `Backups: ${formatInteger(shown.whole.length)}, the latest ${age(isoTime(Date.parse(latest.madeAt)), now)}, as of run ${latest.run}, ${byteSize(latest.bytes)}${encrypted}${damaged}${unread}`;
}
