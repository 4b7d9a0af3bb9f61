/** `tidemark init`: asks for URL and key, tests them, and writes a commented configuration. */
import { basename, resolve } from 'node:path';
import type { Kind } from '../catalog/kinds.ts';
import { profileOption } from '../config/profile.ts';
import { defined } from '../core/defined.ts';
import {
  asTidemarkError,
  combinedExitCode,
  EXIT,
  type ExitCode,
  exitCodeFor,
  TidemarkError,
} from '../core/errors.ts';
import { print, printNote, printReason, type CommandContext } from './context.ts';
import {
  answered,
  canAsk,
  refuseKeyInClear,
  requireSourceOptions,
  type GivenKey,
  type InitOptions,
  askYes,
  wantsRecordings,
} from './init-answers.ts';
import { type ChannelChoice, type ConfigChoices, configText, USUAL_SYNC } from './init-config.ts';
import { backupFor, requireBackupOptions, type BackupAnswers } from './init-backup.ts';
import { channelFor, requireChannels, testChannel, testPing, type GivenChannel } from './init-channel.ts';
import {
  requireFreeService,
  requireSchedule,
  scheduleFor,
  serviceFor,
  serviceNotes,
  type ServiceAnswer,
} from './init-service.ts';
import { CHECK_VARIABLE, askForSource, type SourceAnswers } from './init-source.ts';
import { configFrom, nextLine, printResult, requireFree, writeAll } from './init-write.ts';
import { askChoice, showNote } from './prompt.ts';

/** The variable that holds a channel's secret while it is being tested. */
const CHANNEL_VARIABLE = 'INIT_NOTIFY';
/** The name under which the first sync is pinned. */
const BASELINE = 'approved';

interface Answers extends SourceAnswers {
  readonly hasRecordings: boolean;
  readonly channels: readonly GivenChannel[];
  readonly backup: BackupAnswers;
  readonly syncCron: string;
  readonly service: ServiceAnswer | null;
}

/** The questions, in their order; each can be answered again before anything is written. */
const TOPICS = ['source', 'recordings', 'alerts', 'backups', 'schedule', 'service'] as const;
type Topic = (typeof TOPICS)[number];

export async function init(context: CommandContext, options: InitOptions): Promise<ExitCode> {
  refuseKeyInClear(options);
  if ((options.sync === true || options.baseline === true) && context.options.json === true)
    throw new TidemarkError('usage', '--json prints one document: run `tidemark sync --json` afterwards');
  if (options.profile !== undefined) profileOption(options.profile, context.cwd);
  const output = resolve(context.cwd, options.output ?? context.options.config ?? 'tidemark.yaml');
  requireFree(output, options.force === true);
  requireFreeService(context, options, output);
  requireSourceOptions(context, options, output);
  requireChannels(context, options, output);
  requireBackupOptions(options);
  requireSchedule(options);
  let answers: Answers = {
    ...(await askForSource(context, options, output)),
    hasRecordings: false,
    channels: [],
    backup: { targets: [], recipients: [], newDirectories: [] },
    syncCron: USUAL_SYNC,
    service: null,
  };
  for (const topic of TOPICS.slice(1)) answers = await ask(context, topic, options, answers, output);
  const { check: isChecked, force, profile } = options;
  const unasked: InitOptions = defined({ check: isChecked, force, profile });
  let next = await confirm(context, options, answers, output);
  while (next !== 'write' && next !== 'sync') {
    if (next !== 'back') answers = await ask(context, next, unasked, answers, output);
    next = await confirm(context, options, answers, output);
  }
  // Asked before anything is written: the user may still interrupt.
  const isBaselineWanted = next === 'sync' && (await wantsBaseline(context, options));
  context.signal.throwIfAborted();
  const { key, channels, service, backup, looked } = answers;
  const secrets = [key, ...channels.map(({ given }) => given)];
  const how = { pid: context.pid, isForced: options.force === true };
  writeAll(output, configText(choicesOf(answers)), secrets, backup, service, how);
  await printResult(context, output, { key, channels, backup, service, looked });
  const hasBackups = backup.targets.length > 0;
  const code = next === 'sync' ? await firstSync(context, output, isBaselineWanted, hasBackups) : EXIT.done;
  if (context.options.json !== true)
    await print(context, `${nextLine(output, secrets, service, next === 'sync')}\n`);
  return code;
}

