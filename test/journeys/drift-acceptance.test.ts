/** What was accepted holds for exactly that, whatever a report is narrowed to, and its fingerprint tells no secret. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { commandLine } from './command-line.ts';
import { DOMAINS, MEMBERS, world, type World } from './comparison.ts';
import { mirrorOnce } from './harness.ts';
import { ORG } from './service.ts';
import { alterFile } from '../tools/alter.ts';

interface Told {
  readonly findings: readonly (Named & { readonly reopened?: object })[];
  readonly accepted: readonly Named[];
  readonly withdrawable: readonly Named[];
}

interface Pinned {
  readonly snapshots: readonly { readonly name: string; readonly is_altered: boolean }[];
  readonly warnings: readonly string[];
}

interface Named {
  readonly id: string;
  readonly path: string;
  readonly fingerprint: string;
}

const ids = (named: readonly Named[]): string[] => named.map(({ id, path }) => `${id} ${path}`.trim()).sort();

async function baselined(
  more: Readonly<Record<string, string>> = {},
  role: object = {},
): Promise<World & { drift: (...args: string[]) => Promise<Told> }> {
  const it = await world(more);
  for (const id of ['r1', 'r2'])
    it.service.lists.set(`/api/organizations/${ORG}/roles/${id}/role_memberships/`, []);
  it.service.set('roles', [{ id: 'r1', name: 'Ops', ...role }]);
  await mirrorOnce(`role ${JSON.stringify([more, role])}`, join(it.directory, 'mirror.db'), async () => {
    await it.expectRun(0, 'sync', '--quiet');
    await it.expectRun(0, 'snapshots', 'pin', 'b');
    await it.expectRun(0, 'snapshots', 'baseline', 'b');
  });
  const drift = async (...args: string[]): Promise<Told> =>
    JSON.parse((await it.run('drift', ...args, '--json')).stdout) as Told;
  return { ...it, drift };
}

describe('accepted drift', () => {
  it('of what only live shows is not told as one of what no longer drifts', async () => {
    const { service, expectRun } = await baselined();
    service.set('roles', [{ id: 'r1', name: 'Ops by hand' }]);
    await expectRun(0, 'drift', 'accept', 'roles', 'r1', '--live', '--reason', 'wanted');
    const early = await expectRun(0, 'drift');
    expect(early.stdout).toContain('1 acceptance made after this state was read');
    expect(early.stdout).not.toContain('no longer drifts');
    await expectRun(0, 'sync', '--quiet');
    expect((await expectRun(0, 'drift')).stdout).not.toMatch(/made after this state|no longer drifts/);
  });

  it('of a whole kind needs the number of its open findings, and has an entry for each', async () => {
    const { service, expectRun, drift } = await baselined();
    service.set('roles', [
      { id: 'r1', name: 'Ops by hand' },
      { id: 'r2', name: 'New' },
    ]);
    service.set('domains', [{ ...DOMAINS[0], is_verified: true }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    const accept = ['drift', 'accept', 'roles', '--reason', 'merged'];
    expect((await expectRun(4, ...accept)).stderr).toMatch(/2 findings of roles are open\n.*--count 2/);
    expect((await expectRun(4, ...accept, '--count', '3')).stderr).toContain('nothing was accepted');
    expect((await expectRun(4, ...accept, 'r1', '--count', '2')).stderr).toContain('leave one of them out');
    expect((await drift()).accepted).toEqual([]);
    const { stdout } = await expectRun(0, ...accept, '--count', '2');
    expect(stdout).toContain(
      '2 findings accepted (these values, also if they come back); none of roles still open',
    );
    const after = await drift();
    expect([ids(after.accepted), ids(after.findings)]).toEqual([['r1 /name', 'r2'], ['d1 /is_verified']]);
    expect((await expectRun(0, 'audit')).stdout.match(/merged/g)).toHaveLength(2);
    expect((await expectRun(1, ...accept, '--count', '2')).stderr).toContain('nothing to accept');
    await expectRun(
      0,
      'drift',
      'accept',
      'domains',
      '--field',
      '/is_verified',
      '--count',
      '1',
      '--reason',
      'x',
    );
    await expectRun(0, 'verify');
  });

  it('holds under every mode and filter, and is offered for withdrawal only where it was looked at', async () => {
    const { service, expectRun, drift } = await baselined();
    service.set('roles', [
      { id: 'r1', name: 'Ops' },
      { id: 'r2', name: 'New', is_default: false },
    ]);
    service.set('domains', [{ ...DOMAINS[0], is_verified: true }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'drift', 'accept', 'roles', 'r2', '--reason', 'wanted');
    await expectRun(0, 'drift', 'accept', 'domains', 'd1', '--reason', 'wanted');
    const plain = await drift();
    expect(ids(plain.accepted)).toEqual(['d1 /is_verified', 'r2']);
    for (const [args, accepted] of [
      [['--live'], ['d1 /is_verified', 'r2']],
      [['--all'], ['d1 /is_verified', 'r2']],
      // Of roles nothing can be written.
      [['--managed-only'], []],
      [['--field', '/name'], ['r2']],
      [['--kind', 'roles'], ['r2']],
      [['--kind', 'members'], []],
      [['--id', 'd2'], []],
      [['--kind', 'domains', '--field', '/is_verified'], ['d1 /is_verified']],
    ] as const) {
      const told = await drift(...args);
      expect(ids(told.findings), args.join(' ')).toEqual([]);
      expect(ids(told.accepted), args.join(' ')).toEqual(accepted);
      expect(ids(told.withdrawable), args.join(' ')).toEqual([]);
      for (const { id, fingerprint } of told.accepted)
        expect(fingerprint).toBe(plain.accepted.find((each) => each.id === id)?.fingerprint);
    }
    // A further change opens the record again, also where the report does not show what changed.
    service.set('roles', [
      { id: 'r1', name: 'Ops' },
      { id: 'r2', name: 'New', is_default: true },
    ]);
    await expectRun(0, 'sync', '--quiet');
    expect((await drift('--field', '/name')).findings).toMatchObject([
      { id: 'r2', reopened: { because: 'value' } },
    ]);
    // Gone: each is withdrawable where it was looked at, and nowhere else.
    service.set('roles', [{ id: 'r1', name: 'Ops' }]);
    service.set('domains', DOMAINS);
    await expectRun(0, 'sync', '--quiet');
    for (const [args, withdrawable] of [
      [[], ['d1 /is_verified', 'r2']],
      // Of roles nothing can be written.
      [['--managed-only'], []],
      [['--field', '/is_verified'], ['d1 /is_verified']],
      [['--field', '/domain'], []],
      [['--kind', 'roles'], ['r2']],
      [['--id', 'r1'], []],
    ] as const) {
      expect(ids((await drift(...args)).withdrawable), args.join(' ')).toEqual(withdrawable);
    }
  });

  it('is listed in reports with value, reason, person and end; in the terminal where somebody asks', async () => {
    const { service, directory, expectRun } = await baselined();
    const exports = (password: string): void =>
      service.set('batch_exports', [
        { id: 'b1', name: 'Nightly', destination: { type: 'Postgres', config: { password } } },
      ]);
    exports('before');
    service.set('domains', [{ ...DOMAINS[0], is_verified: false }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'snapshots', 'pin', 'c');
    await expectRun(0, 'snapshots', 'baseline', 'c');
    exports('pin-4711');
    service.set('domains', [{ ...DOMAINS[0], is_verified: true }]);
    service.set('roles', [
      { id: 'r1', name: 'Ops' },
      { id: 'r2', name: 'New' },
    ]);
    await expectRun(0, 'sync', '--quiet');
    const accept = (...args: string[]) => expectRun(0, 'drift', 'accept', ...args, '--as', 'Anna');
    await accept('domains', 'd1', '--reason', 'CHG-1100', '--until', '2099-01-02');
    await accept('domains', 'd2', '--reason', 'sold');
    await accept('roles', 'r2', '--reason', 'CHG-2');
    await accept('batch_exports', 'b1', '--reason', 'rotated');
    expect((await expectRun(0, 'drift')).stdout).not.toContain('CHG-1100');
    const text = (await expectRun(0, 'drift', '-v')).stdout;
    expect(text).toContain('\nAccepted (4)\n');
    expect(text).toMatch(
      /~ domain one\.example changed\n +id d1, .*\n +accepted by Anna \(\S+@\S+\) on \S+ until 2099-01-03T00:00:00Z: CHG-1100\n +\/is_verified false → true\n/,
    );
    expect(text).toMatch(
      /- domain two\.example removed\n +id d2, .*\n +accepted by Anna \(\S+@\S+\) on \S+: sold\n/,
    );
    expect(text).toMatch(/\/destination\/config\/password \[secret\] changed/);
    const markdown = (await expectRun(0, 'drift', '--format', 'markdown')).stdout;
    expect(markdown).toMatch(/## Accepted \(4\)\n\n/);
    expect(markdown).toContain(
      'until 2099-01-03T00:00:00Z: CHG-1100\n  - `/is_verified`: `false` → `true`\n',
    );
    const html = (await expectRun(0, 'drift', '--format', 'html')).stdout;
    expect(html).toContain('>Accepted <span class="count">4</span></h2>');
    expect(html).toMatch(/accepted by Anna \(\S+@\S+\) on \S+ until 2099-01-03T00:00:00Z: CHG-1100/);
    for (const report of [text, markdown, html]) expect(report).not.toContain('pin-4711');
    // The audit log has what was accepted, and against which state; so has the list.
    const state = { baseline: { ref: 'baseline', run: 2, name: 'c' }, state: { ref: 'latest', run: 3 } };
    const measured = [
      { id: 'b1', measured: { change: 'changed', from: '[secret]', to: '[secret]', ...state } },
      { id: 'd1', measured: { change: 'changed', from: false, to: true, ...state } },
      { id: 'd2', measured: { change: 'removed', from: { '/domain': DOMAINS[1]?.['domain'] }, ...state } },
      { id: 'r2', measured: { change: 'added', to: { '/name': 'New' }, ...state } },
    ];
    const listed = await expectRun(0, 'drift', 'accepted', '--json');
    const byId = (one: { id: string }, other: { id: string }): number => (one.id < other.id ? -1 : 1);
    const { accepted } = JSON.parse(listed.stdout) as { accepted: { id: string }[] };
    expect(accepted.toSorted(byId)).toMatchObject(measured);
    const logged = (await expectRun(0, 'audit', '--action', 'accept', '--json')).stdout;
    const { entries } = JSON.parse(logged) as { entries: { acceptance: { id: string } }[] };
    expect(entries.map(({ acceptance }) => acceptance).toSorted(byId)).toMatchObject(measured);
    expect((await expectRun(0, 'drift', 'accepted')).stdout).toMatch(
      /\/is_verified +false → true +c \(run 2\)/,
    );
    const log = (await expectRun(0, 'audit')).stdout;
    expect(log).toContain('reason: CHG-1100; until 2099-01-03T00:00:00Z; false → true, against c (run 2)');
    for (const each of [logged, log, listed.stdout]) expect(each).not.toContain('pin-4711');
    await expectRun(0, 'drift', 'unaccept', 'domains', 'd1');
    expect((await expectRun(0, 'audit', '--action', 'unaccept')).stdout).toContain('false → true');
    await expectRun(0, 'verify');
    const file = new Database(join(directory, 'mirror.db'));
    expect(file.prepare(`SELECT count(*) AS n FROM audit_log WHERE row LIKE '%pin-4711%'`).get()).toEqual({
      n: 0,
    });
    // Another value in the entry alone is found, and not shown as the one that was accepted.
    file.exec(`UPDATE audit_log SET row = replace(row, '"New"', '"Root"')`);
    file.close();
    expect((await expectRun(1, 'verify')).stdout).toMatch(/entry \d+/);
    expect((await expectRun(1, 'audit')).stderr).toContain('not as');
    const after = (await expectRun(1, 'drift', 'accepted', '--json')).stdout;
    expect(after).not.toContain('Root');
  });

  it('of a removed record keeps its name after another baseline was pinned', async () => {
    const { service, expectRun } = await baselined();
    service.set('domains', DOMAINS.slice(0, 1));
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'drift', 'accept', 'domains', 'd2', '--reason', 'sold');
    await expectRun(0, 'snapshots', 'pin', 'since', '--baseline');
    expect((await expectRun(0, 'drift', 'accepted')).stdout).toMatch(/^domains +two\.example +d2 /m);
  });

  it('of a secret is shown where somebody asks for it', async () => {
    const { service, expectRun } = await baselined();
    const exports = (password: string): void =>
      service.set('batch_exports', [
        { id: 'b1', name: 'Nightly', destination: { type: 'Postgres', config: { password } } },
      ]);
    exports('before');
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'snapshots', 'pin', 'c', '--baseline');
    exports('4711');
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'drift', 'accept', 'batch_exports', 'b1', '--reason', 'rotated');
    const shown = await expectRun(0, 'drift', '--format', 'markdown', '--show-secrets');
    expect(shown.stdout).toContain('`"before"` → `"4711"`');
  });

  it('of an element holds for that element, wherever it stands', async () => {
    const { service, expectRun, drift } = await baselined(
      {},
      {
        members: [
          { id: 'alice', admin: false },
          { id: 'bob', admin: false },
        ],
      },
    );
    const teams = (...members: object[]): void => service.set('roles', [{ id: 'r1', name: 'Ops', members }]);
    teams({ id: 'alice', admin: true }, { id: 'bob', admin: false });
    await expectRun(0, 'sync', '--quiet');
    // By index or by id: what is kept names the element.
    const { stdout } = await expectRun(
      0,
      ...['drift', 'accept', 'roles', 'r1', '--field', '/members/0/admin', '--reason', 'alice is fine'],
    );
    expect(stdout).toContain('/members/[id=alice]/admin');
    expect(ids((await drift()).accepted)).toEqual(['r1 /members/0/admin']);
    expect(ids((await drift('--field', '/members/[id=alice]')).accepted)).toEqual(['r1 /members/0/admin']);
    teams({ id: 'bob', admin: true });
    await expectRun(0, 'sync', '--quiet');
    const moved = await drift();
    expect(moved.accepted).toEqual([]);
    expect(moved.findings).toMatchObject([
      { place: '/members/[id=bob]/admin', to: true },
      { path: '/members/0' },
    ]);
    await expectRun(0, ...['drift', 'unaccept', 'roles', 'r1', '--field', '/members/[id=alice]/admin']);
  });

  it('a rule that names an index does not fit, and the report says what would', async () => {
    const it = await baselined(
      { TIDEMARK_DRIFT_IGNORE: '[{"kind":"roles","path":"/members/0/admin","reason":"ours"}]' },
      { members: [{ id: 'alice', admin: false }] },
    );
    it.service.set('roles', [{ id: 'r1', name: 'Ops', members: [{ id: 'alice', admin: true }] }]);
    await it.expectRun(0, 'sync', '--quiet');
    expect((await it.expectRun(2, 'drift')).stdout).toContain(
      'write /members/[id=alice]/admin, or * for any',
    );
  });
});

describe('fingerprints', () => {
  it('tell no secret, and stay the same between runs, live, in a copy and after forget', async () => {
    const { service, directory, env, expectRun, drift } = await baselined();
    const exports = (password: string): void =>
      service.set('batch_exports', [
        { id: 'b1', name: 'Nightly', destination: { type: 'Postgres', config: { password } } },
      ]);
    exports('before');
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'snapshots', 'pin', 'c');
    await expectRun(0, 'snapshots', 'baseline', 'c');
    exports('4711');
    await expectRun(0, 'sync', '--quiet');
    const found = await drift();
    const path = '/destination/config/password';
    const [first] = found.findings;
    expect(found.findings).toMatchObject([{ id: 'b1', path, to: '[secret]' }]);
    // As it was made without a key: everything but the value stands in the report.
    const sha = (text: string): string => createHash('sha256').update(text).digest('hex');
    const scope = JSON.stringify((first as unknown as { scope: object }).scope);
    const guess = sha(JSON.stringify(['default', 'batch_exports', scope, 'b1', path, sha('"4711"')]));
    const sarif = (await expectRun(2, 'drift', '--format', 'sarif')).stdout;
    expect(sarif).toContain(first?.fingerprint);
    expect(sarif + JSON.stringify(found)).not.toContain(guess);

    const same = async (...args: string[]): Promise<void> => {
      expect((await drift(...args)).findings.map(({ fingerprint }) => fingerprint)).toEqual([
        first?.fingerprint,
      ]);
    };
    await expectRun(0, 'sync', '--quiet');
    await same();
    await same('--live');
    await expectRun(0, 'forget', '--keep-last', '1');
    await same();
    const copy = join(directory, 'copy.db');
    const file = new Database(join(directory, 'mirror.db'), { readonly: true });
    await file.backup(copy);
    file.close();
    const ended = await commandLine(['drift', '--json'], {
      env: { ...env, TIDEMARK_MIRROR: copy },
      cwd: directory,
    });
    expect(ended.stdout).toContain(first?.fingerprint);
    // Another mirror has another key.
    const other = { ...env, TIDEMARK_MIRROR: join(directory, 'other.db') };
    await commandLine(['sync', '--quiet'], { env: other, cwd: directory });
    const keys = [copy, join(directory, 'other.db')].map((each) => {
      const opened = new Database(each, { readonly: true });
      const key = opened.prepare<[], Buffer>('SELECT key FROM fingerprint_key').pluck().get();
      opened.close();
      return key?.toString('hex');
    });
    expect(keys[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(keys[1]).not.toBe(keys[0]);
  });

  it('does not take an accepted value for a changed one where the key of the fingerprints was deleted', async () => {
    const { service, directory, expectRun } = await baselined();
    service.set('domains', [{ ...DOMAINS[0], is_verified: true }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'drift', 'accept', 'domains', 'd1', '--reason', 'wanted');
    alterFile(join(directory, 'mirror.db'), 'DELETE FROM fingerprint_key');
    await expectRun(0, 'sync', '--quiet');
    const { stdout, stderr } = await expectRun(1, 'drift');
    expect(stdout + stderr).not.toContain('changed again');
    expect(stderr).toContain('cannot be compared: the key of the drift fingerprints is gone from the mirror');
    expect((await expectRun(1, 'verify')).stderr).toContain('the key of the drift fingerprints is gone');
  });

  it.each([
    [
      'altered',
      `UPDATE acceptances SET reason = 'approved'`,
      /is not as it was accepted; entry \d+ of the audit log \(accept by \S+\) has reason "wanted"/,
    ],
    [
      'inserted',
      `DELETE FROM audit_log WHERE action = 'accept'`,
      /was inserted by another program: the audit log has no entry of it/,
    ],
    ['deleted', 'DELETE FROM acceptances', /is gone, though entry \d+ of the audit log \(\S+\) has it/],
  ])('counts only as the audit log has it, everywhere: %s', async (_what, statement, said) => {
    const { service, directory, expectRun, drift, run } = await baselined();
    service.set('domains', [{ ...DOMAINS[0], is_verified: true }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'drift', 'accept', 'domains', 'd1', '--reason', 'wanted');
    expect((await expectRun(0, 'drift')).stderr).not.toContain('audit log');
    expect((await expectRun(0, 'status')).stdout).not.toContain('audit log');
    alterFile(join(directory, 'mirror.db'), statement);
    const { stdout, stderr } = await expectRun(2, 'drift');
    expect(stdout).toContain('1 finding open, 0 accepted');
    expect(stdout).toMatch(
      /not accepted: domains one\.example \/is_verified: the audit log does not prove its acceptance/,
    );
    expect(stderr).toMatch(said);
    expect(stderr).toContain('→ `tidemark verify` names everything');
    const told = await drift();
    expect(told.findings).toMatchObject([
      {
        path: '/is_verified',
        reopened: { because: 'contradicted', contradiction: expect.stringMatching(said) as string },
      },
    ]);
    expect([told.accepted, told.withdrawable]).toEqual([[], []]);
    // What is accepted is listed with what speaks against it.
    const listed = JSON.parse((await run('drift', 'accepted', '--json')).stdout) as {
      accepted: { contradiction: string | null }[];
    };
    expect(listed.accepted[0]?.contradiction).toMatch(said);
    expect((await run('drift', 'accepted')).stderr).toMatch(said);
    const status = (await run('status')).stdout;
    expect(status).toMatch(said);
    expect(status).toMatch(/Drift +1 finding /);
    expect(status).toContain('Needs attention:');
    expect((await expectRun(1, 'doctor')).stdout).toContain(
      'an acceptance of drift in domains is not as the',
    );
    expect(JSON.parse((await run('status', '--json')).stdout)).toMatchObject({
      sources: [{ drift: { open: 1 } }],
    });
    // Nothing of it is to be withdrawn, where it is of what does not drift any more.
    service.set('domains', DOMAINS);
    await expectRun(0, 'sync', '--quiet');
    expect((await drift()).withdrawable).toEqual([]);
    expect((await run('drift')).stderr).toMatch(said);
  });

  it('is accepted again or withdrawn where it was deleted, also where its value does not drift any more', async () => {
    const { service, directory, expectRun, run } = await baselined();
    service.set('domains', [{ ...DOMAINS[0], is_verified: true }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'drift', 'accept', 'domains', 'd1', '--reason', 'wanted');
    const remove = (): void => {
      alterFile(join(directory, 'mirror.db'), 'DELETE FROM acceptances');
    };
    remove();
    for (const args of [['drift'], ['drift', 'accepted']]) {
      const { stderr } = await run(...args);
      expect(stderr).toContain('has it; accept it again, or withdraw it with `tidemark drift unaccept');
    }
    await expectRun(0, 'drift', 'accept', 'domains', 'd1', '--reason', 'again');
    expect((await expectRun(0, 'drift')).stderr).not.toContain('is gone');
    remove();
    expect((await expectRun(1, 'drift', 'accepted', '--quiet')).stdout).toMatch(
      /\/is_verified +\(absent\) → true +b \(run 1\)/,
    );
    service.set('domains', DOMAINS);
    await expectRun(0, 'sync', '--quiet');
    expect((await expectRun(0, 'drift')).stderr).toContain('is gone');
    await expectRun(1, 'drift', 'accept', 'domains', 'd1', '--reason', 'wanted');
    const withdrawal = ['drift', 'unaccept', 'domains', 'd1'];
    await expectRun(1, ...withdrawal, '--field', '/domain');
    const { stdout, stderr } = await expectRun(0, ...withdrawal, '--as', 'Dora');
    expect(stdout).toBe('1 acceptance withdrawn: /is_verified\n');
    expect(stderr).toMatch(
      /the acceptance of \/is_verified is gone, though entry \d+ of .* has it: the audit log has its withdrawal now/,
    );
    const { entries } = JSON.parse((await run('audit', '--json')).stdout) as { entries: readonly object[] };
    const measured = { change: 'changed', to: true, baseline: { run: 1, name: 'b' } };
    expect(entries[0]).toMatchObject({
      action: 'unaccept',
      by: 'Dora',
      acceptance: { reason: 'again', measured },
    });
    await expectRun(1, ...withdrawal);
    expect((await run('drift')).stderr).not.toContain('is gone');
    expect((await run('drift', 'accepted')).stderr).not.toContain('is gone');
    expect((await run('verify')).code).toBe(0);
  });

  it.each([
    [
      'pinned to another run',
      `UPDATE snapshots SET run = 2 WHERE name = 'b'`,
      /snapshot "b" is not as it was pinned \(now at run 2\); entry \d+ of the audit log .* has run 1/,
    ],
    [
      'made by somebody else',
      `UPDATE snapshots SET pinned_by = 'ciso' WHERE name = 'b'`,
      /is not as it was .* has pinned_by /,
    ],
    [
      'marked instead of the recorded one',
      `INSERT INTO snapshots SELECT 'c', 2, pinned_at, pinned_by, 1 FROM snapshots WHERE name = 'b'; DELETE FROM snapshots WHERE name = 'b'`,
      /snapshot "c" was inserted by another program: the audit log has no entry of it/,
    ],
    [
      'another pinned one marked instead',
      `UPDATE snapshots SET is_baseline = 0; UPDATE snapshots SET is_baseline = 1 WHERE name = 'later'`,
      /snapshot "later" is not as it was .* has is_baseline 0/,
    ],
    ['not marked any more', `UPDATE snapshots SET is_baseline = 0`, /is not as it was .* has is_baseline 1/],
    [
      'deleted',
      `DELETE FROM snapshots WHERE name = 'b'`,
      /snapshot "b" is gone, though entry \d+ of the audit log/,
    ],
  ])('is not measured from a baseline that is not as the audit log has it: %s', async (_what, sql, said) => {
    const { service, directory, run, expectRun } = await baselined();
    service.set('domains', [{ ...DOMAINS[0], is_verified: true }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'snapshots', 'pin', 'later');
    alterFile(join(directory, 'mirror.db'), sql);
    const { stdout, stderr } = await expectRun(1, 'drift');
    expect(stdout).toBe('');
    expect(stderr).toMatch(said);
    expect(stderr).toContain('keep a copy of the mirror as evidence');
    const status = (await run('status')).stdout;
    expect(status).toMatch(said);
    expect(status).toMatch(/Drift +unknown/i);
    expect(JSON.parse((await run('status', '--json')).stdout)).toMatchObject({
      sources: [{ drift: { open: null, unknown: expect.stringMatching(said) as string } }],
    });
    // The way out: the state that the log has, by its run.
    expect(stderr).toContain('`tidemark drift --from run:1`');
    expect((await expectRun(2, 'drift', '--from', 'run:1')).stdout).toContain('1 finding open');
    expect((await expectRun(1, 'restore', 'baseline')).stderr).toMatch(said);
    for (const args of [['snapshots'], ['snapshots', 'baseline']]) {
      const { stderr: warned } = await run(...args);
      expect(warned, args.join(' ')).toMatch(said);
      expect(warned, args.join(' ')).toMatch(/`tidemark snapshots pin \S+ run:1( --baseline)?` pins/);
      expect((await run(...args, '--quiet')).stdout, args.join(' ')).toMatch(/altered|inserted|gone|later/);
      const document = JSON.parse((await run(...args, '--json')).stdout) as Pinned;
      expect(document.warnings.join('\n'), args.join(' ')).toMatch(said);
    }
    const baseline = JSON.parse((await run('snapshots', 'baseline', '--json')).stdout) as Pinned;
    expect(baseline.snapshots).toMatchObject([{ is_baseline: true, is_altered: true }]);
    const doctor = await expectRun(1, 'doctor');
    expect(doctor.stdout).toMatch(/the baseline cannot be used: snapshot /);
    expect(doctor.stdout).toMatch(said);
    expect(doctor.stdout).toContain('`tidemark drift --from run:1`');
    expect(doctor.stdout).not.toContain('sound (quick check)');
    expect(JSON.parse((await run('doctor', '--json')).stdout)).toMatchObject({
      mirror: { is_sound: false },
    });
  });

  it('is measured again from a baseline that was deleted by the command that everything names, and from no later run', async () => {
    const { service, directory, run, expectRun } = await baselined();
    service.set('domains', [{ ...DOMAINS[0], is_verified: true }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    alterFile(join(directory, 'mirror.db'), 'DELETE FROM snapshots');
    const again = '`tidemark snapshots pin b run:1 --baseline`';
    for (const args of [['drift'], ['diff', 'snapshot:b', 'latest'], ['verify']]) {
      const { stderr } = await expectRun(1, ...args);
      expect(stderr, args.join(' ')).toContain('snapshot "b" is gone');
      expect(stderr, args.join(' ')).toContain(again);
    }
    for (const args of [['snapshots'], ['snapshots', 'baseline']])
      expect((await run(...args)).stderr, args.join(' ')).toContain(again);
    expect((await run('status')).stdout).toContain(again);
    // At the latest run it would hide what drifted.
    for (const args of [['b'], ['b', '--baseline'], ['b', 'run:2', '--baseline']]) {
      const { stderr } = await expectRun(4, 'snapshots', 'pin', ...args);
      expect(stderr, args.join(' ')).toMatch(
        /snapshot "b" is gone, .*, at run 1: it cannot be pinned to run 2/,
      );
      expect(stderr, args.join(' ')).toContain(again);
    }
    for (const args of [['b'], ['b', '--force']])
      expect((await expectRun(1, 'snapshots', 'unpin', ...args)).stderr).toContain(
        `${again}, then this command`,
      );
    await expectRun(1, 'drift');
    await expectRun(0, 'snapshots', 'pin', 'b', 'run:1', '--baseline');
    expect((await expectRun(2, 'drift')).stdout).toContain('1 finding open');
    await expectRun(0, 'verify');
    await expectRun(0, 'snapshots', 'unpin', 'b', '--force');
    expect((await expectRun(4, 'drift')).stderr).toContain('no baseline is set');
    // The log has that it was unpinned: the name is free.
    await expectRun(0, 'snapshots', 'pin', 'b', 'run:2');
  });

  it('another pinned run that was altered or inserted is marked in every form, and pinned as the log has it under another name', async () => {
    const { directory, run, expectRun } = await baselined();
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'snapshots', 'pin', 'a', 'run:1');
    const listed = async (): Promise<Pinned> =>
      JSON.parse((await run('snapshots', '--json')).stdout) as Pinned;
    const marks = async (): Promise<string[]> =>
      (await listed()).snapshots.flatMap(({ name, is_altered }) => (is_altered ? [name] : []));
    expect(await listed()).toMatchObject({ snapshots: [{ name: 'a' }, { name: 'b' }], warnings: [] });
    expect(await marks()).toEqual([]);
    alterFile(
      join(directory, 'mirror.db'),
      `UPDATE snapshots SET run = 2 WHERE name = 'a';
      INSERT INTO snapshots SELECT 'c', 2, pinned_at, pinned_by, 0 FROM snapshots WHERE name = 'a'`,
    );
    expect(await marks()).toEqual(['a', 'c']);
    const { warnings } = await listed();
    expect(warnings).toHaveLength(2);
    expect(warnings[0]).toContain(
      '; `tidemark snapshots pin NAME run:1` pins the run that the audit log has',
    );
    const quiet = await expectRun(1, 'snapshots', '--quiet');
    expect(quiet.stderr).toMatch(/snapshot "a" is not .*\n.*snapshot "c" was inserted/);
    expect(quiet.stdout).toMatch(/^a .* altered$/m);
    expect(quiet.stdout).toMatch(/^b .* baseline$/m);
    expect(quiet.stdout).toMatch(/^c .* inserted$/m);
    expect((await expectRun(1, 'doctor')).stdout).toMatch(
      /snapshot "a" is not .*[^]*snapshot "c" was inserted/,
    );
    expect((await expectRun(0, 'snapshots', 'pin', 'a-again', 'run:1')).stderr).toContain(
      'snapshot "a" is not',
    );
    // The baseline is as it was pinned, but the entry that is not there may stand for others.
    expect((await expectRun(1, 'snapshots', 'baseline')).stderr).toContain(
      'snapshot "b" rests on a log that has no entry of snapshot "c": its last entries may be gone',
    );
  });

  it('is not pinned as the baseline by half, where that until now was inserted', async () => {
    const { directory, expectRun } = await baselined();
    alterFile(join(directory, 'mirror.db'), `UPDATE snapshots SET name = 'c'`);
    const { stderr } = await expectRun(1, 'snapshots', 'pin', 'b', 'run:1', '--baseline');
    expect(stderr).toContain('snapshot "c" was inserted by another program');
    expect((await expectRun(1, 'drift')).stderr).toContain('`tidemark drift --from run:1`');
    expect((await expectRun(1, 'diff', 'snapshot:b', 'latest')).stderr).toContain('snapshot "b" is gone');
  });

  it('does not count, nor a baseline, where the entry of the audit log was altered with it', async () => {
    const { service, directory, run, expectRun } = await baselined();
    service.set('domains', [{ ...DOMAINS[0], is_verified: true }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'drift', 'accept', 'domains', 'd1', '--reason', 'wanted', '--until', '2099-01-01');
    await expectRun(0, 'drift');
    const file = new Database(join(directory, 'mirror.db'));
    file.exec(`UPDATE acceptances SET reason = 'board decision';
      UPDATE audit_log SET "row" = json_set("row", '$.reason', 'board decision') WHERE about = 'acceptances'`);
    const rests = /rests on entry \d+ of the audit log, which is not as it was written/;
    // The baseline may be another one, as far as the log proves; a run that is named is not.
    expect((await expectRun(1, 'drift')).stderr).toMatch(
      /the baseline cannot be used: .* log that was altered/,
    );
    const open = await run('drift', '--from', 'run:1');
    expect([open.code, open.stdout]).toEqual([2, expect.stringContaining('1 finding open')]);
    expect(open.stdout + open.stderr).toMatch(rests);
    expect((await run('drift', 'accepted')).stderr).toMatch(rests);
    expect((await run('doctor')).code).toBe(1);
    file.exec(`UPDATE snapshots SET run = 2 WHERE is_baseline = 1;
      UPDATE audit_log SET "row" = json_set("row", '$.run', 2) WHERE about = 'snapshots'`);
    file.close();
    for (const args of [['drift'], ['restore', 'baseline']]) {
      const { stderr } = await expectRun(1, ...args);
      expect(stderr, args.join(' ')).toMatch(rests);
      // What such an entry says is no way out.
      expect(stderr, args.join(' ')).not.toContain('run:2');
    }
    expect((await run('status')).stdout).toMatch(/Drift +unknown/i);
  });

  it.each([
    [
      'cut off',
      [],
      /rests on a log that was cut: run 3 has the hash of entry \d+ of the audit log, which is gone/,
    ],
    [
      'cut out of',
      [['snapshots', 'pin', 'after']],
      /rests on a log that was cut: entry \d+ of the audit log is gone/,
    ],
    [
      'renamed in',
      [['snapshots', 'pin', 'after']],
      /rests on a log that was altered: entry \d+ of the audit log is not as it was written/,
    ],
  ] as const)(
    'does not count where its withdrawal was %s the audit log, which a run sealed',
    async (how, after, said) => {
      const { service, directory, expectRun } = await baselined();
      service.set('domains', [{ ...DOMAINS[0], is_verified: true }, DOMAINS[1] ?? {}]);
      await expectRun(0, 'sync', '--quiet');
      await expectRun(0, 'drift', 'accept', 'domains', 'd1', '--reason', 'once');
      const file = new Database(join(directory, 'mirror.db'));
      onTestFinished(() => void file.close());
      const row = file.prepare<[], object>('SELECT * FROM acceptances').get() ?? {};
      await expectRun(0, 'drift', 'unaccept', 'domains', 'd1');
      for (const args of after) await expectRun(0, ...args);
      await expectRun(0, 'sync', '--quiet');
      file.exec(
        how === 'renamed in'
          ? `UPDATE audit_log SET member = replace(member, 'd1', 'd2') WHERE action = 'unaccept'`
          : `DELETE FROM audit_log WHERE action = 'unaccept'`,
      );
      const columns = Object.keys(row);
      file
        .prepare(`INSERT INTO acceptances (${columns.join()}) VALUES (${columns.map(() => '?').join()})`)
        .run(...(Object.values(row) as unknown[]));
      // Nor does the baseline: the entry may have chosen another one.
      const unusable = (await expectRun(1, 'drift')).stderr;
      expect(unusable).toContain('the baseline cannot be used: snapshot "');
      expect(unusable).toMatch(said);
      expect((await expectRun(1, 'snapshots', 'baseline', 'b')).stderr).toMatch(said);
      const compare = ['drift', '--from', 'run:1'];
      const { stdout, stderr } = await expectRun(2, ...compare);
      expect(stdout).toContain('1 finding open, 0 accepted');
      expect(stdout + stderr).toMatch(said);
      expect(stdout + stderr).toContain(': the audit log does not prove its acceptance');
      expect((await expectRun(1, 'status')).stdout).toMatch(said);
      expect((await expectRun(1, 'doctor')).stdout).toContain('acceptance');
      expect((await expectRun(1, 'status')).stdout).toMatch(/Drift +unknown/i);
      if (how !== 'cut off') return;
      // With another entry in its place.
      file.exec(`INSERT INTO audit_log SELECT entry + 1, at, "by", via, 'unpin', 'snapshots', '["other"]', row, root, hash
      FROM audit_log ORDER BY entry DESC LIMIT 1`);
      expect((await expectRun(2, ...compare)).stderr).toMatch(
        /rests on a log that was altered: run 3 has the hash of entry \d+ of the audit log, which is not the one with that hash/,
      );
    },
  );

  it('has one remedy, whoever found that it was altered', async () => {
    const { service, directory, run, expectRun } = await baselined();
    service.set('domains', [{ ...DOMAINS[0], is_verified: true }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'drift', 'accept', 'domains', 'd1', '--reason', 'wanted');
    alterFile(join(directory, 'mirror.db'), `UPDATE acceptances SET reason = 'approved'`);
    const remedy = /→ (records and history match their hashes; .*)/.exec((await run('verify')).stdout)?.[1];
    expect(remedy).toMatch(/look at `tidemark drift`/);
    const status = (await run('status')).stdout;
    // One thing: what the verification found is what does not match the log.
    expect(status.split(remedy ?? 'none')).toHaveLength(2);
    expect(status).toMatch(/the last check of the mirror found 1 problem: .* is not as it was accepted/);
    expect(status).not.toContain('keep the file, and restore');
  });

  it('is checked by verify: what another hand removed or added is named, without the id where that is a secret', async () => {
    const { service, directory, run, expectRun } = await baselined();
    service.set('invites', [{ id: 'SECRETINVITEID', target_email: '', level: 1 }]);
    service.set('domains', [{ ...DOMAINS[0], is_verified: true }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'drift', 'accept', 'domains', 'd1', '--reason', 'wanted');
    await expectRun(0, 'verify');
    alterFile(
      join(directory, 'mirror.db'),
      `UPDATE acceptances SET kind = 'invites', remote_id = 'SECRETINVITEID'`,
    );
    const { stdout, stderr, code } = await run('verify');
    expect(code).toBe(1);
    expect(stdout).toMatch(/^chain: the acceptance of \/is_verified of \S+ is gone, .* \(domains d1, /m);
    expect(stdout).toMatch(
      /^chain: the acceptance of \/is_verified of \S+ was inserted .* \(invites \[secret:/m,
    );
    expect(stdout + stderr).not.toContain('SECRETINVITEID');
    // Records and history are as they were: nothing asks for another mirror.
    expect(stderr).toMatch(/mirror\.db does not match its audit log: 2 problems/);
    expect(stderr).toContain(
      '→ records and history match their hashes; if the end of the audit log was cut, these rows may be as people left them: compare first with `tidemark verify --root HASH` or `tidemark verify --backups`; else look at `tidemark drift`',
    );
    expect(stdout + stderr).not.toContain('move the mirror away');
    await expectRun(0, 'drift', 'accept', 'domains', 'd1', '--reason', 'wanted');
    expect((await run('verify')).stdout).not.toContain('is gone, though');
  });
});

describe('an id that is a secret', () => {
  const secret = 'SECRETINVITEID';

  it('is masked in every output unless --show-secrets is given, and its mark names the record', async () => {
    const { service, directory, run, expectRun } = await baselined();
    service.set('invites', [{ id: secret, target_email: '', level: 1 }]);
    service.set('members', [MEMBERS[0] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    const mark = /\[secret:[0-9a-f]{12}\]/.exec((await expectRun(2, 'drift')).stdout)?.[0] ?? '';
    expect(mark).not.toBe('');
    const hidden = async (...args: string[]): Promise<string> => {
      const { stdout, stderr, code } = await run(...args);
      expect(stdout + stderr, args.join(' ')).not.toContain(secret);
      expect([0, 2], args.join(' ') + stderr).toContain(code);
      return stdout;
    };
    for (const each of [['drift'], ['diff', 'run:1', 'run:2']])
      for (const format of ['text', 'json', 'markdown', 'html', 'junit', 'sarif'])
        await hidden(...each, '--format', format);
    for (const form of [[], ['--json']]) {
      for (const id of [secret, mark]) {
        for (const command of ['show', 'log', 'blame']) await hidden(command, 'invites', id, ...form);
        await hidden('drift', 'accept', 'invites', id, '--reason', 'x', ...form);
        await hidden('drift', 'accepted', ...form);
        // Of the one acceptance, whichever form its command had.
        for (const format of form.length === 0 ? ['text', 'markdown', 'html'] : [])
          await hidden('drift', '-v', '--format', format);
        await hidden('drift', 'unaccept', 'invites', id, ...form);
      }
      await hidden('runs', 'show', '2', ...form);
      await hidden('changes', '--since', 'run:1', ...form);
    }
    await hidden('changes', '--since', 'run:1', '--format', 'html');
    // As a filter too: it selects the one record, and one that nobody has is a mistake.
    const filters: [code: number, args: string[]][] = [
      [2, ['drift']],
      [2, ['diff', 'run:1', 'run:2']],
      [0, ['changes', '--since', 'run:1']],
      [0, ['diff', 'latest', 'live']],
    ];
    for (const [code, args] of filters) {
      const { stdout } = await expectRun(code, ...args, '--id', mark);
      expect(stdout, args.join(' ')).toMatch(
        code === 2 ? /1 record added \(1 record in/ : /1 (added|unchanged)/,
      );
      expect(stdout).not.toContain(secret);
      const { stderr } = await expectRun(4, ...args, '--id', '[secret:000000000000]');
      expect(stderr).toMatch(/the mirror has no record with an id masked as/);
    }
    expect((await expectRun(0, 'export', '--id', mark)).stdout.trim().split('\n')).toHaveLength(1);
    for (const form of [[], ['--json']]) {
      for (const command of ['show', 'log', 'blame']) {
        const { stdout } = await expectRun(0, command, 'invites', mark, '--show-secrets', ...form);
        expect(stdout, command).toContain(secret);
      }
      expect((await expectRun(0, 'runs', 'show', '2', '--show-secrets', ...form)).stdout).toContain(secret);
    }
    // Open again: said in the notes of the report, by name.
    await expectRun(0, 'drift', 'accept', 'invites', mark, '--reason', 'x');
    service.set('invites', [{ id: secret, target_email: '', level: 8 }]);
    await expectRun(0, 'sync', '--quiet');
    for (const format of ['text', 'markdown', 'html']) {
      const shown = await hidden('drift', '--format', format);
      expect(shown.replaceAll('\\', '')).toContain(`open again: invites ${mark}`);
    }
    // A removed one is found by its mark too; another mark is none.
    service.set('invites', []);
    await expectRun(0, 'sync', '--accept-removals', '1', '--quiet');
    expect((await expectRun(0, 'show', 'invites', mark)).stdout).toContain('removed');
    await expectRun(4, 'show', 'invites', '[secret:000000000000]');
    // What verify finds of it.
    const mirror = new Database(join(directory, 'mirror.db'));
    mirror.prepare(`UPDATE revisions SET hash = zeroblob(32) WHERE hash IS NOT NULL`).run();
    mirror.close();
    for (const form of [[], ['--json']]) {
      const { stdout, code } = await run('verify', ...form);
      expect([code, stdout.includes(secret), stdout.includes(mark)]).toEqual([1, false, true]);
    }
  });
});

describe('ignore rules', () => {
  it.each(['"/**"', '"/*"', '/*/**'])(
    'that would hide everything are refused with their line: %s',
    async (path) => {
      const it = await world();
      writeFileSync(
        join(it.directory, 'tidemark.yaml'),
        `sources: []\ndrift:\n  ignore:\n    - { kind: roles, path: "/**", reason: ours }\n    - { path: ${path}, reason: typo }\n`,
      );
      const ended = await commandLine(['config', 'check'], { env: {}, cwd: it.directory });
      expect(ended.code, readFileSync(join(it.directory, 'tidemark.yaml'), 'utf8')).toBe(4);
      expect(ended.stdout + ended.stderr).toMatch(/tidemark\.yaml:5: drift\.ignore\[1\]/);
      expect(ended.stdout + ended.stderr).toContain('a kind or an id');
    },
  );
});
