/** `tidemark init`: asks for URL and key, tests them, and writes a commented configuration. */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import type { Kind } from '../catalog/kinds.ts';
import type { SourceConfig } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import type { LoadedConfig } from '../config/mirrors.ts';
import { profileNames, profileOption } from '../config/profile.ts';
import { asTidemarkError, EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { clockProblems } from '../doctor/local-problems.ts';
import { byGravity, doctorExitCode, reachProblems } from '../doctor/problems.ts';
import { fittingProfile } from '../doctor/source-reach.ts';
import type { SourceReach } from '../doctor/source-reach.ts';
import { print, printNote, type CommandContext, terminalWidth } from './context.ts';
import { sourceDocument } from './doctor-text.ts';
import { renderProblems, renderReach } from './doctor-text.ts';
import {
  answered,
  canAsk,
  keyFor,
  nameFor,
  refuseKeyInClear,
  urlFor,
  type GivenKey,
  type InitOptions,
} from './init-answers.ts';
import { configText, ENVIRONMENT_FILE, USUAL_SYNC, type ConfigChoices } from './init-config.ts';
import {
  askYes,
  backupFor,
  channelFor,
  scheduleFor,
  serviceFor,
  testChannel,
  wantsRecordings,
  type GivenChannel,
  type ServiceAnswer,
} from './init-setup.ts';
import { askChoice } from './prompt.ts';
import { probeSource } from './source-probe.ts';

/** The variables that hold the key and a channel's secret while they are being tested. */
const CHECK_VARIABLE = 'INIT_KEY';
const CHANNEL_VARIABLE = 'INIT_NOTIFY';
/** The name under which the first sync is pinned. */
const BASELINE = 'approved';

export async function init(context: CommandContext, options: InitOptions): Promise<ExitCode> {
  refuseKeyInClear(options);
  if ((options.sync === true || options.baseline === true) && context.options.json === true)
    throw new TidemarkError('usage', '--json prints one document: run `tidemark sync --json` afterwards');
  if (options.profile !== undefined) profileOption(options.profile, context.cwd);
  const output = resolve(context.cwd, options.output ?? context.options.config ?? 'tidemark.yaml');
  requireFree(output, options.force === true);
  const { draft, key, looked } = await settle(context, options, output);
  const notOffered = looked === null ? [] : await leftOut(context, looked);
  const hasRecordings = await wantsRecordings(context, options);
  const recordings: readonly Kind[] = hasRecordings ? [] : ['session_recordings', 'recording_sharing'];
  const chosen: ConfigChoices = {
    ...draft,
    profile: looked?.source.profile ?? draft.profile,
    excluded: [...new Set([...notOffered, ...recordings])],
  };
  const channel = await testedChannel(context, options, chosen, output);
  const { newDirectories, ...backup } = await backupFor(context, options, output);
  const syncCron = await scheduleFor(context, options);
  const choices: ConfigChoices = { ...chosen, ...withChannel(channel), ...backup, syncCron };
  const service = await serviceFor(context, options, output);
  // As the next command will read it; secrets whose file does not exist yet come by variables here.
  const checked =
    channel === null || channel.given.newFile === null
      ? choices
      : { ...choices, ...withChannel(channel, CHANNEL_VARIABLE) };
  const env = { ...context.env, [CHANNEL_VARIABLE]: channel?.given.secret?.reveal() ?? '' };
  const isKeyThere = key.newFile === null && key.secret !== null;
  const { warnings } = configFrom(
    configText(checked),
    output,
    env,
    context,
    isKeyThere ? 'required' : 'unused',
  );
  printNote(context, warnings);
  // Asked before anything is written: an interruption here leaves nothing changed.
  const isSyncWanted = await wantsSync(context, options, looked);
  const isBaselineWanted = isSyncWanted && (await wantsBaseline(context, options));
  context.signal.throwIfAborted();
  const secrets = [key, ...(channel === null ? [] : [channel.given])];
  writeAll(output, configText(choices), secrets, newDirectories, service, context);
  await printResult(context, output, { key, channel, service, looked });
  const code = isSyncWanted ? await firstSync(context, output, isBaselineWanted) : EXIT.done;
  if (context.options.json !== true)
    await print(context, `${nextLine(output, secrets, service, isSyncWanted)}\n`);
  return code;
}

function withChannel(channel: GivenChannel | null, variable?: string): Pick<ConfigChoices, 'channel'> {
  if (channel === null) return { channel: null };
  const { type, given, to } = channel;
  return {
    channel: {
      type,
      to,
      secret: variable === undefined ? given.reference : { by: 'variable', name: variable },
    },
  };
}

/** The channel of the answers, through which a test notice was sent; on a terminal asked for again where that failed. */
async function testedChannel(
  context: CommandContext,
  options: InitOptions,
  chosen: ConfigChoices,
  output: string,
): Promise<GivenChannel | null> {
  let channel = await channelFor(context, options, output);
  for (;;) {
    if (channel === null || channel.given.secret === null || options.check === false) return channel;
    const text = configText({
      ...chosen,
      ...withChannel(channel, CHANNEL_VARIABLE),
      key: { by: 'variable', name: CHECK_VARIABLE },
    });
    const env = { [CHECK_VARIABLE]: 'unused', [CHANNEL_VARIABLE]: channel.given.secret.reveal() };
    const [config] = configFrom(text, output, env, context, 'unused').notices;
    if (config === undefined) throw new Error('a configuration without the channel that was written into it');
    const error = await testChannel(context, config);
    if (error === null) {
      printNote(context, [`a test notice was delivered to ${channel.type}`]);
      return channel;
    }
    if (!canAsk(context)) {
      throw new TidemarkError(
        error.code,
        `nothing was written: the test notice was not delivered: ${error.message}`,
        {
          hint: '--no-check writes without sending one',
          cause: error,
        },
      );
    }
    printNote(context, [`the test notice was not delivered: ${error.message}`]);
    const next = answered(
      await askChoice(context, 'What now?', [
        { value: 'again', label: 'Give it again' },
        { value: 'keep', label: 'Keep it anyway', hint: '`tidemark notify test` tries again' },
      ]),
    );
    if (next === 'keep') return channel;
    channel = await channelFor(context, {}, output);
  }
}

async function wantsBaseline(context: CommandContext, { baseline }: InitOptions): Promise<boolean> {
  if (baseline === true || !canAsk(context)) return baseline === true;
  return await askYes(context, 'Make it the baseline that drift is measured from?', 'No, later');
}

/** The first run, and the baseline if that run is complete. Both print what they did. */
async function firstSync(context: CommandContext, output: string, isBaseline: boolean): Promise<ExitCode> {
  const configured = { ...context, options: { ...context.options, config: output } };
  const { sync } = await import('./sync.ts');
  const code = await sync(configured, {});
  if (!isBaseline) return code;
  if (code !== EXIT.done) {
    printNote(context, ['no baseline was set, since the run is not complete']);
    return code;
  }
  const { pinSnapshot, baseline } = await import('./snapshots.ts');
  await pinSnapshot(configured, { name: BASELINE });
  return await baseline(configured, { name: BASELINE });
}

/** URL, key and name; on a terminal asked for again until something can be read with them. */
async function settle(
  context: CommandContext,
  options: InitOptions,
  output: string,
): Promise<{ draft: ConfigChoices; key: GivenKey; looked: SourceReach | null }> {
  let url = await urlFor(context, options);
  let key = await keyFor(context, options, output);
  const name = await nameFor(context, options);
  for (;;) {
    const draft: ConfigChoices = {
      ...{ name, url, profile: options.profile ?? 'svc', excluded: [], syncCron: USUAL_SYNC },
      ...{ key: key.reference, channel: null, targets: [], recipients: [] },
    };
    const looked = options.check === false ? null : await look(context, options, draft, key, output);
    const next =
      looked === null ? 'write' : await verdictOn(context, looked, context.options.verbose === true);
    if (next === 'write') return { draft, key, looked };
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
      return await probeSource(context, source, null, null);
    } catch (error) {
      if (!context.signal.aborted) throw error;
      throw new TidemarkError('interrupted', 'interrupted; nothing was written', { cause: error });
    }
  };
  const first = await probed(draft.profile);
  if (options.profile !== undefined || first.fatal !== null) return first;
  const { profile, signs } = fittingProfile(first);
  printNote(context, signs.length === 0 ? [] : [`this looks like ${profile}: ${signs.join('; ')}`]);
  const chosen = canAsk(context)
    ? answered(
        await askChoice(
          context,
          'What kind of deployment is it?',
          [profile, ...profileNames().filter((each) => each !== profile)].map((value) => ({
            value,
            label: LABELS[value] ?? value,
            ...(value === profile ? { hint: 'by what its answers show' } : {}),
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
  posthog: 'posthog: PostHog Cloud, or a deployment of its own, with its field names and list shapes',
};

/** The source as it will be configured, but with the key given here. */
function sourceFor(
  context: CommandContext,
  draft: ConfigChoices,
  { secret }: GivenKey,
  output: string,
): SourceConfig {
  const text = configText({ ...draft, key: { by: 'variable', name: CHECK_VARIABLE } });
  const env = { [CHECK_VARIABLE]: secret?.reveal() ?? '' };
  const [source] = configFrom(text, output, env, context).sources;
  if (source === undefined) throw new Error('a configuration without the source that was written into it');
  return source;
}

/**
 * Shows what the key reaches. If that is nothing, the user chooses what to enter again, or to write the file anyway.
 */
async function verdictOn(
  context: CommandContext,
  reach: SourceReach,
  isVerbose: boolean,
): Promise<'write' | 'url' | 'key'> {
  const problems = byGravity([...reachProblems(reach), ...clockProblems(reach)]);
  if (context.options.json !== true) {
    const shown = problems.filter(({ gravity }) => isVerbose || gravity !== 'note');
    const head = renderReach(reach, { isVerbose, width: terminalWidth(context) });
    await print(context, `${head}\n${shown.length === 0 ? '' : `${renderProblems(shown)}\n`}\n`);
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
    { hint: `${worst?.next ?? 'check address and key'}; --no-check writes without looking` },
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

async function wantsSync(
  context: CommandContext,
  { sync, baseline }: InitOptions,
  looked: SourceReach | null,
): Promise<boolean> {
  if (sync === true || baseline === true) return true;
  if (!canAsk(context) || looked === null || looked.fatal !== null) return false;
  return await askYes(context, 'Run the first sync once it is written?', 'No, later');
}

async function printResult(
  context: CommandContext,
  output: string,
  {
    key,
    channel,
    service,
    looked,
  }: {
    readonly key: GivenKey;
    readonly channel: GivenChannel | null;
    readonly service: ServiceAnswer | null;
    readonly looked: SourceReach | null;
  },
): Promise<void> {
  const secretFiles = [key.newFile, channel?.given.newFile ?? null].filter((path) => path !== null);
  const ignored = secretFiles.flatMap((path) => ignoredByGit(path) ?? []);
  if (context.options.json === true) {
    const document = {
      schema: 'tidemark.init/1',
      file: output,
      key: key.reference,
      key_file_written: key.newFile,
      files: [output, ...secretFiles, ...(service === null ? [] : [service.path])],
      check: looked === null ? null : sourceDocument(looked),
    };
    await print(context, `${JSON.stringify(document)}\n`);
    return;
  }
  const lines = [
    `written: ${output}`,
    ...(key.newFile === null ? [] : [`the key is in ${key.newFile}, which only you can read`]),
    ...(channel === null || channel.given.newFile === null
      ? []
      : [`the address of ${channel.type} is in ${channel.given.newFile}, which only you can read`]),
    ...ignored,
    ...(service === null ? [] : [`written: ${service.path}`]),
  ];
  await print(context, `${lines.join('\n')}\n`);
}

/** What to do next, in a line; a second one where what starts Tidemark lacks variables of this shell. */
function nextLine(
  output: string,
  secrets: readonly GivenKey[],
  service: ServiceAnswer | null,
  isSynced: boolean,
): string {
  if (service === null) {
    return isSynced
      ? 'next: `tidemark daemon` syncs on schedule; `tidemark status` shows how fresh the mirror is'
      : 'next: `tidemark sync`, then `tidemark status`; `tidemark daemon` does it on schedule';
  }
  const names = secrets.flatMap(({ reference }) => (reference.by === 'variable' ? [reference.name] : []));
  const file = join(dirname(output), ENVIRONMENT_FILE);
  const first =
    names.length === 0 ? '' : `put ${names.join(' and ')} into ${file} (NAME=value, mode 0600), then `;
  return `next: ${first}${service.next}`;
}

/**
 * Has git ignore a secret file in its work tree, unless a line of .gitignore names it already.
 * @returns what was done, for the user; null outside a work tree
 */
function ignoredByGit(path: string): string | null {
  let root = dirname(path);
  while (!existsSync(join(root, '.git'))) {
    if (root === dirname(root)) return null;
    root = dirname(root);
  }
  const shared = join(root, '.gitignore');
  const isPlain = statSync(join(root, '.git')).isDirectory();
  const list = existsSync(shared) || !isPlain ? shared : join(root, '.git', 'info', 'exclude');
  const line = `/${relative(root, path)}`;
  try {
    const text = existsSync(list) ? readFileSync(list, 'utf8') : '';
    const known = text.split('\n').map((each) => each.trim());
    if ([line, line.slice(1), basename(path)].some((each) => known.includes(each)))
      return `${basename(path)} is ignored by git (${list})`;
    mkdirSync(dirname(list), { recursive: true });
    appendFileSync(list, `${text === '' || text.endsWith('\n') ? '' : '\n'}${line}\n`);
    return `git ignores it: ${line} was added to ${list}`;
  } catch (error) {
    return `keep ${path} out of version control: ${asTidemarkError(asFileError(error, list, 'written')).message}`;
  }
}

// Writes the configuration: checked before, and completely or not at all.

/** @throws TidemarkError `usage` where a file is in the way, or there is no directory for it */
function requireFree(path: string, isForced: boolean): void {
  const facts = statSync(path, { throwIfNoEntry: false });
  if (facts?.isDirectory() === true)
    throw new TidemarkError('usage', `${path} is a directory`, { hint: 'name a file with --output' });
  if (facts !== undefined && !isForced) {
    throw new TidemarkError('usage', `${path} is there already; it was left as it is`, {
      hint: 'name another file with --output, or replace it with --force',
    });
  }
}

/**
 * The configuration from a text, read as any command would read it from `path`. It leaves no file behind.
 * @throws TidemarkError `config_invalid`, or the file system's error
 */
function configFrom(
  text: string,
  path: string,
  env: Readonly<Record<string, string | undefined>>,
  context: Pick<CommandContext, 'cwd' | 'pid'>,
  keys: 'required' | 'unused' = 'required',
): LoadedConfig {
  const temporary = `${path}.${context.pid}.tmp`;
  const named = (line: string): string =>
    line.replaceAll(`${basename(path)}.${context.pid}.tmp`, basename(path));
  try {
    write(temporary, text, 0o600);
    const config = loadConfig({ file: temporary, env, cwd: context.cwd, keys });
    return { ...config, warnings: config.warnings.map(named) };
  } catch (error) {
    if (!(error instanceof TidemarkError) || error.code !== 'config_invalid') throw error;
    throw new TidemarkError(error.code, named(error.message), {
      hint: 'variables TIDEMARK_… of this environment count too: unset those that contradict the answers',
      cause: error,
    });
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** Writes the secrets, the service's file and the configuration, and creates directories: all of it, or nothing. */
function writeAll(
  path: string,
  text: string,
  secrets: readonly GivenKey[],
  directories: readonly string[],
  service: ServiceAnswer | null,
  { pid }: Pick<CommandContext, 'pid'>,
): void {
  const temporary = `${path}.${pid}.tmp`;
  const made: string[] = [];
  const create = (file: string, content: string, mode: number): void => {
    write(file, content, mode);
    made.push(file);
  };
  const createDirectory = (directory: string, mode?: number): void => {
    try {
      const first = mkdirSync(directory, { recursive: true, ...(mode === undefined ? {} : { mode }) });
      if (first !== undefined) made.push(first);
    } catch (error) {
      throw asFileError(error, directory, 'written');
    }
  };
  try {
    for (const { newFile, secret } of secrets)
      if (newFile !== null && secret !== null) create(newFile, `${secret.reveal()}\n`, 0o600);
    for (const directory of directories) createDirectory(directory, 0o700);
    if (service !== null) {
      createDirectory(dirname(service.path));
      create(service.path, service.text, 0o644);
    }
    create(temporary, text, 0o644);
    renameSync(temporary, path);
  } catch (error) {
    for (const each of made.toReversed()) rmSync(each, { recursive: true, force: true });
    throw asFileError(error, path, 'written');
  }
}

function write(path: string, text: string, mode: number): void {
  try {
    writeFileSync(path, text, { mode, flag: 'wx' });
  } catch (error) {
    throw asFileError(error, path, 'written');
  }
}
