/** `tidemark backup verify` and `backup restore`: reading a backup. */
import { hostname } from 'node:os';
import { basename, resolve } from 'node:path';
import { isoTime, systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import type { Config } from '../config/config.ts';
import { plural } from '../core/wording.ts';
import { type Backup, listBackups, readBackup } from '../backup/list.ts';
import { parseBackupName } from '../backup/name.ts';
import { readIdentities } from '../backup/encryption.ts';
import { type OpenedBackup, type OpenOptions, restoreBackup, verifyBackup } from '../backup/opened-backup.ts';
import { openWorkDirectory } from '../backup/work-directory.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { readConfig } from '../wire.ts';
import { isInteractive, print, printNote, printReason, type CommandContext } from './context.ts';
import { backupsOf, backupDocument } from './backup.ts';

export interface VerifyOptions {
  readonly file?: string;
  readonly identity?: readonly string[];
}

export interface RestoreOptions {
  readonly file: string;
  readonly to?: string;
  readonly identity?: readonly string[];
}

/** Exit 0 when all of it holds, 1 when it is damaged, 3 when it is encrypted and only its file could be looked at. */
export async function verifyOneBackup(context: CommandContext, options: VerifyOptions): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const backup = await backupNamed(context, config, options.file ?? 'latest');
  const identities = await identitiesOf(context, options.identity);
  const workDirectory = openWorkDirectory(config.mirror, 'backup-check', holder(context, 'backup verify'));
  let opened: OpenedBackup;
  try {
    opened = await verifyBackup(backup, workDirectory.directory, openOptions(context, identities));
  } finally {
    workDirectory.close();
    if (isInteractive(context)) context.stderr.write('\r\u001b[K');
  }
  if (context.options.json === true) {
    const { facts, isCompared } = opened;
    const document = {
      schema: 'tidemark.backup_verify/1',
      backup: backupDocument(backup),
      is_compared: isCompared,
      is_opened: facts !== null,
      checked: facts?.checked ?? null,
      run: facts?.run ?? null,
      root: facts?.root ?? null,
    };
    await print(context, `${JSON.stringify(document)}\n`);
  } else await print(context, `${verifiedLines(backup, opened).map(escapeControlCharacters).join('\n')}\n`);
  if (opened.facts !== null) return EXIT.done;
  printReason(context, [
    `${backup.name} is encrypted and was not opened: what is in it was not verified`,
    '  → give --identity FILE to have every seal in it checked',
  ]);
  return EXIT.partial;
}

function verifiedLines(backup: Backup, { facts, isCompared }: OpenedBackup): string[] {
  const file = isCompared
    ? `the file is what was written: ${backup.manifest?.sha256 ?? ''}`
    : 'it has no manifest to compare its file with';
  if (facts === null) {
    return [
      `${backup.name}: not opened, as it is encrypted`,
      file,
      '→ give --identity FILE to have it decrypted and every seal in it checked',
    ];
  }
  const { records, revisions, runs } = facts.checked;
  return [
    `${backup.name}: verified ${plural(records, 'record')}, ${plural(revisions, 'revision')}, ${plural(runs, 'run')}`,
    file,
    `sealed up to run ${facts.run}: ${facts.root}`,
  ];
}

/** Exit 0 when the mirror is in place. */
export async function restoreOneBackup(context: CommandContext, options: RestoreOptions): Promise<ExitCode> {
  if (options.to === undefined) {
    throw new TidemarkError('usage', 'where is the mirror to go?', {
      hint: 'give a path where no file exists yet: --to ./restored/mirror.db',
    });
  }
  const config = readConfig(context, context.options, 'unused');
  const backup = await backupNamed(context, config, options.file);
  const identities = await identitiesOf(context, options.identity);
  const to = resolve(context.cwd, options.to);
  const facts = await restoreBackup(backup, to, {
    ...openOptions(context, identities),
    holder: holder(context, 'backup restore'),
  });
  if (isInteractive(context)) context.stderr.write('\r\u001b[K');
  if (backup.manifest === null)
    printNote(context, [
      `${backup.name} has no manifest: its file was compared with nothing, its seals all hold`,
    ]);
  if (context.options.json === true) {
    const document = {
      schema: 'tidemark.backup_restore/1',
      backup: backupDocument(backup),
      mirror: to,
      run: facts.run,
      root: facts.root,
      sources: facts.sources,
      checked: facts.checked,
    };
    await print(context, `${JSON.stringify(document)}\n`);
    return EXIT.done;
  }
  const { records, revisions } = facts.checked;
  const lines = [
    `run ${facts.run} is at ${to}, verified: ${plural(records, 'record')}, ${plural(revisions, 'revision')}`,
    `sealed ${facts.root}`,
    to === config.mirror
      ? '→ this is the configured mirror: the next sync continues from there'
      : `→ look at it with TIDEMARK_MIRROR=${to} tidemark status; to go on from it, stop the daemon, move ${config.mirror} with its -wal and -shm away, and set \`mirror\` to it`,
  ];
  await print(context, `${lines.map(escapeControlCharacters).join('\n')}\n`);
  return EXIT.done;
}

/** `latest` is the newest whole one. A name alone is looked for in the directory of backups, then here. */
async function backupNamed(context: CommandContext, config: Config, file: string): Promise<Backup> {
  if (file !== 'latest') {
    const isName = parseBackupName(file) !== undefined && basename(file) === file;
    const inDirectory =
      isName && config.backup !== null
        ? (await listBackups(config.backup.directory)).find(
            ({ name, state }) => name === file && state !== 'gone',
          )
        : undefined;
    return inDirectory ?? (await readBackup(resolve(context.cwd, file)));
  }
  const { directory } = backupsOf(config);
  const backups = await listBackups(directory);
  const latest = backups.find(({ state }) => state === 'whole');
  if (latest !== undefined) return latest;
  throw new TidemarkError('reference_unknown', `there is no complete backup in ${directory}`, {
    hint: '`tidemark backup list` says what there is; `tidemark backup create` makes one',
  });
}

async function identitiesOf(
  { cwd }: CommandContext,
  files: readonly string[] | undefined,
): Promise<readonly Secret[]> {
  return (await Promise.all((files ?? []).map((file) => readIdentities(resolve(cwd, file))))).flat();
}

function openOptions(context: CommandContext, identities: readonly Secret[]): OpenOptions {
  const options = { identities, clock: systemClock, signal: context.signal };
  if (!isInteractive(context)) return options;
  return {
    ...options,
    onProgress: (phase, share) => {
      context.stderr.write(`\r\u001b[K${phase} ${Math.floor(share * 100)} % `);
    },
  };
}

function holder({ pid }: CommandContext, command: string) {
  return { command, pid, host: hostname(), since: isoTime(systemClock.now()) };
}
