/** Names that differ in letters' case: the same thing where that can be known (wire-notes.md: unique ignoring case). */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { matchRecords, MatchedIds } from '../../src/diff/match-records.ts';
import { diffSources } from '../../src/diff/sources.ts';
import type { RecordState } from '../../src/diff/states.ts';

const SCOPE = { organization_id: 'o' };

function matched(kind: Kind, field: string, from: readonly string[], to: readonly string[]) {
  const counterparts = new MatchedIds();
  counterparts.pair('organizations', 'o', 'o');
  const records = (names: readonly string[], side: string): ParsedRecord[] =>
    names.map((name, index) => ({ kind, scope: SCOPE, id: `${side}${index}`, body: { [field]: name } }));
  const match = matchRecords(definitionOf(kind), records(from, 'f'), records(to, 't'), counterparts);
  const nameOf = ({ body }: ParsedRecord): string => String((body as Record<string, unknown>)[field]);
  return {
    pairs: match.pairs.map((pair) => `${nameOf(pair.from)} = ${nameOf(pair.to)}`).sort(),
    removed: match.removed.map(nameOf).sort(),
    added: match.added.map(nameOf).sort(),
    ambiguous: match.ambiguous.map(
      (each) => `${each.from.map(nameOf).join()} ? ${each.to.map(nameOf).join()}`,
    ),
  };
}

const NONE = { pairs: [], removed: [], added: [], ambiguous: [] };

describe('a diff of two sources', () => {
  it('tells a name in other letters as one change, and what hangs from it as its own', () => {
    const record = (kind: Kind, scope: Scope, id: string, body: object): RecordState => ({
      kind,
      scope,
      id,
      body: JSON.stringify({ id, ...body }),
    });
    const side = (source: string, name: string, email: string) => {
      const scope = { organization_id: `o-${source}` };
      const records = [
        record('organizations', {}, `o-${source}`, { name: 'Harbor' }),
        record('roles', scope, `r-${source}`, { name }),
        record('role_memberships', { ...scope, role_id: `r-${source}` }, `m-${source}`, { user: { email } }),
      ];
      return { reference: { ref: 'latest', source }, records };
    };
    const { changes } = diffSources(side('a', 'Read only', 'Ada@k'), side('b', 'read ONLY', 'ada@k'), {
      mode: 'default',
    });
    expect(changes.map(({ kind, change, fields }) => ({ kind, change, fields }))).toEqual([
      { kind: 'roles', change: 'changed', fields: [{ path: '/name', from: 'Read only', to: 'read ONLY' }] },
      {
        kind: 'role_memberships',
        change: 'changed',
        fields: [{ path: '/user/email', from: 'Ada@k', to: 'ada@k' }],
      },
    ]);
  });
});

describe('counterparts', () => {
  it('are found though letters differ in case, by name, domain and address', () => {
    expect(matched('roles', 'name', ['Read only'], ['read ONLY'])).toEqual({
      ...NONE,
      pairs: ['Read only = read ONLY'],
    });
    expect(matched('invites', 'target_email', ['Ada@K.example'], ['ada@k.example']).pairs).toHaveLength(1);
    expect(matched('domains', 'domain', ['K.example'], ['k.example']).pairs).toHaveLength(1);
  });

  it('are those of the very same letters where there are any', () => {
    expect(matched('roles', 'name', ['Prod', 'prod'], ['prod', 'PROD'])).toEqual({
      ...NONE,
      pairs: ['Prod = PROD', 'prod = prod'],
    });
  });

  it('are not guessed at where several would do', () => {
    expect(matched('roles', 'name', ['Prod'], ['prod', 'PROD'])).toEqual({
      ...NONE,
      ambiguous: ['Prod ? prod,PROD'],
    });
    expect(matched('roles', 'name', ['Prod', 'pROD'], ['prod']).ambiguous).toEqual(['Prod,pROD ? prod']);
  });

  it('are not those whose ids differ in case: letters of an id tell two apart', () => {
    expect(matched('session_recordings', 'id', ['aB'], ['Ab'])).toMatchObject({ pairs: [], ambiguous: [] });
  });

  it('are every record of a side exactly once', () => {
    const names = fc.array(fc.constantFrom('a', 'A', 'b', 'B', 'bB', 'BB', ''), { maxLength: 6 });
    fc.assert(
      fc.property(names, names, (from, to) => {
        const { pairs, removed, added, ambiguous } = matched('roles', 'name', from, to);
        const split = (sign: string, texts: readonly string[], side: number) =>
          texts.flatMap((text) => text.split(sign)[side]?.split(',') ?? []);
        const seen = (side: number) => [...split(' = ', pairs, side), ...split(' ? ', ambiguous, side)];
        expect([...seen(0), ...removed].sort()).toEqual([...from].sort());
        expect([...seen(1), ...added].sort()).toEqual([...to].sort());
      }),
    );
  });
});
