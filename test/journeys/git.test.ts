import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { hasOpenssl, selfSigned } from '../faults/certificate.ts';
import { environment, mirrorOnce, nextSecond, scratch, tidemark } from './harness.ts';
import type { Ended } from './command-line.ts';
import { ORGANIZATION, Story } from './restore-story.ts';
import { FakeService, ORG, forbidden } from './service.ts';

const SECRET = 'clear-secret-of-monday';
const HOOK_RECORD = {
  id: 5,
  name: 'Hook',
  config: { api_key: SECRET, batch: 500 },
  latest_tag: '1.0',
};
const INVITE = '0190bbbb-0000-7000-8000-000000000007';

/** Git as a person uses it, apart from the settings of this machine. */
const git = (directory: string, ...args: string[]): string => gitReading('', directory, args);

function gitReading(input: string, directory: string, args: readonly string[]): string {
  return execFileSync('git', args, {
    cwd: directory,
    encoding: 'utf8',
    input,
    stdio: 'pipe',
    env: {
      PATH: process.env['PATH'],
      HOME: directory,
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_AUTHOR_NAME: 'Person',
      GIT_AUTHOR_EMAIL: 'person@example.com',
      GIT_COMMITTER_NAME: 'Person',
      GIT_COMMITTER_EMAIL: 'person@example.com',
    },
  }).trim();
}

/** The commit of `main`, empty where there is none: read from the files, since a program started for it costs more than the rest. */
function headOf(gitDirectory: string): string {
  const loose = join(gitDirectory, 'refs/heads/main');
  if (existsSync(loose)) return readFileSync(loose, 'utf8').trim();
  const packed = join(gitDirectory, 'packed-refs');
  if (!existsSync(packed)) return '';
  return /^(\w+) refs\/heads\/main$/m.exec(readFileSync(packed, 'utf8'))?.[1] ?? '';
}

/** A service with two domains, a role and an invite, a mirror of it, and a repository to push to. */
class GitStory {
  readonly service: FakeService;
  readonly directory = scratch();
  readonly bare = join(this.directory, 'remote.git');
  readonly clone = join(this.directory, 'clone');
  env: Record<string, string>;

  private constructor(service: FakeService, more: Readonly<Record<string, string>>) {
    this.service = service;
    mkdirSync(this.bare);
    git(this.bare, 'init', '--quiet', '--bare', '--initial-branch=main');
    this.env = environment(service.url, this.directory, {
      HOME: this.directory,
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      TIDEMARK_GIT_DIRECTORY: this.clone,
      TIDEMARK_GIT_REPOSITORY: this.bare,
      TIDEMARK_GIT_PUSH: 'true',
      TIDEMARK_GIT_AUTHOR: 'Tidemark <tidemark@example.com>',
      ...more,
    });
  }

  static async start(more: Readonly<Record<string, string>> = {}): Promise<GitStory> {
    const service = await FakeService.start();
    service.set('domains', [
      { id: 'd1', domain: 'one.example' },
      { id: 'd2', domain: 'two.example' },
    ]);
    service.set('roles', [{ id: 'r1', name: 'Readers' }]);
    service.lists.set(`/api/organizations/${ORG}/roles/r1/role_memberships/`, []);
    service.set('invites', [{ id: INVITE, target_email: 'new@example.com' }]);
    service.set('pipeline_destinations', [HOOK_RECORD]);
    const story = new GitStory(service, more);
    await mirrorOnce('git', join(story.directory, 'mirror.db'), async () => {
      await story.ok('sync', '--quiet');
    });
    return story;
  }

  run(...args: string[]): Promise<Ended> {
    return tidemark(args, { env: this.env, cwd: this.directory });
  }

  async ok(...args: string[]): Promise<string> {
    const ended = await this.run(...args);
    expect(ended.code, ended.stdout + ended.stderr).toBe(0);
    return ended.stdout;
  }

