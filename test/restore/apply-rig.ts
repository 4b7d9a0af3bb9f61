/** A sandbox behind a proxy with faults, a mirror for the journal, and plans between states of the sandbox's store. */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { onTestFinished } from 'vitest';
import { createWriteClient, type WriteClient } from '../../src/api/write-client.ts';
import { CATALOG, scopeKey } from '../../src/catalog/catalog.ts';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { type Clock, systemClock } from '../../src/core/clock.ts';
import { type JsonObject, parseLossless } from '../../src/core/json.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { idText } from '../../src/diff/match-records.ts';
import { type Mirror } from '../../src/mirror/mirror.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { applyPlan, NO_EVENTS, type ApplyOptions } from '../../src/restore/apply/apply.ts';
import type { RestoreReport } from '../../src/restore/apply/report.ts';
import type { Plan, PlanInput, PlanOptions, PlanState } from '../../src/restore/plan/plan.ts';
import { planRestore } from '../../src/restore/plan/planner.ts';
import { idLookup } from '../../src/state/recreated-ids.ts';
import { NO_SECRETS } from '../../src/restore/secrets.ts';
import { startFaultProxy, type FaultProxy } from '../faults/fault-proxy.ts';
import { createChance } from '../../src/server/seed/chance.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { KEY, startSandbox, type RunningSandbox } from '../server/running-sandbox.ts';
import { SOURCE } from './apply-source.ts';
import { state } from './random-states.ts';
import { onDocumentedPaths, OPTIONS } from './states.ts';

export interface Rig {
  readonly running: RunningSandbox;
  readonly proxy: FaultProxy;
  readonly mirrorPath: string;
  /** The mirror, opened for writing; the same until `reopen`. */
  mirror(): Mirror;
  reopen(): Mirror;
  /** What the sandbox holds now. */
  live(): ParsedRecord[];
  /** Replaces everything that the sandbox holds. */
  put(records: readonly ParsedRecord[]): void;
  plan(desired: readonly ParsedRecord[], changes?: PlanChanges): Plan;
  apply(plan: Plan, changes?: Partial<ApplyOptions>): Promise<RestoreReport>;
  client(clock?: Clock, url?: string): WriteClient;
}

export type PlanChanges = Partial<Omit<PlanInput, 'options' | 'desired' | 'live'>> & {
  readonly options?: Partial<PlanOptions>;
};

/** Ids of users of random-states.ts: the key's own is none of them. */
const LOOSE: Partial<PlanOptions> = {
  limits: { maxShare: 1, minRecords: 1_000_000 },
  ownUserId: 'nobody',
};

let rigs = 0;

export async function startRig(records: readonly ParsedRecord[] = []): Promise<Rig> {
  // Every sandbox gives ids of its own: those of two must not be taken for each other.
  rigs += 1;
  const chance = createChance(1000 + rigs);
  const running = await startSandbox({ random: () => chance.between(0, 2 ** 31) / (2 ** 31 + 1) });
  const proxy = await startFaultProxy(running.url);
  onTestFinished(() => proxy.close());
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-apply-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const mirrorPath = join(directory, 'mirror.db');
  const opened: Mirror[] = [];
  const clients: WriteClient[] = [];
  onTestFinished(async () => {
    for (const client of clients) await client.close();
    for (const mirror of opened) mirror.close();
  });
  const { store } = running.sandbox;
  for (const kind of ['projects', 'pipeline_destinations'] as const) {
    const scope = { organization_id: 'none' };
    store.write(kind, scope, { id: rigs * 1000 });
    store.discard(kind, scope, String(rigs * 1000));
  }
  let known: readonly ParsedRecord[] = [];

  const open = (): Mirror => {
    const mirror = openMirror(mirrorPath, { mode: 'write', command: 'test', clock: systemClock });
    opened.push(mirror);
    return mirror;
  };
  const rig: Rig = {
    running,
    proxy,
    mirrorPath,
    mirror: () => opened.at(-1) ?? open(),
    reopen: () => {
      opened.at(-1)?.close();
      return open();
    },
    live: () => liveOf(running),
    put: (wanted) => {
      for (const { kind, scope, id } of liveOf(running).reverse()) store.discard(kind, scope, id);
      for (const { kind, scope, body } of wanted) store.write(kind, scope, body as JsonObject);
    },
    plan: (desired, { options, ...changes } = {}) => {
      known = desired;
      return planRestore({
        desired: planState(desired),
        live: planState(liveOf(running)),
        definitions: onDocumentedPaths,
        idMap: idLookup(rig.mirror().restores.idMap(SOURCE.name)),
        secrets: NO_SECRETS,
        now: 0,
        ...changes,
        options: { ...OPTIONS, ...LOOSE, ...options },
      });
    },
    apply: (plan, changes = {}) =>
      applyPlan({
        plan,
        mirror: rig.mirror(),
        source: SOURCE,
        client: changes.client ?? rig.client(),
        clock: new FakeClock(),
        log: silentLogger,
        signal: new AbortController().signal,
        events: NO_EVENTS,
        secrets: NO_SECRETS,
        desired: ({ kind, scope, id }) =>
          known.find(
            (each) => each.kind === kind && each.id === id && scopeKey(each.scope) === scopeKey(scope),
          )?.body,
        concurrency: 3,
        ...changes,
      }),
    client: (clock = new FakeClock(), url = proxy.url) => {
      const client = createWriteClient({
        baseUrl: new URL(url),
        apiKey: new Secret(KEY),
        // One: whatever waits for a second place while it has one waits for good, and shows it.
        rate: { perMinute: 0, perHour: 0, concurrency: 1 },
        retry: { attempts: 3, maxWaitSeconds: 300 },
        timeouts: { headersMs: 400, bodyMs: 400, totalMs: 800 },
        userAgent: 'test',
        clock,
        random: () => 0.5,
        log: silentLogger,
      });
      clients.push(client);
      return client;
    },
  };
  rig.put(records);
  return rig;
}

