/** `tidemark backup verify`. */
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { plural } from '../core/wording.ts';
import { mirrorConfigs, namesOf } from '../config/mirrors.ts';
import { CONTRADICTING_HINT, contradicting, contradictingText } from '../backup/chain.ts';
import type { Backup } from '../backup/list.ts';
import { type OpenedBackup, verifyBackup } from '../backup/opened-backup.ts';
import { openCheckDirectory } from '../backup/work-directory.ts';
import { readConfig, readLoadedConfig } from '../wire.ts';
import { backupDocument, printUnread, withConfiguredMirror } from './backup.ts';
import {
  backupNamed,
  errorsOf,
  holder,
  identitiesOf,
  openIntact,
  openOptions,
  printPassedOver,
} from './backup-named.ts';
import { clearProgress, print, printJson, printReason, type CommandContext } from './context.ts';

export interface VerifyOptions {
  readonly file?: string;
  readonly identity?: readonly string[];
}

/**
 * Exit 0 if everything matches; 1 if the backup is damaged, in one target at least, or, for the newest, if a newer one is damaged, gone
 * or without manifest;
 * 3 if it is encrypted and only its file could be checked, or if a target that may have it, or a later one, could not be listed.
 */
export async function verifyOneBackup(context: CommandContext, options: VerifyOptions): Promise<ExitCode> {
  const file = options.file ?? 'latest';
  // Each configured mirror has a latest backup; a named one is a single backup, however many mirrors there are.
  const [config = readConfig(context, context.options, 'unused')] =
    file === 'latest' ? [] : mirrorConfigs(readLoadedConfig(context, context.options, 'unused'));
  const named = await backupNamed(context, file);
  const { unread, passedOver } = named;
  requireSources(context, named.backup, named.backup.manifest?.sources);
  // Before the verification, which may fail.
  printUnread(context, errorsOf(unread));
  if (named.noneOfOwn !== null) throw named.noneOfOwn;
  printPassedOver(context, named);
  const unlike = withConfiguredMirror(context, (mirror) => contradicting(mirror, [named.backup]));
  const unlikeText = contradictingText(unlike ?? []);
  if (unlikeText !== null) printReason(context, [unlikeText, `  → ${CONTRADICTING_HINT}`]);
  const identities = await identitiesOf(context, options.identity);
  const { backup, opened } = await openIntact(context, named, async (each) => {
    const workDirectory = openCheckDirectory(config.mirror, holder(context, 'backup verify'));
    try {
      return await verifyBackup(each, workDirectory.directory, openOptions(context, identities));
    } finally {
      workDirectory.close();
      clearProgress(context);
    }
  });
  requireSources(context, backup, opened.facts?.sources);
  if (context.options.json === true) {
    const { facts, isCompared } = opened;
    await printJson(context, {
      schema: 'tidemark.backup_verify/1',
      backup: backupDocument(backup),
      is_compared: isCompared,
      is_opened: facts !== null,
      checked: facts?.checked ?? null,
      run: facts?.run ?? null,
      root: facts?.root ?? null,
      unread: unread.map(({ address, error }) => ({ address, error: error.message })),
      passed_over: passedOver.map(backupDocument),
      contradicting: unlike,
    });
  } else await print(context, `${verifiedLines(backup, opened).map(escapeControlCharacters).join('\n')}\n`);
  if (opened.facts === null) {
    printReason(context, [
      `${backup.name} is encrypted and was not opened: its contents were not verified`,
      '  → give --identity FILE to check every hash in it',
    ]);
  }
  if (passedOver.length > 0 || backup !== named.backup) return EXIT.failed;
  return opened.facts !== null && unread.length === 0 ? EXIT.done : EXIT.partial;
}

/**
 * @param sources in the backup; undefined if unknown
 * @throws TidemarkError `usage` if a source of `--source` is not among them
 */
function requireSources(
  { options, ofSeveral }: CommandContext,
  { name }: Backup,
  sources: readonly { readonly source: string }[] | undefined,
): void {
  if (sources === undefined || ofSeveral !== undefined) return;
  const held = sources.map(({ source }) => source);
  const missing = (options.source ?? []).filter((source) => !held.includes(source));
  if (missing.length === 0) return;
  throw new TidemarkError('usage', `${name} is a backup of ${namesOf(held)}, not of ${namesOf(missing)}`, {
    hint: 'name a backup of that source, or leave out --source',
  });
}

function verifiedLines(backup: Backup, { facts, isCompared }: OpenedBackup): string[] {
  const sources = facts?.sources ?? backup.manifest?.sources ?? [];
  const of = sources.length === 0 ? [] : [`sources in it: ${sources.map(({ source }) => source).join(', ')}`];
  const file = isCompared
    ? `the file matches the checksum in its manifest: ${backup.manifest?.sha256 ?? ''}`
    : 'it has no manifest to compare its file with';
  if (facts === null) {
    return [
      `${backup.name}: not opened, as it is encrypted`,
      ...of,
      file,
      '→ only the holder of the identity can verify the content: give --identity FILE to decrypt it and check every hash in it',
    ];
  }
  const { records, revisions, runs } = facts.checked;
  return [
    `${backup.name}: verified ${plural(records, 'record')}, ${plural(revisions, 'revision')}, ${plural(runs, 'run')}`,
    ...of,
    file,
    `root hash of run ${facts.run}: ${facts.root}`,
  ];
}
