/** Where this package is: the same files are found from `src/` and from the bundled `dist/`. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Absolute path of a file that ships with the package, e.g. `packageFile('drizzle')`. */
export function packageFile(...parts: string[]): string {
  let directory = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(directory, 'package.json'))) {
    const parent = dirname(directory);
    if (parent === directory) throw new Error('package.json not found above the program');
    directory = parent;
  }
  return join(directory, ...parts);
}
