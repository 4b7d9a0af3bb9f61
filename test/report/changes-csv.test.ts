import { expect, it } from 'vitest';
import type { RecordChange } from '../../src/diff/change.ts';
import { changesCsv } from '../../src/report/changes-csv.ts';
import { parseLossless } from '../../src/core/json.ts';

const RUN = { run: 3, source: 'production', startedAt: 'start', finishedAt: '2026-03-01T10:00:00.000Z' };
const HEAD = `3,${RUN.finishedAt},production`;

const organizationOf = (source: string, project: string): string | undefined =>
  source === 'production' && project === '2' ? 'o' : undefined;

function linesOf(...changes: RecordChange[]): string[] {
  const lines = [...changesCsv([{ run: RUN, diff: { changes } }], organizationOf)].join('').split('\r\n');
  expect(lines[0]).toMatch(/^run,at,source,kind,.*,path,from,to,restore,by,via,id_before$/);
  expect(lines.at(-1)).toBe('');
  return lines.slice(1, -1);
}

it('has a line for each changed field, with its values as JSON, and names the restore only beside what it wrote', () => {
  expect(
    linesOf({
      ...{ kind: 'role_memberships', scope: { organization_id: 'o', role_id: 'r' }, id: '7', name: '=1+1' },
      change: 'changed',
      fields: [
        { path: '/limit', from: parseLossless('1.10'), to: parseLossless('9223372036854775807123') },
        { path: '/steps/2/on', place: '/steps/[id=a]/on', from: false },
        { path: '/note', from: null, to: '' },
        { path: '/tags', from: 'a, "b"', to: ['x'] },
        { path: '/owner', from: 'null', to: null },
        { path: '/rate', from: -5, to: '=1+1' },
      ],
      changed_by: { restore: 4, by: 'ann', via: 'token@dashboard', paths: ['/note'] },
    }),
  ).toEqual([
    `${HEAD},role_memberships,o,,r,7,'=1+1,changed,/limit,1.10,9223372036854775807123,,,,`,
    `${HEAD},role_memberships,o,,r,7,'=1+1,changed,/steps/[id=a]/on,false,,,,,`,
    `${HEAD},role_memberships,o,,r,7,'=1+1,changed,/note,null,"""""",4,ann,token@dashboard,`,
    String.raw`${HEAD},role_memberships,o,,r,7,'=1+1,changed,/tags,"""a, \""b\""""","[""x""]",,,,`,
    `${HEAD},role_memberships,o,,r,7,'=1+1,changed,/owner,"""null""",null,,,,`,
    `${HEAD},role_memberships,o,,r,7,'=1+1,changed,/rate,-5,"""=1+1""",,,,`,
  ]);
});

it('has one line for a record that came or went, with the id before of one that a restore created again', () => {
  const role = { kind: 'roles', scope: { organization_id: 'o' }, name: 'Admins' } as const;
  expect(
    linesOf(
      {
        ...{ ...role, id: 'new', change: 'added', fields: [{ path: '/name', to: 'Admins' }] },
        created_again: { was: 'old', restore: 4, by: 'ann', via: 'root@host' },
      },
      {
        ...{ ...role, id: 'r2', change: 'removed', fields: [{ path: '/name', from: 'Admins' }] },
        changed_by: { restore: 5, by: 'bob' },
      },
    ),
  ).toEqual([
    `${HEAD},roles,o,,,new,Admins,added,,,,4,ann,root@host,old`,
    `${HEAD},roles,o,,,r2,Admins,removed,,,,5,bob,,`,
  ]);
});

it('has the own id of an organization and of a project in the column of that parent', () => {
  const changed = { change: 'removed', fields: [] } as const;
  expect(
    linesOf(
      { kind: 'organizations', scope: {}, id: 'o', name: 'Harbor', ...changed },
      { kind: 'projects', scope: { organization_id: 'o' }, id: '2', name: 'Web', ...changed },
      { kind: 'session_recordings', scope: { project_id: '2' }, id: 'r', name: 'r', ...changed },
      { kind: 'session_recordings', scope: { project_id: '3' }, id: 'r', name: 'r', ...changed },
    ),
  ).toEqual([
    `${HEAD},organizations,o,,,o,Harbor,removed,,,,,,,`,
    `${HEAD},projects,o,2,,2,Web,removed,,,,,,,`,
    `${HEAD},session_recordings,o,2,,r,,removed,,,,,,,`,
    `${HEAD},session_recordings,,3,,r,,removed,,,,,,,`,
  ]);
});

it('has nothing but its heading for a run with nothing before it', () => {
  expect([...changesCsv([{ run: RUN, diff: null }], organizationOf)]).toHaveLength(1);
});
