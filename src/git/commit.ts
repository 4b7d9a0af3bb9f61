/** Commits the latest state of one source to its repository. If a commit fails, a later one contains its changes. */
import type { SourceConfig } from '../config/config.ts';
import type { GitConfig } from '../config/git.ts';
import type { Kind } from '../catalog/kinds.ts';
import { isKind } from '../catalog/catalog.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { isPublished } from '../state/runs.ts';
import { Clone, Moved, RUN_TRAILER, unfit } from './clone.ts';
import { commitMessage, type FileChange } from './message.ts';
import type { GitOptions } from './program.ts';
import { blobName, committedRecord, MANIFEST_NAME, RecordTree, requireOwnManifest } from './tree.ts';

interface CommitOptions extends GitOptions {
  readonly pid: number;
  /** Epoch milliseconds. */
  readonly now: number;
  /** True to change nothing, and not even fetch what others pushed. */
  readonly isDryRun: boolean;
}

export interface CommitOutcome {
  readonly source: string;
  /** The run whose state the repository has now. */
  readonly run: number;
  readonly branch: string;
  /** Null if there was nothing to commit, and for a dry run. */
  readonly commit: string | null;
  /** The message of that commit, or of the one that a dry run would make; null without either. */
  readonly message: string | null;
  readonly changes: readonly FileChange[];
  readonly isPushed: boolean;
  /** Files in the tree's folders that are not Tidemark's, and so were left alone. */
  readonly foreign: readonly string[];
}

/** If others pushed at the same time that often, the job fails. */
const ATTEMPTS = 3;

/** The options to run git with for a source. */
export function gitOptions(
  { token, repository }: GitConfig,
  base: Pick<GitOptions, 'env' | 'withheld' | 'signal'>,
): GitOptions {
  return {
    ...base,
    token: token === null || repository === null ? null : { value: token, address: repository },
  };
}

/** Makes the commit. @throws TidemarkError `git` or `timeout`; then nothing was committed, and nothing is lost */
export async function commitState(
  mirror: Mirror,
  source: SourceConfig & { readonly git: GitConfig },
  options: CommitOptions,
): Promise<CommitOutcome> {
  const { git } = source;
  if (git.push && git.tokenProblem !== null)
    throw new TidemarkError('git', git.tokenProblem, { hint: 'give git.token or git.tokenFile' });
  const tree = new RecordTree(mirror, source, git, options.withheld.secrets);
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await attemptCommit(mirror, source, tree, options);
    } catch (error) {
      if (!(error instanceof Moved)) throw error;
      if (attempt < ATTEMPTS) continue;
      throw unfit(
        `${git.branch} moved while the commit was made, ${ATTEMPTS} times in a row: ${error.message}`,
        'nothing was committed; the next run catches up',
      );
    }
  }
}

async function attemptCommit(
  mirror: Mirror,
  source: SourceConfig & { readonly git: GitConfig },
  tree: RecordTree,
  options: CommitOptions,
): Promise<CommitOutcome> {
  const { git } = source;
  const clone = await Clone.open(git, options);
  const remote = git.push && !options.isDryRun ? await clone.pull() : null;
  const { head } = clone;
  const plan = await planFiles(clone, head, source, tree);
  const { changes, foreign } = plan;
  const run = tree.resolvedState.run;
  const nothing = {
    ...{ source: source.name, run, branch: git.branch, changes, foreign },
    ...{ commit: null, message: null },
  };
  if (changes.length === 0 && !plan.isFirst) {
    if (options.isDryRun || !git.push || head === null || head === remote)
      return { ...nothing, isPushed: false };
    await clone.push(head);
    return { ...nothing, isPushed: true };
  }
  const message = commitMessage({
    source: source.name,
    run,
    root: mirror.runs.get(run)?.root ?? '',
    runs: runsSince(mirror, source, run, head === null ? null : await lastRunOf(clone, head, source.name)),
    changes,
    isFirst: plan.isFirst,
  });
  if (options.isDryRun) return { ...nothing, message, isPushed: false };
  // Only objects, without branch, index and files: if git is killed, its garbage collection removes them.
  const { stdout } = await clone.run(['fast-import', '--quiet', '--done', '--force', '--date-format=raw'], {
    input: importStream(clone, { head, message, plan, tree, options }, await personOf(clone, git)),
    failure: 'the commit could not be written',
  });
  const commit = stdout.trim();
  if (git.push) await clone.push(commit);
  await clone.advance(commit, git.push);
  return { ...nothing, commit, message, isPushed: git.push };
}

