import { describe, expect, it } from 'vitest';
import { fieldFilter } from '../../src/diff/change.ts';
import { Secret } from '../../src/core/secret.ts';
import { configuredSecrets } from '../../src/restore/secrets.ts';
import { lines, organization, planOf, record, svc, withBody } from './states.ts';

/** As `--field` of the command. */
function asked(...pointers: string[]): (path: string) => boolean {
  const select = fieldFilter(pointers);
  const head = { kind: 'organizations', scope: {}, id: '', name: '', change: 'changed' } as const;
  return (path) => select({ ...head, fields: [{ path }] }) !== null;
}

const config = (type: string, members: object) => ({ destination: { type, config: members } });
const s3 = record('batch_exports', 'b1', {
  id: 'b1',
  name: 'Nightly',
  interval: 'day',
  paused: true,
  ...config('S3', { bucket_name: 'then', prefix: 'a/' }),
});
const live = withBody(s3, config('S3', { bucket_name: 'now', prefix: 'b/', region: 'eu' }));
const PREFIX = asked('/destination/config/prefix');
const secrets = configuredSecrets([
  {
    kind: 'batch_exports',
    match: {},
    values: {
      '/destination/config/aws_access_key_id': new Secret('AKIA'),
      '/destination/config/aws_secret_access_key': new Secret('shh'),
    },
  },
]);

describe('a field inside a member that is sent whole', () => {
  it('is set, and everything beside it stays as live has it', () => {
    const plan = planOf([organization, s3], [organization, live], { isFieldInScope: PREFIX, secrets });
    expect(lines(plan)).toEqual([
      'update batch_exports PATCH …/batch_exports/b1/ {"destination":{"type":"S3","config":{"bucket_name":"now","prefix":"a/","region":"eu"}}}',
    ]);
    expect(plan.steps[0]?.fields).toEqual([{ path: '/destination/config/prefix', from: 'b/', to: 'a/' }]);
    expect(plan.steps[0]?.request?.fills).toEqual([]);
  });

  it('blocks where PATCH does not merge and the secrets beside it would be sent', () => {
    for (const changes of [{}, { secrets }]) {
      const plan = planOf([organization, s3], [organization, live], {
        ...changes,
        isFieldInScope: PREFIX,
        definitions: svc,
      });
      expect(plan.steps).toMatchObject([{ action: 'blocked', obstacle: 'no_value', request: null }]);
      expect(plan.steps[0]?.reason).toContain('/destination/config/aws_secret_access_key');
      expect(plan.steps[0]?.reason).toContain('--field /destination');
    }
  });

  it('is sent without merging where nothing beside it is hidden', () => {
    const then = withBody(s3, config('NoOp', { a: 1, b: 1 }));
    const now = withBody(s3, config('NoOp', { a: 2, b: 2, c: 2 }));
    const changes = { isFieldInScope: asked('/destination/config/a'), definitions: svc };
    expect(planOf([organization, then], [organization, now], changes).steps[0]?.request?.body).toEqual(
      config('NoOp', { a: 1, b: 2, c: 2 }),
    );
  });

  it('blocks where a secret in clear beside it is another one by now', () => {
    const component = (url: string, key: string) =>
      record('pipeline_destinations', '12', {
        id: 12,
        name: 'Web',
        organization_id: 'org-1',
        config_schema: { url, api_key: key },
      });
    const plan = (key: string) =>
      planOf([organization, component('a', 'old')], [organization, component('b', key)], {
        isFieldInScope: asked('/config_schema/url'),
      });
    expect(plan('new').steps).toMatchObject([{ action: 'blocked', obstacle: 'no_value' }]);
    expect(plan('old').steps).toMatchObject([{ action: 'update' }]);
  });

  it('of a list is the whole list, or blocks where more of it differs', () => {
    const list = (b: number, ...ids: number[]) =>
      withBody(s3, config('NoOp', { b, list: ids.map((id) => ({ id, text: `${id}` })) }));
    const plan = (pointer: string) =>
      planOf([organization, list(1, 1, 4)], [organization, list(2, 1, 2, 3)], {
        isFieldInScope: asked(pointer),
        definitions: svc,
      }).steps;
    const { destination } = list(2, 1, 4).body as { destination: object };
    expect(plan('/destination/config/list')[0]?.request?.body).toEqual({ destination });
    expect(plan('/destination/config/list/1')).toMatchObject([{ action: 'blocked', obstacle: 'no_value' }]);
  });

  it('does not take along what an action moves', () => {
    const then = withBody(s3, { paused: false, start_at: '2026-01-01T00:00:00Z' });
    const now = withBody(s3, { paused: true, start_at: '2026-02-01T00:00:00Z' });
    const plan = planOf([organization, then], [organization, now], { isFieldInScope: asked('/paused') });
    for (const { request } of plan.steps) expect(JSON.stringify(request?.body)).not.toContain('2026-01');
  });
});