  /** What is in the way, as one line on stderr; nothing is committed or pushed. `about` names it where a test fails. */
  async refused(reason: RegExp, about = 'git'): Promise<string> {
    const [remote, local] = [this.remoteHead(), this.localHead()];
    const ended = await this.run('git');
    expect(ended.code, `${about}: ${ended.stdout}${ended.stderr}`).toBe(1);
    expect(ended.stdout, about).toBe('');
    const [line = '', hint = '', ...more] = ended.stderr.trimEnd().split('\n');
    expect(line, about).toMatch(reason);
    expect(hint, about).toMatch(/^ {2}→ /);
    expect(more, about).toEqual([]);
    expect([this.remoteHead(), this.localHead()], about).toEqual([remote, local]);
    return ended.stderr;
  }

  remoteHead(): string {
    return headOf(this.bare);
  }

  localHead(): string {
    return headOf(join(this.clone, '.git'));
  }

  rename(name: string): void {
    this.service.set('roles', [{ id: 'r1', name }]);
  }

  /** A commit of a person, on top of what is at the remote, as a push from another clone leaves it. */
  pushFromElsewhere(name: string, text: string): void {
    const data = (said: string): string => `data ${Buffer.byteLength(said)}\n${said}\n`;
    const commit = `commit refs/heads/main\ncommitter Person <person@example.com> now\n${data('by a person')}`;
    const files = `from refs/heads/main^0\nM 100644 inline ${name}\n${data(text)}`;
    gitReading(commit + files, this.bare, ['fast-import', '--quiet', '--date-format=now']);
  }
}

const D1 = join('default', 'domains', `organization-${ORG}`, 'd1.yaml');
const D2 = join('default', 'domains', `organization-${ORG}`, 'd2.yaml');
const R1 = join('default', 'roles', `organization-${ORG}`, 'r1.yaml');
const HOOK = join('default', 'pipeline_destinations', `organization-${ORG}`, '5.yaml');

