/** Values return exactly as they were sent, and addresses mean exactly one record. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodePathSegment } from '../../src/catalog/catalog.ts';
import { matchRoute } from '../../src/server/interface.ts';
import { valueText } from '../../src/server/value-text.ts';
import { type RunningSandbox, startSandbox, withOrganization } from './running-sandbox.ts';

/** JSON texts whose numbers a double would alter, with any key and any text. */
const jsonText = fc.letrec<{ value: string; object: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
    fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }).map(String),
    fc.tuple(fc.integer(), fc.nat(99)).map(([whole, part]) => `${whole}.${String(part).padStart(2, '0')}0`),
    fc.constantFrom('null', 'true', 'false', '[]', '{}', '1e400', '-0', '1E5'),
    tie('object'),
    fc.array(tie('value'), { maxLength: 3 }).map((values) => `[${values.join(',')}]`),
  ),
  object: fc
    .uniqueArray(
      fc.tuple(
        // Whole numbers as keys move to the front of an object, in JavaScript's JSON as in many others.
        fc
          .oneof(fc.constantFrom('__proto__', 'constructor', 'toString', ''), fc.string())
          .filter((key) => !/^\d+$/.test(key)),
        tie('value'),
      ),
      { selector: ([key]) => key, maxLength: 4 },
    )
    .map((members) => `{${members.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`),
}));

async function createdSchema({ call }: RunningSandbox, path: string, schema: string): Promise<string[]> {
  const raw = `{"plugin_type":"local","config_schema":${schema}}`;
  const created = await call('POST', `${path}pipeline_destinations/`, undefined, { raw });
  const read = await call('GET', `${path}pipeline_destinations/${valueText(created.json['id'])}/`);
  return [created.text, read.text];
}

describe('values', () => {
  it('come back digit by digit and character by character', async () => {
    const running = await startSandbox();
    const { path } = await withOrganization(running);
    await fc.assert(
      fc.asyncProperty(jsonText.value, async (text) => {
        for (const answered of await createdSchema(running, path, text)) {
          expect(answered).toContain(`"config_schema":${text},`);
        }
      }),
      { numRuns: 150 },
    );
  });

  it('are what a direct write put in, absent members included', async () => {
    const running = await startSandbox();
    const { path, id } = await withOrganization(running);
    const raw = '{"id":7,"name":null,"extra":{"__proto__":[1.10,12345678901234567890]}}';
    const { parseLossless, isJsonObject } = await import('../../src/core/json.ts');
    const body = parseLossless(raw);
    if (!isJsonObject(body)) throw new Error('not an object');
    running.sandbox.store.write('plugins', { organization_id: id }, body);
    expect((await running.call('GET', `${path}plugins/7/`)).text).toBe(raw);
    expect((await running.call('GET', `${path}plugins/`)).text).toContain(`[${raw}]`);
  });
});

describe('addresses', () => {
  it('give back any id that a client encoded', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', minLength: 1 }),
        fc.string({ unit: 'binary', minLength: 1 }),
        (project, recording) => {
          const path = `/api/projects/${encodePathSegment(project)}/session_recordings/${encodePathSegment(recording)}/sharing/`;
          const match = matchRoute(path);
          expect(match?.scope).toEqual({ project_id: project.toWellFormed() });
          expect(match?.id).toBe(recording.toWellFormed());
          expect(match?.byMethod.get('GET')?.definition.kind).toBe('recording_sharing');
        },
      ),
    );
  });

  it('take fixed words before ids', () => {
    const action = (path: string): unknown =>
      matchRoute(path)?.byMethod.values().next().value?.operation.action;
    expect(action('/api/organizations/o/invites/bulk/')).toBe('bulk');
    expect(action('/api/organizations/o/plugins/unused/')).toBe('unused');
    expect(action('/api/organizations/o/plugins/%75nused/')).toBe(null);
  });
});
