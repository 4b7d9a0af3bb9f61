/** A secret for a restore that is not there blocks the steps that need it: no other command, and no other secret. */
import { describe, expect, it } from 'vitest';
import { KEY, oneSource, workspace } from './workspace.ts';

const { load, yaml, refused } = workspace();
const POINTER = '/destination/config/password';
const BLOCKED = 'restores that need it stay blocked, and no report masks it';

const rules = (...lines: string[]): string =>
  oneSource('secrets:', '  batch_exports:', ...lines, `    - values: { ${POINTER}: '\${OTHER}' }`);
const env = { ...KEY, OTHER: 'other' };

function read(text: string, more: Readonly<Record<string, string>> = {}) {
  const config = yaml(text, { ...env, ...more });
  const secrets = config.sources[0]?.secrets ?? [];
  return {
    warnings: config.warnings,
    values: secrets.map(({ values }) => Object.values(values).map((value) => value.reveal())),
  };
}

describe('a secret for a restore whose variable is', () => {
  const cases: [string, Record<string, string>, string][] = [
    ['not set', {}, 'is not set in the environment'],
    ['empty', { IT: '' }, 'is empty in the environment'],
  ];
  for (const [how, more, words] of cases) {
    it(`${how} is left out with a warning`, () => {
      const { values, warnings } = read(
        rules(`    - values: { ${POINTER}: '\${IT}', /a: '\${OTHER}' }`),
        more,
      );
      expect(values).toEqual([['other'], ['other']]);
      expect(warnings).toEqual([
        `tidemark.yaml:6: sources[0].secrets.batch_exports[0].values."${POINTER}": \${IT} ${words}: ${BLOCKED}`,
      ]);
    });

    it(`${how} and part of a longer text is left out: it would have a hole`, () => {
      const { values, warnings } = read(rules(`    - values: { ${POINTER}: 'Bearer \${IT}' }`), more);
      expect(values).toEqual([[], ['other']]);
      expect(warnings.join()).toContain(`\${IT} ${words}: ${BLOCKED}`);
    });

    it(`${how} and names a file is left out`, () => {
      const { values, warnings } = read(rules(`    - values: { ${POINTER}: { file: '\${IT}' } }`), more);
      expect(values).toEqual([[], ['other']]);
      expect(warnings).toHaveLength(1);
      expect(warnings.join()).toContain(`.file: \${IT} ${words}: ${BLOCKED}`);
    });

    it(`${how} and tells its records takes its rule with it: no other record is given its secrets`, () => {
      const line = `    - { match: { name: '\${IT}', paused: true }, values: { ${POINTER}: '\${OTHER}' } }`;
      const { values, warnings } = read(rules(line), more);
      expect(values).toEqual([['other']]);
      expect(warnings.join()).toContain(`match.name: \${IT} ${words}: ${BLOCKED}`);
    });
  }
});

describe('a secret for a restore that is written as an empty text', () => {
  it('is left out with a warning, in the file and in TIDEMARK_SECRETS', () => {
    const { values, warnings } = read(rules(`    - values: { ${POINTER}: '' }`));
    expect(values).toEqual([[], ['other']]);
    expect(warnings.join()).toContain('empty: restores that need it stay blocked');
    const rule = yaml(rules(`    - values: { ${POINTER}: '' }`), env).sources[0]?.secrets[0];
    expect(rule?.unset).toEqual({ [POINTER]: 'its value is empty' });
    const config = load({
      TIDEMARK_BASE_URL: 'https://svc.example.com',
      TIDEMARK_API_KEY: 'k',
      TIDEMARK_SECRETS: JSON.stringify({ batch_exports: [{ values: { [POINTER]: '', '/a': 'x' } }] }),
    });
    expect(Object.keys(config.sources[0]?.secrets[0]?.values ?? {})).toEqual(['/a']);
    expect(config.warnings).toEqual(['TIDEMARK_SECRETS: empty: restores that need it stay blocked']);
  });

  it('names no file, and is a mistake there', () => {
    for (const file of ["{ file: '' }", '{}'])
      expect(refused(rules(`    - values: { ${POINTER}: ${file} }`), env).message).toContain(
        'expected {file: PATH}',
      );
  });
});
