/** Session recordings of about 800 bytes, the same in every run, and mirrors filled with them without a network. */
import { CATALOG, definitionOf } from '../src/catalog/catalog.ts';
import { volatileFields } from '../src/catalog/definition.ts';
import { systemClock } from '../src/core/clock.ts';
import { scanRecord } from '../src/core/json-scan.ts';
import type { Mirror } from '../src/mirror/mirror.ts';
import { openMirror } from '../src/mirror/mirror.ts';
import { isSameContent } from '../src/sync/content.ts';

const KIND = 'session_recordings';
const SCOPE = { project_id: '1' };
const PAGE = 1000;

function uuid(index: number): string {
  // Spread like random UUIDs, yet the same in every run.
  const mixed = (Math.imul(index + 1, 2_654_435_761) >>> 0).toString(16).padStart(8, '0');
  return `${mixed}-7a3c-4d1e-9b2f-${String(index).padStart(12, '0')}`;
}

/** One recording; another generation is the same recording with one number changed. */
export function recording(index: number, generation: number): string {
  const start = new Date(Date.UTC(2026, 0, 1) + index * 1000).toISOString();
  return JSON.stringify({
    id: uuid(index),
    distinct_id: `user-${index % 5000}`,
    viewed: index % 3 === 0,
    recording_duration: 61.5 + (index % 900),
    active_seconds: 30.25 + (index % 300),
    inactive_seconds: 31.25 + generation,
    start_time: start,
    end_time: start.replace('2026', '2027'),
    click_count: index % 50,
    keypress_count: index % 70,
    mouse_activity_count: index % 900,
    console_log_count: index % 11,
    console_warn_count: index % 5,
    console_error_count: index % 3,
    start_url: `https://app.harbor.example/dashboards/${index % 400}?tab=overview`,
    person: {
      id: index % 5000,
      name: `Person ${index % 5000}`,
      distinct_ids: [`user-${index % 5000}`],
      properties: {
        email: `person${index % 5000}@harbor.example`,
        browser: 'Firefox',
        os: 'Linux',
        city: 'Rotterdam',
        plan: 'enterprise',
        referrer: 'https://www.harbor.example/pricing',
      },
      created_at: '2025-03-01T09:30:00Z',
      uuid: uuid(index % 5000),
    },
    storage: 'object_storage',
    snapshot_source: 'web',
    ongoing: false,
  });
}

export function openBenchMirror(path: string): Mirror {
  return openMirror(path, { mode: 'write', command: 'bench', clock: systemClock });
}

/** One run that reads exactly these recordings; the others stay as they are. */
export async function syncRecordings(mirror: Mirror, texts: Iterable<string>): Promise<number> {
  const definition = definitionOf(KIND);
  const volatile = volatileFields(definition);
  const shape = { idPath: definition.idPath, volatile };
  const run = mirror.beginRun({
    source: { name: 'default', baseUrl: 'http://127.0.0.1:1' },
    trigger: 'bench',
    volatileFields: new Map([[KIND, volatile]]),
    definitions: CATALOG,
    isEqual: (_kind, one, other) => isSameContent(definition, one, other),
  });
  const stage = run.stage(KIND, SCOPE);
  let page: string[] = [];
  let records = 0;
  const flush = (): void => {
    stage.accept(page.map((text) => scanRecord(text, shape)));
    records += page.length;
    page = [];
  };
  for (const text of texts) if (page.push(text) === PAGE) flush();
  flush();
  const sweep = {
    kind: KIND,
    scope: SCOPE,
    mode: 'full',
    pages: 1,
    count: null,
    records,
    error: null,
  } as const;
  await run.publish({
    outcome: 'complete',
    sweeps: [{ ...sweep, outcome: 'complete' }],
    requests: 1,
    retries: 0,
  });
  return run.run;
}

/** The recordings from `from` on, `count` of them. */
export function* recordings(count: number, generation: (index: number) => number): Generator<string> {
  for (let index = 0; index < count; index += 1) yield recording(index, generation(index));
}
