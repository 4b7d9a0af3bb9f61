import fc from 'fast-check';
import { expect, it } from 'vitest';
import { stringify } from 'yaml';
import { OPTION_ROWS } from '../../src/config/environment.ts';
import { OPTIONS } from '../../src/config/options.ts';
import { shapeOf } from '../../src/config/schema.ts';
import { TidemarkError } from '../../src/core/errors.ts';
import { workspace } from './workspace.ts';

const { write, load } = workspace();

/** Names of real options, so that random values land where they are looked at. */
const names = [...new Set(OPTION_ROWS.flatMap(({ keys }) => keys))].concat([
  'roles',
  'fields',
  'name',
  '__proto__',
]);

const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, depthSize: 'medium' },
    fc.oneof(
      fc.constantFrom('all', '24h', 'svc', '${KEY}', '${', '* * * * *', 'https://a.example.com'),
      fc.jsonValue({ maxDepth: 0 }),
    ),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...names), tie('value'), { maxKeys: 5 }),
  ),
}));
const root = fc.dictionary(fc.constantFrom(...Object.keys(shapeOf(OPTIONS))), value, { maxKeys: 5 });

/** Loads; a refusal must be one of ours, with a line for each mistake. */
function attempt(call: () => unknown): void {
  try {
    call();
  } catch (error) {
    if (!(error instanceof TidemarkError)) throw error;
    expect(['config_invalid', 'config_missing']).toContain(error.code);
    const [head = '', ...lines] = error.message.split('\n');
    if (lines.length > 0) expect(head).toBe(`${lines.length} mistakes in the configuration:`);
    expect(new Set(lines).size).toBe(lines.length);
  }
}

it('any values in the places of options are loaded or refused in our own words', () => {
  fc.assert(
    fc.property(root, (tree) => {
      write('tidemark.yaml', stringify(tree));
      attempt(() => load({ KEY: 'k' }));
      attempt(() => load({ KEY: 'k', TIDEMARK_BASE_URL: 'https://a.example.com', TIDEMARK_API_KEY: 'k' }));
    }),
    { numRuns: 80 },
  );
});

it('any bytes are', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.uint8Array({ maxLength: 200 }), fc.string({ unit: 'binary', maxLength: 200 })),
      (content) => {
        write('tidemark.yaml', content);
        attempt(() => load({ KEY: 'k' }));
      },
    ),
    { numRuns: 150 },
  );
});

it('any values in the environment are', () => {
  const variables = OPTION_ROWS.map(({ variable }) => variable);
  write('tidemark.yaml', '');
  fc.assert(
    fc.property(
      fc.dictionary(fc.constantFrom(...variables), fc.string({ unit: 'binary', maxLength: 30 })),
      (env) => {
        fc.pre(!Object.keys(env).some((name) => name.endsWith('_FILE') || name === 'TIDEMARK_PROFILE'));
        write('tidemark.yaml', '');
        attempt(() => load(env));
      },
    ),
    { numRuns: 100 },
  );
});
