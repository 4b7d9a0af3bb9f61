/** What may stand where the cursor is: commands, options, values, and whether files may. */
import { CATALOG } from '../../catalog/catalog.ts';
import type { CommandRow } from '../command-row.ts';
import type { Candidate, LocalQuestion } from './candidate.ts';
import { type Position, longFlag, positionOf } from './position.ts';
import { unquoted, withHome } from './shell-word.ts';
import { type ValueSort, valueSortOf } from './value-sort.ts';

interface Completion {
  readonly candidates: readonly Candidate[];
  /** Names of files or directories too, after `before` in the same word. */
  readonly paths: { readonly what: 'files' | 'directories'; readonly before: string } | null;
}

interface CompletionQuestion extends Omit<LocalQuestion, 'config' | 'sources'> {
  readonly words: readonly string[];
  /** True where the words still have their quotes. */
  readonly isQuoted: boolean;
}

/** Whatever cannot be read has nothing to say: at the keyboard an error text would stand in the middle of a command. */
export async function completionOf(
  question: CompletionQuestion,
  commands: readonly CommandRow[],
): Promise<Completion> {
  const words = question.isQuoted ? question.words.map(unquoted) : question.words;
  const position = positionOf(words, commands);
  const { value, before, typed } = position;
  const sort =
    value === null ? undefined : valueSortOf('flags' in value ? value.flags : value.name, value.values);
  const values =
    value?.choices === undefined
      ? await valuesOf(sort, position, question)
      : value.choices.map((choice) => ({ value: choice, description: '' }));
  return {
    candidates: [
      ...position.commands.map(({ name, description }) => ({ value: name, description })),
      ...position.options.map((option) => ({ value: longFlag(option), description: option.description })),
      ...values.map((each) => ({ ...each, value: before + each.value })),
    ].filter((each) => each.value.startsWith(before + typed) && isOneLine(each)),
    paths: pathsOf(sort, position),
  };
}

async function valuesOf(
  sort: ValueSort | undefined,
  { given }: Position,
  question: CompletionQuestion,
): Promise<Candidate[]> {
  switch (sort) {
    case undefined:
    case 'free':
    case 'file':
    case 'directory':
      return [];
    case 'kind':
      return CATALOG.map(({ kind, title }) => ({ value: kind, description: title.many }));
    case 'permission':
      return [...new Set(CATALOG.flatMap(({ permission }) => [permission.read, permission.write]))].map(
        (value) => ({
          value,
          description: '',
        }),
      );
    case 'copy':
      return [{ value: 'latest', description: 'the newest copy' }];
    default: {
      const config = given.get('--config')?.at(-1);
      const local = {
        ...question,
        config: config === undefined ? undefined : withHome(config, question.env['HOME']),
        sources: given.get('--source') ?? [],
      };
      return [...wordsOf(sort), ...(await known(sort, local))];
    }
  }
}

async function known(sort: ValueSort, question: LocalQuestion): Promise<Candidate[]> {
  try {
    const { localValues } = await import('./local-values.ts');
    return localValues(sort, question);
  } catch {
    // No configuration, a broken one, no mirror, one that is busy: there is nothing to complete from it.
    return [];
  }
}

/** References that need no look at anything. */
function wordsOf(sort: ValueSort): Candidate[] {
  const latest = { value: 'latest', description: 'as of the latest run' };
  const baseline = { value: 'baseline', description: 'the snapshot that drift is measured from' };
  const file = { value: 'file:', description: 'an export' };
  switch (sort) {
    case 'reference':
      return [latest, { value: 'live', description: 'the service now' }, baseline, file];
    case 'desired':
      return [latest, baseline, file];
    case 'point':
      return [latest, baseline];
    default:
      return [];
  }
}

function pathsOf(sort: ValueSort | undefined, { before, typed }: Position): Completion['paths'] {
  switch (sort) {
    case 'file':
    case 'copy':
    case 'profile':
      return { what: 'files', before };
    case 'directory':
      return { what: 'directories', before };
    case 'reference':
    case 'desired':
      return typed.startsWith('file:') ? { what: 'files', before: `${before}file:` } : null;
    default:
      return null;
  }
}

/** The answer to the shell has a line for each. */
function isOneLine({ value, description }: Candidate): boolean {
  return !/[\u0000-\u001f\u007f]/.test(value + description);
}
