/** `changes` and `runs show N`: what changed in a period and in a run, through the command line. */
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commandLine } from './command-line.ts';
import { ORGANIZATION, Story } from './restore-story.ts';
import { environment, scratch, type Ended } from './harness.ts';
import { FakeService } from './service.ts';

interface Changes {
  schema: string;
  since: string;
  until: string;
  head?: { run: number; root: string } | null;
  summary: Record<string, number>;
  runs: {
    run: number;
    previous: number | null;
    changes: { id: string; change: string; fields: unknown[] }[] | null;
  }[];
}

const HOSTILE = '<script>alert(1)</script>\u001b[31m';

describe('a period', () => {
  it('before the first run is refused, as a state of then is, and not called unchanged', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    const run = (...args: string[]): Promise<Ended> => commandLine(args, { env, cwd: directory });
    expect((await run('sync')).code).toBe(0);
    const period = ['--since', '2025-01-01', '--until', '2025-02-01'];
    for (const args of [[], ['--json'], ['--format', 'csv'], ['--format', 'html']]) {
      const { code, stdout, stderr } = await run('changes', ...period, ...args);
      expect([code, stdout.includes('Nothing changed')]).toEqual([4, false]);
      expect(stdout + stderr).toContain(
        'the mirror holds nothing as of 2025-02-01T00:00:00Z: its first run ended at ',
      );
    }
    expect((await run('changes', '--since', '2025-01-01')).code).toBe(0);
  });

  it('does not take the first look at what is read in turns for a change', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory, { TIDEMARK_RECORDINGS_SHARING_PER_RUN: '2' });
    const run = (...args: string[]): Promise<Ended> => commandLine(args, { env, cwd: directory });
    const recordings = (ids: string[]): void => {
      service.lists.set(
        '/api/projects/1/session_recordings/',
        ids.map((id) => JSON.stringify({ id, start_time: `2026-03-0${id.slice(1)}T00:00:00Z` })),
      );
      for (const id of ids)
        service.objects.set(`/api/projects/1/session_recordings/${id}/sharing/`, '{"enabled":false}');
    };
    recordings(['r3', 'r2', 'r1']);
    expect((await run('sync')).code).toBe(0);
    recordings(['r4', 'r3', 'r2', 'r1']);
    expect((await run('sync')).code).toBe(0);
    // r4 is new with all of it; r1 only had its turn.
    const shown = await run('runs', 'show', '2');
    expect(shown.stdout).toMatch(/\n2 records added \(/);
    expect(shown.stdout).toMatch(/left out: recording sharings .*1 recording sharing: perhaps not read yet/);
    const told = JSON.parse((await run('changes', '--json')).stdout) as Changes;
    expect(told.summary).toEqual({ added: 2, removed: 0, changed: 0 });
    expect(told.runs[1]).toMatchObject({ left_out: [{ kind: 'recording_sharing', records: 1 }] });
    expect((await run('changes')).stdout).toContain(
      'not listed: records that run 2 read for the first time and may have existed before: recording_sharing (1 record)',
    );
    const named = await run('changes', '--kind', 'recording_sharing', '--json');
    expect((JSON.parse(named.stdout) as Changes).summary).toEqual({ added: 1, removed: 0, changed: 0 });
    expect((await run('changes', '--kind', 'recording_sharing')).stdout).toContain(
      'records that run 2 read for the first time and may have existed before: recording_sharing (1 record)',
    );
  });

  it('is reported with the names that parents had at its end, whenever it is reported', async () => {
    const story = await Story.start();
    await story.createExport('nightly');
    await story.expectRun(0, 'sync');
    const reports = [
      ['changes', '--since', 'run:1', '--until', 'run:2', '--format', 'markdown'],
      ['changes', '--since', 'run:1', '--until', 'run:2', '--format', 'html'],
      ['diff', 'run:1', 'run:2', '--format', 'markdown'],
      ['runs', 'show', '2'],
    ];
    const report = async (): Promise<string[]> => {
      const all: string[] = [];
      for (const args of reports) all.push((await story.run(...args)).stdout);
      return all;
    };
    const before = await report();
    for (const text of before) expect(text).toContain('Kittiwake Analytics');
    await story.call('PATCH', ORGANIZATION, { name: 'Fulmar Insights' });
    await story.expectRun(0, 'sync');
    for (const text of await report()) {
      expect(text).toContain('Kittiwake Analytics');
      expect(text).not.toContain('Fulmar Insights');
    }
    const [markdown, html] = await report();
    expect([markdown, html]).toEqual(before.slice(0, 2));
    expect((await story.expectRun(0, 'changes', '--format', 'markdown')).stdout).toContain('Fulmar Insights');
  });

  it('an export says of how many records it has some of what is read in turns', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory, { TIDEMARK_RECORDINGS_SHARING_PER_RUN: '2' });
    const run = (...args: string[]): Promise<Ended> => commandLine(args, { env, cwd: directory });
    const ids = ['r3', 'r2', 'r1'];
    service.lists.set(
      '/api/projects/1/session_recordings/',
      ids.map((id) => JSON.stringify({ id, start_time: `2026-03-0${id.slice(1)}T00:00:00Z` })),
    );
    for (const id of ids)
      service.objects.set(`/api/projects/1/session_recordings/${id}/sharing/`, '{"enabled":false}');
    expect((await run('sync')).code).toBe(0);
    const note = 'recording_sharing: 2 of 3 read so far; later runs continue';
    const kind = ['--kind', 'recording_sharing'];
    for (const args of [
      kind,
      [...kind, '--format', 'csv'],
      [],
      ['--output', 'all', '--format', 'json'],
      ['--output', 'x.json', ...kind],
    ]) {
      const { code, stderr } = await run('export', ...args);
      expect(code).toBe(0);
      expect(stderr, args.join(' ')).toContain(note);
    }
    expect((await run('export', '--history', ...kind)).stderr).toContain(note);
    const turn = await run('show', 'recording_sharing', 'r1');
    // Not read, so nobody knows: as of any list that was not read, and for each command that looks for it.
    expect([turn.code, turn.stderr]).toEqual([3, expect.stringContaining('"r1" has not been read yet')]);
    for (const command of ['export', 'changes']) {
      const { code, stderr } = await run(command, ...kind, '--id', 'r1');
      expect([code, stderr], command).toEqual([3, turn.stderr]);
    }
    expect((await run('show', 'recording_sharing', 'r9')).stderr).toContain('the mirror has no');
    expect((await run('export', '--kind', 'session_recordings')).stderr).not.toContain('read so far');
    expect((await run('sync')).code).toBe(0);
    expect((await run('export', ...kind)).stderr).not.toContain('read so far');
    expect((await run('export', ...kind, '--at', 'run:1')).stderr).toContain('2 of 3 read by run 1');
  });

  it('is reported run by run, as text, JSON and a page; runs show shows one run', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    const run = (...args: string[]): Promise<Ended> => commandLine(args, { env, cwd: directory });
    const many = Array.from({ length: 130 }, (_unused, index) => ({
      id: `r${index}`,
      name: `Role ${index}`,
    }));
    service.set('domains', [{ id: 'd1', domain: 'a.example', sso_enforcement: '' }]);
    expect((await run('sync')).code).toBe(0);
    service.set('domains', [
      { id: 'd1', domain: 'a.example', sso_enforcement: 'saml' },
      { id: 'd2', domain: HOSTILE },
    ]);
    expect((await run('sync')).code).toBe(0);
    service.set('domains', [{ id: 'd2', domain: HOSTILE }]);
    service.set(
      'proxy_records',
      many.map(({ id, name }) => ({ id, domain: name })),
    );
    expect((await run('sync')).code).toBe(0);

    const all = await run('changes', '--since', '24h', '--json');
    expect(all.code, all.stderr).toBe(0);
    const document = JSON.parse(all.stdout) as Changes;
    expect(document).toMatchObject({
      schema: 'tidemark.changes/1',
      summary: { added: 131, removed: 1, changed: 1 },
    });
    expect(
      document.runs.map(({ run: number, previous, changes }) => [number, previous, changes?.length]),
    ).toEqual([
      [1, null, undefined],
      [2, 1, 2],
      [3, 2, 131],
    ]);
    expect(document.runs[1]!.changes![0]!).toMatchObject({
      id: 'd1',
      change: 'changed',
      fields: [{ path: '/sso_enforcement', from: '', to: 'saml' }],
    });

    // A period between two runs, and one kind only.
    const part = JSON.parse(
      (await run('changes', '--since', 'run:2', '--until', 'run:3', '--kind', 'domains', '--json')).stdout,
    ) as Changes;
    expect(part.summary).toEqual({ added: 0, removed: 1, changed: 0 });
    expect(part.runs.map(({ run: number }) => number)).toEqual([3]);

    const text = await run('changes', '--limit', '3');
    // One period, in the heading.
    expect(text.stdout).toMatch(/^Changes from \S+Z to \S+Z\n131 added, 1 removed, 1 changed\n/);
    expect(text.stdout).toContain('run 1 was the first sync of default');
    expect(text.stdout).toMatch(/run 3 \(131\)\n {2}- domain a\.example removed/);
    expect(text.stdout).toContain('… 130 more records: `tidemark changes --format json` shows all');
    const words = await run('changes', '--since', 'run:1', '--until', 'run:2');
    expect(words.stdout).toContain('/sso_enforcement "" → "saml"');
    expect(words.stdout).not.toContain('\u001b');

    const page = await run('changes', '--format', 'html', '--output', 'changes.html');
    expect(page.code, page.stderr).toBe(0);
    expect(page).toMatchObject({ stdout: '', stderr: 'tidemark: written to changes.html\n' });
    const html = readFileSync(join(directory, 'changes.html'), 'utf8');
    expect(statSync(join(directory, 'changes.html')).mode & 0o777).toBe(0o600);
    expect(html).toContain('131 added, 1 removed, 1 changed');
    const { run: sealed, root } = document.head ?? { root: '' };
    expect(sealed).toBe(3);
    expect(html).toContain(`root hash of run 3: ${root}; `);
    expect((await run('verify', '--root', root)).stdout).toContain('is that of run 3');
    const last = `root hash of run 3: ${root}; \`tidemark verify --root HASH\` says whether a mirror has it`;
    expect(text.stdout).not.toContain(root);
    expect((await run('changes', '--verbose')).stdout.trimEnd().split('\n').at(-1)).toBe(last);
    const [, ...ends] =
      /<p class="faint">(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) to (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC<\/p>/.exec(
        html,
      ) ?? [];
    const [since = '', until = ''] = ends.map((end) => `${end.replace(' ', 'T')}Z`);
    const again = await run('changes', '--since', since, '--until', until, '--format', 'json');
    expect(again.code, `${since} to ${until}: ${again.stderr}`).toBe(0);
    expect((JSON.parse(again.stdout) as { runs: unknown }).runs).toEqual(document.runs);
    const named = await run('changes', '--since', 'run:1', '--until', 'run:2', '--format', 'markdown');
    expect(named.stdout).toMatch(/:\d\d UTC, after run 1, up to run 2$/m);
    expect(html).toContain('/sso_enforcement: &quot;&quot; → &quot;saml&quot;');
    expect(html.match(/<script/g)).toHaveLength(1);

    // A line for each changed field and for each record that came or went; notes are not part of the file.
    const table = await run('changes', '--format', 'csv');
    const lines = table.stdout.split('\r\n');
    const [at] = table.stdout.match(/(?<=\n2,)[^,]+/) ?? [''];
    expect(at).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(lines.slice(0, 3)).toEqual([
      'run,at,source,kind,organization_id,project_id,role_id,id,name,change,path,from,to,restore,by,via,id_before',
      `2,${at},default,domains,0190aaaa-0000-7000-8000-000000000001,,,d1,a.example,changed,/sso_enforcement,"""""","""saml""",,,,`,
      `2,${at},default,domains,0190aaaa-0000-7000-8000-000000000001,,,d2,${HOSTILE},added,,,,,,,`,
    ]);
    expect(lines).toHaveLength(1 + 2 + 131 + 1);
    expect(lines.at(-1)).toBe('');
    expect(table.stderr).toContain('run 1 was the first sync of default');
    const file = await run('changes', '--format', 'csv', '--output', 'changes.csv');
    expect(file.code, file.stderr).toBe(0);
    expect(readFileSync(join(directory, 'changes.csv'), 'utf8')).toBe(table.stdout);

    for (const wrong of [
      ['--since', 'run:3', '--until', 'run:1'],
      ['--since', 'someday'],
      ['--until', 'run:77'],
      ['--since', '2019-01-01', '--until', '2020-01-01'],
    ]) {
      const ended = await run('changes', ...wrong);
      expect(ended.code, wrong.join(' ')).toBe(4);
      expect(ended.stderr).toContain('→');
    }

    // One run: its changes beside its sweeps; a huge one is folded.
    const second = await run('runs', 'show', '2');
    expect(second.stdout).toContain('1 record added, 1 changed');
    expect(second.stdout).toContain('/sso_enforcement "" → "saml"');
    const third = await run('runs', 'show', '3');
    expect(third.stdout).toContain('proxy records (130)');
    expect(third.stdout).toContain('… 31 more records: `tidemark diff run:2 run:3` shows all');
    expect((await run('runs', 'show', '1')).stdout).toContain('the first run of default');
    const shown = JSON.parse((await run('runs', 'show', '3', '--json')).stdout) as {
      changes: { schema: string; from: { run: number }; summary: object; changes: unknown[] };
    };
    expect(shown.changes).toMatchObject({
      schema: 'tidemark.diff/1',
      from: { run: 2 },
      summary: { added: 130, removed: 1 },
    });
    expect(shown.changes.changes).toHaveLength(131);
  });

  it("masks a run's secrets by its own source's definitions, whichever source is asked for", async () => {
    const service = await FakeService.start();
    const directory = scratch();
    writeFileSync(
      join(directory, 'tidemark.yaml'),
      `mirror: ./mirror.db
sources:
  - name: first
    baseUrl: "${service.url}"
    apiKey: test-key-of-some-length
    definitions: { domains: { fields: { pin: { type: string, secret: true } } } }
  - { name: second, baseUrl: "${service.url}", apiKey: test-key-of-some-length }
`,
    );
    const run = (...args: string[]): Promise<Ended> => commandLine(args, { env: {}, cwd: directory });
    for (const pin of ['hunter1', 'hunter2']) {
      service.set('domains', [{ id: 'd1', domain: 'a.example', pin }]);
      expect((await run('sync', '--source', 'first')).code).toBe(0);
    }
    for (const options of [[], ['--source', 'first'], ['--source', 'second']]) {
      for (const json of [[], ['--json']]) {
        const shown = await run('runs', 'show', '2', ...options, ...json);
        expect(shown.code, shown.stderr).toBe(0);
        expect(shown.stdout).toContain('/pin');
        expect(shown.stdout, [...options, ...json].join(' ')).not.toMatch(/hunter\d/);
      }
    }
  });
});
