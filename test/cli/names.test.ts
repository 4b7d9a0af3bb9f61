import { describe, expect, it } from 'vitest';
import { commandLine, type Ended } from '../journeys/command-line.ts';
import { environment, scratch } from '../journeys/harness.ts';
import { FakeService } from '../journeys/service.ts';

const IDS = [1, 2, 3, 4].map((n) => `0190bbbb-0000-7000-8000-00000000000${n}`);

async function service(): Promise<{
  readonly run: (...args: string[]) => Promise<Ended>;
  readonly domains: (...names: string[]) => void;
  readonly project: (name: string) => void;
}> {
  const fake = await FakeService.start();
  const domains = (...names: string[]): void =>
    fake.set(
      'domains',
      names.map((domain, index) => ({ id: IDS[index], domain, is_verified: names.length < 4 })),
    );
  const directory = scratch();
  const env = environment(fake.url, directory);
  const run = (...args: string[]): Promise<Ended> => commandLine(args, { env, cwd: directory });
  const project = (name: string): void => fake.set('projects', [{ id: 1, name }]);
  return { run, domains, project };
}

async function mirrored(): Promise<(...args: string[]) => Promise<Ended>> {
  const { run, domains } = await service();
  domains('harbor.example', 'quay.example', 'quay.example');
  await run('sync');
  domains('harbour.example');
  await run('sync');
  return run;
}

