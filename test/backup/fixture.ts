/** What the tests of backups share: a mirror with some history, a directory for backups, and a writer over both. */
import { join } from 'node:path';
import { mkdirSync } from 'node:fs';
import type { BackupConfig, RetentionPolicy } from '../../src/config/config.ts';
import { type Clock, systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import { type BackupWriter, createBackupWriter } from '../../src/backup/writer.ts';
import { backUpInProcess } from '../../src/backup/process.ts';
import { backUpHere } from '../../src/backup/work.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { ORG, open, sync, temporaryDirectory } from '../mirror/fixture.ts';

export const KEY = 'the-key-of-the-source';

export interface Setting {
  readonly mirror: Mirror;
  /** Of the mirror. */
  readonly home: string;
  /** For backups. */
  readonly directory: string;
  readonly writer: BackupWriter;
  /** The same with another configuration, environment or clock. */
  readonly with: (changes: {
    backups?: Partial<BackupConfig>;
    /** Of the directory. */
    retention?: RetentionPolicy;
    env?: Record<string, string>;
    clock?: Clock;
    /** Of another mirror. */
    mirror?: string;
    /** As it is done in earnest, with what is to happen when the process was started. */
    onStart?: (pid: number | undefined) => void;
    /** The clock of the work itself. */
    hereWith?: Clock;
    /** What happens after the targets were looked at, and before the work begins. */
    beforeWork?: () => void;
  }) => BackupWriter;
  /** One more complete run. */
  readonly sync: () => Promise<number>;
}

export async function setting(): Promise<Setting> {
  const home = temporaryDirectory();
  const directory = join(home, 'backups');
  mkdirSync(directory);
  const mirror = open({ path: join(home, 'mirror.db'), clock: systemClock });
  let count = 0;
  const run = async (): Promise<number> => {
    count += 1;
    const published = await sync(mirror, 'roles', ORG, [`{"id":"a","name":"A ${count}"}`, '{"id":"b"}']);
    return published.run;
  };
  await run();
  const writer: Setting['with'] = ({
    backups = {},
    retention = { last: 100 },
    env = {},
    clock = systemClock,
    mirror: path = mirror.path,
    onStart,
    hereWith = systemClock,
    beforeWork = () => undefined,
  }) =>
    createBackupWriter({
      backup: { ...backupsOf(directory, retention), ...backups },
      mirror: path,
      command: 'backup create',
      env,
      withheld: { variables: [], secrets: [new Secret(KEY)] },
      clock,
      log: silentLogger,
      host: 'here',
      pid: 4711,
      // A process takes longer to start: a few tests show that it does the same.
      work: async (job, options) => {
        beforeWork();
        const work = onStart === undefined ? backUpHere(hereWith) : backUpInProcess({ env, onStart });
        return await work(job, options);
      },
    });
  return { mirror, home, directory, writer: writer({}), with: writer, sync: run };
}

function backupsOf(directory: string, retention: RetentionPolicy): BackupConfig {
  return {
    targets: [{ type: 'directory', path: directory, retention }],
    everyMs: 86_400_000,
    recipients: [],
    recipientsFile: null,
    command: null,
    commandTimeoutMs: 60_000,
  };
}

export const never = new AbortController().signal;
