import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { asTidemarkError, TidemarkError } from '../../src/core/errors.ts';
import { asFileError, makeDirectory, onFile } from '../../src/core/file-errors.ts';

const directory = mkdtempSync(join(tmpdir(), 'tidemark-problem-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function system(code: string): Error {
  return Object.assign(new Error(`${code}: as the system says it, open '/x'`), { code });
}

describe('problem with files', () => {
  it.each([
    ['ENOSPC', 'written', 'disk_full', /disk is full/],
    ['EDQUOT', 'written', 'disk_full', /quota/],
    ['EACCES', 'written', 'read_only', /permission denied/],
    ['EACCES', 'read', 'file_system', /permission denied/],
    ['EROFS', 'made', 'read_only', /read-only/],
    ['EEXIST', 'made', 'file_system', /has that name/],
    ['ENOTDIR', 'made', 'file_system', /is a file where a directory/],
    ['EISDIR', 'written', 'file_system', /is a directory where a file/],
    ['ENAMETOOLONG', 'made', 'file_system', /too long/],
    ['EMFILE', 'opened', 'file_system', /too many files open/],
    ['EWHATEVER', 'opened', 'file_system', /EWHATEVER/],
  ] as const)('%s while it was to be %s is %s', (system_code, operation, code, why) => {
    const error = asFileError(system(system_code), '/data/tree', operation);
    expect(error).toBeInstanceOf(TidemarkError);
    expect(error).toMatchObject({ code, message: expect.stringMatching(why) as string });
    const { message, hint = '' } = error as TidemarkError;
    expect(message.startsWith(`/data/tree could not be ${operation}: `)).toBe(true);
    expect(message).not.toContain('as the system says it');
    expect(hint).not.toBe('');
    expect(asTidemarkError(system(system_code)).code).toBe(
      code === 'file_system' && system_code === 'EACCES' ? 'read_only' : code,
    );
  });

  it('leaves every other error as it is', () => {
    const error = new TypeError('no');
    expect(asFileError(error, '/x', 'read')).toBe(error);
    const known = new TidemarkError('usage', 'no');
    expect(asFileError(known, '/x', 'read')).toBe(known);
  });

  it('is the first one, if what was in use could not be closed either', () => {
    const first = new TidemarkError('disk_full', 'could not be written');
    const fail = (error: Error) => (): never => {
      using _file = {
        [Symbol.dispose]: () => {
          throw new TidemarkError('disk_full', 'could not be closed');
        },
      };
      throw error;
    };
    const thrown = (work: () => never): unknown => {
      try {
        return work();
      } catch (error) {
        return error;
      }
    };
    expect(asTidemarkError(thrown(fail(first)))).toBe(first);
    expect(asTidemarkError(thrown(fail(thrown(fail(first)) as Error)))).toBe(first);
  });

  it('speaks for real calls', async () => {
    const file = join(directory, 'file');
    writeFileSync(file, '');
    const below = join(file, 'below');
    await expect(onFile(below, 'made', () => mkdir(below))).rejects.toThrow(
      `${below} could not be made: a part of`,
    );
    await expect(onFile(directory, 'read', () => readFile(directory))).rejects.toThrow('it is a directory');
  });

  it('makes directories, and ends where none can be made', () => {
    const below = join(directory, 'one', 'two');
    expect(makeDirectory(below)).toBe(join(directory, 'one'));
    expect(
      [directory, 'one', 'one/two'].map(
        (path) => statSync(join(directory, path.replace(directory, ''))).mode & 0o777,
      ),
    ).toEqual([0o700, 0o700, 0o700]);
    expect(makeDirectory(below)).toBeUndefined();
    const file = join(directory, 'plain');
    writeFileSync(file, '');
    expect(() => makeDirectory(join(file, 'x', 'y'))).toThrow('could not be made: a part of');
    expect(() => makeDirectory(file)).toThrow('has that name');
    for (const path of ['/proc/x', '/proc/x/y/z'])
      expect(() => makeDirectory(path)).toThrow(`${path} could not be made: `);
  });
});
