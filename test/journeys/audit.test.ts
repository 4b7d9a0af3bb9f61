/** `tidemark audit`: who did what, by the names that people know, in every format. */
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { commandActor } from '../../src/core/actor.ts';
import { type AuditEntry, entryHash } from '../../src/mirror/audited-rows.ts';
import { ORGANIZATION, Story } from './restore-story.ts';
import { ORG, open, sync } from '../mirror/fixture.ts';
import { commandLine } from './command-line.ts';
import { dirname, join } from 'node:path';
import { scratch } from './harness.ts';
import { alterFile } from '../tools/alter.ts';

interface AuditJson {
  readonly schema: string;
  readonly since: string | null;
  readonly until: string;
  readonly entries: readonly Readonly<Record<string, unknown>>[];
}

const { via } = commandActor();
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/;

/** What two people did with one mirror: in the order of the log. */
async function told(): Promise<Story> {
  const story = await Story.start({ TIDEMARK_PROFILE: 'svc-writable' });
  await story.expectRun(0, 'snapshots', 'pin', 'q4', '--baseline', '--as', 'Bea Auditor');
  const [role] = await story.list('roles');
  await story.call('PATCH', `${ORGANIZATION}roles/${String(role?.['id'])}/`, { name: 'Night shift' });
  await story.expectRun(0, 'sync', '--quiet');
  const accept = ['drift', 'accept', 'roles', 'Night shift', '--reason', 'renamed, SEC-12'];
  await story.expectRun(0, ...accept, '--until', '2130-12-31', '--as', 'ann');
  await story.expectRun(0, 'drift', 'unaccept', 'roles', 'Night shift');
  await story.applied(0, 'restore', 'baseline', '--kind', 'roles', '--apply');
  await story.applied(0, 'undo', '1', '--apply');
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'snapshots', 'unpin', 'q4', '--force');
  await story.expectRun(0, 'forget', '--keep-last', '1', '--as', 'bea');
  return story;
}

const VERIFY = '`tidemark verify` says what else does not match';

const ACTIONS = [
  ...['forget', 'unpin', 'end', 'undo', 'end', 'restore'],
  ...['unaccept', 'accept', 'baseline', 'pin'],
];

