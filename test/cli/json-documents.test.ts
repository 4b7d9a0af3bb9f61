import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));
const SCHEMA = /tidemark\.[a-z_]+\/\d+/g;

function schemasIn(path: string): string[] {
  return readFileSync(`${root}${path}`, 'utf8').match(SCHEMA) ?? [];
}

it('every schema that the sources name is documented, and no other', () => {
  const used = new Set(globSync('src/**/*.ts', { cwd: root }).flatMap(schemasIn));
  const documented = new Set(schemasIn('docs/json-documents.md'));
  expect(used.size).toBeGreaterThan(20);
  expect([...used].filter((schema) => !documented.has(schema))).toEqual([]);
  expect([...documented].filter((schema) => !used.has(schema))).toEqual([]);
});
