/** `tidemark backup list` and `backup create`: what backups there are, and one more. */
import { hostname } from 'node:os';
import { systemClock } from '../core/clock.ts';
import { type ExitCode, EXIT, TidemarkError } from '../core/errors.ts';
import type { Config, BackupConfig } from '../config/config.ts';
import { duration, megabytes, plural } from '../core/wording.ts';
import { type BackupWriter, type BackupOutcome, createBackupWriter } from '../backup/writer.ts';
import type { BackupPhase } from '../backup/work.ts';
import { type Backup, listBackups } from '../backup/list.ts';
import { withheldBy } from '../backup/hook-environment.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { readConfig } from '../wire.ts';
import { isInteractive, print, printReason, type CommandContext } from './context.ts';
import { renderTable, terminalWidth } from './table.ts';
import { age } from './export-notes.ts';
import { commandLog } from './source-probe.ts';

/** Exit 0, also if one is damaged: `backup verify` decides. */
export async function listBackupsCommand(context: CommandContext): Promise<ExitCode> {
  const { directory } = backupsOf(readConfig(context, context.options, 'unused'));
  const backups = await listBackups(directory);
  if (context.options.json === true) {
    const document = { schema: 'tidemark.backups/1', directory, backups: backups.map(backupDocument) };
    await print(context, `${JSON.stringify(document)}\n`);
    return EXIT.done;
  }
  const text =
    backups.length === 0
      ? `no backups in ${escapeControlCharacters(directory)} yet`
      : renderTable(
          ['file', 'made', 'run', 'size', 'encrypted', 'state'],
          backups.map(rowOf),
          ['left', 'left', 'right', 'right'],
          { width: terminalWidth(context), least: ['made'] },
        );
  await print(context, `${text}\n`);
  return EXIT.done;
}

/** The configured backups; where they are off, says how to have some. */
export function backupsOf(config: Config): BackupConfig {
  if (config.backup !== null) return config.backup;
  throw new TidemarkError('usage', 'no directory for backups is configured', {
    hint: 'set `backup.directory` (or TIDEMARK_BACKUP_DIRECTORY) to a directory on another disk',
  });
}

function rowOf({ name, madeAt, run, bytes, isEncrypted, state, reason }: Backup): string[] {
  const made = age(madeAt, systemClock.now());
  const how = reason === null ? state : `${state}: ${reason}`;
  return [name, made, String(run), megabytes(bytes), isEncrypted ? 'yes' : 'no', how];
}

/** One backup in JSON documents. */
export function backupDocument({
  name,
  path,
  madeAt,
  run,
  bytes,
  isEncrypted,
  state,
  reason,
  manifest,
}: Backup): object {
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

/** Exit 0 when done, 3 when the backup is there but an old one could not be removed, or the command after it failed. */
export async function createBackupNow(context: CommandContext): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const writer = configuredBackupWriter(context, config);
  const outcome = await writer.make(context.signal, progressOf(context));
  if (isInteractive(context)) context.stderr.write('\r\u001b[K');
  if (context.options.json === true) await print(context, `${JSON.stringify(documentOf(outcome))}\n`);
  else await print(context, `${linesOf(outcome).join('\n')}\n`);
  const problems = [outcome.cleanupError, outcome.hook?.error ?? null].filter((problem) => problem !== null);
  for (const { message, hint } of problems) {
    // Not a note: it is why the command ends as partial.
    printReason(context, [message, ...(hint === undefined ? [] : [`  → ${hint}`])]);
  }
  return problems.length === 0 ? EXIT.done : EXIT.partial;
}

function configuredBackupWriter(context: CommandContext, config: Config): BackupWriter {
  return createBackupWriter({
    backup: backupsOf(config),
    mirror: config.mirror,
    command: 'backup create',
    env: context.env,
    withheld: withheldBy(config),
    clock: systemClock,
    log: commandLog(context, 'silent'),
    host: hostname(),
    pid: context.pid,
  });
}

const PHASE: Readonly<Record<BackupPhase, string>> = {
  copying: 'copying the mirror',
  verifying: 'verifying the backup',
  packing: 'writing the file',
  checking: 'reading it back',
};

function progressOf(context: CommandContext): Parameters<BackupWriter['make']>[1] {
  if (!isInteractive(context)) return undefined;
  return ({ phase, share }) => {
    context.stderr.write(`\r\u001b[K${PHASE[phase]} ${Math.floor(share * 100)} % `);
  };
}

function linesOf({ path, manifest, removed, hook, seconds }: BackupOutcome): string[] {
  const { run, bytes, plain_bytes: plain, encryption, checked, root } = manifest;
  return [
    `copied run ${run} to ${escapeControlCharacters(path)} in ${duration(seconds * 1000)}`,
    `${megabytes(bytes)} for a mirror of ${megabytes(plain)}, ${encryption === null ? 'not encrypted' : 'encrypted with age'}`,
    `verified: ${plural(checked.records, 'record')}, ${plural(checked.revisions, 'revision')}, sealed ${root}`,
    ...(removed.length === 0
      ? []
      : [`${plural(removed.length, 'old backup', 'old backups')} removed by retention`]),
    ...(hook?.outcome === 'done'
      ? [`the command after it ended well in ${duration(hook.seconds * 1000)}`]
      : []),
  ];
}

function documentOf({ path, manifest, removed, cleanupError, hook, seconds }: BackupOutcome): object {
  return {
    schema: 'tidemark.backup_create/1',
    path,
    manifest,
    removed,
    command: hook === null ? null : { outcome: hook.outcome, seconds: hook.seconds },
    errors: [cleanupError, hook?.error ?? null].flatMap((error) =>
      error === null ? [] : [{ code: error.code, message: error.message, hint: error.hint ?? null }],
    ),
    seconds,
  };
}