interface FilePlan {
  /** The path of the tree in the repository; ends with a slash, or is empty. */
  readonly top: string;
  readonly changes: readonly FileChange[];
  readonly manifest: string;
  readonly foreign: readonly string[];
  readonly isFirst: boolean;
}

/** Compares the state with the last commit, file by file, by the hashes of their blobs. */
async function planFiles(
  clone: Clone,
  head: string | null,
  source: SourceConfig & { readonly git: GitConfig },
  tree: RecordTree,
): Promise<FilePlan> {
  const { git } = source;
  const top = git.path === '' ? '' : `${git.path}/`;
  const committed = head === null ? new Map<string, string>() : await blobsBelow(clone, head, top);
  const manifest = committed.get(MANIFEST_NAME);
  const isFirst = manifest === undefined;
  if (manifest !== undefined)
    requireOwnManifest(
      (await blobTexts(clone, [manifest])).get(manifest) ?? '',
      source.name,
      `${top}${MANIFEST_NAME}`,
    );
  const old = new Map([...committed].filter(([path]) => kindOf(path) !== null));
  const [other] = old.keys();
  if (isFirst && other !== undefined)
    throw unfit(
      `${top}${other} is in the repository, and Tidemark did not write it`,
      'set git.path to a place of its own; files that are not Tidemark’s are left alone',
    );
  const folders = new Set([...old.keys()].flatMap((path) => kindOf(path) ?? []));
  const changes: FileChange[] = [];
  const kinds = new Set<Kind>();
  for (const { path, text, kind, name } of tree.files()) {
    kinds.add(kind);
    const before = old.get(path);
    old.delete(path);
    const change = before === undefined ? 'added' : 'changed';
    if (before !== blobName(text, clone.format)) changes.push({ path, kind, name, change });
  }
  const places = new Set([...folders, ...kinds]);
  await clone.requireClean([`${top}${MANIFEST_NAME}`, ...[...places].map((kind) => `${top}${kind}/`)]);
  const gone = await removals(clone, old, source, new Set(tree.kinds));
  return {
    top,
    changes: [...changes, ...gone.changes],
    manifest: tree.manifest(kinds),
    foreign: gone.foreign.map((path) => top + path),
    isFirst,
  };
}

/** Files that are committed but not in the state: those of records are removed, others left alone. */
async function removals(
  clone: Clone,
  left: ReadonlyMap<string, string>,
  source: SourceConfig,
  kinds: ReadonlySet<Kind>,
): Promise<{ readonly changes: readonly FileChange[]; readonly foreign: readonly string[] }> {
  const changes: FileChange[] = [];
  const foreign: string[] = [];
  const texts = await blobTexts(clone, [...left.values()]);
  for (const [path, blob] of left) {
    const record = path.endsWith('.yaml') ? committedRecord(path, texts.get(blob) ?? '', source) : null;
    if (record === null) foreign.push(path);
    else changes.push({ path, ...record, change: kinds.has(record.kind) ? 'removed' : 'left_out' });
  }
  return { changes, foreign };
}

/** The kind whose folder a path is in; null if it is in none. */
function kindOf(path: string): Kind | null {
  const [folder = '', ...rest] = path.split('/');
  return rest.length > 0 && isKind(folder) ? folder : null;
}

/** The hashes of the blobs below `top`, by path. */
async function blobsBelow(clone: Clone, head: string, top: string): Promise<Map<string, string>> {
  const { stdout } = await clone.run([
    'ls-tree',
    '-r',
    '-z',
    '--full-tree',
    head,
    ...(top === '' ? [] : ['--', top]),
  ]);
  const entries = stdout.split('\0').flatMap((entry): [string, string][] => {
    const [about = '', path = ''] = entry.split('\t', 2);
    return path.startsWith(top) && path !== '' ? [[path.slice(top.length), about.split(' ')[2] ?? '']] : [];
  });
  return new Map(entries);
}

