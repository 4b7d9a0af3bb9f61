import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isoTime, systemClock } from '../../src/core/clock.ts';
import { open } from '../mirror/fixture.ts';
import { commandLine } from './command-line.ts';
import { DOMAINS, MEMBERS, world, type World } from './comparison.ts';
import { type Ended, mirrorOnce, scratch } from './harness.ts';
import { ORGANIZATION, Story } from './restore-story.ts';
import { forbidden, ORG, respond } from './service.ts';

interface DriftJson {
  readonly schema: string;
  readonly source: string;
  readonly left_out: readonly { readonly kind: string }[];
  readonly skipped: readonly { readonly kind: string }[];
  readonly findings: readonly FindingJson[];
  readonly accepted: readonly (FindingJson & { readonly acceptance: { readonly reason: string } })[];
  readonly ignored: readonly (FindingJson & { readonly rule: { readonly reason: string } })[];
  readonly withdrawable: readonly { readonly id: string }[];
  readonly summary: Readonly<Record<string, number>>;
}

interface FindingJson {
  readonly fingerprint: string;
  readonly severity: string;
  readonly kind: string;
  readonly id: string;
  readonly path: string;
  readonly change: string;
  readonly from?: unknown;
  readonly to?: unknown;
  readonly reopened?: { readonly because: string; readonly acceptance: { readonly reason: string } };
}

interface DriftWorld extends World {
  readonly drift: (code: number, ...args: string[]) => Promise<DriftJson>;
  /** Sets the organization's enforce_2fa and syncs. */
  readonly enforce2fa: (value: boolean | null) => Promise<void>;
}

const JIT = '/jit_provisioning_enabled';

/** A baseline, in which two-factor is enforced. */
async function baselined(more: Readonly<Record<string, string>> = {}): Promise<DriftWorld> {
  const it = await world(more);
  const set2fa = (value: boolean | null): void => {
    it.service.lists.set('/api/organizations/', [
      JSON.stringify({ id: ORG, name: 'Harbor', enforce_2fa: value, teams: [{ id: 1 }] }),
    ]);
  };
  const enforce2fa = async (value: boolean | null): Promise<void> => {
    set2fa(value);
    await it.expectRun(0, 'sync', '--quiet');
  };
  set2fa(true);
  await mirrorOnce(`baselined ${JSON.stringify(more)}`, join(it.directory, 'mirror.db'), async () => {
    await it.expectRun(0, 'sync', '--quiet');
    await it.expectRun(0, 'snapshots', 'pin', 'approved');
    await it.expectRun(0, 'snapshots', 'baseline', 'approved');
  });
  const drift = async (code: number, ...args: string[]): Promise<DriftJson> =>
    JSON.parse((await it.expectRun(code, 'drift', ...args, '--json')).stdout) as DriftJson;
  return { ...it, drift, enforce2fa };
}

describe('drift after a sync that failed', () => {
  it('exits with 3 and names the run, until a sync read the service again', async () => {
    const here = await baselined();
    here.service.quirks.push((_request, response) => {
      respond(response, 503, '{"detail":"down for maintenance"}');
      return true;
    });
    await here.expectRun(1, 'sync', '--quiet');
    const ended = await here.expectRun(3, 'drift');
    expect(ended.stdout).toContain('No differences');
    expect(ended.stderr).toMatch(/the latest state is older than the last attempt to read it: run 2 failed/);
    expect(ended.stderr).toContain('`tidemark runs show 2` shows why');
    const told = await here.drift(3);
    expect(told.findings).toEqual([]);
    expect(told).toMatchObject({ to: { run: 1 }, failed_run: { run: 2, error: { code: 'server_error' } } });
    // So does a diff that ends at the latest state, in every form.
    const line = 'the latest state is older than the last attempt to read it: run 2 failed (server_error)';
    const diff = ['diff', 'run:1', 'latest', '--quiet'];
    for (const args of [[], ['--format', 'markdown'], ['--format', 'junit']]) {
      const compared = await here.expectRun(3, ...diff, ...args);
      expect(compared.stdout).toContain(args.length === 0 ? line : 'run 2 failed');
      expect(compared.stderr).toContain(line);
      expect(compared.stderr).toContain('`live` in place of `latest` reads the service now');
    }
    const document = JSON.parse((await here.expectRun(3, ...diff, '--json')).stdout) as object;
    expect(document).toMatchObject({ changes: [], to: { run: 1, failed_run: { run: 2 } } });
    expect(document).not.toHaveProperty('from.failed_run');
    await here.expectRun(0, 'diff', 'run:1', 'run:1');
    here.service.quirks.length = 0;
    expect(await here.drift(0, '--live')).toMatchObject({ failed_run: null });
    expect((await here.expectRun(0, 'diff', 'latest', 'live')).stdout).not.toContain('run 2');
    await here.expectRun(0, 'sync', '--quiet');
    await here.drift(0);
    await here.expectRun(0, ...diff);
  });
});

