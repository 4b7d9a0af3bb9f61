/** Loaded into a process with `--import`: tells at its end how much memory it held at its peak, bytes. */
import { writeFileSync } from 'node:fs';

const file = process.env['PEAK_MEMORY_FILE'];
if (file !== undefined)
  process.on('exit', () => writeFileSync(file, String(process.resourceUsage().maxRSS * 1024)));