/** The answers with new ones on a topic, from the options or asked for. */
async function ask(
  context: CommandContext,
  topic: Topic,
  options: InitOptions,
  answers: Answers,
  output: string,
): Promise<Answers> {
  switch (topic) {
    case 'source':
      return { ...answers, ...(await askForSource(context, options, output)) };
    case 'recordings':
      return { ...answers, hasRecordings: await wantsRecordings(context, options) };
    case 'alerts':
      return { ...answers, channels: await testedChannels(context, options, answers, output) };
    case 'backups':
      return { ...answers, backup: await backupFor(context, options, output, answers.backup) };
    case 'schedule':
      return { ...answers, syncCron: await scheduleFor(context, options) };
    case 'service':
      return { ...answers, service: await serviceFor(context, options, output) };
  }
}

function choicesOf({ draft, looked, notOffered, hasRecordings, channels, backup, syncCron }: Answers) {
  const recordings: readonly Kind[] = hasRecordings ? [] : ['session_recordings', 'recording_sharing'];
  return {
    ...draft,
    profile: looked?.source.profile ?? draft.profile,
    excluded: [...new Set([...notOffered, ...recordings])],
    channels: channels.map((channel) => choiceOf(channel)),
    targets: backup.targets,
    recipients: backup.recipients,
    syncCron,
  } satisfies ConfigChoices;
}

/** Reads the configuration as the next command will. @throws TidemarkError as `configFrom` */
function check(context: CommandContext, answers: Answers, output: string): void {
  const { channels, key } = answers;
  // Secrets whose file does not exist yet are passed in variables here.
  const variableOf = ({ newFile }: GivenKey, index: number): string | undefined =>
    newFile === null ? undefined : `${CHANNEL_VARIABLE}_${index}`;
  const checked = {
    ...choicesOf(answers),
    channels: channels.map((channel, index) => choiceOf(channel, variableOf(channel.given, index))),
  };
  const secrets = channels.map(({ given }, index) => [variableOf(given, index), given.secret?.reveal()]);
  const env = { ...context.env, ...(Object.fromEntries(secrets) as Record<string, string | undefined>) };
  const keys = key.newFile === null && key.secret !== null ? 'required' : 'unused';
  const { warnings } = configFrom(configText(checked), output, env, context, keys);
  const { draft, syncCron, service } = answers;
  printNote(context, [...warnings, ...serviceNotes(service, { url: draft.url, syncCron })]);
}

/** On a terminal, shows the answers and asks what to do: write them, also sync, or change an answer. */
async function confirm(
  context: CommandContext,
  { sync, baseline }: InitOptions,
  answers: Answers,
  output: string,
): Promise<'write' | 'sync' | 'back' | Topic> {
  check(context, answers, output);
  const isSyncGiven = sync === true || baseline === true;
  if (!canAsk(context)) return isSyncGiven ? 'sync' : 'write';
  const { looked, backup } = answers;
  const canSync = isSyncGiven || (looked !== null && looked.fatal === null);
  const andBackup = backup.targets.length > 0 ? ' and backup' : '';
  const summary = summaryOf(answers);
  const width = Math.max(...TOPICS.map((topic) => TOPIC_NAMES[topic].length));
  showNote(
    context,
    'Your answers',
    TOPICS.map((topic) => `${TOPIC_NAMES[topic].padEnd(width)}  ${summary[topic]}`),
  );
  const next = answered(
    await askChoice(context, `Write ${basename(output)}?`, [
      ...(canSync ? [{ value: 'sync', label: `Yes, and run the first sync${andBackup}` } as const] : []),
      ...(isSyncGiven ? [] : [{ value: 'write', label: 'Yes' } as const]),
      { value: 'change', label: 'Change an answer' },
    ]),
  );
  if (next !== 'change') return next;
  return answered(
    await askChoice<Topic | 'back'>(context, 'Which one?', [
      ...TOPICS.map((value) => ({ value, label: TOPIC_NAMES[value], hint: summary[value] })),
      { value: 'back', label: 'None' },
    ]),
  );
}

const TOPIC_NAMES: Readonly<Record<Topic, string>> = {
  source: 'Source',
  recordings: 'Recordings',
  alerts: 'Alerts',
  backups: 'Backups',
  schedule: 'Sync',
  service: 'Started by',
};

function summaryOf(answers: Answers): Record<Topic, string> {
  const { draft, key, hasRecordings, channels, backup, syncCron, service } = answers;
  const { name, url } = draft;
  const { profile } = choicesOf(answers);
  const keptIn = ({ reference }: GivenKey): string =>
    reference.by === 'variable' ? `$${reference.name}` : reference.path;
  const isEncrypted = backup.recipients.length > 0;
  return {
    source: `${name}: ${url}, profile ${profile}, key in ${keptIn(key)}`,
    recordings: hasRecordings ? 'mirrored' : 'left out',
    alerts:
      channels.length === 0
        ? 'nobody is notified'
        : channels.map(({ type, given }) => `${type}, secret in ${keptIn(given)}`).join('; '),
    backups:
      backup.targets.length === 0
        ? 'none'
        : `${backup.targets.join(', ')}, ${isEncrypted ? '' : 'not '}encrypted`,
    schedule: syncCron === 'off' ? 'not by the daemon' : `${syncCron} (UTC)`,
    service: service === null ? 'you' : `${service.form}: ${service.path}`,
  };
}

