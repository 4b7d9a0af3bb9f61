/** Which record `show KIND ID` means: by id, by name, by the name that a removed one had. */
import { describe, expect, it } from 'vitest';
import { commandLine } from './command-line.ts';
import { environment, scratch } from './harness.ts';
import { FakeService } from './service.ts';

describe('the record that a command is about', () => {
  it('is found by id, then by its whole name, then by the name that a removed one had', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory, { TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: directory });
    const member = (uuid: string, email: string): object => ({ user: { uuid, email, first_name: 'Åsa' } });
    service.set('members', [member('u1', 'asa@example.com'), member('u2', 'bo@example.com')]);
    service.set('batch_exports', [
      { id: 'b1', name: 'Nächtlich' },
      { id: 'b2', name: 'NÄCHTLICH' },
      { id: 'b3', name: 'b1' },
      { id: 'b4', name: '' },
      { id: 'B5' },
      { id: 'b6', name: 42 },
    ]);
    service.lists.set('/api/projects/1/session_recordings/', [
      '{"id":"r1","distinct_id":"d1","person":{"name":"Mira"},"start_time":"2026-03-01T00:00:00Z"}',
    ]);
    expect((await run('sync')).code).toBe(0);
    service.set('members', [member('u1', 'asa@example.com')]);
    expect((await run('sync')).code).toBe(0);

    for (const [kind, asked, id] of [
      ['members', 'u1', 'u1'],
      ['members', 'asa@example.com', 'u1'],
      ['members', 'ASA@example.com', 'u1'],
      ['members', 'Bo@Example.com', 'u2'], // removed
      ['batch_exports', 'b1', 'b1'], // an id goes before a name
      ['batch_exports', 'NÄCHTLICH', 'b2'], // and the exact name before the same in other case
      ['batch_exports', 'b5', 'B5'], // without a name, the id is it
      ['batch_exports', '42', 'b6'],
      ['session_recordings', 'r1', 'r1'],
    ] as const) {
      const ended = await run('show', kind, asked, '--json');
      expect([asked, ended.code, ended.stderr.includes('knows no')]).toEqual([asked, 0, false]);
      expect((JSON.parse(ended.stdout) as { id: string }).id, asked).toBe(id);
    }
    for (const [kind, asked, said] of [
      ['members', 'Åsa', 'knows no member with the id or name "Åsa"'], // a name, and not the one it goes by
      [
        'members',
        'Åsa',
        '→ members are named by their email address; `tidemark export --kind members` lists',
      ],
      ['batch_exports', 'nächtlich', 'is the name of 2 records'],
      ['batch_exports', 'Nächtlic', 'Nächtlich: batch_exports b1'],
      // A recording bears the name of a person: nobody means one of their thousands by it.
      ['session_recordings', 'Mira', 'knows no session recording with the id "Mira"'],
      ['session_recordings', 'r2', 'knows no session recording with the id "r2"'],
      ['recording_sharing', 'r2', 'knows no recording sharing with the id "r2"'],
    ] as const) {
      const ended = await run('show', kind, asked);
      expect([ended.code, ended.stdout], asked).toEqual([4, '']);
      expect(ended.stderr).toContain(said);
      expect(ended.stderr.includes('did you mean')).toBe(said.startsWith('did you mean'));
    }
  });
});
