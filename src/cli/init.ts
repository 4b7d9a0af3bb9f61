/** `tidemark init`: asks for URL and key, tests them, and writes a commented configuration. */
import { basename, dirname, resolve } from 'node:path';
import type { Kind } from '../catalog/kinds.ts';
import type { SourceConfig } from '../config/config.ts';
import { profileNames, profileOption } from '../config/profile.ts';
import {
  asTidemarkError,
  combinedExitCode,
  EXIT,
  type ExitCode,
  exitCodeFor,
  TidemarkError,
} from '../core/errors.ts';
import { clockProblems } from '../doctor/local-problems.ts';
import { byGravity, doctorExitCode, reachProblems } from '../doctor/problems.ts';
import { fittingProfile, type SourceReach } from '../doctor/source-reach.ts';
import { renderText } from '../report/render-text.ts';
import { lineOptions, print, printNote, printReason, type CommandContext } from './context.ts';
import { problemReport, reachReport } from './doctor-report.ts';
import {
  answered,
  canAsk,
  keyFor,
  nameFor,
  refuseKeyInClear,
  urlFor,
  type GivenKey,
  type InitOptions,
  askYes,
  wantsRecordings,
} from './init-answers.ts';
import { type ChannelChoice, type ConfigChoices, configText, USUAL_SYNC } from './init-config.ts';
import { backupFor, type BackupAnswers } from './init-backup.ts';
import { channelFor, testChannel, type GivenChannel } from './init-channel.ts';
import {
  requireFreeService,
  scheduleFor,
  serviceFor,
  serviceNotes,
  type ServiceAnswer,
} from './init-service.ts';
import { configFrom, nextLine, printResult, requireFree, writeAll } from './init-write.ts';
import { askChoice, showNote } from './prompt.ts';
import { probeSource } from './source-probe.ts';

/** The variables that hold the key and a channel's secret while they are being tested. */
const CHECK_VARIABLE = 'INIT_KEY';
const CHANNEL_VARIABLE = 'INIT_NOTIFY';
/** The name under which the first sync is pinned. */
const BASELINE = 'approved';

/** What was answered on the source: the rest is asked after it was looked at. */
interface Settled {
  readonly draft: ConfigChoices;
  readonly key: GivenKey;
  readonly looked: SourceReach | null;
  readonly notOffered: readonly Kind[];
}

interface Answers extends Settled {
  readonly hasRecordings: boolean;
  readonly channels: readonly GivenChannel[];
  readonly backup: BackupAnswers;
  readonly syncCron: string;
  readonly service: ServiceAnswer | null;
}

/** What can be answered again before anything is written, in the order of the questions. */
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
  let answers: Answers = {
    ...(await settle(context, options, output)),
    hasRecordings: false,
    channels: [],
    backup: { targets: [], recipients: [], newDirectories: [] },
    syncCron: USUAL_SYNC,
    service: null,
  };
  for (const topic of TOPICS.slice(1)) answers = await ask(context, topic, options, answers, output);
  const unasked: InitOptions = {
    ...(options.check === undefined ? {} : { check: options.check }),
    ...(options.force === undefined ? {} : { force: options.force }),
    ...(options.profile === undefined ? {} : { profile: options.profile }),
  };
  let next = await confirm(context, options, answers, output);
  while (next !== 'write' && next !== 'sync') {
    if (next !== 'back') answers = await ask(context, next, unasked, answers, output);
    next = await confirm(context, options, answers, output);
  }
  // Asked before anything is written: an interruption here leaves nothing changed.
  const isBaselineWanted = next === 'sync' && (await wantsBaseline(context, options));
  context.signal.throwIfAborted();
  const { key, channels, service, backup, looked } = answers;
  const secrets = [key, ...channels.map(({ given }) => given)];
  const how = { pid: context.pid, isForced: options.force === true };
  writeAll(output, configText(choicesOf(answers)), secrets, backup.newDirectories, service, how);
  await printResult(context, output, { key, channels, service, looked });
  const hasBackups = backup.targets.length > 0;
  const code = next === 'sync' ? await firstSync(context, output, isBaselineWanted, hasBackups) : EXIT.done;
  if (context.options.json !== true)
    await print(context, `${nextLine(output, secrets, service, next === 'sync')}\n`);
  return code;
}

