/** Which Tidemark this is. */
import { readFileSync } from 'node:fs';
import { packageFile } from './package-root.ts';

/** E.g. `0.1.0`. */
export function programVersion(): string {
  const manifest = JSON.parse(readFileSync(packageFile('package.json'), 'utf8')) as { version: string };
  return manifest.version;
}