/** A second working directory, with an export and a key and no mirror: a pipeline. */
describe('drift of an export against live, without a mirror', () => {
  it('finds what the one with a mirror finds, under fingerprints that stay, and makes no mirror', async () => {
    const here = await baselined();
    await here.expectRun(
      0,
      'export',
      '--format',
      'ndjson',
      '--output',
      join(here.directory, 'desired.ndjson'),
    );
    here.service.set('domains', [DOMAINS[0]!]);
    const own = await here.drift(2, '--live', '--from', 'file:desired.ndjson');
    const elsewhere = scratch();
    const env = { ...here.env, TIDEMARK_MIRROR: join(elsewhere, 'none.db') };
    const args = ['drift', '--live', '--from', `file:${join(here.directory, 'desired.ndjson')}`, '--json'];
    const [first, second] = [
      await commandLine(args, { env, cwd: elsewhere }),
      await commandLine(args, { env, cwd: elsewhere }),
    ];
    expect(first.code, first.stderr).toBe(2);
    expect(first.stderr).toContain('without a mirror nothing counts as accepted');
    const found = JSON.parse(first.stdout) as DriftJson;
    expect(told(found.findings)).toEqual(told(own.findings));
    expect(found.findings.map(({ fingerprint }) => fingerprint)).toEqual(
      (JSON.parse(second.stdout) as DriftJson).findings.map(({ fingerprint }) => fingerprint),
    );
    expect(readdirSync(elsewhere)).toEqual([]);
    const text = await commandLine(args.slice(0, -1), { env, cwd: elsewhere });
    expect(text.code).toBe(2);
    // The baseline stands in a mirror: without one there is none to measure from.
    expect((await commandLine(['drift', '--live'], { env, cwd: elsewhere })).code).not.toBe(0);
  });
});

const told = (findings: readonly FindingJson[]): string[] =>
  findings.map(({ severity, id, change, path }) => [severity, id, change, path].join(' ').trim());

