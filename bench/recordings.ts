/** Runs of a mirror that read chosen recordings, without a network: a history as deep as wanted. */
import { CATALOG, definitionOf } from '../src/catalog/catalog.ts';
import { volatileFields } from '../src/catalog/volatile-names.ts';
import { systemClock } from '../src/core/clock.ts';
import { scanRecord } from '../src/core/json-scan.ts';
import { type Mirror } from '../src/mirror/mirror.ts';
import { openMirror } from '../src/mirror/open.ts';
import { isSameContent } from '../src/sync/content.ts';
import { environment } from './page-source.ts';

const KIND = 'session_recordings';
const SCOPE = { project_id: '1' };

export function openBenchMirror(path: string): Mirror {
  return openMirror(path, { mode: 'write', command: 'bench', clock: systemClock });
}

/** One run that reads exactly these recordings; the others stay as they are. Returns its number. */
export async function syncRecordings(mirror: Mirror, texts: readonly string[]): Promise<number> {
  const definition = definitionOf(KIND);
  const volatile = volatileFields(definition);
  const run = mirror.runs.begin({
    source: { name: 'default', baseUrl: 'http://127.0.0.1:1' },
    trigger: 'bench',
    volatileFields: new Map([[KIND, volatile]]),
    definitions: CATALOG,
    isEqual: (_kind, one, other) => isSameContent(definition, one, other),
  });
  run
    .stage(KIND, SCOPE)
    .accept(texts.map((text) => scanRecord(text, { idPath: definition.idPath, volatile })));
  await run.publish({
    outcome: 'complete',
    sweeps: [
      {
        kind: KIND,
        scope: SCOPE,
        outcome: 'complete',
        mode: 'head',
        pages: 1,
        count: null,
        records: texts.length,
        error: null,
      },
    ],
    requests: 1,
    retries: 0,
  });
  return run.run;
}

/** The environment of a command that reads a mirror and asks no service. */
export function offline(mirror: string): Record<string, string> {
  return environment({ url: 'http://127.0.0.1:1' }, mirror);
}