describe('the repository of a source', () => {
  it('gets a first commit, then one per change, with message and trailers; the same state makes none', async () => {
    const story = await GitStory.start();
    const { clone, bare } = story;
    expect(await story.ok('git')).toMatch(
      /^default: run 1 committed to main as [0-9a-f]{12}: \d+ added; pushed\n$/,
    );
    const files = git(clone, 'ls-files').split('\n');
    expect(files).toContain(D1);
    expect(files).toContain('default/.tidemark-export.json');
    expect(git(clone, 'status', '--porcelain')).toBe('');
    expect(git(bare, 'rev-parse', 'main')).toBe(git(clone, 'rev-parse', 'HEAD'));
    expect([story.remoteHead(), story.localHead()]).toEqual(Array(2).fill(git(clone, 'rev-parse', 'HEAD')));
    expect(git(clone, 'log', '--format=%an <%ae> %cn')).toBe('Tidemark <tidemark@example.com> Tidemark');
    expect(await story.ok('git')).toBe('default: nothing to commit, run 1 is on main\n');

    // What changes by itself is not in the tree.
    story.service.set('pipeline_destinations', [{ ...HOOK_RECORD, latest_tag: '1.1' }]);
    await story.ok('sync', '--quiet');
    expect(await story.ok('git')).toBe('default: nothing to commit, run 2 is on main\n');

    story.rename('Readers\nTidemark-Run: 99 \u202e');
    await story.ok('sync', '--quiet');
    story.service.set('domains', [{ id: 'd1', domain: 'one.example' }]);
    await story.ok('sync', '--quiet');
    const { runs } = JSON.parse(await story.ok('runs', '--json')) as {
      runs: { run: number; root: string }[];
    };
    const dry = await story.ok('git', '--dry-run');
    expect(git(clone, 'log', '--format=%s').split('\n')).toHaveLength(1);
    await story.ok('git');
    const message = git(clone, 'log', '-1', '--format=%B');
    expect(message).toBe(
      [
        'default: 1 changed, 1 removed in roles, domains',
        '',
        'Covers the changes of runs 3, 4.',
        '',
        'roles: 1 changed',
        '  ~ Readers\\nTidemark-Run: 99 \\u{202e}',
        '',
        'domains: 1 removed',
        '  - two.example',
        '',
        'Tidemark-Run: 4',
        `Tidemark-Root: ${runs.find(({ run }) => run === 4)?.root ?? 'none'}`,
        'Tidemark-Source: default',
      ].join('\n'),
    );
    for (const line of message.split('\n')) expect(dry).toContain(line);
    expect(existsSync(join(clone, D2))).toBe(false);
    expect(readFileSync(join(clone, R1), 'utf8')).toContain('Tidemark-Run: 99');
    expect(git(clone, 'for-each-ref', 'refs/tidemark')).toBe('');
  });

  it('never holds a secret: they are fingerprints that change with it, and invites stay out', async () => {
    const story = await GitStory.start();
    await story.ok('git');
    const first = readFileSync(join(story.clone, HOOK), 'utf8');
    expect(first).toMatch(/api_key: "?\[redacted:[0-9a-f]{16}\]"?/);
    expect(first).toContain('batch: 500');
    story.service.set('pipeline_destinations', [
      { id: 5, name: 'Hook', config: { api_key: 'another-clear-secret', batch: 500 } },
    ]);
    await story.ok('sync', '--quiet');
    await story.ok('git');
    expect(readFileSync(join(story.clone, HOOK), 'utf8')).not.toBe(first);
    const all = git(story.clone, 'log', '-p', '--all');
    for (const secret of [SECRET, 'another-clear-secret', INVITE, 'new@example.com'])
      expect(all).not.toContain(secret);

    const [key, token] = ['ph"key\\of-some-length', 'a\\token"of&some-length'];
    story.env = { ...story.env, TIDEMARK_API_KEY: key, TIDEMARK_HTTP_TOKEN: token };
    for (const held of [
      key,
      JSON.stringify({ a: key }),
      `is ${token}`,
      JSON.stringify(JSON.stringify(token)),
      `https://x.example/${encodeURIComponent(token)}`,
      Buffer.from(`u:${token}`).toString('base64'),
    ]) {
      story.rename(held);
      await story.ok('sync', '--quiet');
      await story.refused(/roles "r1" holds a secret of the configuration: nothing is committed/, held);
    }

    const refused = await tidemark(['git'], { env: { ...story.env, TIDEMARK_GIT_INCLUDE: 'invites' } });
    expect(refused.code).toBe(4);
    expect(refused.stderr).toContain('invites cannot be committed');
  });

  it('catches up after a refused push: one commit covers what was missed', async () => {
    const story = await GitStory.start();
    await story.ok('git');
    const hook = join(story.bare, 'hooks', 'pre-receive');
    mkdirSync(join(story.bare, 'hooks'), { recursive: true });
    writeFileSync(hook, '#!/bin/sh\necho no such push\nexit 1\n', { mode: 0o755 });
    story.rename('Two');
    await story.ok('sync', '--quiet');
    await story.refused(/the push to origin\/main was rejected: .*pre-receive hook declined/);
    story.rename('Three');
    await story.ok('sync', '--quiet');
    rmSync(hook);
    await story.ok('git');
    expect(git(story.clone, 'log', '-1', '--format=%B')).toContain('Covers the changes of runs 2, 3.');
    expect(story.remoteHead()).toBe(story.localHead());
  });

  it('takes over what others pushed, and touches nothing outside of its path', async () => {
    const story = await GitStory.start();
    await story.ok('git');
    story.pushFromElsewhere('README.md', 'ours\n');
    story.rename('Two');
    await story.ok('sync', '--quiet');
    // Somebody's own work in the same clone.
    writeFileSync(join(story.clone, 'notes.txt'), 'mine');
    await story.ok('git');
    expect(git(story.clone, 'log', '--format=%an').split('\n')).toEqual(['Tidemark', 'Person', 'Tidemark']);
    expect(readFileSync(join(story.clone, 'README.md'), 'utf8')).toBe('ours\n');
    expect(git(story.clone, 'status', '--porcelain')).toBe('?? notes.txt');
    expect(
      git(story.clone, 'show', '--name-only', '--format=')
        .split('\n')
        .every((name) => name.startsWith('default/')),
    ).toBe(true);
  });

  it('leaves files alone that somebody committed among its own, and says so', async () => {
    const story = await GitStory.start();
    await story.ok('git');
    story.pushFromElsewhere('default/domains/notes.yaml', 'not: ours\n');
    story.pushFromElsewhere('default/OWNERS', 'me\n');
    story.rename('Two');
    await story.ok('sync', '--quiet');
    const ended = await story.run('git');
    expect(ended.code).toBe(0);
    expect(ended.stderr).toBe(
      'tidemark: default: left alone, since Tidemark did not write it: default/domains/notes.yaml\n',
    );
    expect(git(story.clone, 'ls-files')).toContain('default/OWNERS');
  });

  interface Obstacle {
    readonly name: string;
    readonly put: (story: GitStory) => void;
    readonly reason: RegExp;
    readonly remove: (story: GitStory) => void;
  }

  const obstacles: readonly Obstacle[] = [
    {
      name: 'a changed file',
      put: ({ clone }) => writeFileSync(join(clone, R1), 'edited'),
      reason: /the working tree of .* is not clean: default\/roles.*was changed/,
      remove: ({ clone }) => void git(clone, 'checkout', '--', '.'),
    },
    {
      name: 'a file that is not committed',
      put: ({ clone }) => writeFileSync(join(clone, 'default', 'roles', 'x.yaml'), 'x'),
      reason: /is not clean: default\/roles\/x.yaml is not committed/,
      remove: ({ clone }) => rmSync(join(clone, 'default', 'roles', 'x.yaml')),
    },
    {
      name: 'a locked index',
      put: ({ clone }) => writeFileSync(join(clone, '.git', 'index.lock'), ''),
      reason: /the index of .* is locked by another git process/,
      remove: ({ clone }) => rmSync(join(clone, '.git', 'index.lock')),
    },
    {
      name: 'a detached head',
      put: ({ clone }) => void git(clone, 'checkout', '--quiet', '--detach'),
      reason: /no branch is checked out/,
      remove: ({ clone }) => void git(clone, 'checkout', '--quiet', 'main'),
    },
    {
      name: 'another branch',
      put: ({ clone }) => void git(clone, 'checkout', '--quiet', '-b', 'work'),
      reason: /has the branch work checked out, not main/,
      remove: ({ clone }) => void git(clone, 'checkout', '--quiet', 'main'),
    },
    {
      name: 'a remote that has moved away',
      put: ({ bare }) => renameSync(bare, `${bare}.moved`),
      reason: /the remote could not be used: .*does not (?:exist|appear to be a git repository)/,
      remove: ({ bare }) => renameSync(`${bare}.moved`, bare),
    },
    {
      name: 'another origin than the configured one',
      put: ({ clone }) =>
        void git(clone, 'remote', 'set-url', 'origin', 'https://user:pass-word@git.example/x.git'),
      reason: /the origin of .* is https:\/\/user:\[secret\]@git.example\/x.git, and git.repository is/,
      remove: ({ clone, bare }) => void git(clone, 'remote', 'set-url', 'origin', bare),
    },
    {
      name: 'a commit of a person that is not pushed',
      put: ({ clone }) => void git(clone, 'commit', '--quiet', '--allow-empty', '-m', 'by a person'),
      reason: /1 commit of main that Tidemark did not make is not pushed/,
      remove: ({ clone }) => void git(clone, 'reset', '--quiet', '--hard', 'origin/main'),
    },
    {
      name: 'branches that diverged',
      put: (story) => {
        git(story.clone, 'commit', '--quiet', '--allow-empty', '-m', 'by a person');
        story.pushFromElsewhere('README.md', 'ours\n');
      },
      reason: /main and origin\/main have diverged/,
      remove: ({ clone }) => void git(clone, 'reset', '--quiet', '--hard', 'origin/main'),
    },
  ];

  it('tells what is in the way in one line, whatever it is, and nothing is lost', async () => {
    const story = await GitStory.start();
    await story.ok('git');
    story.rename('Two');
    await story.ok('sync', '--quiet');
    for (const { name, put, reason, remove } of obstacles) {
      put(story);
      const said = await story.refused(reason, name);
      expect(said, name).not.toContain('pass-word');
      remove(story);
    }
    await story.ok('git');
    expect(git(story.clone, 'log', '-1', '--format=%s')).toBe('default: 1 changed in roles');
    expect(story.remoteHead()).toBe(story.localHead());
  });

  it('needs git, and somebody whose commits they are', async () => {
    const story = await GitStory.start();
    story.env = { ...story.env, TIDEMARK_GIT_AUTHOR: '' };
    await story.refused(/git does not know whose commits these are/);
    story.env = { ...story.env, PATH: join(story.directory, 'nothing') };
    await story.refused(/git is not installed, or not on the PATH/);
  });

  it('does not commit over an export with secrets in clear, nor over another source', async () => {
    const story = await GitStory.start({ TIDEMARK_GIT_PUSH: 'false' });
    git(story.directory, 'clone', '--quiet', story.bare, story.clone);
    git(story.clone, 'checkout', '--quiet', '-B', 'main');
    await story.ok('export', '--format', 'yaml', '--output', join(story.clone, 'default'));
    git(story.clone, 'add', '.');
    git(story.clone, 'commit', '--quiet', '-m', 'by a person');
    await story.refused(/was written by `tidemark export`, which does not replace secrets/);
    git(story.clone, 'rm', '--quiet', '-r', '.');
    git(story.clone, 'commit', '--quiet', '-m', 'away with it');
    await story.ok('git');
    const name = join(story.clone, 'default', '.tidemark-export.json');
    writeFileSync(name, readFileSync(name, 'utf8').replace('"source": "default"', '"source": "other"'));
    git(story.clone, 'commit', '--quiet', '-am', 'renamed');
    await story.refused(/belongs to the source "other"/);
    expect(story.remoteHead()).toBe('');
  });

  it('commits at the top of a clone without a remote, the kinds that are chosen', async () => {
    const story = await GitStory.start({
      TIDEMARK_GIT_PUSH: 'false',
      TIDEMARK_GIT_REPOSITORY: '',
      TIDEMARK_GIT_PATH: '.',
      TIDEMARK_GIT_INCLUDE: 'roles,domains',
    });
    await story.refused(/there is no clone in/);
    git(story.directory, 'init', '--quiet', '--initial-branch=main', story.clone);
    await story.ok('git');
    expect(readdirSync(story.clone).sort()).toEqual(['.git', '.tidemark-export.json', 'domains', 'roles']);
    story.env = { ...story.env, TIDEMARK_GIT_INCLUDE: 'roles' };
    await story.ok('git');
    expect(git(story.clone, 'log', '-1', '--format=%s')).toBe('default: 2 no longer included in domains');
  });

  it('says of a list that no run could read that it is not in it, also of one that leads to the chosen kinds', async () => {
    const service = await FakeService.start();
    service.quirks.push(
      ({ path }, response) => path.endsWith('/roles/') && forbidden(response, 'organization:read'),
    );
    const directory = scratch();
    const env = environment(service.url, directory, {
      ...localGit(directory),
      TIDEMARK_GIT_PATH: '.',
      TIDEMARK_GIT_INCLUDE: 'role_memberships,domains',
    });
    await tidemark(['sync', '--quiet'], { env, cwd: directory });
    const ended = await tidemark(['git'], { env, cwd: directory });
    expect(ended.code, ended.stdout + ended.stderr).toBe(0);
    const manifest = readFileSync(join(directory, 'clone', '.tidemark-export.json'), 'utf8');
    expect(JSON.parse(manifest)).toMatchObject({
      stale: [
        {
          kind: 'roles',
          scopes: [{ organization_id: ORG }],
          last_complete: null,
          reason: expect.stringMatching(/^denied: /) as string,
        },
      ],
    });
  });
});

