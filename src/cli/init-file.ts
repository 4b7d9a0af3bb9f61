/** Puts the configuration on the disk: checked before it stands there, all of it or nothing. */
import { basename } from 'node:path';
import { existsSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import { TidemarkError } from '../core/errors.ts';
import { asFileTrouble } from '../core/file-errors.ts';
import type { CommandContext } from './context.ts';
import type { GivenKey } from './init-answers.ts';

/** @throws TidemarkError `usage` where a file is in the way, or there is no directory for it */
export function requireFree(path: string, isForced: boolean): void {
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
 * The configuration that a text gives, read as any command would read it from `path`. Nothing of it stays on the disk.
 * @throws TidemarkError `config_invalid`, or the file system's trouble
 */
export function configFrom(
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

/** Writes the key's file, where it is to have one, and the configuration; where that fails, neither is there. */
export function writeConfig(
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
    throw asFileTrouble(error, path, 'written');
  }
}

function write(path: string, text: string, mode: number): void {
  try {
    writeFileSync(path, text, { mode, flag: 'wx' });
  } catch (error) {
    throw asFileTrouble(error, path, 'written');
  }
}