describe('drift', () => {
  it('needs a baseline, and says how to set one', async () => {
    const { expectRun } = await world();
    expect((await expectRun(1, 'drift')).stderr).toContain('tidemark sync');
    await expectRun(0, 'sync', '--quiet');
    const { stderr } = await expectRun(4, 'drift');
    expect(stderr).toContain('no baseline is set');
    expect(stderr).toContain('tidemark snapshots baseline NAME');
    // Any state can be the wanted one.
    await expectRun(0, 'drift', '--from', 'run:1');
    expect((await expectRun(4, 'drift', '--from', 'rum:1')).stderr).toContain('did you mean run:1?');
  });

  it('puts the worst first, and keeps the identity of a finding', async () => {
    const { service, drift, expectRun, enforce2fa } = await baselined();
    expect(await drift(0)).toMatchObject({ schema: 'tidemark.drift/1', findings: [], summary: { open: 0 } });
    service.set('domains', [{ ...DOMAINS[0], comment: 'x' }]);
    await enforce2fa(false);
    const found = await drift(2);
    expect(told(found.findings)).toEqual([
      `critical ${ORG} changed /enforce_2fa`,
      'high d2 removed',
      'medium d1 changed /comment',
    ]);
    expect(found.findings[0]).toMatchObject({ from: true, to: false });
    expect(found.summary).toMatchObject({
      open: 3,
      critical: 1,
      high: 1,
      medium: 1,
      low: 0,
      removed: 1,
      changed: 2,
    });
    await expectRun(0, 'sync', '--quiet');
    const again = await drift(2, '--live');
    expect(again.findings.map(({ fingerprint }) => fingerprint)).toEqual(
      found.findings.map(({ fingerprint }) => fingerprint),
    );
    expect(found.findings[0]?.fingerprint).toMatch(/^[0-9a-f]{64}$/);

    const { stdout } = await expectRun(2, 'drift');
    expect(stdout.indexOf('enforce_2fa')).toBeLessThan(stdout.indexOf('two.example'));
    expect(stdout).toContain('3 findings open, 0 accepted, 0 ignored by rule');
    const grave = await drift(2, '--severity', 'high');
    expect(told(grave.findings)).toHaveLength(2);
    expect(grave.summary).toMatchObject({ open: 2, below_threshold: 1, medium: 0 });
    await enforce2fa(true);
    service.set('domains', [{ ...DOMAINS[0], comment: 'x' }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    expect((await drift(0, '--severity', 'critical')).summary).toMatchObject({ open: 0, below_threshold: 1 });
  });

  it('has the root hash of the newer state of the mirror, unless that was altered', async () => {
    const story = await Story.start();
    await story.expectRun(0, 'snapshots', 'pin', 'base', '--baseline');
    await story.createExport('nightly');
    await story.expectRun(0, 'sync');
    const head = async (...args: string[]): Promise<unknown> =>
      (JSON.parse((await story.run('drift', '--json', ...args)).stdout) as { head: unknown }).head;
    const rootOf = async (run: string): Promise<unknown> =>
      (JSON.parse((await story.run('runs', 'show', run, '--json')).stdout) as { root: string }).root;
    const root = await rootOf('2');
    expect(await head()).toEqual({ run: 2, root });
    expect(await head('--live')).toEqual({ run: 1, root: await rootOf('1') });
    await story.expectRun(0, 'verify', '--root', String(root));
    for (const format of ['html', 'markdown'])
      expect((await story.run('drift', '--format', format)).stdout).toContain(
        `root hash of run 2: ${String(root)};`,
      );
    const last = `root hash of run 2: ${String(root)}; \`tidemark verify --root HASH\` says whether a mirror has it`;
    expect((await story.run('drift', '--verbose')).stdout.trimEnd().split('\n').at(-1)).toBe(last);
    expect((await story.run('drift')).stdout).not.toContain(String(root));
    story.alter("UPDATE runs SET trigger = 'someone' WHERE run = 1");
    expect(await head()).toBeNull();
    expect((await story.run('drift', '--format', 'html')).stdout).not.toContain('root hash of run');
  });

  it('is reported in every format, each with what was accepted and ignored', async () => {
    const { directory, expectRun, enforce2fa } = await baselined({
      TIDEMARK_DRIFT_IGNORE: '[{"kind":"domains","path":"/comment","reason":"ours"}]',
    });
    await enforce2fa(false);
    for (const format of ['text', 'markdown', 'html', 'junit', 'sarif']) {
      const { stdout } = await expectRun(2, 'drift', '--format', format);
      expect(stdout).toContain('enforce_2fa');
      expect(stdout).toContain('critical');
      if (['text', 'markdown', 'html'].includes(format)) {
        expect(stdout).toContain('1 finding open, 0 accepted, 0 ignored');
        expect(stdout).toContain('Configuration drift');
      }
    }
    const sarif = JSON.parse((await expectRun(2, 'drift', '--format', 'sarif')).stdout) as {
      runs: { results: { partialFingerprints: Record<string, string> }[] }[];
    };
    const json = JSON.parse((await expectRun(2, 'drift', '--json')).stdout) as DriftJson;
    expect([sarif.runs[0]?.results[0]?.partialFingerprints['tidemark/v2']]).toEqual([
      json.findings[0]?.fingerprint,
    ]);
    await expectRun(2, 'drift', '--format', 'html', '--output', 'drift.html', '--quiet');
    expect(readFileSync(join(directory, 'drift.html'), 'utf8')).toContain('Configuration drift');
  });

  it('leaves out what fills by itself, unless it is named', async () => {
    const { service, drift, expectRun } = await baselined();
    service.objects.set('/api/projects/1/session_recordings/rec/sharing/', '{"enabled":false}');
    service.lists.set('/api/projects/1/session_recordings/', [
      '{"id":"rec","start_time":"2026-01-01T00:00:00Z"}',
    ]);
    await expectRun(0, 'sync', '--quiet');
    const found = await drift(0);
    expect(found.left_out.map(({ kind }) => kind)).toEqual(['session_recordings', 'recording_sharing']);
    expect(await expectRun(0, 'drift')).toMatchObject({
      stdout: expect.stringContaining('0 ignored by rule; activity data not compared\n') as string,
      stderr: '',
    });
    expect((await expectRun(0, 'drift', '-v')).stdout).toContain(
      'left out: session recordings, recording sharings: activity data; use --kind to include them',
    );
    expect(told((await drift(2, '--kind', 'session_recordings')).findings)).toEqual(['low rec added']);
    const from = service.seen.length;
    await drift(0, '--live');
    expect(service.seen.slice(from).filter(({ url }) => url.includes('session_recordings'))).toEqual([]);
  });

  it('names the configuration as the reason where it excludes those kinds, since --kind would not add them', async () => {
    const { drift, expectRun } = await baselined({
      TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing',
    });
    const told = await expectRun(0, 'drift');
    expect(told.stdout).not.toContain('activity data');
    expect(told.stderr).toBe('');
    expect((await expectRun(0, 'drift', '-v')).stdout).toContain('excluded by `kinds` in the configuration');
    expect((await drift(0)).left_out).toMatchObject([
      { kind: 'session_recordings', reason: 'excluded by `kinds` in the configuration' },
      { kind: 'recording_sharing', reason: 'excluded by `kinds` in the configuration' },
    ]);
  });

  it('exits with 3 when something could not be read, and 5 when nothing could', async () => {
    const { service, drift, expectRun, enforce2fa } = await baselined();
    await enforce2fa(false);
    service.quirks.push(({ path }, response) =>
      path.endsWith('/domains/') ? forbidden(response, 'organization:read') : false,
    );
    expect((await drift(3, '--live')).skipped).toMatchObject([{ kind: 'domains' }]);
    await expectRun(5, 'drift', '--live', '--kind', 'domains');
    service.quirks.push((_request, response) => forbidden(response, 'organization:read'));
    await expectRun(5, 'drift', '--live');
    expect((await drift(2)).findings).toHaveLength(1);
  });

  it('warns of a partial baseline, and says that a newer one helps where only that lacks a list', async () => {
    const { service, expectRun } = await world();
    service.quirks.push(({ path }, response) =>
      path.endsWith('/domains/') ? forbidden(response, 'organization:read') : false,
    );
    await expectRun(3, 'sync', '--quiet');
    const warning =
      'run 1 is partial: 1 collection is not in it (domains), and drift from it cannot compare it; `tidemark doctor` says why';
    expect((await expectRun(0, 'snapshots', 'pin', 'approved')).stderr).toContain(warning);
    expect((await expectRun(0, 'snapshots', 'baseline', 'approved')).stderr).toContain(warning);
    expect((await expectRun(0, 'snapshots')).stdout).toMatch(/baseline, partial/);
    const { stdout } = await expectRun(0, 'snapshots', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ snapshots: [{ collections_not_in_it: 1 }] });
    const remedy = '`tidemark doctor` shows what the key can read';
    expect((await expectRun(3, 'drift')).stderr).toContain(remedy);

    service.quirks.length = 0;
    await expectRun(0, 'sync', '--quiet');
    const { stderr } = await expectRun(3, 'drift');
    expect(stderr).toContain(
      '→ run 1 lacks what the newest run has: to compare it, make a complete run the baseline (`tidemark snapshots pin NAME --baseline`)',
    );
    expect(stderr).not.toContain(remedy);
    expect((await expectRun(3, 'diff', 'run:1', 'latest')).stderr).toContain('compare with a later run');
    const pinned = await expectRun(0, 'snapshots', 'pin', 'whole', '--baseline');
    expect(pinned.stderr).not.toContain('partial');
    await expectRun(0, 'drift');
  });
});

describe('accepted drift', () => {
  const accept = (it: World, code: number, ...more: string[]): Promise<Ended> =>
    it.expectRun(
      code,
      'drift',
      'accept',
      'organizations',
      ORG,
      '--reason',
      'until the new IdP is in',
      ...more,
    );

  it('is quiet until its value moves on', async () => {
    const it = await baselined();
    const { drift, enforce2fa, expectRun } = it;
    await enforce2fa(false);
    expect((await accept(it, 0, '--field', '/enforce_2fa')).stdout).toContain(
      'organization Harbor /enforce_2fa',
    );
    const quiet = await drift(0);
    expect(quiet).toMatchObject({ findings: [], summary: { accepted: 1 } });
    expect(quiet.accepted[0]).toMatchObject({ id: ORG, acceptance: { reason: 'until the new IdP is in' } });
    expect((await expectRun(0, 'drift')).stdout).toContain('0 findings open, 1 accepted');
    expect(await drift(0, '--live')).toMatchObject({ summary: { accepted: 1 } });

    await enforce2fa(null);
    const [reopened] = (await drift(2)).findings;
    expect(reopened).toMatchObject({ path: '/enforce_2fa', to: null });
    expect(reopened?.reopened).toMatchObject({
      because: 'value',
      acceptance: { reason: 'until the new IdP is in' },
    });
    expect((await expectRun(2, 'drift')).stdout).toContain('its value changed again');

    // Back to what was accepted; then to what is wanted.
    await enforce2fa(false);
    await drift(0);
    await enforce2fa(true);
    expect((await drift(0)).withdrawable).toMatchObject([{ id: ORG }]);
  });

  it('is over when its time is', async () => {
    const it = await baselined();
    await it.enforce2fa(false);
    await accept(it, 0, '--until', '2999-01-01');
    await it.drift(0);
    const { stdout } = await it.expectRun(0, 'drift', 'accepted', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      schema: 'tidemark.drift_accepted/1',
      accepted: [{ id: ORG, path: '/enforce_2fa', until: '2999-01-02T00:00:00.000Z', is_over: false }],
    });
    // A day is included; a time is as it is.
    const today = isoTime(systemClock.now()).slice(0, 10);
    expect((await accept(it, 0, '--until', today)).stderr).toContain(`${today} is included: until `);
    await it.drift(0);
    await accept(it, 0, '--until', '2999-01-01T00:00Z');
    expect((await it.expectRun(0, 'drift', 'accepted', '--json')).stdout).toContain(
      '"2999-01-01T00:00:00.000Z"',
    );
    const mirror = open({ path: join(it.directory, 'mirror.db'), clock: systemClock });
    for (const accepted of mirror.acceptances.list())
      mirror.acceptances.add({ ...accepted, until: '2001-01-01T00:00:00.000Z' });
    mirror.close();
    expect((await it.drift(2)).findings[0]?.reopened).toMatchObject({ because: 'expired' });
    expect((await it.expectRun(0, 'drift', 'accepted')).stdout).toMatch(/^organizations +Harbor .*\(over\)/m);
    // Accepted again, it holds again.
    await accept(it, 0);
    await it.drift(0);
  });

  it('can be withdrawn', async () => {
    const it = await baselined();
    await it.enforce2fa(false);
    await accept(it, 0);
    await it.expectRun(1, 'drift', 'unaccept', 'organizations', ORG, '--field', '/name');
    expect((await it.expectRun(0, 'drift', 'unaccept', 'organizations', ORG)).stdout).toContain(
      '1 acceptance withdrawn',
    );
    await it.expectRun(1, 'drift', 'unaccept', 'organizations', ORG);
    await it.drift(2);
    expect((await it.expectRun(0, 'drift', 'accepted')).stdout).toBe('no drift was accepted\n');
  });

  it('takes records that came or went, and ids as the reports mask them', async () => {
    const it = await baselined();
    const secret = '0190dddd-1111-7000-8000-00000000000f';
    it.service.set('invites', [{ id: secret, target_email: 'c@one.example', level: 8 }]);
    it.service.set('members', [MEMBERS[0] ?? {}]);
    await it.expectRun(0, 'sync', '--quiet');
    const { stdout } = await it.expectRun(2, 'drift', '--json');
    expect(stdout).not.toContain(secret);
    const shown = (JSON.parse(stdout) as DriftJson).findings.find(({ kind }) => kind === 'invites')?.id ?? '';
    expect(shown).toMatch(/^\[secret:[0-9a-f]{12}\]$/);
    await it.expectRun(0, 'drift', 'accept', 'invites', shown, '--reason', 'agreed');
    await it.expectRun(0, 'drift', 'accept', 'members', 'u2', '--reason', 'left');
    const { stdout: list } = await it.expectRun(0, 'drift', 'accepted', '--json');
    expect(list).not.toContain(secret);
    await it.drift(0);
    await it.expectRun(0, 'drift', 'unaccept', 'invites', shown);
    await it.drift(2);
  });

  it('is taken and withdrawn by name, also of a record that only the service has', async () => {
    const it = await baselined();
    await it.enforce2fa(false);
    const accept = (code: number, ...args: string[]): Promise<Ended> =>
      it.expectRun(code, 'drift', 'accept', ...args, '--reason', 'x');
    expect((await accept(0, 'organizations', 'Harbor')).stderr).toContain('"Harbor" is organization');
    await it.drift(0);
    expect((await it.expectRun(4, 'drift', 'unaccept', 'organizations', 'Nobody')).stderr).toContain(
      'has no organization with the id or name "Nobody"',
    );
    await it.expectRun(0, 'drift', 'unaccept', 'organizations', 'harbor');
    expect((await it.expectRun(1, 'drift', 'unaccept', 'organizations', 'Harbor')).stderr).toContain(
      'was accepted',
    );
    it.service.set('domains', [
      ...DOMAINS,
      { id: 'd3', domain: 'new.example' },
      { id: 'd4', domain: 'counterpart.example' },
      { id: 'd5', domain: 'counterpart.example' },
    ]);
    await accept(0, 'domains', 'new.example', '--live');
    const { stderr } = await accept(4, 'domains', 'counterpart.example', '--live');
    expect(stderr).toContain('is the name of 2 records that drift');
    expect(stderr).toContain('domains d5');
  });

  it('is no equality: every record is counted once, and the text says what it is', async () => {
    const it = await baselined();
    await it.enforce2fa(false);
    await accept(it, 0);
    const sum = ({ summary, compared }: DriftJson & { compared?: { records: number } }): boolean =>
      (['added', 'removed', 'changed', 'unchanged', 'accepted', 'ignored', 'below_threshold'] as const)
        .map((key) => summary[key] ?? Number.NaN)
        .reduce((a, b) => a + b) === compared?.records;
    const only = await it.drift(0);
    expect([only.summary['accepted'], sum(only)]).toEqual([1, true]);
    const { stdout } = await it.expectRun(0, 'drift', '--kind', 'organizations');
    expect(stdout).toContain('Nothing open');
    expect(stdout).toContain('1 record in 1 collection compared: 0 unchanged, 1 accepted');
    it.service.set('domains', [{ ...DOMAINS[0], comment: 'x' }, DOMAINS[1] ?? {}]);
    await it.expectRun(0, 'sync', '--quiet');
    const grave = await it.drift(0, '--severity', 'critical');
    expect(grave.summary).toMatchObject({
      accepted: 1,
      below_threshold: 1,
      changed: 0,
      findings: { below_threshold: 1 },
    });
    expect(sum(grave)).toBe(true);
    expect((await it.expectRun(0, 'drift', '--severity', 'critical')).stdout).toContain(
      '1 accepted, 1 below the threshold',
    );
  });

  it('says what is wrong with what was asked', async () => {
    const it = await baselined();
    expect((await accept(it, 1)).stderr).toContain('does not drift');
    await it.enforce2fa(false);
    for (const [code, message, ...args] of [
      [4, 'needs a reason', 'organizations', ORG],
      [4, 'needs a reason', 'organizations', ORG, '--reason', ' '],
      [4, 'needs a reason', 'domains', 'd1', '--live'],
      [4, 'with the id or name "nobody"', 'organizations', 'nobody'],
      [1, 'does not drift', 'domains', 'd1'],
      [4, 'it drifts at: /enforce_2fa', 'organizations', ORG, '--field', '/name'],
      [4, 'is over already', 'organizations', ORG, '--reason', 'x', '--until', '2020-01-01'],
      [4, 'is not a date', 'organizations', ORG, '--reason', 'x', '--until', 'tomorrow'],
      [4, 'did you mean organizations?', 'organisations', ORG, '--reason', 'x'],
      [4, "unknown option '--severity'", 'organizations', ORG, '--reason', 'x', '--severity', 'high'],
      [4, 'with the id or name "nobody"', 'organizations', 'nobody', '--reason', 'x'],
      [1, 'does not drift', 'domains', 'd1', '--reason', 'x'],
      [4, 'it drifts at: /enforce_2fa', 'organizations', ORG, '--reason', 'x', '--field', '/name'],
    ] as const) {
      const { stderr } = await it.expectRun(code, 'drift', 'accept', ...args);
      expect(stderr).toContain(message);
    }
    expect((await it.drift(2)).summary).toMatchObject({ accepted: 0 });
    const nowhere = await commandLine(['drift', 'accept', 'domains', 'd1', '--reason', 'x'], {
      env: { ...it.env, TIDEMARK_MIRROR: join(it.directory, 'other.db') },
      cwd: it.directory,
    });
    expect(nowhere.code).toBe(1);
  });
});

