import { describe, expect, it } from 'vitest';
import { CATALOG } from '../../src/catalog/catalog.ts';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { CollectionRow } from '../../src/mirror/run-rows.ts';
import { Discovery } from '../../src/sync/discovery.ts';
import { forecast } from '../../src/sync/sync-run.ts';

const limits = { organizations: 'all', projects: 'all', areProjectsTrusted: true } as const;
const kinds: readonly Kind[] = [
  'organizations',
  'projects',
  'roles',
  'role_memberships',
  'session_recordings',
  'recording_sharing',
];

function row(kind: Kind, scope: Scope, records: number): CollectionRow {
  return { kind, scope, records, lastRun: 1, pageCap: 100 } as CollectionRow;
}

function forecastOf(
  discovery: Discovery,
  held: readonly CollectionRow[],
  from: readonly Kind[],
  settled: readonly Kind[],
) {
  const { sweeps, open } = forecast({
    source: { recordings: { sharingPerRun: 200, fullSweepEveryMs: 0 } },
    held,
    definitions: CATALOG.filter(({ kind }) => from.includes(kind)),
    settled,
    discovery,
    isHeadEnough: (collection) => collection !== undefined,
  });
  return { open, sweeps: sweeps.map(({ kind, known, reading }) => [kind, known, reading]) };
}

describe('what is still to come', () => {
  it('in a first run: only the root, and anything may follow', () => {
    expect(forecastOf(new Discovery(limits), [], kinds, [])).toEqual({
      sweeps: [['organizations', null, 'full']],
      open: ['projects', 'roles', 'role_memberships', 'session_recordings', 'recording_sharing'],
    });
  });

  it('in a first run, level by level: what hangs from lists that nobody read stays open', () => {
    const discovery = new Discovery(limits);
    discovery.found('organizations', {}, 'o', '{"teams":[{"id":1}]}');
    const below = kinds.slice(1);
    expect(forecastOf(discovery, [], below, ['projects', 'roles']).open).toEqual([
      'role_memberships',
      'session_recordings',
      'recording_sharing',
    ]);
    const last: Kind[] = ['role_memberships', 'session_recordings', 'recording_sharing'];
    expect(forecastOf(discovery, [], last, last.slice(0, 2))).toEqual({
      sweeps: [
        ['session_recordings', null, 'full'],
        ['recording_sharing', null, 'each'],
      ],
      open: [],
    });
  });

  it('in a later run: what the mirror remembers, sharing within its budget, feeds at their head', () => {
    const discovery = new Discovery(limits);
    const o = { organization_id: 'o' };
    const p = { project_id: '1' };
    const held = [
      row('organizations', {}, 1),
      row('projects', o, 1),
      row('roles', o, 0),
      row('session_recordings', p, 5_000),
      row('recording_sharing', p, 90),
    ];
    for (const { scope } of held) discovery.knew(scope);
    expect(forecastOf(discovery, held, kinds, [])).toEqual({
      sweeps: [
        ['organizations', 1, 'full'],
        ['projects', 1, 'full'],
        ['roles', 0, 'full'],
        ['session_recordings', 5_000, 'head'],
        ['recording_sharing', 200, 'each'],
      ],
      open: [],
    });
  });
});
