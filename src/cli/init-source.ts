/** The source that `init` configures: asks for address, key and name, and tests them. */
import type { Kind } from '../catalog/kinds.ts';
import type { SourceConfig } from '../config/config.ts';
import { profileNames } from '../config/profile.ts';
import { EXIT, TidemarkError } from '../core/errors.ts';
import { clockProblems } from '../doctor/local-problems.ts';
import { bySeverity, doctorExitCode, reachProblems } from '../doctor/problems.ts';
import { fittingProfile, type SourceReach } from '../doctor/source-reach.ts';
import { renderText } from '../report/render-text.ts';
import { lineOptions, print, printNote, type CommandContext } from './context.ts';
import { problemReport, reachReport } from './doctor-report.ts';
import {
  answered,
  canAsk,
  interrupted,
  keyFor,
  nameFor,
  urlFor,
  type GivenKey,
  type InitOptions,
} from './init-answers.ts';
import { type ConfigChoices, configText, USUAL_SYNC } from './init-config.ts';
import { configFrom } from './init-write.ts';
import { askChoice } from './prompt.ts';
import { probeSource } from './source-probe.ts';

/** The variable that holds the key while it is being tested. */
export const CHECK_VARIABLE = 'INIT_KEY';

/** The answers about the source, and what probing it found. */
export interface SourceAnswers {
  readonly draft: ConfigChoices;
  readonly key: GivenKey;
  readonly looked: SourceReach | null;
  readonly notOffered: readonly Kind[];
}

/** Asks for URL, key and name; on a terminal again until something can be read with them. */
export async function askForSource(
  context: CommandContext,
  options: InitOptions,
  output: string,
): Promise<SourceAnswers> {
  let url = await urlFor(context, options);
  let key = await keyFor(context, options, output);
  let name = await nameFor(context, options.name, key);
  for (;;) {
    const draft: ConfigChoices = {
      ...{ name, url, profile: options.profile ?? 'svc', excluded: [], syncCron: USUAL_SYNC },
      ...{ key: key.reference, channels: [], targets: [], recipients: [] },
    };
    const looked =
      options.check === false ? null : await probeWithProfile(context, options, draft, key, output);
    const next = looked === null ? 'write' : await verdictOn(context, looked);
    if (next === 'write')
      return { draft, key, looked, notOffered: looked === null ? [] : await leftOut(context, looked) };
    if (next === 'url') url = await urlFor(context, {});
    else {
      key = await keyFor(context, {}, output);
      name = await nameFor(context, name, key);
    }
  }
}

/** Probes the service with the given profile, or with the one that its first answers suggest. */
async function probeWithProfile(
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
      throw context.signal.aborted ? interrupted(error) : error;
    }
  };
  const first = await probed(draft.profile);
  if (options.profile !== undefined || first.fatal !== null) return first;
  const { profile, signs } = fittingProfile(first);
  // If nothing can be read, the address or the key is wrong: the profile does not matter yet.
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

/** What the choice of a profile means. */
const LABELS: Readonly<Record<string, string>> = {
  svc: 'svc: the API as documented; roles, projects and some components cannot be restored',
  'svc-writable':
    'svc-writable: as svc, and restores write their usual fields; a refused field fails one step',
  posthog: 'posthog: PostHog Cloud, or a self-hosted PostHog, with its field names and list shapes',
};

/** The source as it will be configured, but with the given key. */
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
  // The file of a typed key does not exist yet.
  return { ...source, keyPlace: newFile === null ? `the key in ${place}` : 'the key that you entered' };
}

/** Shows what the key can read. If that is nothing, the user decides what to enter again, or to write the file anyway. */
async function verdictOn(context: CommandContext, reach: SourceReach): Promise<'write' | 'url' | 'key'> {
  const isVerbose = context.options.verbose === true;
  const problems = bySeverity([...reachProblems(reach), ...clockProblems(reach)]).map((problem) => ({
    ...problem,
    // There is no configuration yet.
    next: problem.next.replaceAll('baseUrl of the source', 'the address'),
  }));
  if (context.options.json !== true) {
    const shown = problems.filter(({ gravity }) => isVerbose || gravity !== 'note');
    const report = reachReport(reach, { isVerbose });
    for (const part of [report, ...(shown.length === 0 ? [] : [problemReport(shown)])])
      await print(context, `${renderText(part, lineOptions(context))}\n`);
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
  const [worst] = problems;
  throw new TidemarkError(
    code === EXIT.refused ? 'unauthorized' : (reach.fatal?.code ?? 'not_found'),
    `nothing was written: ${worst?.message ?? 'nothing can be read'}`,
    { hint: `${worst?.next ?? 'check address and key'}; --no-check skips the check` },
  );
}

/** The kinds that the service does not offer: excluded, unless the user declines, as they would make every run partial. */
async function leftOut(context: CommandContext, { kinds }: SourceReach): Promise<readonly Kind[]> {
  const missing = [...new Set(kinds.flatMap(({ kind, state }) => (state === 'not_offered' ? kind : [])))];
  if (missing.length === 0) return [];
  const text = `not offered here: ${missing.join(', ')}`;
  if (!canAsk(context)) {
    printNote(context, [`${text}; left out by kinds.exclude`]);
    return missing;
  }
  const answer = answered(
    await askChoice(context, `${text}. Leave these kinds out?`, [
      { value: 'out', label: 'Yes', hint: 'else every run is partial' },
      { value: 'in', label: 'No, ask for them in every run' },
    ]),
  );
  return answer === 'out' ? missing : [];
}
