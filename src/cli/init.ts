/** `tidemark init`: asks for URL and key, tests them, and writes a commented configuration. */
import { existsSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { resolve, basename } from 'node:path';
import type { Kind } from '../catalog/kinds.ts';
import type { SourceConfig, Config } from '../config/config.ts';
import { FilesRead } from '../config/checking.ts';
import { loadConfig } from '../config/load.ts';
import { Mistakes } from '../config/mistakes.ts';
import { findProfile, profileNames } from '../config/profile.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { clockProblems } from '../doctor/local-problems.ts';
import { byGravity, doctorExitCode, reachProblems } from '../doctor/problems.ts';
import { fittingProfile } from '../doctor/profile-signs.ts';
import type { SourceReach } from '../doctor/source-reach.ts';
import { print, printNote, type CommandContext } from './context.ts';
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
import { configText, type ConfigChoices } from './init-answers.ts';
import { askChoice } from './prompt.ts';
import { probeSource } from './source-probe.ts';
import { terminalWidth } from './table.ts';

/** Every half hour, as the daemon does without a configuration. */
const USUAL_SYNC = '*/30 * * * *';
/** The variable that holds the key while it is being tested. */
const CHECK_VARIABLE = 'INIT_KEY';

export async function init(context: CommandContext, options: InitOptions): Promise<ExitCode> {
  refuseKeyInClear(options);
  if (options.sync === true && context.options.json === true)
    throw new TidemarkError('usage', '--json prints one document: run `tidemark sync --json` afterwards');
  if (options.profile !== undefined) requireProfile(options.profile, context.cwd);
  const output = resolve(context.cwd, options.output ?? context.options.config ?? 'tidemark.yaml');
  requireFree(output, options.force === true);
  const { draft, key, looked } = await settle(context, options, output);
  const profile = looked?.source.profile ?? draft.profile;
  const choices: ConfigChoices = {
    ...draft,
    profile,
    excluded: looked === null ? [] : await leftOut(context, looked),
    syncCron: canAsk(context) ? await cadence(context) : USUAL_SYNC,
  };
  const text = configText(choices);
  // As the next command will read it; a key file that does not exist yet cannot be read.
  const isKeyThere = key.newFile === null && key.secret !== null;
  const { warnings } = configFrom(text, output, context.env, context, isKeyThere ? 'required' : 'unused');
  printNote(context, warnings);
  // Asked before anything is written: an interruption here leaves nothing changed.
  const isSyncWanted = await wantsSync(context, options, looked);
  context.signal.throwIfAborted();
  writeConfig(output, text, key, context);
  await printResult(context, output, key, looked);
  if (!isSyncWanted) return EXIT.done;
  const { sync } = await import('./sync.ts');
  return await sync({ ...context, options: { ...context.options, config: output } }, {});
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
      key: key.reference,
    };
    const looked = options.check === false ? null : await look(context, options, draft, key, output);
    const next = looked === null ? 'write' : await verdictOn(context, looked);
    if (next === 'write') return { draft, key, looked };
    if (next === 'url') url = await urlFor(context, {});
    else key = await keyFor(context, {}, output);
  }
}

function requireProfile(profile: string, cwd: string): void {
  const mistakes = new Mistakes();
  const found = findProfile(profile, cwd, mistakes, new FilesRead());
  if ('mistake' in found) throw new TidemarkError('usage', `--profile: ${found.mistake}`);
  mistakes.throwIfAny();
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
  return chosen === draft.profile ? first : await probed(chosen);
}

const LABELS: Readonly<Record<string, string>> = {
  svc: 'svc: the interface as documented',
  posthog: 'posthog: PostHog Cloud, or a deployment of its own',
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
async function verdictOn(context: CommandContext, reach: SourceReach): Promise<'write' | 'url' | 'key'> {
  const problems = byGravity([...reachProblems(reach), ...clockProblems(reach)]);
  if (context.options.json !== true) {
    const width = terminalWidth(context);
    await print(context, `${renderReach(reach, width)}\n\n${renderProblems(problems, width)}\n\n`);
  }
  const code = doctorExitCode([reach], problems);
  if (code === EXIT.done || code === EXIT.partial) return 'write';
  if (canAsk(context)) {
    const key = { value: 'key', label: 'Give the key again' } as const;
    const url = { value: 'url', label: 'Give the address again' } as const;
    const next = answered(
      await askChoice(context, 'Nothing can be read with this address and key. What now?', [
        ...(code === EXIT.refused ? [key, url] : [url, key]),
        { value: 'write', label: 'Write the configuration all the same' },
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

async function cadence(context: CommandContext): Promise<string | null> {
  const answer = answered(
    await askChoice(context, 'When should the daemon sync?', [
      { value: USUAL_SYNC, label: 'Every half hour' },
      { value: '0 * * * *', label: 'Every hour' },
      { value: '0 2 * * *', label: 'Every night at 02:00 UTC' },
      { value: 'off', label: 'Never', hint: 'cron or somebody else starts `tidemark sync`' },
    ]),
  );
  return answer === 'off' ? null : answer;
}

async function wantsSync(
  context: CommandContext,
  { sync }: InitOptions,
  looked: SourceReach | null,
): Promise<boolean> {
  if (sync === true) return true;
  if (!canAsk(context) || looked === null || looked.fatal !== null) return false;
  const answer = answered(
    await askChoice(context, 'Run the first sync once it is written?', [
      { value: 'yes', label: 'Yes' },
      { value: 'no', label: 'No, later' },
    ]),
  );
  return answer === 'yes';
}

async function printResult(
  context: CommandContext,
  output: string,
  { newFile, reference }: GivenKey,
  looked: SourceReach | null,
): Promise<void> {
  if (context.options.json === true) {
    const document = {
      schema: 'tidemark.init/1',
      file: output,
      key: reference,
      key_file_written: newFile,
      check: looked === null ? null : sourceDocument(looked),
    };
    await print(context, `${JSON.stringify(document)}\n`);
    return;
  }
  const lines = [
    `written: ${output}`,
    ...(newFile === null
      ? []
      : [`the key is in ${newFile}, which only you can read; keep it out of version control`]),
    'next: `tidemark sync`, then `tidemark status`; `tidemark daemon` does it on schedule',
  ];
  await print(context, `${lines.join('\n')}\n`);
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
): Config {
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

/** Writes the key file, if there is one, and the configuration; if that fails, neither exists. */
function writeConfig(
  path: string,
  text: string,
  { newFile, secret }: GivenKey,
  { pid }: Pick<CommandContext, 'pid'>,
): void {
  if (newFile !== null && secret !== null) {
    if (existsSync(newFile))
      throw new TidemarkError('usage', `${newFile} is there already; it was left as it is`);
    write(newFile, `${secret.reveal()}\n`, 0o600);
  }
  const temporary = `${path}.${pid}.tmp`;
  try {
    write(temporary, text, 0o644);
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    if (newFile !== null) rmSync(newFile, { force: true });
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
