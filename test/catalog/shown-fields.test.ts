import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { withShownFields } from '../../src/catalog/shown-fields.ts';

const exports = definitionOf('batch_exports');

describe('a query that only `schema` shows', () => {
  it('stands in its own place, as a request would send it', () => {
    const body = { id: 'a', schema: { svcql_query: 'SELECT 1', fields: [] } };
    expect(withShownFields(exports, body)).toEqual({ ...body, svcql_query: 'SELECT 1' });
  });

  it.each([
    ['its own value stands', { svcql_query: 'SELECT 2', schema: { svcql_query: 'SELECT 1' } }],
    ['null is a value', { svcql_query: null, schema: { svcql_query: 'SELECT 1' } }],
    ['no schema', { id: 'a' }],
    ['a schema of another form', { schema: ['svcql_query'] }],
    ['a schema without a query', { schema: { svcql_query: null } }],
    ['no record', 'text'],
  ])('%s', (_name, body) => {
    expect(withShownFields(exports, body)).toBe(body);
  });
});
