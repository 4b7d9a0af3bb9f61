/** The backups that `init` configures, from its options or asked for. */
import { existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { isRecipient } from '../config/age-recipient.ts';
import { isS3Address, isTargetAddress, meantS3Address, TARGET_ADDRESS } from '../config/backup-target.ts';
import { TidemarkError } from '../core/errors.ts';
import { UNENCRYPTED } from './config-check.ts';
import { printNote, type CommandContext } from './context.ts';
import { answered, asWritten, askYes, canAsk, refuse, type InitOptions } from './init-answers.ts';
import { askChoice, askText } from './prompt.ts';

export interface BackupAnswers {
  readonly targets: readonly string[];
  readonly recipients: readonly string[];
  /** Absolute paths of directories to create. */
  readonly newDirectories: readonly string[];
}

/** @throws TidemarkError `usage` for wrong options of backups */
export function requireBackupOptions({ backup = [], recipient = [] }: InitOptions): void {
  if (backup.length === 0 && recipient.length > 0)
    throw new TidemarkError('usage', '--recipient is for backups: name where they go with --backup');
  refuse(
    '--backup',
    backup.map(targetMistake).find((each) => each !== undefined),
  );
  if (!recipient.every(isRecipient))
    refuse('--recipient', 'expected an age recipient, as `age-keygen -y` prints it: age1…');
}

/** The backups to configure. @param earlier the answers so far, which are suggested again */
export async function backupFor(
  context: CommandContext,
  options: InitOptions,
  output: string,
  earlier: BackupAnswers,
): Promise<BackupAnswers> {
  const { backup = [], recipient = [] } = options;
  if (backup.length > 0 || !canAsk(context)) {
    const missing = backup.filter(
      (target) => !isS3Address(target) && !existsSync(resolve(context.cwd, target)),
    );
    printNote(context, [
      ...missing.map(
        (target) => `--backup: ${target} does not exist: backups there fail until it is a directory`,
      ),
      ...(backup.length > 0 && recipient.length === 0 ? [UNENCRYPTED] : []),
    ]);
    const targets = backup.map((target) => targetText(context, target, output));
    return { targets, recipients: recipient, newDirectories: [] };
  }
  return await askedBackup(context, output, earlier);
}

async function askedBackup(
  context: CommandContext,
  output: string,
  earlier: BackupAnswers,
): Promise<BackupAnswers> {
  const [before, ...others] = earlier.targets;
  const form = before === undefined ? 'none' : isS3Address(before) ? 's3' : 'directory';
  const choices = [
    { value: 'none', label: 'Nowhere for now', hint: 'this disk then has the only copy' },
    { value: 'directory', label: 'A directory', hint: 'best on another disk' },
    { value: 's3', label: 'S3-compatible storage' },
  ] as const;
  // Enter chooses the first one.
  const sorted = choices.toSorted((a, b) => Number(b.value === form) - Number(a.value === form));
  const where = answered(await askChoice(context, 'Where should backups of the mirror go?', sorted));
  const proposal = where === form ? before : undefined;
  if (where === 'none') return { targets: [], recipients: [], newDirectories: [] };
  const newDirectories: string[] = [];
  let target: string;
  if (where === 's3') {
    const check = (text: string): string | undefined =>
      isS3Address(text) ? targetMistake(text) : `expected ${TARGET_ADDRESS.replace(/^a path, or /, '')}`;
    const details = { check, ...(proposal === undefined ? {} : { proposal }) };
    target = answered(await askText(context, 'Address (s3://BUCKET/PREFIX)', details));
  } else {
    const check = (text: string): string | undefined => {
      const facts = statSync(resolve(context.cwd, text), { throwIfNoEntry: false });
      return facts === undefined || facts.isDirectory() ? targetMistake(text) : 'it is not a directory';
    };
    const known =
      proposal === undefined
        ? './backups'
        : asWritten(resolve(dirname(output), proposal), join(context.cwd, 'any'));
    target = answered(await askText(context, 'Directory', { proposal: known, check }));
    const path = resolve(context.cwd, target);
    const isCreated =
      !existsSync(path) && (await askYes(context, `${target} does not exist. Create it?`, 'No, I will'));
    if (isCreated) newDirectories.push(path);
  }
  printNote(context, [
    `${UNENCRYPTED}.`,
    'Encryption is built in; only the key is made with age (package `age`): `age-keygen -o tidemark-backup.key` prints its recipient, age1…',
    'Keep tidemark-backup.key in another place than the backups: nobody can read them without it',
  ]);
  const check = (text: string): string | undefined =>
    text === NOT_ENCRYPTED || recipientsIn(text).every(isRecipient)
      ? undefined
      : `expected age recipients (age1…), or ${NOT_ENCRYPTED}`;
  const had = earlier.recipients.join(' ');
  const enter = had === '' ? 'Enter: do not encrypt' : `Enter: as before; ${NOT_ENCRYPTED}: do not encrypt`;
  const question = `Encrypt for these age recipients (${enter})`;
  const typed = answered(await askText(context, question, { proposal: had, check }));
  return {
    targets: [targetText(context, target, output), ...others],
    recipients: typed === NOT_ENCRYPTED ? [] : recipientsIn(typed),
    newDirectories,
  };
}

const NOT_ENCRYPTED = 'none';

function recipientsIn(text: string): string[] {
  return text.split(/[\s,]+/).filter((each) => each !== '');
}

function targetMistake(text: string): string | undefined {
  const meant = meantS3Address(text);
  if (meant !== undefined) return `did you mean ${meant}?`;
  return isTargetAddress(text) ? undefined : `expected ${TARGET_ADDRESS}`;
}

function targetText(context: CommandContext, target: string, output: string): string {
  return isS3Address(target) ? target : asWritten(resolve(context.cwd, target), output);
}
