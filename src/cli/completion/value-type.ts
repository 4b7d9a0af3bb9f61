/** What the value of an argument or an option is, as far as completion can help with it. Rows only: `--help` loads it. */

/** `free` is what only the user knows: a name to give, a number, a text. */
export type ValueType =
  | 'free'
  | 'kind'
  | 'permission'
  | 'profile'
  | 'source'
  | 'channel'
  | 'reference' // any state
  | 'desired' // any state but live
  | 'point' // a state that the mirror holds
  | 'run'
  | 'snapshot'
  | 'restore'
  | 'backup'
  | 'file'
  | 'directory';

/** Sorts by the word between the brackets of an option's flags or an argument's name; rows state the rest. */
const SORT_OF_PLACEHOLDER: Readonly<Record<string, ValueType>> = {
  kind: 'kind',
  ref: 'reference',
  from: 'reference',
  to: 'reference',
  run: 'run',
  restore: 'restore',
  file: 'file',
  plan: 'file',
  path: 'file',
  dir: 'directory',
  permission: 'permission',
  id: 'free',
  n: 'free',
  pointer: 'free',
  text: 'free',
  date: 'free',
  duration: 'free',
  share: 'free',
  percent: 'free',
  port: 'free',
  address: 'free',
  url: 'free',
  key: 'free',
};

/**
 * The sort of what `text` (`--kind <kind>`, `[from]`) takes; undefined if neither the row nor its placeholder names
 * one, and for a flag without a value.
 */
export function valueTypeOf(text: string, values: ValueType | undefined): ValueType | undefined {
  const placeholder = placeholderOf(text);
  return placeholder === undefined ? undefined : (values ?? SORT_OF_PLACEHOLDER[placeholder]);
}

/** `kind` of `--kind <kind>`, `channel` of `[channel...]`; undefined if there is none. */
function placeholderOf(text: string): string | undefined {
  return /[<[]([a-z-]+)(?:\.\.\.)?[>\]]$/.exec(text)?.[1];
}

/** The shells that `tidemark completion` has a script for. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];
