/** A run that may meet a full disk. Arguments: the mirror's path, how many records to stage, what each of them says. */
import { createHash } from 'node:crypto';
import { systemClock } from '../../src/core/clock.ts';
import { TidemarkError } from '../../src/core/errors.ts';
import { scanRecord } from '../../src/core/json-scan.ts';
import { CATALOG } from '../../src/catalog/catalog.ts';
import { openMirror } from '../../src/mirror/open.ts';

const [path = '', records = '0', seed = ''] = process.argv.slice(2);

/** Text that no compression makes small. */
function noise(of: string): string {
  return Array.from({ length: 20 }, (_, i) =>
    createHash('sha256').update(`${of} ${i}`).digest('base64'),
  ).join('');
}

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const mirror = openMirror(path, { mode: 'write', command: 'disk test', clock: systemClock });
const run = mirror.runs.begin({
  source: { name: 'production', baseUrl: 'https://svc.example.com' },
  trigger: 'test',
  volatileFields: new Map(),
  definitions: CATALOG,
  isEqual: () => false,
});
const publish = () => run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
try {
  const stage = run.stage('roles', { organization_id: 'o1' });
  for (let from = 0; from < Number(records); from += 500) {
    const page = Array.from({ length: Math.min(500, Number(records) - from) }, (_, i) => {
      const text = JSON.stringify({ id: `r${from + i}`, seed, pad: noise(`${seed} ${from + i}`) });
      return scanRecord(text, { idPath: ['id'], volatile: new Set() });
    });
    stage.accept(page);
  }
  say('staged');
  await publish();
  say('published');
} catch (error) {
  if (!(error instanceof TidemarkError)) throw error;
  say(`${error.code}: ${error.message}`);
  // Trying again does not make half of it visible either.
  await publish().catch((again: unknown) =>
    say(`again ${again instanceof TidemarkError ? again.code : 'other'}`),
  );
  run.abandon(error);
}
mirror.close();
if (mirror.leftInLog !== null) say(`left ${mirror.leftInLog.code}`);
