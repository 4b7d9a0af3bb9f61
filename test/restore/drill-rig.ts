/** A drill for tests: records in an export, the real sandbox, the real client, sync and apply. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import type { DrillDocument, DrillKind } from '../../src/diff/drill-document.ts';
import { runDrill } from '../../src/restore/drill/drill.ts';
import { type DrillOptions, NO_DRILL_EVENTS } from '../../src/restore/drill/rounds.ts';
import { NO_SECRETS } from '../../src/restore/secrets.ts';
import { openDrillSandbox } from '../../src/server/drill-sandbox.ts';
import { createChance } from '../../src/server/seed/chance.ts';
import { readExport } from '../../src/state/export-state.ts';
import type { LoadedState } from '../../src/state/state.ts';
import { posthog, record } from './states.ts';

export const ORG = '0190aaaa-0000-4000-8000-000000000001';
const WITHIN = { organization_id: ORG };
export const OWNER = 'aaaaaaaa-0000-4000-8000-000000000001';
export const ANNA = 'aaaaaaaa-0000-4000-8000-000000000002';

/** The state that an export of these records holds. */
export async function stateOf(records: readonly ParsedRecord[]): Promise<LoadedState> {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-test-'));
  try {
    const path = join(directory, 'export.ndjson');
    writeFileSync(path, records.map((each) => `${JSON.stringify(each)}\n`).join(''));
    return await readExport({ path, cwd: directory, source: null });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

export async function drillOf(
  records: readonly ParsedRecord[],
  changes: Partial<DrillOptions> & { readonly sandboxDefinitions?: DrillOptions['definitions'] } = {},
): Promise<DrillDocument> {
  const { sandboxDefinitions, ...options } = changes;
  const definitions = options.definitions ?? posthog;
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const grounds: { close(): Promise<void> }[] = [];
  try {
    return await runDrill({
      state: await stateOf(records),
      filter: {},
      definitions,
      secrets: NO_SECRETS,
      ownUser: null,
      damage: null,
      random: seeded,
      openService: async (userUuid) => {
        const ground = await openDrillSandbox({
          userUuid,
          definitions: sandboxDefinitions ?? definitions,
          clock: systemClock,
          log: silentLogger,
        });
        grounds.push(ground);
        return ground;
      },
      reader: { command: 'drill', pid: process.pid, host: 'test', clock: systemClock },
      clock: systemClock,
      log: silentLogger,
      signal: stop.signal,
      events: NO_DRILL_EVENTS,
      ...options,
    });
  } finally {
    for (const ground of grounds) await ground.close();
  }
}

export function seeded(seed: number): () => number {
  const chance = createChance(seed);
  return () => chance.between(0, 2 ** 32 - 1) / 2 ** 32;
}

/** Counts of a kind, without its reasons and fields. */
export function row(document: DrillDocument, kind: string): Partial<DrillKind> | undefined {
  const found = document.kinds.find((each) => each.kind === kind);
  if (found === undefined) return undefined;
  const { records, comes_back, needs_secret, needs_person, cannot, unknown } = found;
  return { records, comes_back, needs_secret, needs_person, cannot, unknown };
}

/** A small organization with something of every verdict but `unknown`. */
export function organization(): ParsedRecord[] {
  return [
    record('organizations', ORG, {
      id: ORG,
      name: 'Harbor',
      slug: 'harbor',
      membership_level: 15,
      enforce_2fa: true,
      teams: [],
    }),
    record('projects', '7', { id: 7, name: 'Web', timezone: 'Europe/Oslo', api_token: 'svc_old' }, WITHIN),
    member(OWNER, 'owner@harbor.example', 15, '2024-01-01T00:00:00Z'),
    member(ANNA, 'anna@harbor.example', 8, '2024-02-01T00:00:00Z'),
    record('roles', 'r1', { id: 'r1', name: 'Growth', created_at: 'then' }, WITHIN),
    record(
      'role_memberships',
      'rm1',
      { id: 'rm1', role_id: 'r1', user: { uuid: OWNER, email: 'owner@harbor.example' } },
      { ...WITHIN, role_id: 'r1' },
    ),
    record(
      'role_memberships',
      'rm2',
      { id: 'rm2', role_id: 'r1', user: { uuid: ANNA, email: 'anna@harbor.example' } },
      { ...WITHIN, role_id: 'r1' },
    ),
    record(
      'invites',
      'invite-secret',
      {
        id: 'invite-secret',
        target_email: 'new@harbor.example',
        level: 1,
        is_expired: false,
        private_project_access: [{ id: 7, level: 'member' }],
      },
      WITHIN,
    ),
    record(
      'domains',
      'd1',
      {
        id: 'd1',
        domain: 'harbor.example',
        is_verified: true,
        sso_enforcement: 'saml',
        saml_entity_id: 'idp',
      },
      WITHIN,
    ),
    batchExport('b1', 'Nightly', { type: 'NoOp', config: {} }, false),
    batchExport('b2', 'Warehouse', { type: 'HTTP', config: { url: 'https://sink.example' } }, true),
    record('proxy_records', 'x1', { id: 'x1', domain: 'e.harbor.example', status: 'valid' }, WITHIN),
    ...['s1', 's2', 's3'].map((id) => record('session_recordings', id, { id }, { project_id: '7' })),
  ];
}

export function member(uuid: string, email: string, level: number, joined: string): ParsedRecord {
  return record(
    'members',
    uuid,
    { id: `m-${uuid}`, user: { uuid, email, first_name: 'A' }, level, joined_at: joined },
    WITHIN,
  );
}

export function batchExport(id: string, name: string, destination: object, paused: boolean): ParsedRecord {
  return record(
    'batch_exports',
    id,
    { id, team_id: 7, name, model: 'events', destination, interval: 'hour', paused, hogql_query: 'select 1' },
    WITHIN,
  );
}