/** The settings of git for a mirror in `directory`, without a remote. */
function localGit(directory: string): Record<string, string> {
  const clone = join(directory, 'clone');
  mkdirSync(clone);
  git(clone, 'init', '--quiet', '--initial-branch=main');
  return {
    HOME: directory,
    TIDEMARK_GIT_DIRECTORY: clone,
    TIDEMARK_GIT_AUTHOR: 'Tidemark <tidemark@example.com>',
  };
}

describe('a commit as a state', () => {
  it('is compared and restored, with the secrets that the mirror knows from then', async () => {
    const story = await Story.start();
    Object.assign(story.env, localGit(story.directory));
    const clone = join(story.directory, 'clone');
    const [component] = await story.list('pipeline_destinations');
    const path = `${ORGANIZATION}pipeline_destinations/${String(component?.['id'])}/`;
    const settings = (secret: string, batch: number): object => ({
      auth: { api_key: secret },
      batch,
      jobs: { [`https://u:${SECRET}@h.example/`]: { a: 1 } },
    });
    await story.call('PATCH', path, { config_schema: settings(SECRET, 500) });
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(0, 'git');
    await story.expectRun(0, 'diff', 'run:2', 'file:clone/default');
    await story.expectRun(0, 'diff', 'file:clone/default', 'live');
    await story.call('PATCH', path, { config_schema: settings('another-clear-secret', 9) });
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(0, 'git');
    git(clone, 'worktree', 'add', '--quiet', '--detach', join(story.directory, 'then'), 'HEAD~1');

    const diff = await story.expectRun(2, 'diff', 'file:then/default', 'latest', '--json');
    const { changes } = JSON.parse(diff.stdout) as { changes: { fields: { path: string }[] }[] };
    expect(changes.map(({ fields }) => fields.map((field) => field.path))).toEqual([
      ['/config_schema/auth/api_key', '/config_schema/batch'],
    ]);
    expect(diff.stdout).not.toContain(SECRET);
    await story.applied(0, 'restore', 'file:then/default', '--apply');
    expect((await story.call('GET', path))['config_schema']).toEqual(settings(SECRET, 500));
    expect(git(clone, 'log', '-p', '--all')).not.toContain(SECRET);

    // Another mirror: its key made other fingerprints.
    story.env['TIDEMARK_MIRROR'] = join(story.directory, 'other.db');
    await story.expectRun(0, 'sync', '--quiet');
    const foreign = await story.expectRun(0, 'diff', 'file:then/default', 'latest');
    expect(foreign.stderr).toMatch(
      /\d+ secrets of file:then\/default are fingerprints by the key of another mirror: not compared/,
    );
    // Without any mirror, a secret that would have to be sent has to come from the configuration.
    await story.call('PATCH', path, { config_schema: settings(SECRET, 7) });
    story.env['TIDEMARK_MIRROR'] = join(story.directory, 'none.db');
    const blocked = await story.plan(3, 'file:then/default', '--kind', 'pipeline_destinations');
    expect(blocked.steps).toMatchObject([{ action: 'blocked' }]);
    expect(JSON.stringify(blocked.steps[0])).toContain('"/config_schema/auth/api_key"');
    expect(blocked.steps[0]?.reason).toContain('the mirror never stored the name of /config_schema/jobs/');
  });
});

