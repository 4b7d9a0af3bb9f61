/** How long the built program takes to start. */
import { measure, median } from './measure.ts';
import { atMost, milliseconds, program, type BenchContext, type Line } from './section.ts';

const ROUNDS = 15;

export async function run(context: BenchContext): Promise<Line[]> {
  context.note(`--help, ${ROUNDS} times`);
  const help: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) help.push((await measure([program, '--help'])).wallMs);
  return [atMost(`--help, median of ${ROUNDS}`, median(help), 250, milliseconds)];
}
