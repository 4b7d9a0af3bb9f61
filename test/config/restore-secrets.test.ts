import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { KEY, oneSource, workspace } from './workspace.ts';

const { write, load, yaml, refused } = workspace();
const POINTER = '/destination/config/password';

const lines = (value: string): string =>
  oneSource(
    'secrets:',
    '  batch_exports:',
    '    - match: { name: Nightly, /destination/type: S3, team_id: 12, paused: true }',
    `      values: { ${POINTER}: ${value} }`,
    '    - values:',
    `        ${POINTER}: \${OTHER}`,
  );

describe('secrets for a restore', () => {
  it('are read by kind, in order, with fields as pointers and texts', () => {
    const config = yaml(lines("'${NIGHTLY}'"), { ...KEY, NIGHTLY: 'hidden one', OTHER: 'hidden\ntwo' });
    const [first, second] = config.sources[0]!.secrets;
    expect(first).toMatchObject({
      kind: 'batch_exports',
      match: { '/name': 'Nightly', '/destination/type': 'S3', '/team_id': '12', '/paused': 'true' },
    });
    expect(first?.values[POINTER]?.reveal()).toBe('hidden one');
    expect(second?.match).toEqual({});
    expect(second?.values[POINTER]?.reveal()).toBe('hidden\ntwo');
    expect(config.warnings).toEqual([]);
    expect(inspect(config, { depth: null }) + JSON.stringify(config)).not.toContain('hidden');
  });

  it('whose variable is not set are left out with a warning: a sync needs none of them', () => {
    const config = yaml(lines("'${NIGHTLY}'"), { ...KEY, NIGHTLY: 'pw' });
    expect(config.sources[0]!.secrets.map(({ values }) => Object.keys(values))).toEqual([[POINTER], []]);
    expect(config.warnings).toEqual([
      `tidemark.yaml:9: sources[0].secrets.batch_exports[1].values."${POINTER}": \${OTHER} is not set in the environment: restores that need it stay blocked, and no report masks it`,
    ]);
    // Nor is one of them advised for another record: once set, it would be sent for both.
    expect(config.variables).toEqual(expect.arrayContaining(['NIGHTLY', 'OTHER']));
  });

  it('come from files, several lines and all', () => {
    const key = '-----BEGIN KEY-----\nabc\n-----END KEY-----';
    write('snowflake.pem', `${key}\n`);
    const config = yaml(lines('{ file: snowflake.pem }'), { ...KEY, OTHER: 'x' });
    expect(config.sources[0]!.secrets[0]?.values[POINTER]?.reveal()).toBe(key);
    const missing = yaml(lines('{ file: nowhere.pem }'), { ...KEY, OTHER: 'x' });
    expect(missing.sources[0]!.secrets[0]?.values).toEqual({});
    expect(missing.sources[0]!.secrets[0]?.unset?.[POINTER]).toMatch(/nowhere\.pem does not exist$/);
    expect(missing.warnings.join()).toContain(
      'nowhere.pem does not exist: restores that need it stay blocked, and no report masks it',
    );
  });

  it('in clear give a warning, without being quoted', () => {
    const { warnings } = yaml(lines('hunter2'), { ...KEY, OTHER: 'x' });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('tidemark.yaml:7: ');
    expect(warnings[0]).toContain('written in clear');
    expect(warnings[0]).not.toContain('hunter2');
  });

  it('come from the environment as JSON', () => {
    const secrets = { batch_exports: [{ match: { name: 'x' }, values: { [POINTER]: 'pw' } }] };
    const env = {
      TIDEMARK_BASE_URL: 'https://svc.example.com',
      TIDEMARK_API_KEY: 'k',
      TIDEMARK_SECRETS: JSON.stringify(secrets),
    };
    const config = load(env);
    expect(config.sources[0]!.secrets[0]?.values[POINTER]?.reveal()).toBe('pw');
    expect(config.warnings).toEqual([]);
  });

  it.each([
    ['a kind that there is not', ['secrets:', '  exports:', '    - values: { /a: hunter2 }'], 5],
    ['a value that is no place', ['secrets:', '  batch_exports:', '    - values: { password: hunter2 }'], 6],
    ['a rule without values', ['secrets:', '  batch_exports:', '    - match: { name: hunter2 }'], 6],
    ['no list', ['secrets:', '  batch_exports:', '    values: { /a: hunter2 }'], 5],
    ['an unknown member', ['secrets:', '  batch_exports:', '    - { value: hunter2, values: {} }'], 6],
    ['a list for a value', ['secrets:', '  batch_exports:', '    - values: { /a: [hunter2] }'], 6],
  ])('with %s are refused with their line, and never quoted', (_name, wrong, line) => {
    const error = refused(oneSource(...wrong), KEY);
    expect(error.code).toBe('config_invalid');
    expect(error.message).toMatch(new RegExp(`tidemark\\.yaml:${line}: sources\\[0\\]\\.secrets`));
    expect(error.message).not.toContain('hunter2');
  });

  it('other mistakes in a reference stay mistakes', () => {
    expect(refused(lines("'${not a name}'"), { ...KEY, OTHER: 'x' }).message).toContain('expected ${NAME}');
  });
});

describe('limits of a restore', () => {
  it('have defaults, and are read', () => {
    expect(yaml(oneSource(), KEY).sources[0]!.restore).toEqual({
      maxShare: 0.3,
      minRecords: 10,
      maxAgeMs: 86_400_000,
      ownUser: null,
    });
    const text = oneSource('restore: { maxShare: 0.5, minRecords: 3, maxAge: 2h, ownUser: a@b.example }');
    expect(yaml(text, KEY).sources[0]!.restore).toEqual({
      maxShare: 0.5,
      minRecords: 3,
      maxAgeMs: 7_200_000,
      ownUser: 'a@b.example',
    });
    expect(refused(oneSource('restore: { maxShare: 2 }'), KEY).message).toContain('a number from 0 to 1');
  });
});
