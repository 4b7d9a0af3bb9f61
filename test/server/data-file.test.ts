/** `--data FILE`: what a sandbox holds outlives it. */
import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  existsSync,
  chmodSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, inject, it } from 'vitest';
import { RESTART_OPTIONS, restartable } from './restartable.ts';
import { scratchDirectory } from './running-sandbox.ts';
import { valueText } from '../../src/server/value-text.ts';
import { createSandbox } from '../../src/server/sandbox.ts';

describe('the data file', () => {
  it('keeps every change of an interface full of records', async () => {
    const file = join(scratchDirectory(), 'sandbox.data');
    const first = await restartable(file, 'demo');
    const organization = first.organizations()[0]!;
    const path = `/api/organizations/${organization}/`;
    const made = await first.call('POST', `${path}plugins/`, { plugin_type: 'local', name: '1.10 \u2028 é' });
    await first.call('POST', `${path}invites/`, { target_email: 'late@x.example' });
    await first.call('DELETE', `/api/organizations/${first.organizations()[1]!}/`);
    const before = [...first.sandbox.snapshot()];
    expect(before.length).toBeGreaterThan(2_000);
    await first.sandbox.close();

    const second = await restartable(file, 'empty');
    expect([...second.sandbox.snapshot()]).toEqual(before);
    await second.call('DELETE', `${path}plugins/${valueText(made.json['id'])}/`);
    await second.sandbox.close();
    const third = await restartable(file, 'empty');
    const again = await third.call('POST', `${path}plugins/`, { plugin_type: 'local' });
    expect(again.json['id']).toBe((made.json['id'] as number) + 1);
    await third.sandbox.close();
  });

  it('is for its owner only, and never half written', async () => {
    const file = join(scratchDirectory(), 'sandbox.data');
    const running = await restartable(file, 'empty');
    await running.call('POST', '/api/organizations/', { name: 'Kept' });
    await running.sandbox.close();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(existsSync(`${file}.new`)).toBe(false);
  });

  it('keeps withheld secrets, and drops a last line that a crash cut', async () => {
    const file = join(scratchDirectory(), 'sandbox.data');
    const first = await restartable(file, 'empty');
    const organization = await first.call('POST', '/api/organizations/', { name: 'Kept' });
    const path = `/api/organizations/${organization.json['id'] as string}/batch_exports/`;
    const destination = { type: 'S3', config: { bucket_name: 'b', aws_secret_access_key: 'hush' } };
    await first.call('POST', path, { name: 'one', interval: 'hour', destination });
    await first.call('POST', path, { name: 'two', interval: 'hour', destination });
    await first.sandbox.close();
    truncateSync(file, statSync(file).size - 10);
    const second = await restartable(file, 'empty');
    const listed = await second.call('GET', path);
    expect((listed.json['results'] as { name: string }[]).map((each) => each.name)).toEqual(['one']);
    await second.sandbox.close();
    expect(readFileSync(file, 'utf8')).toContain('hush');
  });

  it('stays as it was where it cannot be written again, and leaves nothing beside it', async () => {
    const file = join(scratchDirectory(), 'sandbox.data');
    await (await restartable(file, 'demo')).sandbox.close();
    const before = readFileSync(file);
    // No file may grow beyond 64 KiB: the seed takes several hundred, so that writing stops in the middle.
    const { status, stderr } = spawnSync(
      'bash',
      [
        // Without a terminal, bash would take itself for a remote shell and read its start files.
        '--norc',
        '-c',
        'trap "" XFSZ; ulimit -f 64; exec "$0" "$@"',
        process.execPath,
        inject('program'),
        ...['sandbox', '--port', '0', '--data', file],
      ],
      { env: { PATH: process.env['PATH'] }, encoding: 'utf8', cwd: dirname(file) },
    );
    expect(status, stderr).toBe(1);
    expect(stderr).toMatch(/^tidemark: .*sandbox\.data/);
    expect(readdirSync(dirname(file)).sort()).toEqual(['sandbox.data', 'sandbox.data-lock']);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  it('notices another program at the file, answers 500 and changes nothing', async () => {
    const file = join(scratchDirectory(), 'sandbox.data');
    const running = await restartable(file, 'empty');
    appendFileSync(file, '{"changes":[],"counters":{}}\n');
    const answer = await running.call('POST', '/api/organizations/', { name: 'Lost' });
    expect(answer.status).toBe(500);
    expect(running.organizations()).toEqual([]);
    await running.sandbox.close();
  });

  it('is refused to a second sandbox, which leaves it to the first', async () => {
    const file = join(scratchDirectory(), 'sandbox.data');
    const running = await restartable(file, 'empty');
    const before = readFileSync(file);
    await expect(createSandbox({ ...RESTART_OPTIONS, seed: 'demo', file })).rejects.toMatchObject({
      code: 'mirror_locked',
      message: expect.stringMatching(
        /sandbox\.data is held by `sandbox` \(pid \d+ on .*\) since 2026-/,
      ) as string,
      hint: 'stop that sandbox, or name another file with --data',
    });
    expect(readFileSync(file).equals(before)).toBe(true);
    const answer = await running.call('POST', '/api/organizations/', { name: 'Kept' });
    expect(answer.status).toBe(201);
    await running.sandbox.close();
    const again = await restartable(file, 'empty');
    expect(again.organizations()).toHaveLength(1);
    await again.sandbox.close();
  });

  it.each([
    ['another file', 'name,age\nx,1\n', /is not a sandbox data file/],
    ['an empty file', '', /is not a sandbox data file/],
    ['a damaged line', '{"schema":"tidemark.sandbox-data/1"}\n{"changes":[\n', /is damaged in line 2/],
  ])('refuses %s and leaves it as it is', async (_name, content, message) => {
    const file = join(scratchDirectory(), 'sandbox.data');
    writeFileSync(file, content);
    const opened = createSandbox({ ...RESTART_OPTIONS, seed: 'demo', file });
    await expect(opened).rejects.toMatchObject({
      code: 'file_system',
      message: expect.stringMatching(message) as string,
    });
    expect(readFileSync(file, 'utf8')).toBe(content);
  });

  it('says when the directory is not there', async () => {
    const file = join(scratchDirectory(), 'none', 'sandbox.data');
    await expect(createSandbox({ ...RESTART_OPTIONS, seed: 'empty', file })).rejects.toMatchObject({
      code: 'file_system',
    });
  });

  it('closes the way to a group that could read an older file', async () => {
    const file = join(scratchDirectory(), 'sandbox.data');
    await (await restartable(file, 'empty')).sandbox.close();
    chmodSync(file, 0o644);
    await (await restartable(file, 'empty')).sandbox.close();
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });
});
