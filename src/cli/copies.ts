/** `tidemark copies list` and `copies make`: what copies there are, and one more. */
import { hostname } from 'node:os';
import { systemClock } from '../core/clock.ts';
import { type ExitCode, EXIT, TidemarkError } from '../core/errors.ts';
import type { Config, CopiesConfig } from '../config/config.ts';
import { duration, megabytes, plural } from '../core/wording.ts';
import { type Copier, type CopyOutcome, createCopier } from '../daemon/copies/copier.ts';
import type { CopyPhase } from '../daemon/copies/copy.ts';
import { type Copy, readCopies } from '../daemon/copies/copy-list.ts';
import { withheldBy } from '../daemon/copies/hook-environment.ts';
import { escapeControlCharacters } from '../report/escape-control.ts';
import { readConfig } from '../wire.ts';
import { isInteractive, print, tellReason, type CommandContext } from './context.ts';
import { renderTable, terminalWidth } from './table.ts';
import { age } from './export-remarks.ts';
import { commandLog } from './source-probe.ts';

/** Exit 0, also where one is damaged: `copies verify` judges. */
export async function listCopies(context: CommandContext): Promise<ExitCode> {
  const { directory } = copiesOf(readConfig(context, context.options, 'unused'));
  const copies = await readCopies(directory);
  if (context.options.json === true) {
    const document = { schema: 'tidemark.copies/1', directory, copies: copies.map(copyDocument) };
    await print(context, `${JSON.stringify(document)}\n`);
    return EXIT.done;
  }
  const text =
    copies.length === 0
      ? `no copies in ${escapeControlCharacters(directory)} yet`
      : renderTable(
          ['file', 'made', 'run', 'size', 'encrypted', 'state'],
          copies.map(rowOf),
          ['left', 'left', 'right', 'right'],
          { width: terminalWidth(context), least: ['made'] },
        );
  await print(context, `${text}\n`);
  return EXIT.done;
}

/** The configured copies; where they are off, says how to have some. */
export function copiesOf(config: Config): CopiesConfig {
  if (config.copies !== null) return config.copies;
  throw new TidemarkError('usage', 'no directory for copies is configured', {
    hint: 'set `copies.directory` (or TIDEMARK_COPIES_DIRECTORY) to a directory on another disk',
  });
}

function rowOf({ name, madeAt, run, bytes, isEncrypted, state, reason }: Copy): string[] {
  const made = age(madeAt, systemClock.now());
  const how = reason === null ? state : `${state}: ${reason}`;
  return [name, made, String(run), megabytes(bytes), isEncrypted ? 'yes' : 'no', how];
}

/** One copy in JSON documents. */
export function copyDocument({
  name,
  path,
  madeAt,
  run,
  bytes,
  isEncrypted,
  state,
  reason,
  manifest,
}: Copy): object {
  return {
    file: name,
    path,
    made_at: madeAt,
    run,
    bytes,
    is_encrypted: isEncrypted,
    state,
    reason,
    mirror: manifest?.mirror ?? null,
    root: manifest?.root ?? null,
    sha256: manifest?.sha256 ?? null,
    plain_bytes: manifest?.plain_bytes ?? null,
    sources: manifest?.sources ?? [],
  };
}

/** Exit 0 when done, 3 when the copy is there but an old one could not be removed, or the command after it failed. */
export async function makeCopyNow(context: CommandContext): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const copier = configuredCopier(context, config);
  const outcome = await copier.make(context.signal, progressOf(context));
  if (isInteractive(context)) context.stderr.write('\r\u001b[K');
  if (context.options.json === true) await print(context, `${JSON.stringify(documentOf(outcome))}\n`);
  else await print(context, `${linesOf(outcome).join('\n')}\n`);
  const troubles = [outcome.untidy, outcome.hook?.error ?? null].filter((trouble) => trouble !== null);
  for (const { message, hint } of troubles) {
    // Not a remark: it is why the command ends as partial.
    tellReason(context, [message, ...(hint === undefined ? [] : [`  → ${hint}`])]);
  }
  return troubles.length === 0 ? EXIT.done : EXIT.partial;
}

function configuredCopier(context: CommandContext, config: Config): Copier {
  return createCopier({
    copies: copiesOf(config),
    mirror: config.mirror,
    command: 'copies make',
    env: context.env,
    withheld: withheldBy(config),
    clock: systemClock,
    log: commandLog(context, 'silent'),
    host: hostname(),
    pid: context.pid,
  });
}

const PHASE: Readonly<Record<CopyPhase, string>> = {
  copying: 'copying the mirror',
  verifying: 'verifying the copy',
  packing: 'writing the file',
  checking: 'reading it back',
};

function progressOf(context: CommandContext): Parameters<Copier['make']>[1] {
  if (!isInteractive(context)) return undefined;
  return ({ phase, share }) => {
    context.stderr.write(`\r\u001b[K${PHASE[phase]} ${Math.floor(share * 100)} % `);
  };
}

function linesOf({ path, manifest, removed, hook, seconds }: CopyOutcome): string[] {
  const { run, bytes, plain_bytes: plain, encryption, checked, root } = manifest;
  return [
    `copied run ${run} to ${escapeControlCharacters(path)} in ${duration(seconds * 1000)}`,
    `${megabytes(bytes)} for a mirror of ${megabytes(plain)}, ${encryption === null ? 'not encrypted' : 'encrypted with age'}`,
    `verified: ${plural(checked.records, 'record')}, ${plural(checked.revisions, 'revision')}, sealed ${root}`,
    ...(removed.length === 0
      ? []
      : [`${plural(removed.length, 'old copy', 'old copies')} removed by retention`]),
    ...(hook?.outcome === 'done'
      ? [`the command after it ended well in ${duration(hook.seconds * 1000)}`]
      : []),
  ];
}

function documentOf({ path, manifest, removed, untidy, hook, seconds }: CopyOutcome): object {
  return {
    schema: 'tidemark.copies_make/1',
    path,
    manifest,
    removed,
    command: hook === null ? null : { outcome: hook.outcome, seconds: hook.seconds },
    errors: [untidy, hook?.error ?? null].flatMap((error) =>
      error === null ? [] : [{ code: error.code, message: error.message, hint: error.hint ?? null }],
    ),
    seconds,
  };
}
