/** What a report must not claim: "no differences" of what was not seen, and what it shows instead. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { SEVERITIES } from '../../src/catalog/definition.ts';
import { type World, DOMAINS, MEMBERS, world } from './comparison.ts';
import { forbidden, notFound } from './service.ts';

/** Two runs of which the second could not read the domains, with the first as the baseline. */
async function deniedSince(answer: typeof forbidden = forbidden): Promise<World> {
  const it = await world();
  await it.expectRun(0, 'sync', '--quiet');
  await it.expectRun(0, 'snapshots', 'pin', 'start');
  await it.expectRun(0, 'snapshots', 'baseline', 'start');
  it.service.quirks.push(
    ({ path }, response) => path.includes('/domains/') && answer(response, 'organization:read'),
  );
  await it.expectRun(3, 'sync', '--quiet');
  return it;
}

describe('what is not fresh', () => {
  it.each([
    ['denied', forbidden, /denied in run 2/],
    ['gone as a family', notFound as typeof forbidden, /not offered|missing in run 2/],
  ])('is never told as "No differences", nor on stderr only: %s', async (_name, answer, reason) => {
    const { expectRun } = await deniedSince(answer);
    const formats = ['text', 'markdown', 'html', 'junit', 'sarif', 'json'];
    for (const [command, own] of [
      [['diff', 'run:1', 'latest'], ['patch']],
      [['drift'], []],
    ] as const) {
      for (const format of [...formats, ...own]) {
        const { stdout, stderr } = await expectRun(3, ...command, '--quiet', '--format', format);
        const place = `${command[0]} ${format}`;
        expect(stderr, place).toMatch(/^tidemark: not fresh: .*domains \(organization Harbor\)/im);
        expect(stdout, place).toMatch(/domains/);
        expect(stdout, place).toMatch(reason);
        expect(stdout, place).not.toMatch(/No differences(?! in what could be compared)|✓/);
      }
    }
  });

  it('is said where the report goes to a file', async () => {
    const { expectRun } = await deniedSince();
    const { stderr } = await expectRun(3, 'diff', 'run:1', 'latest', '--output', 'a.txt');
    expect(stderr).toContain('written to a.txt; not everything could be compared');
  });

  it('is counted beside what differs', async () => {
    const { service, expectRun } = await deniedSince();
    service.set('members', [{ ...MEMBERS[0], level: 8 }, MEMBERS[1] ?? {}]);
    await expectRun(3, 'sync', '--quiet');
    const { stdout } = await expectRun(3, 'diff', 'run:1', 'latest', '--quiet');
    expect(stdout).toContain('1 record changed');
    expect(stdout).toMatch(
      /1 collection not fresh, so this may not be everything:\n {2}! not fresh: domains \(/,
    );
  });

  it('in FROM only dates what is reported', async () => {
    const { expectRun } = await deniedSince();
    const { stdout, stderr } = await expectRun(0, 'diff', 'latest', 'run:1');
    expect(stdout).toContain('No differences (');
    for (const text of [stdout, stderr])
      expect(text).toContain('older than the rest: domains (organization Harbor): ');
  });
});

it('drift counts findings by severity in every form, a diff its records, each by name', async () => {
  const { service, expectRun } = await world();
  await expectRun(0, 'sync', '--quiet');
  await expectRun(0, 'snapshots', 'pin', 'start', '--baseline');
  service.set('domains', [
    { ...DOMAINS[0], domain: 'other.example', jit_provisioning_enabled: true, sso_enforcement: 'github' },
    DOMAINS[1] ?? {},
  ]);
  service.set('members', [{ ...MEMBERS[0], level: 8 }, MEMBERS[1] ?? {}]);
  await expectRun(0, 'sync', '--quiet');
  const form = async (command: string, format: string): Promise<string> =>
    (await expectRun(2, ...command.split(' '), '--quiet', '--format', format)).stdout;
  const { summary } = JSON.parse(await form('drift', 'json')) as {
    summary: Record<(typeof SEVERITIES)[number], number> & { open: number; changed: number };
  };
  expect(summary).toMatchObject({ changed: 2, open: 4 });
  const counted = (unit: string, amounts: readonly number[]): string[] =>
    SEVERITIES.flatMap((level, index) => {
      const amount = amounts[index] ?? 0;
      return amount === 0 ? [] : [`${amount} ${level} ${unit}${amount === 1 ? '' : 's'}`];
    });
  const findings = counted(
    'finding',
    SEVERITIES.map((level) => summary[level]),
  );
  expect(await form('drift', 'text')).toContain('4 findings open in 2 records');
  expect(await form('drift', 'markdown')).toContain(`**2 records changed** · ${findings.join(', ')}\n`);
  const html = async (command: string, label: string): Promise<string[]> => {
    const [, list = ''] =
      new RegExp(`<ul aria-label="${label}">(.*?)</ul>`, 's').exec(await form(command, 'html')) ?? [];
    return [...list.matchAll(/<b>(\d+)<\/b><span><i[^>]*>[^<]*<\/i> ([^<]+)</g)].map(
      ([, amount = '', word = '']) => `${amount} ${word}`,
    );
  };
  expect(await html('drift', 'Findings by severity')).toEqual(findings);
  expect(await html('drift', 'By kind of change')).toEqual(['2 records changed']);
  const records = await html('diff baseline latest', 'Records by severity');
  expect(records.join()).toMatch(/ records?/);
  expect(records.reduce((sum, text) => sum + Number.parseInt(text, 10), 0)).toBe(2);
  expect(await form('diff baseline latest', 'markdown')).toContain(
    `**2 records changed** · ${records.join(', ')}\n`,
  );
});

describe('an export as lines', () => {
  async function cut(...kinds: string[]): Promise<World> {
    const it = await world();
    await it.expectRun(0, 'sync', '--quiet');
    const { stdout } = await it.expectRun(0, 'export', '--quiet');
    const lines = stdout
      .trimEnd()
      .split('\n')
      .filter((line) => !kinds.includes((JSON.parse(line) as { kind: string }).kind));
    writeFileSync(join(it.directory, 'cut.ndjson'), `${lines.join('\n')}\n`);
    return it;
  }

  it('that ends before a kind does not pass for equal', async () => {
    const { expectRun, diff } = await cut('domains');
    for (const pair of [
      ['file:cut.ndjson', 'latest'],
      ['latest', 'file:cut.ndjson'],
      ['file:cut.ndjson', 'live'],
    ]) {
      const { stdout } = await expectRun(3, 'diff', ...pair, '--quiet');
      expect(stdout, pair.join(' ')).toMatch(/1 collection not compared.*\n.*domains.*holds none of them/);
    }
    const { skipped } = await diff(3, 'file:cut.ndjson', 'latest');
    expect(skipped.map(({ kind }) => kind)).toEqual(['domains']);
    const drift = await expectRun(3, 'drift', '--from', 'file:cut.ndjson', '--quiet');
    expect(drift.stdout).toMatch(/domains.*holds none of them/);
    // What nobody asks for is not missing.
    await expectRun(0, 'diff', 'file:cut.ndjson', 'latest', '--kind', 'members');
    await expectRun(0, 'diff', 'file:cut.ndjson', 'latest', '--id', 'u1');
    expect((await expectRun(1, 'diff', 'file:cut.ndjson', 'latest', '--kind', 'domains')).stderr).toMatch(
      /nothing was compared: file:cut.ndjson holds no record that matches --kind domains; latest has 2\n/,
    );
  });

  it('that is whole is equal, also where kinds are empty, and is restored as it always was', async () => {
    const { expectRun } = await cut();
    await expectRun(0, 'diff', 'file:cut.ndjson', 'latest');
    const it = await cut('domains');
    expect((await it.expectRun(0, 'restore', 'file:cut.ndjson', '--json')).stdout).toContain('"steps":[]');
    // A kind that it has nothing of is not wanted gone.
    await it.expectRun(0, 'restore', 'file:cut.ndjson', '--prune', '--max-removals', '9');
    await it.expectRun(1, 'restore', 'file:cut.ndjson', '--kind', 'domains');
  });

  it('that is empty is no state', async () => {
    const { directory, expectRun } = await cut();
    writeFileSync(join(directory, 'empty.ndjson'), '');
    const { stderr } = await expectRun(1, 'diff', 'file:empty.ndjson', 'latest');
    expect(stderr).toMatch(/file:empty\.ndjson is empty/);
    expect(stderr).toContain('tidemark export');
    expect(stderr).not.toContain('tidemark status');
  });

  it('as json says what it is all of: narrowed by choice, the rest is left out', async () => {
    const { directory, expectRun, diff } = await cut();
    const { stdout } = await expectRun(0, 'export', '--kind', 'members', '--format', 'json');
    writeFileSync(join(directory, 'members.json'), stdout);
    const { skipped, left_out: left } = await diff(0, 'file:members.json', 'latest');
    expect(skipped).toEqual([]);
    expect(left.map(({ kind }) => kind)).toContain('domains');
  });
});

describe('a changed record', () => {
  it('in Markdown tells a field that is new from one that is only named', async () => {
    const { service, expectRun } = await world();
    await expectRun(0, 'sync', '--quiet');
    service.set('domains', [{ ...DOMAINS[0], extra: 1 }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    const { stdout } = await expectRun(2, 'diff', 'run:1', 'run:2', '--format', 'markdown');
    expect(stdout).toContain('`/extra`: absent → `1`');
  });

  it('carries no active character in JSON, and the same value', async () => {
    const { service, expectRun } = await world();
    await expectRun(0, 'sync', '--quiet');
    const domain = 'x\u009b31m\u202e\u{e0041}\u2028';
    service.set('domains', [{ ...DOMAINS[0], domain }, DOMAINS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    const active = /[\u0080-\u009f\u2028-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/u;
    for (const [command, code] of [
      [['diff', 'run:1', 'run:2', '--json'], 2],
      [['diff', 'run:1', 'run:2', '--format', 'patch'], 2],
      [['diff', 'run:1', 'run:2', '--format', 'sarif'], 2],
      [['runs', 'show', '2', '--json'], 0],
      [['changes', '--format', 'json'], 0],
      [['show', 'domains', 'd1', '--json'], 0],
    ] as const) {
      const { stdout } = await expectRun(code, ...command);
      expect(stdout, command.join(' ')).not.toMatch(active);
      JSON.parse(stdout);
    }
    const { stdout } = await expectRun(2, 'diff', 'run:1', 'run:2', '--json');
    expect((JSON.parse(stdout) as { changes: { name: string }[] }).changes[0]?.name).toBe(domain);
  });
});
