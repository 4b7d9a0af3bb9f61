/** Commands in hints run as printed where each source has a mirror of its own. */
import { describe, expect, it } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { namedCommands } from '../../src/cli/command-row.ts';
import {
  goneHint,
  LATEST_BACKUP,
  namingBackup,
  RESTORE_HINT,
  RESTORE_OR_NEW_HINT,
  resumeHint,
  restoreCommand,
  shellWord,
  withSource,
} from '../../src/core/hints.ts';

/** Of those that do not work through all mirrors, the commands that are about no source, or know it otherwise. */
const NEED_NONE = [
  ...['init', 'config check', 'config schema', 'catalog', 'demo', 'sandbox', 'completion', 'man'],
  // A plan names its source; the daemon and MCP serve all; channels are of no source.
  ...['apply', 'daemon', 'mcp', 'notify test', 'mirror move'],
].map((name) => `tidemark ${name}`);

it.each([
  ['./data/mirror.db', './data/mirror.db'],
  ['s3://bucket/prefix', 's3://bucket/prefix'],
  ['/srv/my data/mirror.db', "'/srv/my data/mirror.db'"],
  ["/srv/anna's/$HOME.db", "'/srv/anna'\\''s/$HOME.db'"],
  ['~/mirror.db', "'~/mirror.db'"],
  ['', "''"],
])('%s in a printed command is one word of the shell', (path, word) => {
  expect(shellWord(path)).toBe(word);
  expect(restoreCommand({ path, owner: 'acme' })).toBe(
    `\`tidemark backup restore latest --to ${word} --source acme\``,
  );
});

