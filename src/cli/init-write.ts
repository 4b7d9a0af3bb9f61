/** Writes what `init` was asked to: the configuration, its secrets and the service's file, all or nothing; and reports it. */
import {
  appendFileSync,
  existsSync,
  linkSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, isAbsolute, join, relative } from 'node:path';
import { loadConfig } from '../config/load.ts';
import type { LoadedConfig } from '../config/mirrors.ts';
import { asTidemarkError, systemCodeOf, TidemarkError } from '../core/errors.ts';
import { asFileError, makeDirectory } from '../core/file-errors.ts';
import type { SourceReach } from '../doctor/source-reach.ts';
import { workTreeOf } from '../git/program.ts';
import { removeLeftBehind, temporaryPath } from './atomic-file.ts';
import { print, printJson, type CommandContext } from './context.ts';
import { sourceDocument } from './doctor-document.ts';
import type { GivenKey } from './init-answers.ts';
import { ENVIRONMENT_FILE, TOKEN_FILE } from './init-config.ts';
import type { GivenChannel } from './init-channel.ts';
import type { BackupAnswers } from './init-backup.ts';
import { type ServiceAnswer, directoriesOutside } from './init-service.ts';

/** @throws TidemarkError `usage` if the path is a directory, or a file that may not be replaced */
export function requireFree(path: string, isForced: boolean): void {
  const facts = statSync(path, { throwIfNoEntry: false });
  if (facts?.isDirectory() === true)
    throw new TidemarkError('usage', `${path} is a directory`, { hint: 'name a file with --output' });
  if (facts !== undefined && !isForced) throw inTheWay(path);
}

function inTheWay(path: string): TidemarkError {
  return new TidemarkError('usage', `${path} exists already and was not changed`, {
    hint: 'name another file with --output, or replace it with --force',
  });
}

/**
 * The configuration in a text, as commands would read it from `path`, which need not exist.
 * @throws TidemarkError `config_invalid`
 */
export function configFrom(
  text: string,
  path: string,
  env: Readonly<Record<string, string | undefined>>,
  { cwd }: Pick<CommandContext, 'cwd'>,
  keys: 'required' | 'unused' = 'required',
): LoadedConfig {
  try {
    return loadConfig({ file: path, text, env, cwd, keys });
  } catch (error) {
    if (!(error instanceof TidemarkError) || error.code !== 'config_invalid') throw error;
    throw new TidemarkError(error.code, error.message, {
      hint: 'variables TIDEMARK_… of this environment count too: unset those that contradict the answers',
      cause: error,
    });
  }
}

/**
 * Writes the secrets, the service's file and the configuration, and creates directories; after an error, removes what it created. A
 * service file that it replaced stays.
 */
export function writeAll(
  path: string,
  text: string,
  secrets: readonly GivenKey[],
  { targets, newDirectories }: Pick<BackupAnswers, 'targets' | 'newDirectories'>,
  service: ServiceAnswer | null,
  { pid, isForced }: Pick<CommandContext, 'pid'> & { readonly isForced: boolean },
): void {
  const made: string[] = [];
  const create = (file: string, content: string, mode: number): void => {
    write(file, content, mode);
    made.push(file);
  };
  const createBeside = (file: string, content: string): string => {
    removeLeftBehind(file);
    const beside = temporaryPath(file, pid);
    create(beside, content, 0o644);
    return beside;
  };
  const createDirectory = (directory: string, mode: number): void => {
    const first = makeDirectory(directory, mode);
    if (first !== undefined) made.push(first);
  };
  // Paths below the configuration's directory are relative.
  const elsewhere = secrets.flatMap(({ reference }) =>
    reference.by === 'file' && isAbsolute(reference.path) ? [reference.path] : [],
  );
  try {
    for (const { newFile, secret } of secrets) {
      if (newFile === null || secret === null) continue;
      createDirectory(dirname(newFile), 0o700);
      create(newFile, `${secret.reveal()}\n`, 0o600);
    }
    for (const directory of newDirectories) createDirectory(directory, 0o700);
    if (service !== null) {
      createDirectory(dirname(service.path), 0o777);
      const content = service.text({
        secretFiles: [...new Set(elsewhere)],
        backupDirectories: directoriesOutside(targets, dirname(path)),
      });
      if (service.isReplacing) renameSync(createBeside(service.path, content), service.path);
      else create(service.path, content, 0o644);
    }
    const beside = createBeside(path, text);
    if (isForced) renameSync(beside, path);
    else placeNew(beside, path);
  } catch (error) {
    for (const each of made.toReversed()) rmSync(each, { recursive: true, force: true });
    throw asFileError(error, path, 'written');
  }
}

