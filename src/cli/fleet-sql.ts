/** `tidemark fleet sql QUERY`: one SELECT over the views of the registry. */
import { EXIT, type ExitCode } from '../core/errors.ts';
import { count, plural } from '../core/wording.ts';
import { print, printNote, type CommandContext, terminalWidth } from './context.ts';
import { withRegistry } from './fleet.ts';
import { renderTable } from '../report/table.ts';

export async function fleetSql(
  context: CommandContext,
  { query, limit = 1000 }: { readonly query: string; readonly limit?: number },
): Promise<ExitCode> {
  return withRegistry(context, async (registry) => {
    const answer = await registry.sql(query, limit);
    const note = answer.isCut ? [`only the first ${count(answer.rows.length)} rows are shown (--limit)`] : [];
    if (context.options.json === true) {
      const { columns, rows, isCut } = answer;
      const document = { schema: 'tidemark.fleet-sql/1', columns, rows, is_cut: isCut };
      await print(context, `${JSON.stringify(document)}\n`);
    } else {
      const table = renderTable(
        answer.columns,
        answer.rows.map((row) => row.map((cell) => cell ?? 'NULL')),
        [],
        { width: terminalWidth(context) },
      );
      await print(context, `${table}\n(${plural(answer.rows.length, 'row')})\n`);
    }
    printNote(context, note);
    return EXIT.done;
  });
}