describe('the daemon', () => {
  it('commits after a run with changes, reports what is in the way once, and catches up', async () => {
    const story = await GitStory.start({
      TIDEMARK_SCHEDULES_SYNC_CRON: '* * * * * *',
      TIDEMARK_SCHEDULES_SYNC_JITTER: '0s',
      TIDEMARK_LOG_LEVEL: 'warn',
    });
    const sent = join(story.directory, 'notices');
    story.env['TIDEMARK_NOTICES'] = JSON.stringify([
      {
        name: 'file',
        type: 'command',
        on: ['job_failed', 'job_recovered'],
        command: ['/bin/sh', '-c', 'cat >> "$0"', sent],
      },
    ]);
    const once = async (): Promise<Ended> => {
      await nextSecond();
      return story.run('daemon', '--once', '--no-http');
    };
    const subjects = (): string[] => git(story.bare, 'log', '--format=%s', 'main').split('\n');
    expect((await once()).code).toBe(0);
    expect(subjects()).toHaveLength(1);
    writeFileSync(join(story.clone, '.git', 'index.lock'), '');
    for (const name of ['Two', 'Three']) {
      story.rename(name);
      expect((await once()).code).toBe(1);
    }
    expect(subjects()).toHaveLength(1);
    const events = (): string[] =>
      readFileSync(sent, 'utf8')
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { event: string }).event);
    expect(events()).toEqual(['job_failed']);
    expect(readFileSync(sent, 'utf8')).toContain('is locked by another git process');
    const status = await story.run('status');
    expect(status.stdout).toContain('is locked by another git process');
    rmSync(join(story.clone, '.git', 'index.lock'));
    expect((await once()).code).toBe(0);
    expect(events()).toEqual(['job_failed', 'job_recovered']);
    expect(subjects()).toEqual(['default: 1 changed in roles', expect.stringContaining('first commit')]);
    expect(git(story.bare, 'log', '-1', '--format=%B', 'main')).toMatch(
      /Covers the changes of runs \d+, \d+\./,
    );
  });
});