/** The answers with those on one topic, from the options or asked for. */
async function ask(
  context: CommandContext,
  topic: Topic,
  options: InitOptions,
  answers: Answers,
  output: string,
): Promise<Answers> {
  switch (topic) {
    case 'source':
      return { ...answers, ...(await settle(context, options, output)) };
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
  // Secrets whose file does not exist yet come by variables here.
  const variableOf = ({ newFile }: GivenKey, index: number): string | undefined =>
    newFile === null ? undefined : `${CHANNEL_VARIABLE}_${index}`;
  const checked = {
    ...choicesOf(answers),
    channels: channels.map((channel, index) => choiceOf(channel, variableOf(channel.given, index))),
  };
  const secrets = channels.map(({ given }, index) => [variableOf(given, index), given.secret?.reveal()]);
  const env = { ...context.env, ...(Object.fromEntries(secrets) as Record<string, string | undefined>) };
  const isKeyThere = key.newFile === null && key.secret !== null;
  const { warnings } = configFrom(
    configText(checked),
    output,
    env,
    context,
    isKeyThere ? 'required' : 'unused',
  );
  const { draft, syncCron, service, backup } = answers;
  const about = { url: draft.url, syncCron, targets: backup.targets, directory: dirname(output) };
  printNote(context, [...warnings, ...serviceNotes(service, about)]);
}

/** On a terminal, shows all answers and asks what to do with them: write, sync after it, or answer a topic again. */
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
  const said = summaryOf(answers);
  const width = Math.max(...TOPICS.map((topic) => TOPIC_NAMES[topic].length));
  showNote(
    context,
    'Your answers',
    TOPICS.map((topic) => `${TOPIC_NAMES[topic].padEnd(width)}  ${said[topic]}`),
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
      ...TOPICS.map((value) => ({ value, label: TOPIC_NAMES[value], hint: said[value] })),
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

/** Those of the options, or on a terminal asked for until there is no further one. */
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

/** Sends a test notice through the channel. True where that failed and another one is to be chosen. */
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
  const [config] = configFrom(text, output, env, context, 'unused').notices;
  if (config === undefined) throw new Error('a configuration without the channel that was written into it');
  const error = await testChannel(context, config);
  if (error === null) {
    printNote(context, [`a test notice was delivered to ${channel.type}`]);
    return false;
  }
  const what = `the test notice to ${channel.type} was not delivered: ${error.message}`;
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

/** The first run, the baseline if that run is complete, and the first backup, which has it. Each prints what it did. */
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

/** Without it there is none until the daemon's first. The configuration is written in any case. */
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

/** URL, key and name; on a terminal asked for again until something can be read with them. */
async function settle(context: CommandContext, options: InitOptions, output: string): Promise<Settled> {
  let url = await urlFor(context, options);
  let key = await keyFor(context, options, output);
  const name = await nameFor(context, options);
  for (;;) {
    const draft: ConfigChoices = {
      ...{ name, url, profile: options.profile ?? 'svc', excluded: [], syncCron: USUAL_SYNC },
      ...{ key: key.reference, channels: [], targets: [], recipients: [] },
    };
    const looked = options.check === false ? null : await look(context, options, draft, key, output);
    const next =
      looked === null ? 'write' : await verdictOn(context, looked, context.options.verbose === true);
    if (next === 'write')
      return { draft, key, looked, notOffered: looked === null ? [] : await leftOut(context, looked) };
    if (next === 'url') url = await urlFor(context, {});
    else key = await keyFor(context, {}, output);
  }
}

/** Probes the service with the given profile, or with the one that the first answers suggest. */
async function look(
  context: CommandContext,
  options: InitOptions,
  draft: ConfigChoices,
  key: GivenKey,
  output: string,
): Promise<SourceReach> {
  const probed = async (profile: string): Promise<SourceReach> => {
    printNote(context, [`looking at ${new URL(draft.url).host} with the profile ${profile} …`]);
    const source = sourceFor(context, { ...draft, profile }, key, output);
    try {
      return await probeSource(context, source, null, null, null, true);
    } catch (error) {
      if (!context.signal.aborted) throw error;
      throw new TidemarkError('interrupted', 'interrupted; nothing was written', { cause: error });
    }
  };
  const first = await probed(draft.profile);
  if (options.profile !== undefined || first.fatal !== null) return first;
  const { profile, signs } = fittingProfile(first);
  // Where nothing can be read, address or key is wrong, and the profile not yet the question.
  if (signs.length === 0 && doctorExitCode([first], []) !== EXIT.done) return first;
  printNote(context, signs.length === 0 ? [] : [`this looks like ${profile}: ${signs.join('; ')}`]);
  const chosen = canAsk(context)
    ? answered(
        await askChoice(
          context,
          'What kind of deployment is it?',
          [...new Set([profile, ...Object.keys(LABELS), ...profileNames()])].map((value) => ({
            value,
            label: LABELS[value] ?? value,
            ...(value === profile ? { hint: "as the service's answers suggest" } : {}),
          })),
        ),
      )
    : profile;
  if (!canAsk(context) && chosen === 'svc')
    printNote(context, [
      'profile svc restores documented fields only; --profile svc-writable adds the usual ones of roles, projects and components',
    ]);
  return chosen === draft.profile ? first : await probed(chosen);
}

/** What a choice means for reads and restores, in one line each. */
const LABELS: Readonly<Record<string, string>> = {
  svc: 'svc: the API as documented; roles, projects and some components cannot be restored',
  'svc-writable':
    'svc-writable: as svc, and restores write their usual fields; a refused field fails one step',
  posthog: 'posthog: PostHog Cloud, or a self-hosted PostHog, with its field names and list shapes',
};

/** The source as it will be configured, but with the key given here. */
function sourceFor(
  context: CommandContext,
  draft: ConfigChoices,
  { secret, reference, newFile }: GivenKey,
  output: string,
): SourceConfig {
  const text = configText({ ...draft, key: { by: 'variable', name: CHECK_VARIABLE } });
  const env = { [CHECK_VARIABLE]: secret?.reveal() ?? '' };
  const [source] = configFrom(text, output, env, context).sources;
  if (source === undefined) throw new Error('a configuration without the source that was written into it');
  const place = reference.by === 'variable' ? `the variable ${reference.name}` : `the file ${reference.path}`;
  // The file of an entered key is written only once the key was accepted.
  return { ...source, keyPlace: newFile === null ? `the key in ${place}` : 'the key that you entered' };
}

/**
 * Shows what the key reaches. If that is nothing, the user chooses what to enter again, or to write the file anyway.
 */
async function verdictOn(
  context: CommandContext,
  reach: SourceReach,
  isVerbose: boolean,
): Promise<'write' | 'url' | 'key'> {
  const problems = byGravity([...reachProblems(reach), ...clockProblems(reach)]).map((problem) => ({
    ...problem,
    // No file has that option yet.
    next: problem.next.replaceAll('baseUrl of the source', 'the address'),
  }));
  if (context.options.json !== true) {
    const shown = problems.filter(({ gravity }) => isVerbose || gravity !== 'note');
    const reports = [
      reachReport(reach, { isVerbose }),
      ...(shown.length === 0 ? [] : [problemReport(shown)]),
    ];
    for (const report of reports) await print(context, `${renderText(report, lineOptions(context))}\n`);
  }
  const code = doctorExitCode([reach], problems);
  if (code === EXIT.done || code === EXIT.partial) return 'write';
  if (canAsk(context)) {
    const key = { value: 'key', label: 'Give the key again' } as const;
    const url = { value: 'url', label: 'Give the address again' } as const;
    const next = answered(
      await askChoice(context, 'Nothing can be read with this address and key. What now?', [
        ...(code === EXIT.refused ? [key, url] : [url, key]),
        { value: 'write', label: 'Write the configuration anyway' },
        { value: 'leave', label: 'Leave', hint: 'nothing is written' },
      ]),
    );
    if (next !== 'leave') return next;
  }
  const worst = problems[0];
  throw new TidemarkError(
    code === EXIT.refused ? 'unauthorized' : (reach.fatal?.code ?? 'not_found'),
    `nothing was written: ${worst?.message ?? 'nothing can be read'}`,
    { hint: `${worst?.next ?? 'check address and key'}; --no-check skips the check` },
  );
}

/** Kinds that the service does not offer would make every run partial: excluded, unless the user declines. */
async function leftOut(context: CommandContext, { kinds }: SourceReach): Promise<readonly Kind[]> {
  const missing = [...new Set(kinds.filter(({ state }) => state === 'not_offered').map(({ kind }) => kind))];
  if (missing.length === 0) return [];
  const said = `not offered here: ${missing.join(', ')}`;
  if (!canAsk(context)) {
    printNote(context, [`${said}; left out by kinds.exclude`]);
    return missing;
  }
  const answer = answered(
    await askChoice(context, `${said}. Leave these kinds out?`, [
      { value: 'out', label: 'Yes', hint: 'else every run is partial' },
      { value: 'in', label: 'No, ask for them in every run' },
    ]),
  );
  return answer === 'out' ? missing : [];
}