describe('the audit log', () => {
  it('says who did what to what, newest first', async () => {
    const story = await told();
    const document = async (...more: string[]): Promise<AuditJson> =>
      JSON.parse((await story.expectRun(0, 'audit', '--json', ...more)).stdout) as AuditJson;
    const all = await document();
    expect(all).toMatchObject({ schema: 'tidemark.audit_log/1', since: null });
    expect(all.entries.map(({ action }) => action)).toEqual(ACTIONS);
    expect(all.entries.map(({ entry }) => entry)).toEqual([10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    expect(all.entries[0]).toMatchObject({ by: 'bea', via, forget: { runs: [[1, 2]], run_count: 2 } });
    expect(all.entries[4]).toMatchObject({ by: via, via, restore: { restore: 1, outcome: 'complete' } });
    expect(all.entries[3]).toMatchObject({ source: 'default', restore: { restore: 2, undoes: 1 } });
    expect(all.entries[5]).toMatchObject({ restore: { restore: 1, from: 'baseline', from_run: 1 } });
    expect(all.entries[7]).toMatchObject({
      ...{ by: 'ann', via, source: 'default' },
      acceptance: { kind: 'roles', name: 'Night shift', path: '/name', reason: 'renamed, SEC-12' },
    });
    expect(all.entries[9]).toMatchObject({
      by: 'Bea Auditor',
      snapshot: { name: 'q4', run: 1 },
      source: 'default',
    });

    const { stdout } = await story.expectRun(0, 'audit');
    const lines = stdout.trimEnd().split('\n');
    expect(lines[0]).toMatch(/^Audit log: 10 entries \(from the beginning to \S+Z\)$/);
    const rows = lines.slice(-10).map((line) => line.replace(TIME, 'T').replaceAll(/ {2,}/g, ' | '));
    const value = `"Data platform" → "Night shift", against q4 (run 1)`;
    expect(rows).toEqual([
      `T | bea (${via}) | forget | forget 1 | 2 runs: 1–2`,
      `T | ${via} | unpin | snapshot q4 | run 1`,
      `T | ${via} | end | restore 2 | complete`,
      `T | ${via} | undo | restore 2 | undoes restore 1`,
      `T | ${via} | end | restore 1 | complete`,
      `T | ${via} | restore | restore 1 | from baseline (run 1)`,
      `T | ${via} | unaccept | role Night shift /name | accepted by ann (${via}), reason: renamed, SEC-12; until 2131-01-01T00:00:00Z; ${value}`,
      `T | ann (${via}) | accept | role Night shift /name | reason: renamed, SEC-12; until 2131-01-01T00:00:00Z; ${value}`,
      `T | Bea Auditor (${via}) | baseline | snapshot q4 | run 1`,
      `T | Bea Auditor (${via}) | pin | snapshot q4 | run 1`,
    ]);
  });

  it('calls a record by the name that it had then', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'svc-writable' });
    await story.expectRun(0, 'snapshots', 'pin', 'q4', '--baseline');
    const [role] = await story.list('roles');
    for (const name of ['Night shift', 'Day shift']) {
      await story.call('PATCH', `${ORGANIZATION}roles/${String(role?.['id'])}/`, { name });
      await story.expectRun(0, 'sync', '--quiet');
      await story.expectRun(0, 'drift', 'accept', 'roles', name, '--reason', 'renamed');
    }
    const { stdout } = await story.expectRun(0, 'audit', '--json', '--action', 'accept');
    const { entries } = JSON.parse(stdout) as AuditJson;
    expect(entries).toMatchObject([
      { acceptance: { name: 'Day shift' } },
      { acceptance: { name: 'Night shift' } },
    ]);
  });

  it('says on stderr which entry is not as it was written, in every format', async () => {
    const story = await told();
    expect((await story.expectRun(0, 'audit')).stderr).not.toContain('as it was written');
    alterFile(story.file('mirror.db'), `UPDATE audit_log SET by = 'innocent' WHERE entry = 3`);
    for (const more of [[], ['--format', 'csv'], ['--json'], ['--action', 'pin', '--quiet']]) {
      const { stderr } = await story.expectRun(1, 'audit', ...more);
      expect(stderr).toContain('entry 3 of the audit log is not as it was written, or does not follow');
      expect(stderr).toContain('`tidemark verify` says what else');
    }
    const { stdout } = await story.expectRun(1, 'audit', '--json');
    const { entries, ...more } = JSON.parse(stdout) as { entries: { entry: number; is_altered: boolean }[] };
    expect(more).toMatchObject({ head: null, warnings: [expect.stringContaining('entry 3 of'), VERIFY] });
    expect(entries.filter((each) => each.is_altered).map(({ entry }) => entry)).toEqual([3]);
    expect((await story.run('verify')).stdout).toContain('entry 3 of the audit log');
  });

  it('passes on what the last verification found, as where the newest entry was cut off', async () => {
    const story = await Story.start();
    for (const name of ['one', 'two']) await story.expectRun(0, 'snapshots', 'pin', name);
    alterFile(story.file('mirror.db'), 'DELETE FROM audit_log WHERE entry = 2');
    await story.expectRun(1, 'verify');
    for (const more of [[], ['--format', 'csv'], ['--json']])
      expect((await story.expectRun(1, 'audit', ...more)).stderr).toMatch(
        /^tidemark: the last verification \(.*\) found 1 problem in .*mirror\.db: `tidemark verify/m,
      );
  });

  it('says in a file of it which entries are not as they were written, and that some are gone', async () => {
    const story = await told();
    await story.expectRun(0, 'sync', '--quiet');
    alterFile(
      story.file('mirror.db'),
      `UPDATE audit_log SET row = replace(row, 'SEC-12', 'SEC-1') WHERE entry = 3;
      DELETE FROM audit_log WHERE entry = 10`,
    );
    for (const format of ['text', 'html', 'markdown', 'csv']) {
      await story.expectRun(1, 'audit', '--format', format, '--output', 'evidence');
      const lines = readFileSync(story.file('evidence'), 'utf8').split('\n');
      const rows = lines.filter((line) => /SEC|undoes restore 1/.test(line));
      if (format === 'csv') {
        expect(rows.map((line) => line.trim().split(',').at(-2))).toEqual(['false', 'false', 'true']);
        continue;
      }
      const head = lines.slice(0, lines.indexOf(rows[0] ?? '')).join('\n');
      for (const said of [
        'The mirror of this audit log is not as it was written',
        'entry 3 of the audit log is not as it was written',
        'has the hash of entry 10 of the audit log, which is gone',
        'says what else does not match',
      ])
        expect(head, format).toContain(said);
      expect(lines.join('\n'), format).not.toMatch(/[0-9a-f]{64}/);
      expect(rows.map((line) => /accept.*entry 3 ALTERED/.test(line))).toEqual([false, false, true]);
    }
  });

  it('says on stderr which entries are gone from its end', async () => {
    const story = await told();
    await story.expectRun(0, 'sync', '--quiet');
    const gone = [8, 10].map(
      (entry, index) =>
        `tidemark: run ${index + 3} has the hash of entry ${entry} of the audit log, which is gone\n`,
    );
    // The newest of them, then all.
    for (const left of [7, 0]) {
      const database = new Database(story.file('mirror.db'));
      database.prepare(`DELETE FROM audit_log WHERE entry > ?`).run(left);
      database.close();
      for (const more of [[], ['--format', 'csv', '--output', 'audit.csv'], ['--json', '--quiet']]) {
        const { stderr } = await story.expectRun(1, 'audit', ...more);
        expect(stderr).toContain(`${gone.join('')}  → \`tidemark verify\``);
      }
      expect((await story.run('verify')).stdout).toContain(
        'chain: run 3 has the hash of entry 8 of the audit log, which is',
      );
    }
  });

  it('says on stderr that a run sealed an entry otherwise, where all hashes fit', async () => {
    const story = await told();
    const database = new Database(story.file('mirror.db'));
    const entries = database.prepare<[], AuditEntry>(`SELECT * FROM audit_log ORDER BY entry`).all();
    const set = database.prepare(`UPDATE audit_log SET "by" = ?, hash = ? WHERE entry = ?`);
    let before: Buffer | null = null;
    for (const entry of entries) {
      const by = entry.entry === 3 ? 'innocent' : entry.by;
      before = entryHash({ ...entry, by }, before);
      set.run(by, before, entry.entry);
    }
    database.close();
    const { stdout, stderr } = await story.expectRun(1, 'audit', '--format', 'markdown');
    expect(stdout).not.toMatch(/[0-9a-f]{64}/);
    expect(stderr).not.toContain('as it was written');
    expect(stderr).toMatch(
      /run \d+ has the hash of entry \d+ of the audit log, which is not the one with that hash/,
    );
  });

  it('proposes the names that the one asked for is a part of, where nobody has just that name', async () => {
    const story = await Story.start();
    await story.expectRun(0, 'snapshots', 'pin', 'a', '--as', 'Frida Finance');
    const { stdout, stderr } = await story.expectRun(0, 'audit', '--by', 'frida');
    expect(stdout).toContain('no entry of the audit log matches');
    expect(stderr).toMatch(
      /^tidemark: nobody is named just frida; a part of the name: `tidemark audit --by 'Frida Finance \(.*\)'`\n$/,
    );
    const [, who = ''] = /--by '(.*)'`/.exec(stderr) ?? [];
    expect((await story.expectRun(0, 'audit', '--by', who)).stdout).toContain('Frida Finance');
    expect((await story.expectRun(0, 'audit', '--by', 'nobody')).stderr).toBe('');
  });

  it('is narrowed by a name with @ only where that is who it was, or with its origin', async () => {
    const story = await Story.start();
    await story.expectRun(0, 'snapshots', 'pin', 'a', '--as', 'eve@elsewhere');
    await story.expectRun(0, 'snapshots', 'pin', 'b');
    const pins = async (by: string): Promise<unknown[]> => {
      const { stdout } = await story.expectRun(0, 'audit', '--json', '--by', by);
      return (JSON.parse(stdout) as AuditJson).entries.map(
        ({ snapshot }) => (snapshot as { readonly name: string }).name,
      );
    };
    // The user of another machine did nothing here: somebody gave that name.
    expect(await pins('eve@elsewhere')).toEqual([]);
    for (const format of ['text', 'csv']) {
      const none = await story.expectRun(
        0,
        'audit',
        '--format',
        format,
        '--by',
        'eve@elsewhere',
        '--by',
        'x@y',
      );
      expect(none.stderr).toBe(
        "tidemark: of the name eve@elsewhere there is 1 entry, whoever gave it: `tidemark audit --by 'eve@elsewhere (*)'`\n",
      );
    }
    expect((await story.expectRun(0, 'audit', '--by', 'x@y')).stderr).toBe('');
    expect(await pins(`eve@elsewhere (${via})`)).toEqual(['a']);
    expect(await pins('EVE@elsewhere (*)')).toEqual(['a']);
    expect(await pins(`${via} (*)`)).toEqual(['b']);
    expect(await pins(via)).toEqual(['b', 'a']);
  });

  it('is narrowed by time, state, action, person and source', async () => {
    const story = await told();
    const actions = async (...more: string[]): Promise<unknown[]> => {
      const { stdout } = await story.expectRun(0, 'audit', '--json', ...more);
      return (JSON.parse(stdout) as AuditJson).entries.map(({ action }) => action);
    };
    expect(await actions('--action', 'accept', '--action', 'unaccept')).toEqual(['unaccept', 'accept']);
    expect(await actions('--by', 'Ann', '--by', 'BEA')).toEqual(['forget', 'accept']);
    expect(await actions('--by', `ann (${via})`)).toEqual(['accept']);
    expect(await actions('--by', 'ann (token@dashboard)')).toEqual([]);
    expect(await actions('--by', via)).toEqual(ACTIONS);
    expect(await actions('--since', 'latest')).toEqual(['forget', 'unpin']);
    expect(await actions('--until', 'latest')).toEqual(ACTIONS.slice(2));
    expect(await actions('--since', '1h')).toEqual(ACTIONS);
    expect(await actions('--until', '1h')).toEqual([]);
    expect(await actions('--source', 'default')).toEqual(ACTIONS);
    expect((await story.expectRun(0, 'audit', '--by', 'nobody')).stdout).toBe(
      'no entry of the audit log matches, of 10\n',
    );
    const refused = [
      [['--action', 'acept'], 'did you mean accept?'],
      [['--since', 'latest', '--until', '1h'], 'the period ends before it begins'],
      [['--json', '--format', 'csv'], '--json and --format csv exclude each other'],
      [['--since', 'lastest'], 'did you mean latest?'],
    ] as const;
    for (const [args, said] of refused) {
      const { stdout, stderr } = await story.expectRun(4, 'audit', ...args);
      expect(stdout + stderr).toContain(said);
    }
  });

  it('is written as CSV, HTML and Markdown, to a private file too', async () => {
    const story = await told();
    const { stderr } = await story.expectRun(0, 'audit', '--format', 'csv', '--output', 'audit.csv');
    expect(stderr).toContain('written to audit.csv');
    expect(statSync(story.file('audit.csv')).mode & 0o777).toBe(0o600);
    const [head = '', , , , , , , , accepted = ''] = readFileSync(story.file('audit.csv'), 'utf8').split(
      '\r\n',
    );
    expect(head).toBe(
      'entry,at,by,via,action,what,details,source,kind,id,path,from,to,baseline,reason,until,snapshot,run,restore,backup,root,hash,is_altered,withdrawal_reason',
    );
    expect(accepted).toMatch(
      /^3,[^,]+Z,ann,[^,]+,accept,role Night shift \/name,"reason: renamed, SEC-12; until 2131-01-01T00:00:00.000Z; ""Data platform"" → ""Night shift"", against q4 \(run 1\)",default,roles,[^,]+,\/name,"""Data platform""","""Night shift""",q4 \(run 1\),"renamed, SEC-12",2131-01-01T00:00:00.000Z,,,,,,[0-9a-f]{64},false,$/,
    );
    const html = (await story.expectRun(0, 'audit', '--format', 'html')).stdout;
    expect(html).toMatch(
      /^<!DOCTYPE html>[\s\S]*<h1>Audit log<\/h1>[\s\S]*<td class="words" data-of="what">role Night shift \/name<\/td>/i,
    );
    const markdown = (await story.expectRun(0, 'audit', '--format', 'markdown')).stdout;
    const entry = /audit log up to entry 10: ([0-9a-f]{64})/.exec(html)?.[1] ?? '';
    for (const each of [html, markdown]) {
      expect(each).toContain(`audit log up to entry 10: ${entry}`);
      expect(each).toMatch(/root hash of run 3: [0-9a-f]{64}/);
      expect(each).toMatch(/tidemark.*verify.*--root.*HASH/);
    }
    expect((await story.expectRun(0, 'verify', '--root', entry)).stdout).toContain('is that of entry 10');
    const { stdout } = await story.expectRun(0, 'audit', '--json', '--until', '1h');
    const sealed = expect.stringMatching(/^[0-9a-f]{64}$/) as string;
    expect(JSON.parse(stdout)).toMatchObject({
      head: { entry: 10, hash: entry, run: 3, root: sealed },
      warnings: [],
    });
    expect(markdown).toContain('## Audit log');
    expect(markdown).toMatch(/^\| 7 \| .* \| undo \| restore 2 \| [0-9a-f]{64} \| undoes restore 1 \|$/m);
    expect(markdown).toContain(`| forget 1 | ${entry} |`);
    expect(html).toMatch(/<td class="words" data-of="at"><span class="unbroken">\S+Z<\/span>/);
    expect(html.replaceAll(/<wbr>|<\/?span>/g, '')).toContain(`<span class="id hash">${entry}</td>`);
    const text = await story.expectRun(0, 'audit', '--output', 'evidence/2026/audit.txt', '--quiet');
    expect(text).toMatchObject({ stdout: '', stderr: '' });
    expect(readFileSync(story.file('evidence/2026/audit.txt'), 'utf8')).toContain('undoes restore 1');
    expect(statSync(story.file('evidence')).mode & 0o777).toBe(0o700);
  });

  it.each(['csv', 'json'])(
    'has reasons of any characters, also of a withdrawal, in a file as %s',
    async (format) => {
      const story = await Story.start();
      await story.expectRun(0, 'snapshots', 'pin', 'q4', '--baseline');
      await story.call('PATCH', ORGANIZATION, { name: 'Fulmar' });
      await story.expectRun(0, 'sync', '--quiet');
      const organization = ['organizations', 'Fulmar'];
      const reasons = ['one\rtwo\r\r\nthree', '=1+1', '\'"quoted", so', 'tab\t\u2028\u0085\uFEFF'];
      for (const reason of reasons) {
        await story.expectRun(0, 'drift', 'accept', ...organization, '--reason', reason);
        const withdrawn = await story.expectRun(
          0,
          'drift',
          'unaccept',
          ...organization,
          '--reason',
          ` ${reason}`,
        );
        expect(withdrawn.stdout).toBe('1 acceptance withdrawn: /name\n');
      }
      await story.expectRun(0, 'drift', 'accept', ...organization, '--reason', 'x');
      await story.expectRun(0, 'drift', 'unaccept', ...organization);
      expect((await story.run('drift', 'unaccept', ...organization, '--reason', ' ')).code).toBe(4);
      const { entries } = JSON.parse((await story.expectRun(0, 'audit', '--json')).stdout) as AuditJson;
      const acceptances = entries.map(({ acceptance }) => acceptance as Record<string, unknown> | undefined);
      const all = acceptances.flatMap((each) => each?.['withdrawal_reason'] ?? []);
      expect(all).toEqual(reasons.map((reason) => reason.trim()).reverse());
      expect((await story.expectRun(0, 'audit')).stdout).toContain('withdrawn for: =1+1; accepted by ');
      await story.expectRun(0, 'audit', '--format', format, '--output', 'evidence', '--quiet');
      await story.expectRun(0, 'verify', '--audit', 'evidence');
      const text = readFileSync(story.file('evidence'), 'utf8');
      writeFileSync(story.file('evidence'), text.replaceAll('=1+1', '=1+2'));
      await story.expectRun(1, 'verify', '--audit', 'evidence');
      story.alter(
        `UPDATE audit_log SET row = replace(row, '"withdrawal_reason":"=1+1"', '"withdrawal_reason":"=9+9"')`,
      );
      expect((await story.expectRun(1, 'verify')).stdout).toMatch(/entry \d+ of the audit log/);
    },
  );

  it.each(['csv', 'json'])('is compared with a file of it that was written as %s', async (format) => {
    const story = await told();
    await story.expectRun(0, 'audit', '--format', format, '--output', 'evidence', '--quiet');
    const path = story.file('evidence');
    const whole = readFileSync(path, 'utf8');
    const verified = async (code: number, text: string): Promise<string> => {
      writeFileSync(path, text);
      const { stdout, stderr } = await story.expectRun(code, 'verify', '--audit', 'evidence');
      return stdout + stderr;
    };
    expect(await verified(0, whole)).toContain(`10 entries of ${path} compared: 10 as in the audit log\n`);
    const altered = await verified(1, whole.replaceAll('SEC-12', 'SEC-13'));
    expect(altered).toContain('8 as in the audit log, 2 altered\n');
    const field = format === 'csv' ? 'reason' : 'acceptance/reason';
    expect(altered).toMatch(
      new RegExp(`entry 3 is not as in the audit log: .*${field} is .*SEC-13.*, in the audit log .*SEC-12`),
    );
    const changed = (change: (entries: string[]) => string[]): string => {
      if (format === 'csv') {
        const [head = '', ...lines] = whole.trimEnd().split('\r\n');
        return `${[head, ...change(lines)].join('\r\n')}\r\n`;
      }
      const document = JSON.parse(whole) as { entries: unknown[] };
      const entries = change(document.entries.map((each) => JSON.stringify(each)));
      return JSON.stringify({ ...document, entries: entries.map((each) => JSON.parse(each) as unknown) });
    };
    // What the hash of an entry does not cover: what the program calls it.
    const renamed = format === 'csv' ? 'role Night shift /name' : '"name":"Night shift"';
    const named = await verified(3, whole.replaceAll(renamed, renamed.replace('Night', 'Day')));
    expect(named).toContain('8 as in the audit log, 2 with other names or texts\n');
    expect(named).toMatch(
      /: 2 entries are in the audit log, .*, but .*\n +entry 4: .*Day shift.* in the file, now .*Night shift.*\n/,
    );
    const less = await verified(
      3,
      changed((entries) => entries.toSpliced(7, 1)),
    );
    expect(less).toContain('entry 3 of the audit log is not in it: it was removed, or it was written with');
    expect(
      await verified(
        1,
        changed((entries) => entries.toReversed()),
      ),
    ).toContain('entry 2 comes after entry 1: the newest come first');
    // The log of another time: what came after the backup is gone from it.
    alterFile(story.file('mirror.db'), 'DELETE FROM audit_log WHERE entry = 10');
    expect(await verified(1, whole)).toContain('entry 10 is not in the audit log\n');
    for (const text of ['entry;at;by\r\n', '{"schema":"tidemark.runs/1","runs":[]}', '{', 'a,b\n"c'])
      expect(await verified(4, text)).toContain('is not an audit log as CSV or JSON\n');
    expect(await verified(4, 'entry,at,by,hash\r\r\n1,x,y,z\r\r\n')).toContain(
      'line ends are doubled (CR CR LF) in ',
    );
  });

  it.each(['csv', 'json'])(
    'is as a file of it, %s, has it, also after a sync and a forget gave a record another name',
    async (format) => {
      const story = await Story.start({ TIDEMARK_PROFILE: 'svc-writable' });
      await story.expectRun(0, 'snapshots', 'pin', 'q4', '--baseline');
      const [role] = await story.list('roles');
      await story.call('POST', `${ORGANIZATION}roles/`, { name: 'Fresh role' });
      await story.call('PATCH', `${ORGANIZATION}roles/${String(role?.['id'])}/`, { name: 'Night shift' });
      for (const name of ['Fresh role', 'Night shift'])
        await story.expectRun(0, 'drift', 'accept', 'roles', name, '--live', '--reason', 'wanted');
      const verify = (code: number) => story.expectRun(code, 'verify', '--audit', 'evidence');
      await story.expectRun(0, 'audit', '--format', format, '--output', 'evidence', '--quiet');
      await verify(0);
      await story.expectRun(0, 'sync', '--quiet');
      await story.expectRun(0, 'snapshots', 'unpin', 'q4', '--force');
      await story.expectRun(0, 'forget', '--keep-last', '1');
      const { stdout, stderr } = await verify(3);
      expect(stdout).toMatch(
        /2 as in the audit log, 2 with other names or texts; the log has 2 newer entries/,
      );
      expect(stderr).toMatch(/entry 4: .*"(role )?Data platform.* in the file, now "(role )?Night shift/);
      expect(stderr).not.toContain('not as in the audit log');
    },
  );

  it.each([
    ['is no JSON', `substr(body, 1, 20)`],
    ['was altered', `replace(body, 'Night shift', 'Day shift')`],
  ])('is whole where the body of a record that it names %s', async (_name, body) => {
    const story = await told();
    alterFile(story.file('mirror.db'), `UPDATE records SET body = ${body} WHERE body LIKE '%Night shift%'`);
    const { stdout, stderr } = await story.expectRun(0, 'audit', '--json');
    const { entries } = JSON.parse(stdout) as AuditJson;
    expect(entries.map(({ action }) => action)).toEqual(ACTIONS);
    expect(entries[7]).toMatchObject({ acceptance: { kind: 'roles', name: null, path: '/name' } });
    expect(stderr).toMatch(/mirror\.db is damaged: .*; its records go by their ids here\n.*tidemark verify/s);
  });

  async function twoMirrors() {
    const cwd = scratch();
    for (const name of ['acme', 'beta']) {
      const mirror = open({ path: join(cwd, `${name}.db`) });
      const source = { name, baseUrl: 'https://svc.example.com' };
      await sync(mirror, 'roles', ORG, ['{"id":"r1","name":"A"}'], { source });
      mirror.snapshots.pin('good', 1);
      mirror.close();
    }
    const source = (name: string): string =>
      `  - { name: ${name}, baseUrl: "https://svc.example.com", apiKey: key-of-${name} }`;
    const lines = ['mirror: "./{source}.db"', 'sources:', source('acme'), source('beta')];
    writeFileSync(join(cwd, 'tidemark.yaml'), lines.join('\n'), { mode: 0o600 });
    return { cwd, command: (...args: string[]) => commandLine(args, { env: {}, cwd }) };
  }

  it('of several mirrors is compared with each of them', async () => {
    const { cwd, command } = await twoMirrors();
    const path = join(cwd, 'all.json');
    const whole = (await command('audit', '--json')).stdout;
    const verified = async (code: number, text: string, ...more: string[]): Promise<string> => {
      writeFileSync(path, text);
      const found = await command('verify', '--audit', 'all.json', ...more);
      expect(found.code, found.stderr).toBe(code);
      return found.stdout + found.stderr;
    };
    const all = await verified(0, whole);
    expect(all.match(/1 entry of \S+all.json compared: 1 as in the audit log/g)).toHaveLength(2);
    expect(all).not.toContain('other mirror');
    expect(await verified(0, whole, '--source', 'beta')).toMatch(
      /1 entry of .* compared: 1 as in the audit log; 1 of another mirror \(acme\) not compared\n/,
    );
    const document = JSON.parse(whole) as AuditJson & { heads: readonly unknown[] };
    const [acme, beta] = document.entries;
    const withEntries = (...entries: unknown[]) => JSON.stringify({ ...document, entries });
    // Exit codes of several mirrors count together: 1 is that of one.
    const forged = whole.replace('"by":"', '"by":"x');
    const accused = 'all.json, acme: entry 1 is not as in the audit log: by is "x';
    expect(await verified(3, forged)).toContain(accused);
    expect(await verified(1, forged, '--source', 'acme')).toContain(accused.replace(', acme', ''));
    expect(await verified(0, forged, '--source', 'beta')).not.toContain('is not as');
    const twice = withEntries(acme, { ...beta, mirror: 'acme' });
    expect(await verified(3, twice)).toContain('all.json, acme: entry 1 is there twice');
    expect(await verified(1, twice, '--source', 'acme')).toContain('entry 1 is there twice');
    expect(await verified(3, withEntries(acme))).toContain(
      'all.json, beta: entry 1 of the audit log is not in it',
    );
    expect(await verified(3, withEntries(acme, beta, { ...beta, mirror: 'gone' }))).toContain(
      '1 entry of gone was not compared',
    );
    expect(await verified(4, withEntries(acme, { ...beta, mirror: undefined }))).toContain(
      'is not an audit log',
    );
    // As one mirror's log, and without what says of which mirror an entry is.
    const { heads: _heads, ...old } = document;
    for (const more of [[], ['--source', 'beta']])
      expect(await verified(4, JSON.stringify(old), ...more)).toMatch(/does not say of which mirror/);
    await command('audit', '--json', '--source', 'beta', '--output', 'all.json');
    expect(await command('verify', '--audit', 'all.json')).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('--source') as string,
    });
    expect(await command('verify', '--audit', 'all.json', '--source', 'acme')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no entry of it has a hash of this log: ') as string,
    });
  });

  it('of several mirrors is one document, and a text for each', async () => {
    const { command } = await twoMirrors();
    const run = (...args: string[]) => command('audit', ...args);
    const { entries } = JSON.parse((await run('--json')).stdout) as AuditJson;
    expect(entries.map((entry) => [entry['entry'], entry['source']])).toEqual([
      [1, 'acme'],
      [1, 'beta'],
    ]);
    expect((await run()).stdout).toMatch(/^acme:\nAudit log: 1 entry [^]*\nbeta:\nAudit log: 1 entry /);
    expect((await run('--format', 'csv')).stderr).toContain('--format csv holds one source');
    expect((await run('--format', 'csv', '--source', 'beta')).stdout.split('\r\n')).toHaveLength(3);
  });

  it('of one mirror of two sources has snapshots of both, and says of what a moved mirror was made', async () => {
    const cwd = scratch();
    const mirror = open({ path: join(cwd, 'mirror.db') });
    for (const name of ['acme', 'beta'])
      await sync(mirror, 'roles', ORG, ['{"id":"r1","name":"A"}'], {
        source: { name, baseUrl: 'https://svc.example.com' },
      });
    mirror.snapshots.pin('good', 2);
    mirror.snapshots.setBaseline('good');
    mirror.close();
    const configure = (path: string): void => {
      const sources = ['acme', 'beta'].map(
        (name) => `  - { name: ${name}, baseUrl: "https://svc.example.com", apiKey: key-of-${name} }`,
      );
      const lines = [`mirror: "${path}"`, 'sources:', ...sources];
      writeFileSync(join(cwd, 'tidemark.yaml'), lines.join('\n'), { mode: 0o600 });
    };
    configure('./mirror.db');
    const run = (...args: string[]) => commandLine(['audit', ...args], { env: {}, cwd });
    for (const args of [[], ['--source', 'acme'], ['--source', 'beta']]) {
      const { entries } = JSON.parse((await run('--json', ...args)).stdout) as AuditJson;
      expect(entries).toMatchObject([
        { action: 'baseline', source: null, snapshot: { name: 'good', source: null } },
        { action: 'pin', source: null, snapshot: { name: 'good', source: null } },
      ]);
    }
    const moved = await commandLine(['mirror', 'move', '--to', './{source}.db'], { env: {}, cwd });
    expect(moved.code, moved.stderr).toBe(0);
    configure('./{source}.db');
    const rows = async (source: string): Promise<string[]> => {
      const { stdout } = await run('--action', 'move', '--source', source);
      return stdout.split('\n').map((line) => line.replaceAll(/ {2,}/g, ' | '));
    };
    const made = (run: number) =>
      expect.stringContaining(
        `| move | mirror | made of a mirror of acme, beta, without 1 run: ${run}`,
      ) as string;
    expect(await rows('acme')).toContainEqual(made(2));
    expect(await rows('beta')).toContainEqual(made(1));
  });

  it('is empty at first; an id that is a secret is masked', async () => {
    const mirror = open();
    await sync(mirror, 'invites', ORG, ['{"id":"sign-up-link","target_email":"new@harbor.example"}']);
    mirror.close();
    const env = { TIDEMARK_MIRROR: mirror.path };
    const run = (...args: string[]) => commandLine(args, { env, cwd: dirname(mirror.path) });
    expect(await run('audit')).toMatchObject({
      code: 0,
      stdout: 'the audit log is empty: nothing was accepted, pinned, restored or forgotten yet\n',
    });
    const writer = open({ path: mirror.path });
    writer.acceptances.add({
      ...{ source: 'production', fingerprint: 'f1', kind: 'invites', scope: ORG, id: 'sign-up-link' },
      ...{ path: '', reason: 'expected', acceptedAt: '2026-03-01T12:00:01.000Z' },
    });
    writer.close();
    for (const format of ['text', 'json', 'csv', 'html', 'markdown']) {
      const { code, stdout } = await run('audit', '--format', format);
      expect(code).toBe(0);
      expect(stdout).toMatch(/new(?:@|&#64;)harbor\.example/);
      expect(stdout).not.toContain('sign-up-link');
    }
  });
});