async function blobTexts(clone: Clone, blobs: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>();
  if (blobs.length === 0) return texts;
  const { bytes } = await clone.run(['cat-file', '--batch'], { input: blobs.map((blob) => `${blob}\n`) });
  let at = 0;
  for (const blob of blobs) {
    const end = bytes.indexOf(0x0a, at);
    const size = Number(/ blob (\d+)$/.exec(bytes.toString('utf8', at, end))?.[1]);
    if (end === -1 || !Number.isSafeInteger(size))
      throw unfit(`${blob} could not be read`, 'run `git fsck` there');
    texts.set(blob, bytes.toString('utf8', end + 1, end + 1 + size));
    at = end + size + 2;
  }
  return texts;
}

/** The run of the last commit of this source; null if none is known. */
async function lastRunOf(clone: Clone, head: string, source: string): Promise<number | null> {
  const { stdout } = await clone.run([
    'log',
    '-1',
    `--grep=^Tidemark-Source: ${source}$`,
    `--format=%(trailers:key=${RUN_TRAILER},valueonly)`,
    head,
  ]);
  return /^\d+$/.test(stdout.trim()) ? Number(stdout) : null;
}

/** The runs of the source after the last committed one that changed something of the committed kinds. */
function runsSince(
  mirror: Mirror,
  { name, git }: SourceConfig & { readonly git: GitConfig },
  run: number,
  last: number | null,
): readonly number[] {
  if (last === null || last >= run) return [];
  const since = mirror.runs
    .list({ source: name })
    .filter((each) => each.run > last && each.run <= run && isPublished(each))
    .map((each) => each.run);
  return mirror.runs.changing({ runs: since, kinds: git.kinds }).toSorted((a, b) => a - b);
}

interface NewCommit {
  readonly head: string | null;
  readonly message: string;
  readonly plan: FilePlan;
  readonly tree: RecordTree;
  readonly options: CommitOptions;
}

/** The commit in the format of `git fast-import`, which then prints its hash. */
function* importStream(
  { format }: Clone,
  { head, message, plan, tree, options }: NewCommit,
  person: string,
): Generator<string> {
  const { top, changes, manifest } = plan;
  const ref = `refs/tidemark/${options.pid}`;
  yield `commit ${ref}\nmark :1\n`;
  yield `author ${person} ${seconds(Date.parse(tree.resolvedState.at))} +0000\n`;
  yield `committer ${person} ${seconds(options.now)} +0000\n`;
  yield data(`${message}\n`);
  if (head !== null) yield `from ${head}\n`;
  for (const { path, change } of changes)
    if (change === 'removed' || change === 'left_out') yield `D ${top}${path}\n`;
  const written = new Set(changes.map(({ path }) => path));
  for (const { path, text } of tree.files())
    if (written.has(path)) yield `M 100644 inline ${top}${path}\n${data(text)}`;
  yield `M 100644 inline ${top}${MANIFEST_NAME}\n${data(manifest)}`;
  // Resets the ref to nothing before git writes refs: it never exists.
  yield `\nreset ${ref}\nfrom ${'0'.repeat(format === 'sha256' ? 64 : 40)}\n`;
  yield '\nget-mark :1\ndone\n';
}

function data(text: string): string {
  return `data ${Buffer.byteLength(text, 'utf8')}\n${text}\n`;
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000);
}

/** `Name <mail>`. @throws TidemarkError `git` if neither the configuration nor git has a committer */
async function personOf(clone: Clone, { author }: GitConfig): Promise<string> {
  if (author !== null) return `${author.name} <${author.email}>`;
  const { code, stdout } = await clone.run(['var', 'GIT_COMMITTER_IDENT'], { answers: [128] });
  const person = /^(.*<[^<>\n]+>) \d+ [+-]\d+$/.exec(stdout.trim())?.[1];
  if (code === 0 && person !== undefined) return person;
  throw unfit(
    'git does not know whose commits these are',
    'set git.author to "Name <mail@example.com>", or user.name and user.email in the clone',
  );
}