describe('the rules of the configuration', () => {
  it('ignore what they name, and weigh what they weigh', async () => {
    const { service, directory, env, expectRun } = await baselined();
    service.set('domains', [
      { ...DOMAINS[0], jit_provisioning_enabled: true, comment: 'x' },
      { ...DOMAINS[1], jit_provisioning_enabled: true },
    ]);
    await expectRun(0, 'sync', '--quiet');
    const configured = async (
      code: number,
      lines: readonly string[],
      ...args: string[]
    ): Promise<DriftJson> => {
      const ended = await run(lines, ...args, '--json');
      expect(ended.code, ended.stdout + ended.stderr).toBe(code);
      return JSON.parse(ended.stdout) as DriftJson;
    };
    const run = async (lines: readonly string[], ...args: string[]): ReturnType<typeof commandLine> => {
      const { TIDEMARK_API_KEY: key = '', TIDEMARK_BASE_URL: url = '', ...rest } = env;
      writeFileSync(
        join(directory, 'tidemark.yaml'),
        [
          `mirror: ./mirror.db`,
          `sources: [{ name: default, baseUrl: "${url}", apiKey: "\${KEY}" }]`,
          'drift:',
          ...lines,
        ].join('\n'),
      );
      const own = Object.fromEntries(Object.entries(rest).filter(([name]) => name === 'PATH'));
      return commandLine(['drift', ...args], { env: { ...own, KEY: key }, cwd: directory });
    };
    const rules = [
      '  ignore:',
      '    - { kind: domains, id: d2, reason: "the raffle" }',
      '    - { path: /comm*, source: other, reason: "another source" }',
      '    - { path: /comment, reason: "free text" }',
      '  severities:',
      `    - { kind: domains, path: ${JIT}, severity: low }`,
    ];
    const found = await configured(2, rules);
    expect(told(found.findings)).toEqual([`low d1 changed ${JIT}`]);
    expect(found.ignored.map(({ id, rule }) => `${id} ${rule.reason}`)).toEqual([
      'd1 free text',
      'd2 the raffle',
    ]);
    expect(found.summary).toMatchObject({ open: 1, changed: 1, ignored: 1, findings: { ignored: 2 } });
    expect((await run(rules)).stdout).toMatch(/2 ignored by rule \(`--verbose` lists them\)(?!.*Ignored)/s);
    const text = (await run(rules, '-v')).stdout;
    expect(text).toContain('\nIgnored by rule (2)\n');
    expect(text).toMatch(
      /~ domain one\.example changed\n +id d1.*\n +severity \w+, ignored by rule: free text\n +\+ \/comment /,
    );
    expect(text).toMatch(/id d2.*\n +severity \w+, ignored by rule: the raffle\n/);
    const markdown = (await run(rules, '--format', 'markdown')).stdout;
    expect(markdown).toContain('## Ignored by rule (2)\n');
    const html = (await run(rules, '--format', 'html')).stdout;
    expect(html).toContain('>Ignored by rule <span class="count">2</span></h2>');
    for (const report of [markdown, html]) expect(report).toContain('ignored by rule: the raffle');
    await configured(
      0,
      [`  severities: [{ path: ${JIT}, severity: low }, { path: /comment, severity: low }]`],
      '--severity',
      'high',
    );
    for (const [rule, message] of [
      ['{ kind: domains }', 'reason'],
      ['{ reason: "everything" }', 'a reason and at least one of kind, id and path'],
      ['{ path: comment, reason: x }', 'expected a JSON pointer'],
      ['{ kind: domans, reason: x }', 'drift.ignore[0]'],
    ] as const) {
      writeFileSync(join(directory, 'tidemark.yaml'), `sources: []\ndrift:\n  ignore:\n    - ${rule}\n`);
      const ended = await commandLine(['drift'], { env: {}, cwd: directory });
      expect(ended.code, ended.stderr).toBe(4);
      expect(ended.stderr).toContain(message);
    }
  });
});