describe('a command in a hint', () => {
  it.each([
    ['run `tidemark restore`, then go on', 'run `tidemark restore --source acme`, then go on'],
    [
      '`tidemark restore --resume 1` continues it',
      '`tidemark restore --resume 1 --source acme` continues it',
    ],
    ['`tidemark undo 3` and `tidemark sync`', '`tidemark undo 3 --source acme` and `tidemark sync`'],
    ['`tidemark restores show 1 --source beta`', '`tidemark restores show 1 --source beta`'],
    ['`tidemark restores` lists them', '`tidemark restores` lists them'],
    ['`tidemark restore --help`', '`tidemark restore --help`'],
    ['`tidemark drift accepted` lists it', '`tidemark drift accepted` lists it'],
    [
      '`tidemark drift accept roles r1 --reason R`',
      '`tidemark drift accept roles r1 --reason R --source acme`',
    ],
    ['`tidemark diff run:3 run:4`', '`tidemark diff run:3 run:4 --source acme`'],
    ['`tidemark diff latest live --kind roles`', '`tidemark diff latest live --kind roles --source acme`'],
    ['`tidemark sync --accept-removals 12`', '`tidemark sync --accept-removals 12 --source acme`'],
    ['tidemark restore', 'tidemark restore'],
  ])('%s', (text, expected) => {
    expect(withSource(text, 'acme')).toBe(expected);
  });

  it('names the source if the command does not work through all mirrors', () => {
    const single = namedCommands(COMMANDS).filter(
      ({ name, row }) =>
        row.load !== undefined && row.mirrors === undefined && !name.startsWith('tidemark fleet'),
    );
    const unnamed = single.filter(({ name }) => withSource(`\`${name} X\``, 'acme') === `\`${name} X\``);
    expect(unnamed.map(({ name }) => name).toSorted()).toEqual(NEED_NONE.toSorted());
    const all = namedCommands(COMMANDS).filter(({ row }) => row.mirrors !== undefined);
    expect(all.length).toBeGreaterThan(10);
    for (const { name } of all) expect(withSource(`\`${name} X\``, 'acme')).toBe(`\`${name} X\``);
  });

  it('that restores a backup has the option for the key where the backup is encrypted', () => {
    const place = { path: './m.db', owner: 'acme', backups: { isEncrypted: true } };
    const latest = '`tidemark backup restore latest --to ./m.db --source acme --identity FILE`';
    expect(restoreCommand(place)).toBe(latest);
    expect(namingBackup(latest, LATEST_BACKUP, { isEncrypted: true })).toBe(latest);
    expect(restoreCommand(place, 'a.zst')).not.toContain('--identity');
    expect(restoreCommand({ ...place, backups: null }, 'a b.zst.age')).toBe(
      "`tidemark backup restore 'a b.zst.age' --to ./m.db --source acme --identity FILE`",
    );
    expect(goneHint(place, LATEST_BACKUP)).toContain(`(${latest})`);
    expect(goneHint(place, 'a.zst')).toContain('(`tidemark backup restore a.zst --to ./m.db --source acme`)');
    const hint = `keep the file, and ${RESTORE_HINT}, or run \`tidemark sync\``;
    expect(namingBackup(hint, LATEST_BACKUP, { isEncrypted: true })).toBe(
      'keep the file, and restore a backup (`tidemark backup restore latest --to ./restored/mirror.db --identity FILE`), or run `tidemark sync`',
    );
    expect(namingBackup(hint, 'a.zst.age', { isEncrypted: false })).toContain(
      'restore a.zst.age --to ./restored/mirror.db --identity FILE`',
    );
  });

  it('names the backup to restore, where one is to be named', () => {
    const place = { path: './m.db', owner: null };
    const text = `keep the file, and ${RESTORE_HINT}, or ${restoreCommand(place)}`;
    expect(namingBackup(text, LATEST_BACKUP, { isEncrypted: false })).toBe(text);
    expect(namingBackup(`keep the file, and ${RESTORE_HINT}`, null, { isEncrypted: true })).toBe(
      'keep the file, and look for a backup of it (`tidemark backup list`; the known ones are of other mirrors)',
    );
    expect(goneHint(place, null)).toMatch(
      /if it is lost, look for a backup of it \(`tidemark backup list`; [^)]*\)\. A restart/,
    );
    expect(goneHint(place, LATEST_BACKUP)).toContain('(`tidemark backup restore latest --to ./m.db`)');
    expect(namingBackup(text, 'a b.zst', { isEncrypted: true })).toBe(
      "keep the file, and restore a backup (`tidemark backup restore 'a b.zst' --to ./restored/mirror.db`), or `tidemark backup restore 'a b.zst' --to ./m.db`",
    );
  });

  it('names what else is possible where no backup target is configured', () => {
    const none = 'restore a copy of the file, if you have one (no backup target is configured)';
    // Whatever else the text says: where a new mirror will do, it is written by who knows it.
    for (const text of ['keep the file, and X', 'X, or run `tidemark sync`', 'what else is damaged; X'])
      expect(namingBackup(text.replace('X', RESTORE_HINT), LATEST_BACKUP, null)).toBe(
        text.replace('X', none),
      );
    expect(namingBackup(RESTORE_OR_NEW_HINT, null, null)).toBe(
      `${none}, or move the mirror away and run \`tidemark sync\` for a new one (without history)`,
    );
    const gone = goneHint({ path: './m.db', owner: null, backups: null }, LATEST_BACKUP);
    expect(gone).toContain(`if it is lost, ${none}. A restart of the daemon, or \`tidemark sync\`, begins`);
    expect(gone).not.toContain('backup restore');
  });

  it('of an interrupted restore names what was done, what continues it, what takes it back, and what leaves it', () => {
    expect(resumeHint(4, null)).toBe(
      '`tidemark restores show 4` lists what was done; `tidemark restore --resume 4` continues it; `tidemark undo 4` takes back what it did; `tidemark restore --abandon 4` leaves it as it is',
    );
    const commands = [...resumeHint(4, 'acme').matchAll(/`([^`]*)`/g)].map(([, command]) => command);
    expect(commands).toHaveLength(4);
    for (const command of commands) expect(command).toMatch(/ --source acme$/);
  });
});
