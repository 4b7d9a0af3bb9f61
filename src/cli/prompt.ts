/** Questions on a terminal. The one door to @clack/prompts. */
import { Readable } from 'node:stream';
import { confirm, isCancel, note, password, select, text } from '@clack/prompts';
import type { CommandContext } from './context.ts';

type Asking = Pick<CommandContext, 'stderr' | 'signal'> & Partial<Pick<CommandContext, 'stdin'>>;

/** The options of all questions: they are printed on stderr, and end with the command. */
function common(context: Asking, message: string, given: Readable | undefined) {
  const input = given ?? (context.stdin instanceof Readable ? context.stdin : undefined);
  return {
    message,
    output: context.stderr,
    signal: context.signal,
    ...(input === undefined ? {} : { input }),
  };
}

/**
 * Asks yes or no on stderr, where no is the default.
 * @returns false for no; null if the user left the question (Ctrl-C, Escape) or the command was stopped
 */
export async function askYesNo(
  context: Asking,
  question: string,
  answers: { readonly yes: string; readonly no: string },
  /** Where the keys come from; by default the command's stdin. */
  input?: Readable,
): Promise<boolean | null> {
  const answer = await confirm({
    ...common(context, question, input),
    active: answers.yes,
    inactive: answers.no,
    initialValue: false,
  });
  return isCancel(answer) ? null : answer;
}

/** Returns what is wrong with an answer, in one line; undefined for a valid answer. */
export type Check = (answer: string) => string | undefined;

/**
 * Asks for a line of text; Enter alone takes `proposal`.
 * @returns the answer, trimmed; null if the user left the question
 */
export async function askText(
  context: Asking,
  question: string,
  { proposal = '', check }: { readonly proposal?: string; readonly check?: Check },
  input?: Readable,
): Promise<string | null> {
  const answer = await text({
    ...common(context, question, input),
    ...(proposal === '' ? {} : { placeholder: proposal, defaultValue: proposal }),
    validate: (value) => check?.((value ?? '').trim() || proposal),
  });
  return isCancel(answer) ? null : answer.trim() || proposal;
}

/**
 * Asks for a secret, whose characters are masked.
 * @returns the answer, trimmed; null if the user left the question
 */
export async function askSecret(
  context: Asking,
  question: string,
  check: Check,
  input?: Readable,
): Promise<string | null> {
  const answer = await password({
    ...common(context, question, input),
    clearOnError: true,
    validate: (value) => check((value ?? '').trim()),
  });
  return isCancel(answer) ? null : answer.trim();
}

interface Choice<T extends string> {
  readonly value: T;
  readonly label: string;
  readonly hint?: string;
}

/**
 * Asks to choose one; at first, the first one is selected. Text, such as a key pasted here by mistake, chooses nothing, and
 * neither does the Enter after it.
 * @returns null if the user left the question
 */
export async function askChoice<T extends string>(
  context: Asking,
  question: string,
  choices: readonly Choice<T>[],
  input?: Readable,
): Promise<T | null> {
  const asking = common(context, question, input);
  let [hasText, isTextRefused] = [false, false];
  // Handles the key before select(), for which h, j, k and l move the selection.
  const refuseText = (typed: string | undefined, key: { name?: string | undefined }): void => {
    const isText = typed !== undefined && /^[^\p{Cc}]/u.test(typed);
    isTextRefused = isText || (hasText && key.name === 'return');
    hasText = isText || (hasText && !ENDS_TEXT.has(key.name ?? ''));
    if (isTextRefused) key.name = undefined;
  };
  asking.input?.on('keypress', refuseText);
  try {
    const answer: unknown = await select<string>({
      ...asking,
      get message() {
        return isTextRefused ? `${question}\n${NOT_TYPED}` : question;
      },
      options: choices.map(({ value, label, hint }) => ({
        value,
        label,
        ...(hint === undefined ? {} : { hint }),
      })),
    });
    return choices.find(({ value }) => value === answer)?.value ?? null;
  } finally {
    asking.input?.off('keypress', refuseText);
  }
}

const ENDS_TEXT: ReadonlySet<string> = new Set(['return', 'up', 'down', 'left', 'right']);
const NOT_TYPED = 'Nothing can be typed or pasted here: choose with the arrow keys, then press Enter.';

/** Shows lines between two questions. */
export function showNote({ stderr }: Asking, title: string, lines: readonly string[]): void {
  note(lines.join('\n'), title, { output: stderr, format: (line) => line });
}
