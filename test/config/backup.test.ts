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

  it('keep days, weeks and months where no rule is given, and else what is given', () => {
    write('tidemark.yaml', 'backup: { directory: ./backup }');
    expect(load(ENV).backup).toMatchObject({
      directory: expect.stringMatching(/^\/.*\/backup$/) as string,
      everyMs: 86_400_000,
      retention: { daily: 7, weekly: 4, monthly: 12 },
      recipients: [],
      recipientsFile: null,
      command: null,
    });
    write('tidemark.yaml', 'backup: { directory: ./backup, keepLast: 2, command: [] }');
    expect(load(ENV).backup).toMatchObject({ retention: { last: 2 }, command: null });
  });

  it('take recipients from the file and by variable', () => {
    write('tidemark.yaml', `backup: { directory: ./backup, recipients: [${RECIPIENT}, ${RECIPIENT}] }`);
    expect(load(ENV).backup?.recipients).toEqual([RECIPIENT]);
    const env = { ...ENV, TIDEMARK_BACKUP_RECIPIENTS: JSON.stringify([RECIPIENT]) };
    write('tidemark.yaml', 'backup: { directory: ./backup }');
    expect(load(env).backup?.recipients).toEqual([RECIPIENT]);
  });

  it.each([
    [
      'a mistyped recipient',
      `{ directory: ./c, recipients: [${RECIPIENT.replace('ql3', 'ql4')}] }`,
      /backup\.recipients.*age/,
    ],
    ['settings without a directory', '{ keepLast: 2 }', /backup\.directory.*missing/],
    ['a rule that keeps nothing', '{ directory: ./c, keepLast: 0 }', /backup\.keepLast/],
    ['a command as one text', '{ directory: ./c, command: restic backup }', /backup\.command/],
  ])('refuses %s', (_name, text, message) => {
    write('tidemark.yaml', `backup: ${text}`);
    expect(() => load(ENV)).toThrow(message);
  });
});
