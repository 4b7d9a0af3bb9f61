/** Which variables of the environment the configuration takes secrets from: what it starts is not to inherit them. */
import { OPTIONS } from './options.ts';
import { rowsOf } from './rows.ts';
import type { Path, PathPart, Tree } from './tree.ts';

/** Where in a secret option that is a list or a mapping the secrets are: what names a file (`urlFile`) holds none. */
const WITHIN: Readonly<Record<string, readonly (readonly string[])[]>> = {
  notices: [['url'], ['secret'], ['smtpUrl'], ['command', '[]'], ['env', '*']].map((keys) => ['[]', ...keys]),
  pings: [['start'], ['success'], ['fail']].map((keys) => ['[]', ...keys]),
  // Below a kind, the rule's number and the pointer.
  'sources[].secrets': [['*', '[]', 'values', '*']],
};

/** Names of the variables that secret values refer to, sorted. What `TIDEMARK_…` variables set is not among them. */
export function secretVariables({ templates }: Tree): string[] {
  const places = rowsOf(OPTIONS)
    .filter(({ node }) => node.node === 'option' && node.isSecret)
    .flatMap(({ keys, text }) => (WITHIN[text] ?? [[]]).map((below) => [...keys, ...below]));
  const names = [...templates].flatMap(([key, text]) => {
    const path = JSON.parse(key) as Path;
    return places.some((place) => isAt(path, place)) ? namesIn(text) : [];
  });
  return [...new Set(names)].toSorted();
}

/** `[]` stands for every element of a list, `*` for every key of a mapping. */
function isAt(path: Path, place: readonly string[]): boolean {
  const fits = (key: string, part: PathPart | undefined): boolean =>
    key === '[]' ? typeof part === 'number' : key === '*' || part === key;
  return path.length === place.length && place.every((key, index) => fits(key, path[index]));
}

/** `$${` stands for a plain `${`. */
function namesIn(text: string): string[] {
  return [...text.matchAll(/(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g)].flatMap(([, escape, name]) =>
    escape === '' && name !== undefined ? [name] : [],
  );
}