describe('a name in the place of an id', () => {
  it.each([
    ['diff', 'run:1', 'run:2', '--id', 'harbour.example'],
    ['restore', 'run:1', '--id', 'harbour.example', '--json'],
    ['changes', '--since', 'run:1', '--id', 'HARBOUR.example'],
    ['export', '--at', 'run:2', '--id', 'harbour.example'],
  ])('%s finds the record', async (...args) => {
    const run = await mirrored();
    const { code, stdout, stderr } = await run(...args);
    expect(code, stderr).not.toBe(4);
    expect(stdout).toContain('harbour.example');
    expect(stdout).not.toContain('quay.example');
    const byId = await run(...args.map((arg) => (/harbour/i.test(arg) ? (IDS[0] ?? '') : arg)));
    expect(byId.code).toBe(code);
  });

  it('of several records: they are listed, and nothing is done', async () => {
    const run = await mirrored();
    const { code, stdout, stderr } = await run('diff', 'run:1', 'run:2', '--id', 'quay.example');
    expect([code, stdout]).toEqual([4, '']);
    for (const id of IDS.slice(1, 3)) expect(stderr).toContain(id);
  });

  it('show finds the only record whose name contains the text, and lists several; accept lists one too', async () => {
    const run = await mirrored();
    const found = await run('show', 'domains', 'harb');
    expect([found.code, found.stdout.split('\n')[0]]).toEqual([
      0,
      expect.stringMatching(/^domain harbour.example: present, as of run \d+, /),
    ]);
    expect(found.stderr).toContain(IDS[0]);
    const several = await run('show', 'domains', 'example');
    expect(several.code).toBe(4);
    expect(several.stderr).toContain('"example" is part of the name of 3 records');
    expect(several.stderr).toMatch(/quay\.example: domains .*, removed\)/);
    await run('snapshots', 'pin', 'start', 'run:1');
    await run('snapshots', 'baseline', 'start');
    const unknown = await run('drift', '--id', 'nobody');
    expect([unknown.code, unknown.stderr]).toEqual([
      4,
      expect.stringContaining('no record of either state matches --id nobody'),
    ]);
    const accepted = await run('drift', 'accept', 'domains', 'harb', '--reason', 'renamed');
    expect(accepted.code).toBe(4);
    expect(accepted.stderr).toContain(`harbour.example: domains ${IDS[0]}`);
    expect(accepted.stderr).toContain('→ give the name in full, or the id; a part is enough only');
    expect((await run('drift', 'accept', 'domains', 'harbour.example', '--reason', 'renamed')).code).toBe(0);
  });

  it('--id takes a part of one name and says which record that is, and proposes a name that is nearly given', async () => {
    const run = await mirrored();
    const found = await run('diff', 'run:1', 'run:2', '--id', 'bour.ex');
    expect(found.stdout).toContain('harbour.example');
    expect(found.stderr).toContain(`"bour.ex" is domain harbour.example, ${IDS[0]}`);
    const several = await run('diff', 'run:1', 'run:2', '--id', 'quay');
    expect([several.code, several.stdout]).toEqual([4, '']);
    expect(several.stderr).toContain('"quay" is part of the name of 2 records');
    for (const args of [['restore', 'run:1'], ['export']]) {
      const { code, stderr } = await run(...args, '--id', 'habrour.exampel');
      expect(code).toBe(4);
      expect(stderr).toContain('did you mean "harbour.example"?');
    }
    // Without a question nobody would see which record is written.
    const written = await run('restore', 'run:1', '--id', 'bour.ex', '--apply', '--yes');
    expect(written.code).toBe(4);
    expect(written.stderr).toContain('"bour.ex" is part of the name of 1 record');
  });

  it('--project takes a name of before, also where no end of the period has it', async () => {
    const { run, project } = await service();
    for (const name of ['Web', 'Shop']) {
      project(name);
      await run('sync');
    }
    for (const period of [[], ['--since', 'run:2'], ['--since', 'run:1']]) {
      const { code, stderr } = await run('changes', ...period, '--project', 'Web');
      expect([period, code, stderr]).toEqual([period, 0, expect.stringContaining('"Web" is project 1')]);
    }
    expect((await run('changes', '--project', 'Wib')).code).toBe(4);
  });

  it('that a record had before, or as of the state, finds it, and what it is named now is said', async () => {
    const { run, domains } = await service();
    domains('a.example');
    await run('sync');
    domains('a.example', 'b.example', 'b.example', 'c.example');
    await run('sync');
    domains('c.example', 'd.example', 'e.example', 'f.example');
    await run('sync');
    const [a = '', b = '', c = '', f = ''] = IDS;
    for (const args of [['show'], ['log'], ['blame'], ['show', '--at', 'run:2']]) {
      const { code, stdout, stderr } = await run(...args, 'domains', 'A.example');
      expect([args, code, stderr]).toEqual([
        args,
        0,
        expect.stringContaining(`"A.example" is domain ${a}, now named c.example`),
      ]);
      expect(stdout).toContain(a);
    }
    for (const [name, id] of [
      ['c.example', f],
      ['d.example', b],
    ] as const)
      expect((await run('show', 'domains', name, '--at', 'run:2')).stdout).toContain(id);
    expect((await run('show', 'domains', 'c.example')).stdout).toContain(a);

    for (const args of [[], ['--kind', 'domains'], ['--at', 'run:3', '--format', 'json']]) {
      const { code, stdout, stderr } = await run('export', '--id', 'a.example', ...args);
      expect([code, stderr]).toEqual([
        0,
        expect.stringContaining(`"a.example" is domain ${a}, now named c.example`),
      ]);
      expect([stdout.includes(a), stdout.includes(b)]).toEqual([true, false]);
    }
    for (const args of [['export'], ['export', '--history'], ['changes', '--since', 'run:1']]) {
      const { code, stdout, stderr } = await run(...args, '--id', 'a.exam');
      expect([args, code, stdout.includes(a)]).toEqual([args, 0, true]);
      expect(stderr).toContain(`"a.exam" is domain ${a}, now named c.example`);
    }
    const history = await run('export', '--history', '--kind', 'domains', '--id', 'a.example');
    expect([history.code, history.stdout.trim().split('\n')]).toEqual([
      0,
      Array(3).fill(expect.stringContaining(a)),
    ]);
    expect(history.stderr).toContain(`"a.example" is domain ${a}, now named c.example`);
    // A name that it had within the period, or at its beginning.
    for (const more of [[], ['--format', 'csv'], ['--since', 'run:1']]) {
      const { code, stdout, stderr } = await run('changes', '--id', 'a.example', ...more);
      expect([code, stderr]).toEqual([
        0,
        expect.stringContaining(`"a.example" is domain ${a}, now named c.example`),
      ]);
      expect(stdout).toContain(a);
    }
    for (const asked of [['nobody'], ['a.example', '--kind', 'roles'], [a, '--kind', 'roles']])
      expect(await run('changes', '--id', ...asked)).toMatchObject({
        code: 4,
        stdout: '',
        stderr: expect.stringMatching(/no record of the mirror has, or had, the id/) as string,
      });
    for (const args of [
      ['show', 'domains', 'b.example'],
      ['show', 'domains', 'b.example', '--at', 'run:2'],
      ['export', '--history', '--id', 'b.example'],
      ['export', '--id', 'b.example'],
    ]) {
      const { code, stdout, stderr } = await run(...args);
      expect([args, code, stdout]).toEqual([args, 4, '']);
      for (const each of [b, c]) expect(stderr).toContain(each);
    }
    // What is changed is named as it is now.
    await run('snapshots', 'pin', 'start', 'run:2');
    await run('snapshots', 'baseline', 'start');
    const accepted = await run('drift', 'accept', 'domains', 'a.example', '--reason', 'renamed');
    expect([accepted.code, accepted.stderr]).toEqual([4, expect.stringContaining('"a.example"')]);
  });

  it('that another record had before is the one that has it now, and the other one is named', async () => {
    const { run, domains } = await service();
    const [a = '', b = ''] = IDS;
    domains('a.example', 'x.example');
    await run('sync');
    domains('b.example', 'x.example');
    await run('sync');
    domains('b.example', 'a.example');
    await run('sync');
    domains('c.example', 'a.example');
    await run('sync');
    const another = `"a.example" is domain ${b}; another one had that name until run 2: id ${a}, now named c.example`;
    for (const args of [
      ['changes', '--id', 'a.example'],
      ['changes', '--since', 'run:2', '--id', 'a.example', '--json'],
      ['export', '--history', '--id', 'a.example'],
      ['export', '--id', 'a.example'],
      ['show', 'domains', 'a.example'],
      ['log', 'domains', 'a.example'],
      ['blame', 'domains', 'a.example'],
    ]) {
      const { code, stdout, stderr } = await run(...args);
      expect([args, code, stderr]).toEqual([args, 0, expect.stringContaining(another)]);
      expect([stdout.includes(b), stdout.includes(a)]).toEqual([true, false]);
    }
    domains('c.example');
    await run('sync');
    domains('a.example');
    await run('sync');
    for (const args of [
      ['changes', '--id', 'a.example'],
      ['log', 'domains', 'a.example'],
    ])
      expect((await run(...args)).stderr).toContain(
        `"a.example" is domain ${a}; another one of that name was removed in run 5: id ${b}`,
      );
  });
});
