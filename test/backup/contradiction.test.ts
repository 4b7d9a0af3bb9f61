/** A manifest that says something else than the backup that it lies beside: neither verified nor restored. */
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { expect, it } from 'vitest';
import { Story } from '../journeys/restore-story.ts';

const HASH = '0'.repeat(64);

it('is refused, naming the field', async () => {
  const story = await Story.start({ TIDEMARK_BACKUP_TARGETS: './bak' });
  mkdirSync(story.file('bak'));
  await story.expectRun(0, 'snapshots', 'pin', 'base');
  await story.expectRun(0, 'backup', 'create');
  const { stdout } = await story.expectRun(0, 'backup', 'list', story.file('bak'), '--json');
  const name = /tidemark-\w+-run1\.db\.zst/.exec(stdout)?.[0] ?? '';
  const file = `${story.file('bak')}/${name}`;
  const text = readFileSync(`${file}.json`, 'utf8');
  const manifest = JSON.parse(text) as {
    sources: object[];
    checked: object;
    plain_bytes: number;
    versions: object;
  };
  await story.expectRun(0, 'backup', 'verify', file);
  const forged = {
    mirror: '0123456789abcdef',
    run: 99,
    root: HASH,
    made_at: '2020-01-01T00:00:00.000Z',
    sources: [{ ...manifest.sources[0], source: 'evil' }],
    audit_log: { entry: 3, hash: HASH },
    checked: { ...manifest.checked, records: 1 },
    plain_bytes: manifest.plain_bytes + 1,
    compression: 'none',
    encryption: 'age',
    versions: { ...manifest.versions, schema: 99 },
  };
  const to = story.file('restored.db');
  for (const [field, value] of Object.entries(forged)) {
    writeFileSync(`${file}.json`, JSON.stringify({ ...manifest, [field]: value }));
    for (const command of [
      ['verify', file],
      ['restore', file, '--to', to],
    ]) {
      const { stderr } = await story.expectRun(1, 'backup', ...command);
      expect(stderr).toContain(
        field === 'run' || field === 'made_at'
          ? `is damaged: ${field} is `
          : `is not what its manifest says: ${field} is `,
      );
    }
    expect(existsSync(to)).toBe(false);
  }
  for (const field of ['sources', 'audit_log', 'checked', 'compression', 'encryption', 'versions']) {
    const rest = Object.entries(manifest).filter(([key]) => key !== field);
    writeFileSync(`${file}.json`, JSON.stringify(Object.fromEntries(rest)));
    for (const command of [
      ['backup', 'verify', file],
      ['backup', 'restore', file, '--to', to],
      ['verify', '--backups'],
    ]) {
      const { stderr } = await story.expectRun(1, ...command);
      expect(stderr).toMatch(new RegExp(`manifest .*was altered: ${field} is not in it`));
    }
    expect(existsSync(to)).toBe(false);
  }
  // The digest of the schema is what distinguishes two versions with as many migrations.
  const versions = { ...manifest.versions, schema_digest: HASH };
  writeFileSync(`${file}.json`, JSON.stringify({ ...manifest, versions }));
  expect((await story.expectRun(0, 'backup', 'list')).stdout).toMatch(
    /complete, made by another version \(\d+\.\d+\.\d+\S*\)/,
  );
  expect(JSON.parse((await story.expectRun(0, 'backup', 'list', '--json')).stdout)).toMatchObject({
    backups: [{ state: 'whole', is_of_other_version: true }],
  });
  expect((await story.expectRun(1, 'backup', 'verify', file)).stderr).toContain(
    'manifest says: versions is ',
  );
  writeFileSync(`${file}.json`, text);
  expect((await story.expectRun(0, 'backup', 'list')).stdout).not.toContain('another version');
  // The mirror does not know by which version it was backed up, but that is a version.
  for (const altered of [{ ...manifest.versions, tidemark: 1 }, null, 'all']) {
    writeFileSync(`${file}.json`, JSON.stringify({ ...manifest, versions: altered }));
    expect((await story.expectRun(1, 'backup', 'verify', file)).stderr).toContain(
      'manifest says: versions is ',
    );
  }
  // Renamed to another date, with and without a manifest that says so too.
  const renamed = 'tidemark-20200101T000000Z-run1.db.zst';
  const elsewhere = `${story.file('elsewhere')}/${renamed}`;
  mkdirSync(story.file('elsewhere'));
  copyFileSync(file, elsewhere);
  for (const isListed of [false, true]) {
    const own = { ...manifest, file: renamed, made_at: '2020-01-01T00:00:00.000Z' };
    if (isListed) writeFileSync(`${elsewhere}.json`, JSON.stringify(own));
    const { stderr } = await story.expectRun(1, 'backup', 'verify', elsewhere);
    expect(stderr).toMatch(
      /was renamed, or its manifest altered: it was made 2020-01-01T\S+ by these, and has a run that ended 2/,
    );
    expect((await story.expectRun(1, 'backup', 'restore', elsewhere, '--to', to)).stderr).toContain(
      'was renamed',
    );
  }
  expect(existsSync(to)).toBe(false);
  // What a later version of the program adds to the versions says nothing of this mirror.
  const more = { ...manifest.versions, node: '26.0.0' };
  writeFileSync(`${file}.json`, JSON.stringify({ ...manifest, versions: more }));
  await story.expectRun(0, 'backup', 'verify', file);
  // Keys in another order say the same.
  writeFileSync(`${file}.json`, JSON.stringify(Object.fromEntries(Object.entries(manifest).reverse())));
  await story.expectRun(0, 'backup', 'verify', file);
  await story.expectRun(0, 'backup', 'restore', file, '--to', to);
});

