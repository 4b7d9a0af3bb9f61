import { describe, expect, it } from 'vitest';
import type { ExportRecord } from '../../src/report/export/documents.ts';
import { terraformImports } from '../../src/report/export/terraform.ts';

function record(kind: ExportRecord['kind'], id: string, body: object, more: object = {}): ExportRecord {
  return { kind, id, scope: { organization_id: 'o-1', ...more }, body: JSON.stringify(body), source: null };
}

function written(...records: readonly ExportRecord[]): string {
  return [...terraformImports(records, records)].join('');
}

describe('import blocks', () => {
  it('are counted apart from the comments', () => {
    const records = [
      record('projects', '17', { name: 'Web' }),
      record('roles', 'r-1', { name: 'Readers' }),
      record('invites', 'i-1', { target_email: 'new@example.com' }),
      { kind: 'session_recordings', id: 'x', scope: { project_id: '17' }, body: '{}', source: null },
    ] as const;
    const counts = { blocks: 0, comments: 0 };
    const text = [...terraformImports(records, records, counts)].join('');
    expect(text.match(/^import \{$/gm)).toHaveLength(2);
    expect(counts).toEqual({ blocks: 2, comments: 2 });
  });

  it('have the ids that the provider asks for, and say why the rest is left out', () => {
    const text = written(
      { kind: 'organizations', id: 'o-1', scope: {}, body: '{"name":"Harbor"}', source: null },
      record('projects', '17', { name: 'Web' }),
      record('roles', 'r-1', { name: 'Readers' }),
      record('role_memberships', 'm-1', { user: { email: 'ada@example.com' } }, { role_id: 'r-1' }),
      record('members', 'u-1', { user: { email: 'ada@example.com' } }),
      record('invites', 'sign-up-link', { target_email: 'new@example.com' }),
      record('batch_exports', 'b-1', { name: 'Nightly\nimport {' }),
      record('proxy_records', 'p-1', { domain: 'e.example.com' }),
      { kind: 'session_recordings', id: 'x', scope: { project_id: '17' }, body: '{}', source: null },
    );
    expect(text.split('\n').slice(2).join('\n')).toBe(`
# organizations: the provider has no resource for them
#   Harbor (o-1)

# Web (17)
import {
  to = posthog_project.web
  id = "o-1/17"
}

# Readers (r-1)
import {
  to = posthog_role.readers
  id = "o-1/r-1"
}

# ada@example.com (m-1)
import {
  to = posthog_role_membership.ada_example_com
  id = "o-1/r-1/m-1"
}

# ada@example.com (u-1)
import {
  to = posthog_organization_member.ada_example_com
  id = "o-1/u-1"
}

# invites: the provider has no resource for them
#   new@example.com

# batch_exports: the provider has no resource for them
#   Nightly\\nimport { (b-1)

# e.example.com (p-1)
import {
  to = posthog_proxy_record.e_example_com
  id = "o-1/p-1"
}

# session_recordings: not configuration
#   1 record
`);
  });

  it('have valid names of their own, whatever records are called, and no templates in strings', () => {
    const names = ['Über Leser', 'uber leser', '9 lives', '', '日本', '${evil}', 'a'.repeat(300), '---'];
    const records = names.map((name, index) => record('roles', `\${x}%{if}"\\${index}`, { name }));
    const text = written(...records);
    const addresses = [...text.matchAll(/^ {2}to = (.*)$/gm)].map(([, address]) => address ?? '');
    expect(addresses).toHaveLength(names.length);
    expect(new Set(addresses).size).toBe(names.length);
    for (const address of addresses) expect(address).toMatch(/^posthog_role\.[a-z][a-z0-9_]*$/);
    expect(addresses[0]).toMatch(/^posthog_role\.uber_leser_[0-9a-f]{8}$/);
    expect(addresses[2]).toBe('posthog_role.n_9_lives');
    expect(text).toContain('  id = "o-1/$${x}%%{if}\\"\\\\0"');
    expect(text).toBe(written(...records));
    for (const line of text.split('\n')) expect(line).toMatch(/^(?:#.*|import \{|\}| {2}(?:to|id) = .*|)$/);
  });
});
