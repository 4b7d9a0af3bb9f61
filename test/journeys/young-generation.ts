/** Loaded into a process with `--import`: tells at its end how large V8's young generation became, bytes. */
import { writeFileSync } from 'node:fs';
import { getHeapSpaceStatistics } from 'node:v8';

const file = process.env['YOUNG_GENERATION_FILE'];
if (file !== undefined) {
  process.on('exit', () => {
    const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
    writeFileSync(file, String(young?.space_size));
  });
}
