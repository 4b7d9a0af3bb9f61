/** `sources[].git`: the repository to which the records of a source are committed. */
import { existsSync } from 'node:fs';
import * as z from 'zod';
import { CATALOG } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { isIdSecret } from '../catalog/resource-definition.ts';
import { Secret } from '../core/secret.ts';
import { absolutePath, type Checking, fileSecret } from './checking.ts';
import { place } from './mistakes.ts';
import * as t from './schema.ts';
import { section } from './schema.ts';
import { valueAt, type Path } from './tree.ts';

export interface GitConfig {
  /** Absolute path of the working clone. */
  readonly directory: string;
  /** What to clone if the directory does not exist, and the required `origin`; null if only the clone is named. */
  readonly repository: string | null;
  readonly branch: string;
  /** Below the top of the repository, without slashes at its ends; empty for the top itself. */
  readonly path: string;
  readonly push: boolean;
  /** Null: git's own `user.name` and `user.email`. */
  readonly author: { readonly name: string; readonly email: string } | null;
  /** For an https:// repository; null if git has its credentials elsewhere. */
  readonly token: Secret | null;
  /** Why the configured token could not be read; null otherwise. */
  readonly tokenProblem: string | null;
  /** In the order of the catalog. */
  readonly kinds: readonly Kind[];
}

/** Recordings are many, and not configuration: they are committed only if `include` names them. */
const LEFT_OUT: ReadonlySet<Kind> = new Set(['session_recordings', 'recording_sharing']);

/** Kinds whose ids are secrets: they would be in the names of files. */
const SECRET_IDS: ReadonlySet<Kind> = new Set(CATALOG.filter(isIdSecret).map(({ kind }) => kind));

const AUTHOR = /^\s*([^<>\p{Cc}]*[^<>\p{Cc}\s])\s*<([^<>\p{Cc}\s]+)>\s*$/u;