/** Gives a file its name, unless another process has meanwhile created one with that name. */
function placeNew(temporary: string, path: string): void {
  try {
    linkSync(temporary, path);
  } catch (error) {
    if (systemCodeOf(error) === 'EEXIST') throw inTheWay(path);
    // The file system has no links.
    renameSync(temporary, path);
    return;
  }
  rmSync(temporary, { force: true });
}

function write(path: string, text: string, mode: number): void {
  try {
    writeFileSync(path, text, { mode, flag: 'wx' });
  } catch (error) {
    throw asFileError(error, path, 'written');
  }
}

/** Reports what was written and where the secrets are; with `--json` as a document. */
export async function printResult(
  context: CommandContext,
  output: string,
  answers: {
    readonly key: GivenKey;
    readonly channels: readonly GivenChannel[];
    readonly backup: Pick<BackupAnswers, 'newDirectories'>;
    readonly service: ServiceAnswer | null;
    readonly looked: SourceReach | null;
  },
): Promise<void> {
  const { key, channels, backup, service, looked } = answers;
  const secretFiles = [key, ...channels.map(({ given }) => given)].flatMap(({ newFile }) => newFile ?? []);
  // Files that the user may write later, and that the service's file refers to.
  const later =
    service === null ? [] : [ENVIRONMENT_FILE, ...(service.form === 'compose' ? [TOKEN_FILE] : [])];
  const ignored = [
    ...secretFiles,
    ...later.map((name) => join(dirname(output), name)),
    ...backup.newDirectories,
  ].flatMap((path) => ignoredByGit(path) ?? []);
  if (context.options.json === true) {
    await printJson(context, {
      schema: 'tidemark.init/1',
      file: output,
      key: key.reference,
      key_file_written: key.newFile,
      files: [output, ...secretFiles, ...(service === null ? [] : [service.path])],
      check: looked === null ? null : sourceDocument(looked),
    });
    return;
  }
  const lines = [
    `written: ${output}`,
    ...(key.newFile === null ? [] : [`the key is in ${key.newFile}, which only you can read`]),
    ...channels.flatMap(({ type, given: { newFile } }) =>
      newFile === null ? [] : [`the address of ${type} is in ${newFile}, which only you can read`],
    ),
    ...ignored,
    ...(service === null ? [] : [`written: ${service.path}`]),
  ];
  await print(context, `${lines.join('\n')}\n`);
}

/** What to do next, including variables that what starts Tidemark needs. */
export function nextLine(
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
  const variables = secrets.flatMap(({ reference }) => (reference.by === 'variable' ? reference.name : []));
  const names = [...new Set(variables)].join(' and ');
  const file = join(dirname(output), ENVIRONMENT_FILE);
  const first = names === '' ? '' : `put ${names} into ${file} (NAME=value, mode 0600), then `;
  return `next: ${first}${service.next}`;
}

/**
 * Makes git ignore a secret file or a directory for backups in a work tree, unless it already does.
 * @returns what was done, for the user; null outside a work tree
 */
function ignoredByGit(path: string): string | null {
  const root = workTreeOf(dirname(path));
  if (root === null) return null;
  const shared = join(root, '.gitignore');
  const isPlain = statSync(join(root, '.git')).isDirectory();
  const list = existsSync(shared) || !isPlain ? shared : join(root, '.git', 'info', 'exclude');
  const line = `/${relative(root, path)}`;
  try {
    const text = existsSync(list) ? readFileSync(list, 'utf8') : '';
    const known = text.split('\n').map((each) => each.trim());
    if ([line, line.slice(1), basename(path)].some((each) => known.includes(each)))
      return `${basename(path)} is ignored by git (${list})`;
    makeDirectory(dirname(list), 0o777);
    appendFileSync(list, `${text === '' || text.endsWith('\n') ? '' : '\n'}${line}\n`);
    return `git ignores ${basename(path)}: ${line} was added to ${list}`;
  } catch (error) {
    return `keep ${path} out of version control: ${asTidemarkError(asFileError(error, list, 'written')).message}`;
  }
}
