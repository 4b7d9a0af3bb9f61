/** The message of a commit: what changed, in one line and by kind, and trailers with run, root hash and source. */
import type { Kind } from '../catalog/kinds.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { RUN_TRAILER } from './clone.ts';

export interface FileChange {
  readonly path: string;
  readonly kind: Kind;
  readonly name: string;
  /** `left_out`: the kind is no longer committed. */
  readonly change: 'added' | 'changed' | 'removed' | 'left_out';
}

interface CommitFacts {
  readonly source: string;
  readonly run: number;
  /** Hex. */
  readonly root: string;
  /** The runs since the last commit that changed something, including `run`. */
  readonly runs: readonly number[];
  readonly changes: readonly FileChange[];
  /** True if nothing of this source was committed before. */
  readonly isFirst: boolean;
}

const SUBJECT_CHARACTERS = 72;
const NAME_CHARACTERS = 120;
/** At most this many records are named; the rest is counted. */
const NAMED = 200;

const MARKS = { added: '+', changed: '~', removed: '-', left_out: '-' } as const;
const WORDS = [
  ['added', 'added'],
  ['changed', 'changed'],
  ['removed', 'removed'],
  ['left_out', 'no longer included'],
] as const;

/** The entire message. */
export function commitMessage(facts: CommitFacts): string {
  const { source, run, root, runs, changes, isFirst } = facts;
  const byKind = Map.groupBy(changes, ({ kind }) => kind);
  const kinds = [...byKind.keys()];
  const what = isFirst ? `first commit, ${plural(changes.length, 'record')}` : countsText(changes);
  const places = kinds.length > 3 ? `${kinds.length} kinds` : kinds.join(', ');
  const subject = [
    ...(kinds.length === 0 ? [] : [`${source}: ${what} in ${places}`]),
    `${source}: ${what}`,
    what,
  ].find((line) => line.length <= SUBJECT_CHARACTERS);
  let room = NAMED;
  const sections = [...byKind].map(([kind, own]) => {
    const named = own.slice(0, isFirst ? 0 : room);
    room -= named.length;
    const more = own.length - named.length;
    return [
      `${kind}: ${isFirst ? formatInteger(own.length) : countsText(own)}`,
      ...named.map(({ change, name }) => `  ${MARKS[change]} ${shown(name)}`),
      ...(more > 0 && !isFirst ? [`  and ${formatInteger(more)} more`] : []),
    ].join('\n');
  });
  const covered = runs.length > 1 && !isFirst ? [`Covers the changes of runs ${runs.join(', ')}.`] : [];
  return [
    subject ?? what.slice(0, SUBJECT_CHARACTERS),
    ...covered,
    ...sections,
    [`${RUN_TRAILER}: ${run}`, `Tidemark-Root: ${root}`, `Tidemark-Source: ${source}`].join('\n'),
  ].join('\n\n');
}

/** `2 added, 1 removed`. */
export function countsText(changes: readonly FileChange[]): string {
  return WORDS.flatMap(([change, word]) => {
    const found = changes.filter((each) => each.change === change).length;
    return found === 0 ? [] : [`${formatInteger(found)} ${word}`];
  }).join(', ');
}

function shown(name: string): string {
  const escaped = escapeControlCharacters(name);
  return escaped.length <= NAME_CHARACTERS
    ? escaped
    : `${escaped.slice(0, NAME_CHARACTERS - 1).toWellFormed()}…`;
}
