/** The working clone: checks that it can take a commit, pulls what others pushed, adds and pushes commits. Never forces anything. */
import { existsSync } from 'node:fs';
import { readdir, realpath, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { GitConfig } from '../config/git.ts';
import { maskedMessage } from '../config/known-secrets.ts';
import { systemCodeOf, TidemarkError } from '../core/errors.ts';
import { asFileError, makeDirectory, onFile } from '../core/file-errors.ts';
import { plural } from '../core/wording.ts';
import { gitIn, type GitOptions, type RunGit } from './program.ts';

/** The branch moved between reading and writing: another attempt may succeed. */
export class Moved extends Error {}

/** Files in git's directory that show that somebody is using the clone; the first is the lock of the index. */
const IN_USE = [
  'index.lock',
  'MERGE_HEAD',
  'CHERRY_PICK_HEAD',
  'REVERT_HEAD',
  'rebase-merge',
  'rebase-apply',
];

/** The trailer by which commits of Tidemark are recognized. */
export const RUN_TRAILER = 'Tidemark-Run';

/** The clone of one repository, as configured for a source. */
export class Clone {
  readonly #config: GitConfig;
  readonly #git: RunGit;
  #head: string | null = null;
  readonly format: 'sha1' | 'sha256';

  private constructor(config: GitConfig, git: RunGit, format: 'sha1' | 'sha256') {
    this.#config = config;
    this.#git = git;
    this.format = format;
  }

  /**
   * Opens the clone, or makes it if the configuration names the repository, and checks that nobody else is using it.
   * @throws TidemarkError `git` for anything that would prevent a commit
   */
  static async open(config: GitConfig, options: GitOptions & { readonly pid: number }): Promise<Clone> {
    const { directory } = config;
    if (!(await isFilled(directory))) await cloneInto(config, options);
    const git = gitIn(directory, options);
    const { stdout } = await git(
      [
        'rev-parse',
        '--show-toplevel',
        '--show-object-format',
        ...IN_USE.flatMap((name) => ['--git-path', name]),
      ],
      {
        failure: `${directory} is not a clone that can be used`,
        hint: 'clone the repository there, or set git.repository and name a directory that does not exist',
      },
    );
    const [top = '', format, ...inUse] = stdout.trimEnd().split('\n');
    if ((await realpath(top)) !== (await realpath(directory)))
      throw unfit(
        `${directory} is inside of the repository ${top}`,
        `set git.directory to ${top}, and git.path`,
      );
    const clone = new Clone(config, git, format === 'sha256' ? 'sha256' : 'sha1');
    await clone.#requireOrigin();
    await clone.#requireQuiet(inUse.map((path) => resolve(directory, path)));
    return clone;
  }

  get run(): RunGit {
    return this.#git;
  }

  /** The commit of the branch, as of `open` or `pull`; null before the first one. */
  get head(): string | null {
    return this.#head;
  }

  /**
   * Fast-forwards the branch to what others pushed.
   * @returns the commit of the branch at the remote; null if it has none
   * @throws TidemarkError `git` if the two have diverged, or if commits that are not Tidemark's would be pushed
   */
  async pull(): Promise<string | null> {
    const { branch, directory } = this.#config;
    const { code, stdout: listed } = await this.#git(
      ['ls-remote', '--exit-code', '--', 'origin', `refs/heads/${branch}`],
      { answers: [2], ...REMOTE },
    );
    if (code === 2) return null;
    const head = this.#head;
    if (head !== null && listed.startsWith(`${head}\t`)) return head;
    const tracking = `refs/remotes/origin/${branch}`;
    await this.#git(
      ['fetch', '--quiet', '--no-tags', '--', 'origin', `+refs/heads/${branch}:${tracking}`],
      REMOTE,
    );
    const remote = await this.#commitOf(tracking);
    if (remote === null || head === remote) return remote;
    if (head === null || (await this.#isAncestor(head, remote))) {
      await this.#git(['merge', '--quiet', '--ff-only', remote], {
        failure: `what others pushed to ${branch} could not be taken over`,
        hint: `make \`git pull --ff-only\` work in ${directory}; nothing was committed, and the next run catches up`,
      });
      this.#head = remote;
      return remote;
    }
    if (!(await this.#isAncestor(remote, head)))
      throw unfit(
        `${branch} and origin/${branch} have diverged`,
        `merge or rebase in ${directory} by hand; nothing was committed or pushed, and the next run catches up`,
      );
    const format = `--format=%(trailers:key=${RUN_TRAILER},valueonly,separator=%x2C)`;
    const { stdout } = await this.#git(['log', format, `${remote}..${head}`]);
    const foreign = stdout
      .trimEnd()
      .split('\n')
      .filter((line) => line === '').length;
    if (foreign > 0)
      throw unfit(
        `${plural(foreign, 'commit')} of ${branch} that Tidemark did not make ${foreign === 1 ? 'is' : 'are'} not pushed`,
        `push or remove ${foreign === 1 ? 'it' : 'them'} in ${directory}; the next run catches up`,
      );
    return remote;
  }

  /** Pushes a commit. @throws Moved if others pushed meanwhile; TidemarkError `git` if the remote refused it for another reason */
  async push(commit: string): Promise<void> {
    const { branch, token } = this.#config;
    const { code, stdout } = await this.#git(
      ['push', '--porcelain', '--no-follow-tags', '--', 'origin', `${commit}:refs/heads/${branch}`],
      { answers: [1], ...REMOTE },
    );
    if (code === 0) return;
    const reason = /^!\t[^\t]*\t(.*)$/m.exec(stdout)?.[1] ?? 'no reason was given';
    const refused = maskedMessage(reason, token === null ? [] : [token]);
    if (/fetch first|non-fast-forward/.test(refused)) throw new Moved(refused);
    throw unfit(
      `the push to origin/${branch} was rejected: ${refused.slice(0, 300)}`,
      'allow this push at the remote (protected branch, hook, right to write); nothing is lost, and the next run catches up',
    );
  }

  /** Fast-forwards the branch and the files to a commit. @throws Moved if the branch has moved meanwhile */
  async advance(commit: string, isPushed: boolean): Promise<void> {
    const { branch, directory } = this.#config;
    try {
      await this.#git(['merge', '--quiet', '--ff-only', commit], {
        failure: isPushed
          ? `the commit is pushed, but the files in ${directory} could not be brought up to date`
          : `the files in ${directory} could not be brought up to date, and nothing was committed`,
        hint: `make \`git status\` clean in ${directory}; the next run catches up`,
      });
    } catch (error) {
      const before = await this.#commitOf('HEAD');
      if (before !== null && !(await this.#isAncestor(before, commit))) throw new Moved(branch);
      throw error;
    }
  }

  /** @throws TidemarkError `git` if one of these files, or a file in one of these folders, differs from the last commit */
  async requireClean(names: readonly string[]): Promise<void> {
    const { directory } = this.#config;
    const places = names.map((name) => `:(top,literal)${name}`);
    const { stdout } = await this.#git([
      'status',
      '--porcelain=v1',
      '-z',
      '--untracked-files=all',
      '--',
      ...places,
    ]);
    const found = stdout.split('\0').filter((entry) => entry !== '');
    const [first] = found;
    if (first === undefined) return;
    const more = found.length === 1 ? '' : ` and ${found.length - 1} more`;
    throw unfit(
      `the working tree of ${directory} is not clean: ${first.slice(3)}${more} ${first.startsWith('??') ? 'is not committed' : 'was changed'}`,
      'commit, move or undo that: these files are written by Tidemark alone; nothing was committed, and the next run catches up',
    );
  }

  async #requireOrigin(): Promise<void> {
    const { repository, push, directory } = this.#config;
    const { code, stdout } = await this.#git(['config', '--get', 'remote.origin.url'], { answers: [1] });
    const origin = stdout.trim();
    if (code === 1 && push)
      throw unfit(
        `${directory} has no remote called origin`,
        `run \`git remote add origin URL\` there, or turn git.push off`,
      );
    if (
      repository === null ||
      code === 1 ||
      origin === repository ||
      resolve(directory, origin) === repository
    )
      return;
    throw unfit(
      `the origin of ${directory} is ${origin.replaceAll(/(:\/\/[^\s/:@]*:)[^\s/@]+@/g, '$1[secret]@')}, and git.repository is ${repository}`,
      `run \`git remote set-url origin ${repository}\` there, or correct git.repository`,
    );
  }

  /** @param paths those of `IN_USE` @throws TidemarkError if somebody else is using the clone, or another branch is checked out */
  async #requireQuiet(paths: readonly string[]): Promise<void> {
    const { branch, directory } = this.#config;
    const [lock, ...others] = paths.map((path) => existsSync(path));
    if (lock === true)
      throw unfit(
        `the index of ${directory} is locked by another git process`,
        `wait for it to end; if none is running, remove ${paths[0] ?? 'the lock'}`,
      );
    if (others.includes(true))
      throw unfit(
        `a merge or rebase is under way in ${directory}`,
        'finish or abort it; the next run catches up',
      );
    const ref = `refs/heads/${branch}`;
    const { stdout } = await this.#git(['for-each-ref', '--format=%(HEAD)%(refname) %(objectname)', ref]);
    const [place, commit = null] = stdout.trimEnd().split(' ');
    if (place === `*${ref}`) {
      this.#head = commit;
      return;
    }
    const { code, stdout: name } = await this.#git(['symbolic-ref', '--quiet', '--short', 'HEAD'], {
      answers: [1],
    });
    if (code === 1)
      throw unfit(
        `no branch is checked out in ${directory} (detached HEAD)`,
        `run \`git switch ${branch}\` there`,
      );
    if (name.trim() !== branch)
      throw unfit(
        `${directory} has the branch ${name.trim()} checked out, not ${branch}`,
        `run \`git switch ${branch}\` there, or set git.branch`,
      );
  }

  async #commitOf(name: string): Promise<string | null> {
    const { code, stdout } = await this.#git(['rev-parse', '--verify', '--quiet', `${name}^{commit}`], {
      answers: [1],
    });
    return code === 1 ? null : stdout.trim();
  }

  async #isAncestor(older: string, newer: string): Promise<boolean> {
    return (await this.#git(['merge-base', '--is-ancestor', older, newer], { answers: [1] })).code === 0;
  }
}