function liveOf({ sandbox }: RunningSandbox): ParsedRecord[] {
  return [...sandbox.snapshot()].map(({ kind, scope, id, body }) => ({
    kind,
    scope,
    id,
    // As it would come over the wire.
    body: parseLossless(JSON.stringify(body)),
  }));
}

/** A state with every collection of its records' parents, all of them whole. */
export function planState(records: readonly ParsedRecord[]): PlanState {
  const collections = new Map<string, { kind: Kind; scope: Scope; isComplete: true }>();
  const add = (kind: Kind, scope: Scope): void => {
    collections.set(`${kind} ${scopeKey(scope)}`, { kind, scope, isComplete: true });
  };
  add('organizations', {});
  for (const { kind, scope, id } of records) {
    add(kind, scope);
    for (const row of CATALOG) {
      const last = row.scope.at(-1);
      if (kind === 'organizations' && row.scope.join() === 'organization_id')
        add(row.kind, { organization_id: id });
      if (kind === 'roles' && last === 'role_id') add(row.kind, { ...scope, role_id: id });
    }
  }
  return { reference: { ref: 'test' }, records, collections: [...collections.values()] };
}

/** The same records with UUIDs where random-states.ts has short ids: the sandbox takes nothing else. */
export function withUuids(records: readonly ParsedRecord[]): ParsedRecord[] {
  const text = JSON.stringify(records).replaceAll(
    /"(o[12](?:-[^"@ ]*)?|extra\d+)"/g,
    (_whole, id: string) => `"${uuidOf(id)}"`,
  );
  return parseLossless(text) as unknown as ParsedRecord[];
}

function uuidOf(id: string): string {
  const hex = createHash('sha256').update(id).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** One organization with a bit of everything. */
export function world(): ParsedRecord[] {
  const [found] = fc
    .sample(state, { numRuns: 400, seed: 3 })
    .filter((each) => each.some(({ kind }) => kind === 'batch_exports'))
    .map((each) => each.filter(({ scope, id }) => (scope.organization_id ?? id) === 'o1'))
    .sort((a, b) => b.length - a.length);
  return withUuids(found ?? []);
}

/**
 * The same organization as the service itself would have made it, every field of every record there: what a snapshot
 * holds. Made by a restore into an organization that has its members only.
 */
export async function nativeWorld(rig: Rig): Promise<ParsedRecord[]> {
  const wanted = world();
  rig.put(wanted.filter(({ kind }) => kind === 'organizations' || kind === 'members'));
  const report = await rig.apply(rig.plan(wanted));
  if (report.summary.failed + report.summary.skipped > 0) throw new Error(JSON.stringify(report.steps));
  // With a target, a proxy record that is created again would leave a task: its DNS record.
  return altered(rig.live(), ({ kind }) => kind === 'proxy_records', { target_cname: null });
}

/** How many records of each kind there are. */
export function counts(records: readonly ParsedRecord[]): Record<string, number> {
  return Object.fromEntries(
    [...Map.groupBy(records, ({ kind }) => kind)].map(([kind, list]) => [kind, list.length]),
  );
}

/** The state without what is chosen, and without what is below it. */
export function without(
  records: readonly ParsedRecord[],
  isGone: (record: ParsedRecord) => boolean,
): ParsedRecord[] {
  const gone = new Set(records.filter(isGone).map(({ id }) => id));
  return records.filter(
    ({ scope, id, body }) =>
      !gone.has(id) &&
      !Object.values(scope).some((parent) => gone.has(parent)) &&
      !gone.has(idText((body as JsonObject)['team_id'] ?? '')),
  );
}

/** The state with some members of some bodies changed. */
export function altered(
  records: readonly ParsedRecord[],
  isAltered: (record: ParsedRecord) => boolean,
  members: JsonObject,
): ParsedRecord[] {
  return records.map((record) =>
    isAltered(record) ? { ...record, body: { ...(record.body as JsonObject), ...members } } : record,
  );
}
