/** The cells that a command or a request names. */
import { TidemarkError } from '../core/errors.ts';
import { suggest } from '../core/suggest.ts';
import { nameText } from '../report/value-text.ts';
import type { CellOverview } from './registry/overview.ts';
import type { Registry } from './registry/registry.ts';

/**
 * The cells of these names, in which `*` stands for any text; all that are not retired if no name is given.
 * @throws TidemarkError `usage` for a name that no cell has
 */
export async function chosenCells(
  registry: Registry,
  given: readonly string[] | undefined,
): Promise<readonly CellOverview[]> {
  const patterns = given?.filter((name) => name.includes('*')) ?? [];
  const all = patterns.length === 0 ? [] : (await registry.overview()).map(({ name }) => name);
  const names = given?.flatMap((name) =>
    name.includes('*') ? all.filter((each) => fits(each, name)) : [name],
  );
  const cells = await registry.overview({ cells: names });
  const unused = patterns.find((pattern) => !all.some((name) => fits(name, pattern)));
  const missing = unused ?? names?.find((name) => cells.every((cell) => cell.name !== name));
  if (missing === undefined) return cells;
  const near = suggest(
    missing,
    (await registry.overview()).map(({ name }) => name),
  );
  throw new TidemarkError(
    'usage',
    `there is no cell ${nameText(missing)}${near === undefined ? '' : `; did you mean ${near}?`}`,
    { hint: '`tidemark fleet status` lists them' },
  );
}

/** Their names; undefined if no name is given. @throws TidemarkError as `chosenCells` */
export async function chosenNames(
  registry: Registry,
  given: readonly string[] | undefined,
): Promise<readonly string[] | undefined> {
  return given === undefined ? undefined : (await chosenCells(registry, given)).map(({ name }) => name);
}

/** True for a name that the pattern means: its parts between `*` come one after the other. */
function fits(name: string, pattern: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop() ?? '';
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last))
    return false;
  let from = first.length;
  for (const part of rest) {
    const at = name.slice(0, name.length - last.length).indexOf(part, from);
    if (at === -1) return false;
    from = at + part.length;
  }
  return true;
}
