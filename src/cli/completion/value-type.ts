/** The types of values that completion distinguishes. Imports nothing, as `--help` loads it. */

/** `free`: anything that only the user knows, such as a number or a text. */
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

/** By the word in the brackets of an option's flags or an argument's name; command rows name the other types. */
const TYPE_OF_PLACEHOLDER: Readonly<Record<string, ValueType>> = {
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
 * The type of the value of an option or argument (`--kind <kind>`, `[channel...]`); undefined for a flag without a value, or if
 * neither the row nor the placeholder names one.
 * @param values the type that the row names
 */
export function valueTypeOf(text: string, values: ValueType | undefined): ValueType | undefined {
  const placeholder = /[<[]([a-z-]+)(?:\.\.\.)?[>\]]$/.exec(text)?.[1];
  return placeholder === undefined ? undefined : (values ?? TYPE_OF_PLACEHOLDER[placeholder]);
}

/** The shells that `tidemark completion` has a script for. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];