/** What serves a repository over HTTPS: git's own program for it, and openssl for a certificate. */
const HTTP_BACKEND = programs();

function programs(): string | null {
  if (!hasOpenssl) return null;
  try {
    const backend = join(
      execFileSync('git', ['--exec-path'], { encoding: 'utf8' }).trim(),
      'git-http-backend',
    );
    return existsSync(backend) ? backend : null;
  } catch {
    return null;
  }
}

/** The repositories below a directory, over HTTPS, for the holder of a token; and what was asked with which credentials. */
class GitServer {
  readonly seen: { readonly path: string; readonly authorization: string | undefined }[] = [];
  readonly certificate: string;
  /** Answers with a redirect to there. */
  redirect: string | null = null;
  /** Refuses, with what it got. */
  isRepeating = false;
  readonly #root: string;
  readonly #credentials: string;
  readonly #server: Server;

  constructor(root: string, credentials: string) {
    this.#root = root;
    this.#credentials = `Basic ${Buffer.from(credentials).toString('base64')}`;
    const { key, cert } = selfSigned(root, 'localhost', `certificate-${credentials.length}`);
    this.certificate = cert;
    this.#server = createServer(
      { key: readFileSync(key), cert: readFileSync(this.certificate) },
      (request, response) => this.#answer(request, response),
    );
    onTestFinished(() => {
      this.#server.closeAllConnections();
      this.#server.close();
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `https://localhost:${(this.#server.address() as AddressInfo).port}`;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'https://localhost');
    const { authorization } = request.headers;
    this.seen.push({ path: url.pathname, authorization });
    if (this.redirect !== null) {
      response.writeHead(302, { location: this.redirect + (request.url ?? '') }).end();
      return;
    }
    if (this.isRepeating) {
      const [, basic = ''] = authorization?.split(' ') ?? [];
      const token = Buffer.from(basic, 'base64').toString();
      response.writeHead(403, { 'content-type': 'text/plain' });
      response.end(`error: no access with ${token}, Authorization: ${authorization ?? ''}\n`);
      return;
    }
    if (authorization !== this.#credentials) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
      return;
    }
    const backend = spawn(HTTP_BACKEND ?? '', [], {
      env: {
        PATH: process.env['PATH'],
        GIT_PROJECT_ROOT: this.#root,
        GIT_HTTP_EXPORT_ALL: '1',
        // As of somebody who is logged in: only such a person may push.
        REMOTE_USER: 'tidemark',
        REQUEST_METHOD: request.method,
        PATH_INFO: url.pathname,
        QUERY_STRING: url.search.slice(1),
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        ...(request.headers['content-length'] === undefined
          ? {}
          : { CONTENT_LENGTH: request.headers['content-length'] }),
        ...(request.headers['content-encoding'] === undefined
          ? {}
          : { HTTP_CONTENT_ENCODING: request.headers['content-encoding'] }),
        ...(request.headers['git-protocol'] === undefined
          ? {}
          : { GIT_PROTOCOL: String(request.headers['git-protocol']) }),
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    request.pipe(backend.stdin);
    const chunks: Buffer[] = [];
    backend.stdout.on('data', (chunk: Buffer) => void chunks.push(chunk));
    backend.on('close', () => {
      const answer = Buffer.concat(chunks);
      const end = answer.indexOf('\r\n\r\n');
      const headers = answer
        .subarray(0, end)
        .toString('latin1')
        .split('\r\n')
        .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()] as const);
      const status = Number(
        headers.find(([name]) => name.toLowerCase() === 'status')?.[1].slice(0, 3) ?? 200,
      );
      response.writeHead(
        status,
        Object.fromEntries(headers.filter(([name]) => name.toLowerCase() !== 'status')),
      );
      response.end(answer.subarray(end + 4));
    });
  }
}

describe.skipIf(HTTP_BACKEND === null)(
  'a repository over HTTPS (skipped without openssl and git-http-backend)',
  () => {
    const TOKEN = 'ghp_token-of-the-repository';

    async function served(): Promise<{ story: GitStory; server: GitServer }> {
      const story = await GitStory.start();
      const server = new GitServer(story.directory, `x-access-token:${TOKEN}`);
      story.env = {
        ...story.env,
        TIDEMARK_GIT_REPOSITORY: `${await server.listen()}/remote.git`,
        TIDEMARK_GIT_TOKEN: TOKEN,
        GIT_SSL_CAINFO: server.certificate,
      };
      return { story, server };
    }

    it('is cloned, and pushed to, with the token, which is stored and shown nowhere', async () => {
      const { story, server } = await served();
      await story.ok('git');
      story.rename('Two');
      await story.ok('sync', '--quiet');
      const told = await story.ok('git', '--verbose');
      expect(story.remoteHead()).toBe(story.localHead());
      expect(git(story.bare, 'show', `main:${R1}`)).toContain('Two');
      expect(server.seen.some(({ path }) => path.endsWith('/git-receive-pack'))).toBe(true);
      expect(told).not.toContain(TOKEN);
      const config = readFileSync(join(story.clone, '.git', 'config'), 'utf8');
      for (const text of [TOKEN, Buffer.from(`x-access-token:${TOKEN}`).toString('base64')])
        expect(config).not.toContain(text);
    });

    it('says why the remote refused without the token that it repeats', async () => {
      const { story, server } = await served();
      server.isRepeating = true;
      const refused = await story.refused(/no access with \S*\[secret\]/);
      expect(refused).not.toContain(TOKEN);
      expect(refused).not.toContain(Buffer.from(`x-access-token:${TOKEN}`).toString('base64').slice(24, -4));
    });

    it('takes over what another person pushed', async () => {
      const { story } = await served();
      await story.ok('git');
      story.pushFromElsewhere('notes.md', 'by hand');
      story.rename('Two');
      await story.ok('sync', '--quiet');
      await story.ok('git');
      expect(story.remoteHead()).toBe(story.localHead());
      expect(git(story.bare, 'show', 'main:notes.md')).toBe('by hand');
    });

    it('with a wrong token, an unknown certificate or a redirect: one line, and the token goes nowhere else', async () => {
      const { story, server } = await served();
      await story.ok('git');
      story.rename('Two');
      await story.ok('sync', '--quiet');
      const right = story.env;
      story.env = { ...right, TIDEMARK_GIT_TOKEN: 'wrong-token-of-somebody' };
      expect(await story.refused(/could not read Username|Authentication failed|401/)).not.toContain(
        'wrong-token',
      );
      story.env = { ...right, GIT_SSL_CAINFO: '/dev/null' };
      await story.refused(/certificate/i);
      story.env = right;
      const other = new GitServer(story.directory, 'another');
      server.redirect = await other.listen();
      await story.refused(/302/);
      expect(other.seen).toEqual([]);
      server.redirect = null;
      await story.ok('git');
      expect(story.remoteHead()).toBe(story.localHead());
    });
  },
);
