/** `tidemark verify`: whether the mirror holds what it sealed. */
import { scopeText } from '../catalog/scope-text.ts';
import type { Config } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { TidemarkError, type ExitCode } from '../core/errors.ts';
import { count, plural } from '../core/wording.ts';
import { withMaskedId } from '../daemon/jobs/verify-problems.ts';
import { verifyResult } from '../daemon/jobs/verify-result.ts';
import { fileDamage } from '../mirror/file-damage.ts';
import { verifyMirror } from '../mirror/mirror.ts';
import type { VerifyProblem } from '../mirror/verify.ts';
import { escapeControlCharacters } from '../report/escape-control.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { groupAlike } from './collection-groups.ts';
import { isInteractive, print, tellReason, type CommandContext } from './context.ts';
import { isDaemons, keepVerification } from './verify-record.ts';

/** Exit 0 when everything holds, 1 with each problem named when not. */
export async function verify(context: CommandContext): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  try {
    return await verifyConfigured(context, config);
  } catch (error) {
    throw withDamage(error, config.mirror);
  }
}

/** Where the file is too damaged to be opened, its structure still tells what is. */
function withDamage(error: unknown, path: string): unknown {
  if (!(error instanceof TidemarkError) || error.code !== 'mirror_corrupt') return error;
  let found: readonly string[];
  try {
    found = fileDamage(path);
  } catch (cause) {
    return new TidemarkError(error.code, error.message, {
      ...(error.hint === undefined ? {} : { hint: error.hint }),
      cause,
    });
  }
  if (found.length === 0) return error;
  const lines = found.slice(0, PLACES).map((line) => `  ${line}`);
  const more = found.length > PLACES ? ['  and more'] : [];
  return new TidemarkError(error.code, [`${error.message}:`, ...lines, ...more].join('\n'), {
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    cause: error,
  });
}

async function verifyConfigured(context: CommandContext, config: Config): Promise<ExitCode> {
  const mirror = openConfiguredMirror(config, 'read', 'verify', context.pid);
  try {
    const isShown = isInteractive(context);
    const startedAt = systemClock.now();
    const startedMs = systemClock.monotonicMs();
    const verified = await verifyMirror(mirror, {
      onProgress: ({ records, of }) => {
        if (isShown) context.stderr.write(`\rverifying ${count(records)} of ${plural(of, 'record')} `);
      },
    });
    if (isShown) context.stderr.write('\r\u001b[K');
    const { checked, notes } = verified;
    const problems = verified.problems.map((problem) => withMaskedId(problem, config));
    const result = verifyResult(verified, config, mirror, systemClock.monotonicMs() - startedMs);
    const latest = mirror.runs().find(({ root }) => root !== null);
    if (context.options.json === true) {
      const document = {
        schema: 'tidemark.verify/1',
        mirror: mirror.path,
        checked,
        root: latest?.root ?? null,
        problems,
        notes,
      };
      await print(context, `${JSON.stringify(document)}\n`);
    } else {
      const lines = [
        ...problemLines(problems),
        `${problems.length === 0 ? 'verified' : `${plural(problems.length, 'problem')} found`}: ` +
          `${plural(checked.records, 'record')}, ${plural(checked.revisions, 'revision')}, ${plural(checked.runs, 'run')}`,
        ...notes.map(({ message }) => message),
        ...(latest === undefined ? [] : [`sealed up to run ${latest.run}: ${latest.root ?? ''}`]),
        ...(problems.length === 0 ? [] : [`→ ${MENDING}`]),
      ];
      await print(context, `${lines.map((line) => escapeControlCharacters(line)).join('\n')}\n`);
    }
    if (isDaemons(mirror)) await keepVerification(context, config, { startedAt, result });
    if (problems.length > 0) {
      tellReason(context, [
        `${mirror.path} does not hold what it sealed: ${plural(problems.length, 'problem')}`,
        ...problemLines(problems)
          .slice(0, PLACES)
          .map((line) => `  ${line}`),
        `  → ${MENDING}`,
      ]);
    }
    return result.exitCode;
  } finally {
    mirror.close();
  }
}

const MENDING =
  'restore the mirror from a copy, or move it away and run `tidemark sync` for a new one (without history)';

/** Places named of one finding; the rest is a number. */
const PLACES = 5;

/**
 * A damaged page shows in every record on it. What is wrong is said once, then where and how often; findings that differ
 * only in a number, a type or a field are of one sort.
 */
function problemLines(problems: readonly VerifyProblem[]): string[] {
  const findings = problems.flatMap((problem) =>
    sentences(problem).map((text) => ({ text: `${problem.kind}: ${text}`, place: placeText(problem) })),
  );
  return groupAlike(findings, ({ text }) => sortOf(text)).flatMap((found) => {
    const [{ text, place }] = found;
    if (found.length === 1) return [`${text}${place === '' ? '' : ` (${place})`}`];
    const isSame = found.every((each) => each.text === text);
    const places = groupAlike(
      found.filter((each) => each.place !== ''),
      (each) => each.place,
    );
    const unnamed = places.length - PLACES;
    return [
      isSame
        ? `${text}, ${count(found.length)} times`
        : `${text}, and ${count(found.length - 1)} more of this sort`,
      ...places
        .slice(0, PLACES)
        .map((at) => `  ${at[0].place}${at.length === 1 ? '' : `, ${count(at.length)} times`}`),
      ...(unnamed > 0 ? [`  and ${plural(unnamed, 'other place')}: --json lists them`] : []),
    ];
  });
}

/** SQLite gives what it finds in a file as one text of many lines under a heading. */
function sentences({ message }: VerifyProblem): string[] {
  const lines = message.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('***'));
  return lines.length === 0 ? [message] : lines;
}

function sortOf(text: string): string {
  return text
    .replaceAll(/\s\/\S*/g, ' /…')
    .replaceAll(/\btype \w+/g, 'type …')
    .replaceAll(/\d+/g, '…');
}

function placeText({ recordKind, scope, id, run }: VerifyProblem): string {
  return [
    ...(recordKind === undefined ? [] : [`${recordKind} ${id ?? ''}`.trim()]),
    ...(scope === undefined ? [] : [scopeText(scope)]),
    ...(run === undefined ? [] : [`run ${run}`]),
  ]
    .filter((part) => part !== '')
    .join(', ');
}
