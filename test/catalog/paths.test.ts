import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fillPath, scopeKey } from '../../src/catalog/catalog.ts';

describe('paths', () => {
  it.each([
    ['a/b', 'a%2Fb'],
    ['../../etc', '..%2F..%2Fetc'],
    ['..', '%2E%2E'],
    ['.', '%2E'],
    ['%2F', '%252F'],
    ['with space', 'with%20space'],
    ['?x=1#y', '%3Fx%3D1%23y'],
    ['é', '%C3%A9'],
  ])('encodes the id %s as one segment', (id, segment) => {
    expect(fillPath('/api/organizations/:id/', { id })).toBe(`/api/organizations/${segment}/`);
  });

  it('gives every id a segment that decodes to it and holds no separator', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (id) => {
        const path = fillPath('/api/:id/', { id });
        const segments = path.split('/');
        expect(segments).toHaveLength(4);
        expect(decodeURIComponent(segments[2]!)).toBe(id.toWellFormed());
      }),
    );
  });

  it('refuses to leave a parameter open', () => {
    expect(() => fillPath('/api/:organization_id/', {})).toThrow('organization_id');
  });

  it('gives equal scopes one key whatever their order', () => {
    expect(scopeKey({ role_id: 'r', organization_id: 'o' })).toBe(
      scopeKey({ organization_id: 'o', role_id: 'r' }),
    );
    expect(scopeKey({ organization_id: 'a' })).not.toBe(scopeKey({ project_id: 'a' }));
  });
});
