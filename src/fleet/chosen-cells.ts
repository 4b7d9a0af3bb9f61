/** The cells that a command or a request names. */
import { TidemarkError } from '../core/errors.ts';
import { suggest } from '../core/suggest.ts';
import { count } from '../core/wording.ts';
import { nameText } from '../report/value-text.ts';
import type { CellOverview } from './registry/overview.ts';
import type { Registry } from './registry/registry.ts';
import { cellsNotRead } from './serve/documents.ts';

const CELLS_NAMED = 3;

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

/**
 * @param filter as the changes are asked for
 * @param cells those that the filter names
 * @throws TidemarkError `reference_unknown` for an organization that no such cell has; `never_read` where some were not read
 * completely, so that they may have it
 */
export async function requireOrganizations(
  registry: Registry,
  filter: {
    readonly cells: readonly string[] | undefined;
    readonly organizations: readonly string[] | undefined;
  },
  cells: readonly CellOverview[],
): Promise<void> {
  const { cells: names, organizations = [] } = filter;
  const [missing] = await registry.unknownOrganizations({ cells: names, organizations });
  if (missing === undefined) return;
  const message = `no cell has records of organization ${nameText(missing)}`;
  const unread = cellsNotRead(cells);
  if (unread.length === 0)
    throw new TidemarkError('reference_unknown', message, {
      hint: '`tidemark fleet sql "SELECT cell, id, name FROM records WHERE kind = \'organizations\'"` lists them',
    });
  const more = unread.length - CELLS_NAMED;
  const which = unread.slice(0, CELLS_NAMED).map(({ name }) => name);
  throw new TidemarkError(
    'never_read',
    `${message} so far, and not all were read completely: ${which.join(', ')}${more > 0 ? ` and ${count(more)} more` : ''}`,
    { hint: '`tidemark fleet status --failing` says why' },
  );
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
