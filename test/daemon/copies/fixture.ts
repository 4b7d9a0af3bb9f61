/** What the tests of copies share: a mirror with some history, a directory for copies, and a copier over both. */
import { join } from 'node:path';
import { mkdirSync } from 'node:fs';
import type { CopiesConfig } from '../../../src/config/config.ts';
import { type Clock, systemClock } from '../../../src/core/clock.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { Secret } from '../../../src/core/secret.ts';
import { type Copier, createCopier } from '../../../src/daemon/copies/copier.ts';
import { type CopyWork, makeCopy } from '../../../src/daemon/copies/copy.ts';
import { copyInProcess } from '../../../src/daemon/copies/copy.ts';
import type { Mirror } from '../../../src/mirror/mirror.ts';
import { ORG, open, sync, temporaryDirectory } from '../../mirror/fixture.ts';

export const KEY = 'the-key-of-the-source';

export interface Setting {
  readonly mirror: Mirror;
  /** Of the mirror. */
  readonly home: string;
  /** For copies. */
  readonly directory: string;
  readonly copier: Copier;
  /** The same with another configuration, environment or clock. */
  readonly with: (changes: {
    copies?: Partial<CopiesConfig>;
    env?: Record<string, string>;
    clock?: Clock;
    /** Of another mirror. */
    mirror?: string;
    /** As it is done in earnest, with what is to happen when the process was started. */
    onStart?: (pid: number | undefined) => void;
  }) => Copier;
  /** One more complete run. */
  readonly sync: () => Promise<number>;
}

const makeHere: CopyWork = (job, { onProgress }) => makeCopy(job, { clock: systemClock, onProgress });

export async function setting(): Promise<Setting> {
  const home = temporaryDirectory();
  const directory = join(home, 'copies');
  mkdirSync(directory);
  const mirror = open({ path: join(home, 'mirror.db'), clock: systemClock });
  let count = 0;
  const run = async (): Promise<number> => {
    count += 1;
    const published = await sync(mirror, 'roles', ORG, [`{"id":"a","name":"A ${count}"}`, '{"id":"b"}']);
    return published.run;
  };
  await run();
  const copier: Setting['with'] = ({
    copies = {},
    env = {},
    clock = systemClock,
    mirror: path = mirror.path,
    onStart,
  }) =>
    createCopier({
      copies: { ...copiesOf(directory), ...copies },
      mirror: path,
      command: 'copies make',
      env,
      withheld: { variables: [], secrets: [new Secret(KEY)] },
      clock,
      log: silentLogger,
      host: 'here',
      pid: 4711,
      // A process takes a second to start from sources: a few tests show that it does the same.
      work: onStart === undefined ? makeHere : copyInProcess({ env, onStart }),
    });
  return { mirror, home, directory, copier: copier({}), with: copier, sync: run };
}

function copiesOf(directory: string): CopiesConfig {
  return {
    directory,
    everyMs: 86_400_000,
    retention: { last: 100 },
    recipients: [],
    recipientsFile: null,
    command: null,
    commandTimeoutMs: 60_000,
  };
}

export const never = new AbortController().signal;
