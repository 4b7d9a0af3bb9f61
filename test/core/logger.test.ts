/** Lines of the log. */
import { expect, it } from 'vitest';
import { createLogger } from '../../src/core/logger.ts';

it('a line of the log has each key once, with what the line itself says', () => {
  const lines: string[] = [];
  const log = createLogger('info', { write: (line) => lines.push(line) });
  log.child({ source: 'a', job: 1 }).child({ source: 'a' }).info({ job: 2 }, 'done');
  log.child({ source: 'a' }).debug({}, 'left out');
  const [line = '', ...more] = lines;
  expect(line.match(/"\w+":/g)?.toSorted()).toEqual(['"job":', '"level":', '"msg":', '"source":', '"time":']);
  expect(JSON.parse(line)).toMatchObject({ level: 30, source: 'a', job: 2, msg: 'done' });
  expect(more).toEqual([]);
});
