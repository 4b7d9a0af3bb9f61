import { describe, expect, it } from 'vitest';
import { workspace } from './workspace.ts';

const { write, load } = workspace();
const RECIPIENT = 'age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p';
const ENV = { TIDEMARK_BASE_URL: 'https://a.example.com', TIDEMARK_API_KEY: 'k' };

describe('backup', () => {
  it('are off without a directory', () => {
    write('tidemark.yaml', '{}');
    expect(load(ENV).backup).toBeNull();
    write('tidemark.yaml', 'backup:\n');
    expect(load(ENV).backup).toBeNull();
  });

  it('say of a wrong element what it is not, and of wrong targets not that there is none', () => {
    const mistakesOf = (backup: string): string => {
      write('tidemark.yaml', `backup: ${backup}\n`);
      try {
        load(ENV);
      } catch (error) {
        return String(error);
      }
      return '';
    };
    expect(mistakesOf('{ targets: [./a], recipients: [age1abc] }')).toMatch(
      /backup\.recipients\[0\]: expected an age recipient, .*, got "age1abc"/,
    );
    const slash = mistakesOf(
      "{ targets: ['s3:/bucket/x', { address: 'S3:bucket' }, './s3:/x', 's3//bkt/y'] }",
    );
    expect(slash).toMatch(
      /backup\.targets\[0\]: expected s3:\/\/ with two slashes; did you mean s3:\/\/bucket\/x\?/,
    );
    expect(slash).toMatch(/backup\.targets\[1\]\.address: .* did you mean s3:\/\/bucket\?/);
    expect(slash).toMatch(/backup\.targets\[3\]: .* did you mean s3:\/\/bkt\/y\?/);
    expect(slash.match(/backup\.targets/g)).toHaveLength(3);
    expect(mistakesOf("{ targets: ['s3://bk/a'] }")).toContain('the name of a bucket has 3 to 63 characters');
    const misspelt = mistakesOf('{ targets: [./a, { adress: ./b }, { address: ./c, keepLast: many }, 7] }');
    expect(misspelt).toMatch(
      /backup\.targets\[1\]\.adress: unknown key "adress"; .*; did you mean address\?/,
    );
    expect(misspelt).toMatch(/backup\.targets\[1\]\.address: expected a path, or s3:.*, got nothing/);
    expect(misspelt).toMatch(/backup\.targets\[2\]\.keepLast: expected .*, got "many"/);
    expect(misspelt).toMatch(/backup\.targets\[3\]: expected a list of targets, .*, got 7/);
    expect(misspelt).not.toContain('got a mapping');
    const targets = mistakesOf("{ targets: [./a, 's3://'] }");
    expect(targets).toMatch(/backup\.targets\[1\]: expected/);
    expect(targets).not.toContain('missing');
    expect(mistakesOf('{ every: 1h }')).toContain('backup.targets: missing');
  });

  it('a schedule that never comes, or with a step beyond its field, is named with its line and option', () => {
    write('tidemark.yaml', "schedules:\n  drift: { cron: '0 0 31 2 *' }\n  sync: { cron: '*/70 * * * *' }\n");
    expect(() => load(ENV)).toThrow(/yaml:2: schedules\.drift\.cron: "0 0 31 2 \*" never comes/);
    expect(() => load(ENV)).toThrow(
      /yaml:3: schedules\.sync\.cron: expected 0 to 59.*for the minute, got "\*\/70"/,
    );
  });

  it('keep days, weeks and months where no rule is given, and else what is given', () => {
    write('tidemark.yaml', 'backup: { targets: [./backup] }');
    expect(load(ENV).backup).toMatchObject({
      targets: [
        {
          type: 'directory',
          path: expect.stringMatching(/^\/.*\/backup$/) as string,
          retention: { daily: 7, weekly: 4, monthly: 12 },
        },
      ],
      everyMs: 86_400_000,
      recipients: [],
      recipientsFile: null,
      command: null,
    });
    write('tidemark.yaml', 'backup: { targets: [./backup], keepLast: 2, command: [] }');
    expect(load(ENV).backup).toMatchObject({ targets: [{ retention: { last: 2 } }], command: null });
  });

  it('go to several targets, each with its own rules, and by variable', () => {
    write(
      'tidemark.yaml',
      `backup:
  keepDaily: 3
  targets:
    - ./backup
    - s3://bucket/a/b/?endpoint=http://127.0.0.1:9000
    - { address: 's3://bucket', keepAll: true, objectLock: { mode: compliance, days: 30 } }
    - { address: ./second, keepLast: 1 }
`,
    );
    const s3 = { type: 's3', bucket: 'bucket', objectLock: null };
    expect(load(ENV).backup?.targets).toMatchObject([
      { type: 'directory', retention: { daily: 3 } },
      { ...s3, prefix: 'a/b', endpoint: 'http://127.0.0.1:9000', region: 'us-east-1', isPathStyle: true },
      {
        ...s3,
        prefix: '',
        endpoint: null,
        region: null,
        isPathStyle: false,
        objectLock: { days: 30 },
        retention: null,
      },
      { type: 'directory', retention: { last: 1 } },
    ]);
    write('tidemark.yaml', '{}');
    const env = { ...ENV, TIDEMARK_BACKUP_TARGETS: './backup, s3://bucket/p?path-style=true&region=eu' };
    expect(load(env).backup?.targets).toMatchObject([
      { type: 'directory' },
      { ...s3, prefix: 'p', region: 'eu', isPathStyle: true, retention: { daily: 7 } },
    ]);
  });

  it('take recipients from the file and by variable', () => {
    write('tidemark.yaml', `backup: { targets: [./backup], recipients: [${RECIPIENT}, ${RECIPIENT}] }`);
    expect(load(ENV).backup?.recipients).toEqual([RECIPIENT]);
    const env = { ...ENV, TIDEMARK_BACKUP_RECIPIENTS: JSON.stringify([RECIPIENT]) };
    write('tidemark.yaml', 'backup: { targets: [./backup] }');
    expect(load(env).backup?.recipients).toEqual([RECIPIENT]);
  });

  it.each([
    [
      'a mistyped recipient',
      `{ targets: [./c], recipients: [${RECIPIENT.replace('ql3', 'ql4')}] }`,
      /backup\.recipients.*age/,
    ],
    ['settings without a target', '{ keepLast: 2 }', /backup\.targets.*missing/],
    ['a rule that keeps nothing', '{ targets: [./c], keepLast: 0 }', /backup\.keepLast/],
    [
      'an address in S3 that is none',
      '{ targets: ["s3://Bucket_/x?regin=a"] }',
      /backup\.targets.*s3:\/\/BUCKET/,
    ],
    ['an address of another scheme', '{ targets: ["gs://x/y"] }', /backup\.targets.*s3:\/\/BUCKET/],
    ['no target', '{ targets: [] }', /backup\.targets/],
    [
      'one directory twice',
      '{ targets: [/tmp, ./c, /tmp/, { address: ./x/../c, keepAll: true }] }',
      /targets\[2\]: is the same place as backup\.targets\[0\][^]*targets\[3\]: is the same place as backup\.targets\[1\]/,
    ],
    [
      'one place in S3 twice',
      '{ targets: ["s3://bucket/a/", "s3://bucket//a"] }',
      /targets\[1\]: is the same place/,
    ],
    [
      'a target that keeps all, and by a rule',
      '{ targets: [{ address: ./c, keepAll: true, keepLast: 3 }] }',
      /targets\[0\]: expected keepAll: true or rules of its own \(keepLast, …\), got both/,
    ],
    [
      'a lock for a directory',
      '{ targets: [{ address: ./c, objectLock: { mode: compliance, days: 1 } }] }',
      /s3:\/\/ addresses only/,
    ],
    [
      'a lock for no days',
      '{ targets: [{ address: "s3://bucket", objectLock: { mode: compliance, days: 0 } }] }',
      /objectLock\.days: expected a whole number from 1 to 36500, got 0/,
    ],
    [
      'a command without a directory',
      '{ targets: ["s3://bucket"], command: [ls] }',
      /backup\.command.*directory/,
    ],
    ['a command as one text', '{ targets: [./c], command: restic backup }', /backup\.command/],
  ])('refuses %s', (_name, text, message) => {
    write('tidemark.yaml', `backup: ${text}`);
    expect(() => load(ENV)).toThrow(message);
  });
});
