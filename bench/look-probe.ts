/**
 * Loaded into a measured process with `--import`: tells how long a command took from an opened mirror to its answer. The
 * last look at the file's `user_version` ends the opening, the first write to stdout is the answer.
 */
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const file = process.env['BENCH_PROBE'];
const program = process.env['BENCH_PROGRAM'];
if (file !== undefined && program !== undefined) {
  // The very module that the bundle imports.
  const Database = createRequire(program)('better-sqlite3') as {
    prototype: { pragma: (this: unknown, source: string, options?: object) => unknown };
  };
  const { pragma } = Database.prototype;
  let openedAt = Number.NaN;
  let answeredAt = Number.NaN;
  Database.prototype.pragma = function (this: unknown, source: string, options?: object): unknown {
    const result = Reflect.apply(pragma, this, [source, options]);
    if (/^user_version$/.test(source.trim())) openedAt = performance.now();
    return result;
  };
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = ((...given: Parameters<typeof write>) => {
    if (Number.isNaN(answeredAt)) answeredAt = performance.now();
    return write(...given);
  }) as typeof write;
  process.on('exit', () => writeFileSync(file, JSON.stringify({ lookMs: answeredAt - openedAt })));
}
