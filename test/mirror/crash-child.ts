/**
 * A writer to be killed: run after run, it changes every record of a collection to the run's own generation, and says on
 * stdout how far it is, a line for each step and for each turn of the event loop while it publishes.
 * Arguments: the mirror's path, the number of records.
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
  const run = mirror.runs.begin({
    source: { name: 'production', baseUrl: 'https://svc.example.com' },
    trigger: 'test',
    volatileFields: new Map(),
    definitions: CATALOG,
    isEqual: () => false,
  });
  const scope = { organization_id: 'o1' };
  const stage = run.stage('roles', scope);
  for (let from = 0; from < Number(count); from += 500) {
    const page = Array.from({ length: 500 }, (_, i) =>
      scanRecord(`{"id":"r${from + i}","generation":${run.run},"pad":"${'x'.repeat(1500)}"}`, {
        idPath: ['id'],
        volatile: new Set(),
      }),
    );
    stage.accept(page);
    say('page');
  }
  let isPublishing = true;
  const tick = (): void => {
    if (!isPublishing) return;
    say('turn');
    setImmediate(tick);
  };
  tick();
  await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
  isPublishing = false;
  say('published');
}