describe('drift and status after a restore', () => {
  it('say that drift is not known, until a sync has read what it changed', async () => {
    const story = await Story.start();
    await story.expectRun(0, 'snapshots', 'pin', 'approved');
    await story.expectRun(0, 'snapshots', 'baseline', 'approved');
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
    await story.expectRun(0, 'sync', '--quiet');
    const newest = /"run":(\d+)/.exec((await story.expectRun(0, 'runs', '--json')).stdout)?.[1] ?? '';
    const json = async (code: number, command: string): Promise<unknown> =>
      JSON.parse((await story.expectRun(code, command, '--json')).stdout);
    expect(await json(2, 'drift')).toMatchObject({ restored_since: null });
    await story.expectRun(0, 'restore', 'baseline', '--kind', 'organizations', '--apply', '--yes', '--quiet');

    const line = `restore 1 was applied after run ${newest}: \`tidemark sync\` of all kinds reads what it changed`;
    expect((await story.expectRun(3, 'drift')).stdout).toContain(line);
    expect(await json(3, 'drift')).toMatchObject({ restored_since: 1 });
    const compared = await story.expectRun(3, 'diff', 'baseline', 'latest', '--json');
    expect(JSON.parse(compared.stdout)).toMatchObject({ to: { restored_since: 1 } });
    expect(compared.stderr).toContain(line);
    for (const format of ['junit', 'sarif'])
      expect((await story.expectRun(3, 'drift', '--format', format)).stdout).toContain(line);
    const toFile = ['--format', 'html', '--output', story.file('drift.html')];
    for (const args of [['--json'], ['--format', 'junit'], toFile])
      expect((await story.expectRun(3, 'drift', ...args)).stderr).toContain(line);
    const { stdout } = await story.expectRun(0, 'status');
    expect(stdout).toContain(`what restore 1 changed after run ${newest}`);
    expect(stdout).toMatch(/Drift +Not known +restore 1 was applied after/);
    expect(stdout).not.toContain('is current');
    expect(await json(0, 'status')).toMatchObject({ sources: [{ restored_since: 1 }] });
    // Damage comes first, and is named also once a verification has counted it.
    const whole = readFileSync(story.file('mirror.db'));
    story.alter(`DELETE FROM runs WHERE run = ${newest}`);
    for (const check of [false, true]) {
      if (check) await story.expectRun(1, 'verify', '--quiet');
      const damaged = (await story.expectRun(1, 'status')).stdout;
      expect(damaged).toMatch(/Drift +Unknown .*the row of run \d+ is gone/);
      expect(damaged.split('Needs attention:')[1]).toContain(`the row of run ${newest} is gone`);
    }
    writeFileSync(story.file('mirror.db'), whole);

    await story.expectRun(0, 'sync', '--quiet');
    expect((await story.expectRun(0, 'drift')).stdout).not.toContain('restore 1');
    expect(await json(0, 'status')).toMatchObject({ sources: [{ restored_since: null }] });
    // What it sends back is as unknown to the mirror.
    await story.expectRun(0, 'undo', '1', '--apply', '--yes', '--quiet');
    expect(await json(3, 'drift')).toMatchObject({ restored_since: 2 });
    await story.expectRun(0, 'sync', '--quiet');

    // One that is killed, before anything of it has an answer.
    const mirror = open({ path: story.file('mirror.db'), clock: systemClock });
    const at = isoTime(systemClock.now());
    const step = { n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null } as const;
    const start = { planHash: 'h', plan: '{"steps":[]}', from: 'baseline', approved: {}, startedAt: at };
    const [source = ''] = mirror.runs.sources();
    const restore = mirror.restores.begin({ ...start, source, steps: [step] });
    expect(await json(0, 'status')).toMatchObject({ sources: [{ restored_since: null }] });
    const [row] = mirror.restores.steps(restore);
    mirror.restores.journal([{ row: { ...row!, outcome: 'sent', attempts: 1, sentAt: at } }]);
    mirror.close();
    const killed = await story.expectRun(0, 'status');
    expect(killed.stdout).toMatch(
      /Drift +Not known +restore 3 was begun after run \d+: tidemark sync of all kinds reads/,
    );
    expect(await json(0, 'status')).toMatchObject({ sources: [{ restored_since: 3 }] });
    const unread = await story.expectRun(3, 'drift');
    expect(unread.stdout).toContain('restore 3 was begun after run');
    expect(unread.stderr).toContain('restore 3 was begun after run');
    expect(await json(3, 'drift')).toMatchObject({ restored_since: 3 });
    await story.expectRun(0, 'sync', '--quiet');
    expect(await json(0, 'status')).toMatchObject({ sources: [{ restored_since: null }] });
  });
});