function choiceOf({ type, given, to }: GivenChannel, variable?: string): ChannelChoice {
  return { type, to, secret: variable === undefined ? given.reference : { by: 'variable', name: variable } };
}

/** The channels of the options, or those that the user names until there is no other one; each is tested. */
async function testedChannels(
  context: CommandContext,
  options: InitOptions,
  answers: Answers,
  output: string,
): Promise<readonly GivenChannel[]> {
  const { notify = [] } = options;
  const channels: GivenChannel[] = [];
  while (notify.length === 0 || channels.length < notify.length) {
    let channel = await channelFor(context, options, output, channels);
    while (channel !== null && (await isGivenUp(context, options, answers, output, channel)))
      channel = await channelFor(context, {}, output, channels);
    if (channel === null) break;
    channels.push(channel);
  }
  return channels;
}

/** Sends a test notice through the channel. True if that failed and the user wants to choose again. */
async function isGivenUp(
  context: CommandContext,
  options: InitOptions,
  answers: Answers,
  output: string,
  channel: GivenChannel,
): Promise<boolean> {
  if (channel.given.secret === null || options.check === false) return false;
  const text = configText({
    ...choicesOf(answers),
    channels: [choiceOf(channel, CHANNEL_VARIABLE)],
    key: { by: 'variable', name: CHECK_VARIABLE },
  });
  const env = { [CHECK_VARIABLE]: 'unused', [CHANNEL_VARIABLE]: channel.given.secret.reveal() };
  const { notices, pings } = configFrom(text, output, env, context, 'unused');
  const [config] = notices;
  const url = pings[0]?.success ?? null;
  const isPing = channel.type === 'ping';
  let error: TidemarkError | null;
  if (isPing && url !== null) error = await testPing(context, url);
  else if (config !== undefined) error = await testChannel(context, config);
  else throw new Error('a configuration without the channel that was written into it');
  if (error === null) {
    printNote(context, [isPing ? 'a test ping was taken' : `a test notice was delivered to ${channel.type}`]);
    return false;
  }
  const what = `the test ${isPing ? 'ping' : `notice to ${channel.type}`} was not ${isPing ? 'taken' : 'delivered'}: ${error.message}`;
  if (!canAsk(context))
    throw new TidemarkError(error.code, `nothing was written: ${what}`, {
      hint: '--no-check writes without sending one',
      cause: error,
    });
  printNote(context, [what]);
  const next = answered(
    await askChoice(context, 'What now?', [
      { value: 'again', label: 'Choose again where alerts go' },
      { value: 'keep', label: 'Keep it anyway', hint: '`tidemark notify test` tries again' },
    ]),
  );
  return next === 'again';
}

async function wantsBaseline(context: CommandContext, { baseline }: InitOptions): Promise<boolean> {
  if (baseline === true || !canAsk(context)) return baseline === true;
  return await askYes(context, 'Make that state the baseline that drift is measured from?', 'No, later');
}

/** Runs the first sync, sets the baseline if that is complete, and makes the first backup, which includes it. Each prints what it did. */
async function firstSync(
  context: CommandContext,
  output: string,
  isBaseline: boolean,
  hasBackups: boolean,
): Promise<ExitCode> {
  const configured = { ...context, options: { ...context.options, config: output } };
  const { sync } = await import('./sync.ts');
  const codes = [await sync(configured, {})];
  const isComplete = codes[0] === EXIT.done;
  if (isBaseline && isComplete) {
    const { pinSnapshot, baseline } = await import('./snapshots.ts');
    await pinSnapshot(configured, { name: BASELINE });
    codes.push(await baseline(configured, { name: BASELINE }));
  } else if (isBaseline) printNote(context, ['no baseline was set, since the run is not complete']);
  if (hasBackups && (isComplete || codes[0] === EXIT.partial)) codes.push(await firstBackup(configured));
  return combinedExitCode(codes);
}

/** A failure is reported, but not thrown: the configuration is written. */
async function firstBackup(context: CommandContext): Promise<ExitCode> {
  const { createBackupNow } = await import('./backup.ts');
  try {
    return await createBackupNow(context);
  } catch (error) {
    const { code, message, hint } = asTidemarkError(error);
    printReason(context, [
      `no backup was made: ${message}`,
      `  → ${hint === undefined ? '' : `${hint}; `}\`tidemark backup create\` tries again`,
    ]);
    return exitCodeFor(code);
  }
}