const REMOTE = {
  failure: 'the remote could not be used',
  hint: 'check that it is reachable and where it is (`git remote -v`), and its credentials (docs/git.md); nothing is lost, and the next run catches up',
};

/** An error of the code `git`. */
export function unfit(message: string, hint: string): TidemarkError {
  return new TidemarkError('git', message, { hint });
}

async function isFilled(directory: string): Promise<boolean> {
  try {
    return (await readdir(directory)).length > 0;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return false;
    throw asFileError(error, directory, 'listed');
  }
}

/** Clones under a temporary name first: an incomplete clone is never used. */
async function cloneInto(config: GitConfig, options: GitOptions & { readonly pid: number }): Promise<void> {
  const { directory, repository, branch } = config;
  if (repository === null)
    throw unfit(`there is no clone in ${directory}`, 'clone the repository there, or set git.repository');
  const parent = dirname(directory);
  const temporary = join(parent, `.${basename(directory)}.${options.pid}.tidemark-tmp`);
  makeDirectory(parent);
  try {
    await gitIn(parent, options)(
      ['clone', '--quiet', '--no-checkout', '--origin', 'origin', '--', repository, temporary],
      { failure: `${repository} could not be cloned`, hint: REMOTE.hint },
    );
    const git = gitIn(temporary, options);
    await git(['symbolic-ref', 'HEAD', `refs/heads/${branch}`]);
    const remote = `refs/remotes/origin/${branch}`;
    const { code } = await git(['rev-parse', '--verify', '--quiet', remote], { answers: [1] });
    if (code === 0) await git(['reset', '--quiet', '--hard', remote]);
    await onFile(directory, 'made', () => rename(temporary, directory));
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}
