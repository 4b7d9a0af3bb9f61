/** Random diffs with whatever a service could hold: for checking outputs against the schemas of others. */
import fc from 'fast-check';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { DiffDocument } from '../../src/diff/change.ts';
import { parseLossless } from '../../src/core/json.ts';
import { sortRecords } from '../../src/diff/states.ts';
import { diffStates } from '../diff/diff-states.ts';

const HOSTILE = [
  '<script>alert(1)</script>',
  ']]>&amp;<!--',
  '\u001b[2J\u0000\u0007',
  '\u202eevil\u2066',
  '\ud800',
  '=cmd()|calc',
  '../../etc/passwd',
  '\ufffe\uffff\u2028',
  '%00%zz',
  'x'.repeat(5_000),
  '',
];

const text = fc.oneof(fc.constantFrom(...HOSTILE), fc.string({ unit: 'binary', maxLength: 20 }));
const value = fc.oneof(
  text,
  fc.jsonValue({ maxDepth: 3 }),
  fc.constant(parseLossless('12345678901234567890.10')),
);
const body = fc.dictionary(
  fc.oneof(fc.constantFrom('name', 'domain', 'level', 'paused', 'destination', '__proto__', 'a/b~c'), text),
  value,
  { maxKeys: 5 },
);
const record = fc.record({
  kind: fc.constantFrom<Kind[]>('organizations', 'domains', 'invites', 'plugins', 'batch_exports', 'members'),
  id: text,
  organization: text,
  from: fc.option(body, { nil: undefined }),
  to: fc.option(body, { nil: undefined }),
});

/** Any diff, also with nothing in it and with collections that could not be compared. */
export const anyDiff: fc.Arbitrary<DiffDocument> = fc
  .record({
    records: fc.uniqueArray(record, {
      maxLength: 6,
      selector: ({ kind, id, organization }) =>
        JSON.stringify([kind, kind === 'organizations' ? '' : organization, id]),
    }),
    reasons: fc.array(text, { maxLength: 2 }),
    reference: text,
  })
  .map(({ records, reasons, reference }) => {
    const side = (name: 'from' | 'to') =>
      sortRecords(
        records.flatMap(({ kind, id, organization, [name]: held }) =>
          held === undefined
            ? []
            : [{ kind, scope: scopeOf(kind, organization), id, body: JSON.stringify(held) }],
        ),
      );
    return diffStates(
      { reference: { ref: `file:${reference}`, at: '2026-03-01T07:00:00.000Z' }, records: side('from') },
      { reference: { ref: 'run:2', run: 2 }, records: side('to') },
      {
        mode: 'all',
        skipped: reasons.map((reason) => ({ kind: 'roles', scope: { organization_id: 'o' }, reason })),
      },
    );
  });

function scopeOf(kind: Kind, organization: string): Scope {
  return kind === 'organizations' ? {} : { organization_id: organization };
}
