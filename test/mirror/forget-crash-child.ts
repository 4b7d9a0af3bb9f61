/**
 * A mirror to be killed while it forgets: run after run, every record changes to the run's own generation; after every
 * third run all but the latest two are forgotten, and the file is made smaller. Says on stdout how far it is, a line for
 * each step and for each turn of the event loop. Arguments: the mirror's path, the number of records.
 */
import { systemClock } from '../../src/core/clock.ts';
import { scanRecord } from '../../src/core/json-scan.ts';
import { CATALOG } from '../../src/catalog/catalog.ts';
import { openMirror } from '../../src/mirror/open.ts';

const [path = '', count = '0'] = process.argv.slice(2);
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const mirror = openMirror(path, { mode: 'write', command: 'crash test', clock: systemClock });
say('open');
for (;;) {
  for (let n = 0; n < 3; n += 1) {
    const run = mirror.runs.begin({
      source: { name: 'production', baseUrl: 'https://svc.example.com' },
      trigger: 'test',
      volatileFields: new Map(),
      definitions: CATALOG,
      isEqual: () => false,
    });
    const records = Array.from({ length: Number(count) }, (_, i) =>
      scanRecord(`{"id":"r${i}","generation":${run.run},"pad":"${String(run.run * i).repeat(700)}"}`, {
        idPath: ['id'],
        volatile: new Set(),
      }),
    );
    run.stage('roles', { organization_id: 'o1' }).accept(records);
    await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
  }
  say('forget');
  let isForgetting = true;
  const tick = (): void => {
    if (!isForgetting) return;
    say('turn');
    setImmediate(tick);
  };
  tick();
  await mirror.retention.forget({ policy: { last: 2 }, isEqual: () => false });
  isForgetting = false;
  say('forgotten');
}
