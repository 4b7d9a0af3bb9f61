import { describe, expect, it } from 'vitest';
import { shareText, textRecord } from '../../src/restore/records.ts';

const place = { kind: 'roles', scope: { organization_id: 'o' }, id: 'r' } as const;

describe('a record that is parsed when looked into', () => {
  it('gives the same body each time, and one for both sides that share the text', () => {
    const held = { text: '{"name":"Writers","level":1.10}' };
    const [one, other] = [textRecord(place, held), textRecord(place, held)];
    expect(one.body).toBe(other.body);
    expect(JSON.stringify(one.body)).toBe(held.text);
    expect(shareText(one, other)).toBe(true);
  });

  it('shares nothing with an equal text that was held apart', () => {
    const record = (): ReturnType<typeof textRecord> => textRecord(place, { text: '{}' });
    expect(shareText(record(), record())).toBe(false);
  });

  it('shares nothing with a copy of it that has another body', () => {
    const record = textRecord(place, { text: '{"name":"Writers"}' });
    const changed = { ...record, body: { name: 'Readers' } };
    expect(shareText(record, changed)).toBe(false);
    expect({ ...record }.body).toEqual({ name: 'Writers' });
  });

  it('throws for what is not JSON when it is looked into', () => {
    const record = textRecord(place, { text: '{"name":' });
    expect(() => record.body).toThrow();
  });
});