/** A name of a branch that git accepts, without rarer forms (git-check-ref-format). */
const BRANCH = /^(?![-/.])(?!.*(?:\.\.|\/\/|\/\.|@\{|\.lock(?:\/|$)))[^\s~^:?*[\\\p{Cc}]+(?<![/.])$/u;

/** False for a path that leads out of the repository, or into git's own directory. */
function isPathInside(path: string): boolean {
  if (path === '.') return true;
  const segments = path.replaceAll(/^\/+|\/+$/g, '').split('/');
  return segments.every((each) => /^[\w%~.-][\w%~ .-]*$/.test(each) && !/^(?:\.|\.\.|\.git)$/i.test(each));
}

/** False for a URL with a password, too: git would store it in clear, and show it in its messages. */
function isRepository(address: string): boolean {
  if (address.startsWith('-') || /^\w+::/.test(address) || /[\p{Cc}\s]/u.test(address)) return false;
  return (URL.parse(address)?.password ?? '') === '';
}

export const GIT = section(
  'A repository that the records are committed to after each run that changed something, as one YAML file each, with secrets replaced by fingerprints (docs/git.md).',
  {
    directory: t.path.optional().meta({
      description:
        'Working clone to commit in. It is made from `repository` where it does not exist. Nothing is committed without this.',
      example: '/var/lib/tidemark/config-history',
    }),
    repository: z.string().trim().min(1).refine(isRepository).optional().meta({
      type: 'address',
      expected: 'an address for `git clone`, without a password: give that as git.token, or to git itself',
      description: 'What to clone, and to push to: a URL, `user@host:path`, or a path.',
      example: 'https://git.example.com/platform/config-history.git',
    }),
    branch: z.string().regex(BRANCH).prefault('main').meta({
      expected: 'the name of a branch',
      description: 'Branch to commit to. It has to be checked out in the clone.',
      example: 'main',
    }),
    path: z.string().refine(isPathInside).optional().meta({
      type: 'path',
      expected: 'a path inside the repository, such as tidemark/production, or `.` for its top',
      description:
        'Where in the repository the files are; nothing outside is touched. Default: the name of the source.',
      example: 'tidemark/production',
    }),
    push: z.boolean().prefault(false).meta({
      description:
        'Pushes each commit to the `origin` of the clone, and takes over what others pushed before.',
      example: true,
    }),
    author: z.string().regex(AUTHOR).optional().meta({
      expected: 'Name <mail@example.com>',
      description: 'Author of the commits. Default: the user.name and user.email of git.',
      example: 'Tidemark <tidemark@example.com>',
    }),
    token: t.secret.optional().meta({
      description:
        'Token for an https:// repository, sent with every request to it and stored nowhere. Give it by reference, as ${VAR}.',
      example: '${GIT_TOKEN}',
    }),
    tokenFile: t.path.optional().meta({
      description: 'File that holds the token; instead of token.',
      example: '/run/secrets/git',
    }),
    include: t
      .choices(KINDS, 'a kind')
      .optional()
      .meta({
        description: 'Commit these kinds only.',
        example: ['organizations', 'members', 'batch_exports'],
      }),
    exclude: t
      .choices(KINDS, 'a kind')
      .optional()
      .meta({
        description:
          'Commit all kinds but these. Recordings and their sharing are committed only if `include` names them; invites never, since their ids are secrets.',
        example: ['members'],
      }),
  },
);

/** The address; a path is made absolute, since git runs in another directory. */
function address(checking: Checking, at: Path, repository: string): string {
  return repository.includes(':') ? repository : absolutePath(checking, [...at, 'repository'], repository);
}

/** The section of the source at this path; null if nothing is committed. */
export function checkGit(
  checking: Checking,
  sourceAt: Path,
  source: string,
  parsed: z.output<typeof GIT>,
): GitConfig | null {
  const { tree, mistakes, warnings } = checking;
  const at: Path = [...sourceAt, 'git'];
  const given = valueAt(tree.root, at);
  const { directory, repository, include, exclude } = parsed;
  if (directory === undefined) {
    const isEmpty = Object.keys(given ?? {}).length === 0;
    if (!isEmpty && !mistakes.covers(tree, at))
      mistakes.add(tree, [...at, 'directory'], 'missing; expected the directory of a clone');
    return null;
  }
  if (include !== undefined && exclude !== undefined)
    mistakes.add(tree, [...at, 'exclude'], 'expected include or exclude, got both');
  const secret = include?.find((kind) => SECRET_IDS.has(kind));
  if (secret !== undefined)
    mistakes.add(
      tree,
      [...at, 'include'],
      `${secret} cannot be committed: their ids are secrets, and would be in the names of files`,
    );
  // Without the token, only pushing fails: a warning.
  const problems = mistakes.removeUnset(tree, [...at, 'token']);
  const token =
    fileSecret(checking, at, 'token', parsed.tokenFile, (line) => problems.push(line)) ?? parsed.token;
  warnings.push(...problems.map((line) => `${line}: nothing can be pushed`));
  if (token !== undefined && repository !== undefined && !/^https:\/\//i.test(repository))
    mistakes.add(tree, [...at, 'token'], 'is for an https:// repository only');
  const author = AUTHOR.exec(parsed.author ?? '');
  const path = parsed.path ?? source;
  const clone = absolutePath(checking, [...at, 'directory'], directory);
  if (repository === undefined && !existsSync(clone))
    warnings.push(
      `${place(tree, [...at, 'directory'])}there is no clone in ${clone}, and nothing is committed until there is: clone the repository there, or set git.repository`,
    );
  return {
    directory: clone,
    repository: repository === undefined ? null : address(checking, at, repository),
    branch: parsed.branch,
    path: path === '.' ? '' : path.replaceAll(/^\/+|\/+$/g, ''),
    push: parsed.push,
    author: author === null ? null : { name: author[1] ?? '', email: author[2] ?? '' },
    token: token === undefined ? null : new Secret(token),
    tokenProblem: problems[0] ?? null,
    kinds: KINDS.filter((kind) =>
      include === undefined
        ? !LEFT_OUT.has(kind) && !SECRET_IDS.has(kind) && exclude?.includes(kind) !== true
        : include.includes(kind),
    ),
  };
}
