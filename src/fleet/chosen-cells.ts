/** The cells that a command or a request names. */
import { TidemarkError } from '../core/errors.ts';
import { didYouMean } from '../core/suggest.ts';
import { firstWords } from '../core/wording.ts';
import { nameText } from '../report/value-text.ts';
import type { CellOverview } from './registry/overview.ts';
import type { Registry } from './registry/registry.ts';
import { cellsNotRead } from './serve/documents.ts';

const CELLS_NAMED = 3;

/**
 * The cells with these names, in which `*` stands for any text; without names, all cells that are not retired.
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
  const known = (await registry.overview()).map(({ name }) => name);
  throw new TidemarkError('usage', `there is no cell ${nameText(missing)}${didYouMean(missing, known)}`, {
    hint: '`tidemark fleet status` lists them',
  });
}

/** The names of `chosenCells`; undefined if no name is given. @throws TidemarkError as `chosenCells` */
export async function chosenNames(
  registry: Registry,
  given: readonly string[] | undefined,
): Promise<readonly string[] | undefined> {
  return given === undefined ? undefined : (await chosenCells(registry, given)).map(({ name }) => name);
}

/**
 * Checks the organizations of a filter of changes.
 * @param cells the cells that the filter names
 * @throws TidemarkError `reference_unknown` for an organization that none of the cells has; `never_read` if some of
 * them were not read completely, so that they may have it
 */
export async function requireOrganizations(
  registry: Registry,
  filter: {
    readonly cells: readonly string[] | undefined;
    readonly organizations: readonly string[] | undefined;
  },
  cells: readonly CellOverview[],
): Promise<void> {
  const { organizations = [] } = filter;
  const [missing] = await registry.unknownOrganizations({ cells: filter.cells, organizations });
  if (missing === undefined) return;
  const message = `no cell has records of organization ${nameText(missing)}`;
  const unread = cellsNotRead(cells);
  if (unread.length === 0)
    throw new TidemarkError('reference_unknown', message, {
      hint: '`tidemark fleet sql "SELECT cell, id, name FROM records WHERE kind = \'organizations\'"` lists them',
    });
  const names = unread.map(({ name }) => name);
  throw new TidemarkError(
    'never_read',
    `${message} so far, and not all were read completely: ${firstWords(names, CELLS_NAMED)}`,
    { hint: '`tidemark fleet status --failing` says why' },
  );
}

/** True if the name matches the pattern: it has the parts between `*` in this order. */
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
