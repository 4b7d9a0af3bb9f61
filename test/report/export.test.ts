import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseLossless } from '../../src/core/json.ts';
import { stringifyYaml } from '../../src/core/yaml.ts';
import { csvLines, ndjsonLines } from '../../src/report/export/documents.ts';
import { fileSegment, recordPath } from '../../src/report/export/file-name.ts';

describe('export lines', () => {
  it('carry the body digit by digit on one line', () => {
    const body = '{\n "id": 12345678901234567890,\r\n "d": 1.10, "__proto__": {"a": "\\ud800"}\n}';
    const [line] = ndjsonLines([
      {
        kind: 'plugins',
        scope: { organization_id: 'o' },
        id: '12345678901234567890',
        body,
        source: null,
      },
    ]);
    expect(line).toBe(
      '{"kind":"plugins","scope":{"organization_id":"o"},"id":"12345678901234567890","body":{"id":12345678901234567890,"d":1.10,"__proto__":{"a":"\\ud800"}}}\n',
    );
  });
});

describe('file names', () => {
  it('are one safe segment each, and never shared by two ids, also where case is folded', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string({ unit: 'binary', maxLength: 200 }), { maxLength: 20 }), (ids) => {
        const names = ids.map(fileSegment);
        expect(new Set(names.map((name) => name.toLowerCase())).size).toBe(ids.length);
        for (const name of names) {
          expect(name).toMatch(/^[A-Za-z0-9%_~.-]+$/);
          expect(name.startsWith('.')).toBe(false);
          expect(name.length).toBeLessThan(200);
        }
      }),
    );
  });

  it.each(['../../etc/passwd', '..', '.', '', 'a/b', 'a\\b', 'CON', '\u0000'])(
    'hold %j in its folder',
    (id) => {
      const path = recordPath({ source: null, kind: 'domains', scope: { organization_id: id }, id });
      expect(path).toHaveLength(3);
      for (const segment of path) expect(segment).not.toMatch(/^\.|[/\\\0]|^$/);
    },
  );
});

describe('YAML', () => {
  it('reads back as it was written', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(JSON.stringify(parse(stringifyYaml(parseLossless(text)), { schema: 'core' }))).toBe(
          JSON.stringify(JSON.parse(text)),
        );
      }),
    );
  });

  it('writes numbers digit by digit', () => {
    expect(stringifyYaml(parseLossless('{"a":12345678901234567890,"b":1.10,"c":1e400}'))).toBe(
      'a: 12345678901234567890\nb: 1.10\nc: 1e400\n',
    );
  });

  it('escapes what UTF-8 cannot carry', () => {
    expect(stringifyYaml('\ud800')).toBe('"\\ud800"\n');
  });
});

describe('CSV', () => {
  const row = (body: string): string => {
    const record = { kind: 'roles', scope: { organization_id: 'o' }, id: 'r', body, source: null } as const;
    return [...csvLines('roles', false, [record], [record])].join('');
  };

  it('has no column twice: a field with the name of one of the first columns is field_NAME', () => {
    const body = '{"_id":"x","_source":"s","_organization_id":1,"field__id":2}';
    const record = { kind: 'roles', scope: { organization_id: 'o' }, id: 'r', body, source: 'one' } as const;
    expect([...csvLines('roles', true, [record], [record])]).toEqual([
      '_source,_organization_id,_id,field_field__id,field__organization_id,field__source,field__id\r\n',
      'one,o,r,x,1,s,2\r\n',
    ]);
    const alone = { ...record, source: null };
    expect([...csvLines('roles', false, [alone], [alone])][0]).toContain(',_source,');
  });

  it('has a column per field, and tells absent, null and empty apart where CSV can', () => {
    const body = '{"id":"d","domain":"x.example","verified_at":null,"zeta":[1.10]}';
    const record = { kind: 'domains', scope: { organization_id: 'o' }, id: 'd', body, source: null } as const;
    const [header, line] = csvLines('domains', false, [record], [record]);
    expect(header).toBe(
      '_organization_id,_id,id,domain,is_verified,verified_at,verification_challenge,jit_provisioning_enabled,sso_enforcement,has_saml,saml_entity_id,saml_acs_url,saml_x509_cert,zeta\r\n',
    );
    expect(line).toBe('o,d,d,x.example,,null,,,,,,,,[1.10]\r\n');
  });

  it.each([
    ['=cmd()', "'=cmd()"],
    ['+1+1', "'+1+1"],
    ['-2+3', "'-2+3"],
    ['@SUM(A1)', "'@SUM(A1)"],
    ['-12.5', '-12.5'],
    ['a "quoted", text', '"a ""quoted"", text"'],
    ['two\nlines', '"two\nlines"'],
    [' padded ', '" padded "'],
  ])('writes %j so that no spreadsheet runs it', (value, cell) => {
    expect(row(JSON.stringify({ name: value }))).toBe(`_organization_id,_id,name\r\no,r,${cell}\r\n`);
  });
});
