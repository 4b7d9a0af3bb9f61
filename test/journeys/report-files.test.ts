/** Reports in files named by their format, and what they say of lists and elements. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commandLine, type Ended } from './command-line.ts';
import { environment, scratch } from './harness.ts';
import { FakeService, ORG, forbidden } from './service.ts';

const ADDED = '58850000-0000-4000-8000-000000000000';

async function world() {
  const service = await FakeService.start();
  const cwd = scratch();
  const env = environment(service.url, cwd);
  const run = (...args: string[]): Promise<Ended> => commandLine(args, { env, cwd });
  const written = async (file: string, ...args: string[]): Promise<string> => {
    const { stderr } = await run(...args, '--output', file);
    expect(stderr).toContain(`written to ${file}`);
    return readFileSync(join(cwd, file), 'utf8');
  };
  return { service, run, written };
}

describe('a report in a file', () => {
  it('has the format of its name, unless another one is asked for', async () => {
    const { service, run, written } = await world();
    service.set('roles', [{ id: 'r1', name: 'Editor' }]);
    await run('sync', '--quiet');
    service.set('roles', [{ id: 'r1', name: 'Author' }]);
    await run('sync', '--quiet');
    const diff = ['diff', 'run:1', 'run:2'];
    expect(await written('d.html', ...diff)).toMatch(/^<!doctype html>/i);
    expect(await written('d.md', ...diff)).toMatch(/^#/);
    expect(JSON.parse(await written('d.json', ...diff))).toMatchObject({ schema: 'tidemark.diff/1' });
    expect(await written('d.txt', ...diff)).toContain('run:1');
    expect(await written('e.html', ...diff, '--format', 'text')).not.toContain('<');
    expect(await written('c.csv', 'changes')).toMatch(/^run,|,/);
    expect(await written('c.htm', 'changes')).toMatch(/^<!doctype html>/i);
    expect(await written('a.CSV', 'audit')).toMatch(/^entry,/);
    await run('snapshots', 'pin', 'first', 'run:1', '--baseline');
    expect(await written('r.html', 'drift')).toMatch(/^<!doctype html>/i);
    const none = await run(...diff, '--output', 'd.csv');
    expect(none.code).toBe(4);
    expect(none.stderr).toContain(
      'd.csv is the name of a file of the format csv, which this command does not',
    );
  });

  it('of changes is Markdown too, and shows an element of a list as the terminal does', async () => {
    const { service, run, written } = await world();
    const ids = Array.from({ length: 9 }, (_, n) => `0000000${n}-0000-4000-8000-000000000000`);
    const role = (list: readonly string[]) => ({ id: 'r1', name: 'Editor', feature_flags: list });
    service.set('roles', [role(ids)]);
    await run('sync', '--quiet');
    service.set('roles', [role([ADDED, ...ids])]);
    await run('sync', '--quiet');
    const element = `+ 1 of 10: "${ADDED}"`;
    expect((await run('changes')).stdout).toContain(element);
    const page = await written('changes.html', 'changes');
    expect(page).toContain(element.replaceAll('"', '&quot;'));
    expect(page).not.toContain('equal characters');
    const text = await written('changes.md', 'changes');
    expect(text).toMatch(/^## Changes|^# Changes/);
    expect(text).toContain(element);
  });

  it('of changes names the organizations of lists that were not read', async () => {
    const { service, run } = await world();
    await run('sync', '--quiet');
    service.quirks.push(({ path }, response) => path.includes('/roles/') && forbidden(response, 'role:read'));
    await run('sync', '--quiet');
    const { stdout, stderr } = await run('changes');
    expect(`${stdout}${stderr}`).toContain('roles (organization Harbor)');
    expect(`${stdout}${stderr}`).not.toContain(ORG);
  });
});

describe('a record by a part of a former name', () => {
  it('is found by log if only one had it, and says how it was named', async () => {
    const { service, run } = await world();
    service.set('roles', [
      { id: 'r1', name: 'Kittiwake Mobile App' },
      { id: 'r2', name: 'Editor' },
    ]);
    await run('sync', '--quiet');
    service.set('roles', [
      { id: 'r1', name: 'Phones' },
      { id: 'r2', name: 'Author' },
    ]);
    await run('sync', '--quiet');
    const found = await run('log', 'roles', 'kittiwake mobile');
    expect(found.stderr).toContain(
      '"kittiwake mobile" is role Phones, r1, named Kittiwake Mobile App before',
    );
    expect(found.code).toBe(0);
    // Both had one.
    const several = await run('log', 'roles', 'it');
    expect(several.code).toBe(4);
    expect(several.stderr).toMatch(
      /it was part of the name of 2 records:\n.*Phones: roles r1.*\n.*Author: roles r2/,
    );
  });
});