it('of an older backup under the name of the newest one is refused, also where it names that file', async () => {
  const story = await Story.start({ TIDEMARK_BACKUP_TARGETS: './bak', TIDEMARK_BACKUP_KEEP_LAST: '9' });
  mkdirSync(story.file('bak'));
  await story.expectRun(0, 'backup', 'create');
  await story.expectRun(0, 'sync');
  await story.expectRun(0, 'backup', 'create');
  const { stdout } = await story.expectRun(0, 'backup', 'list', '--json');
  const [newest = '', older = ''] = (
    JSON.parse(stdout) as { backups: readonly { path: string }[] }
  ).backups.map(({ path }) => path);
  const manifest = JSON.parse(readFileSync(`${older}.json`, 'utf8')) as object;
  const { made_at: madeAt } = JSON.parse(readFileSync(`${newest}.json`, 'utf8')) as { made_at: string };
  copyFileSync(older, newest);
  const commands = [
    ['backup', 'verify', newest],
    ['backup', 'restore', newest, '--to', story.file('restored.db')],
    ['verify', '--backups'],
  ];
  const file = newest.split('/').at(-1) ?? '';
  for (const altered of [{ file }, { file, made_at: madeAt }]) {
    writeFileSync(`${newest}.json`, JSON.stringify({ ...manifest, ...altered }));
    const says = 'run is 1 in its manifest, and 2 in its name';
    for (const command of commands) {
      const { stdout, stderr } = await story.expectRun(1, ...command);
      expect(stdout + stderr).toContain(says);
    }
    expect((await story.expectRun(0, 'backup', 'list')).stdout).toContain(`damaged: ${says}`);
    const { stderr } = await story.expectRun(1, 'backup', 'verify', 'latest');
    expect(stderr).toContain(`${file} is newer than `);
  }
  // Fitted to the name as well, the manifest contradicts the mirror.
  writeFileSync(`${newest}.json`, JSON.stringify({ ...manifest, file, made_at: madeAt, run: 2 }));
  for (const command of commands.slice(0, 2))
    expect((await story.expectRun(1, ...command)).stderr).toContain(
      'manifest says: run is 2 there, and 1 in',
    );
  // Without a manifest, the name is all that says which one it is.
  rmSync(`${newest}.json`);
  for (const command of commands.slice(0, 2))
    expect((await story.expectRun(1, ...command)).stderr).toContain(
      'was renamed: its name says run 2, and the newest run in it is 1',
    );
  expect(existsSync(story.file('restored.db'))).toBe(false);
});

it('of an encrypted backup is refused where it says that it is not, also where the backup is not opened', async () => {
  const identity = await generateIdentity();
  const story = await Story.start({
    TIDEMARK_BACKUP_TARGETS: './bak',
    TIDEMARK_BACKUP_RECIPIENTS: JSON.stringify([await identityToRecipient(identity)]),
  });
  mkdirSync(story.file('bak'));
  writeFileSync(story.file('key.txt'), `${identity}\n`, { mode: 0o600 });
  await story.expectRun(0, 'backup', 'create');
  const { stdout } = await story.expectRun(0, 'backup', 'list', story.file('bak'), '--json');
  const file = `${story.file('bak')}/${/tidemark-\w+-run1\.db\.zst\.age/.exec(stdout)?.[0] ?? ''}`;
  const manifest = JSON.parse(readFileSync(`${file}.json`, 'utf8')) as object;
  const withKey = ['backup', 'verify', file, '--identity', story.file('key.txt')];
  await story.expectRun(0, ...withKey);
  await story.expectRun(3, 'backup', 'verify', file);
  for (const [field, value] of [
    ['encryption', null],
    ['compression', 'gzip'],
  ] as const) {
    writeFileSync(`${file}.json`, JSON.stringify({ ...manifest, [field]: value }));
    for (const command of [withKey, ['backup', 'verify', file]])
      expect((await story.expectRun(1, ...command)).stderr).toContain(
        `is not what its manifest says: ${field} is `,
      );
  }
});
