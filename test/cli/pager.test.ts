import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { environment, program, scratch, tidemark } from '../journeys/harness.ts';
import { FakeService } from '../journeys/service.ts';

const hasTerminal = spawnSync('script', ['--version']).status === 0;

describe.skipIf(!hasTerminal)(`a pager${hasTerminal ? '' : ' (left out: there is no `script`)'}`, () => {
  it('shows long results on a terminal, keeps the exit code, and may end early or be missing', async () => {
    const service = await FakeService.start();
    const domains = (is: boolean): object[] =>
      Array.from({ length: 120 }, (_each, index) => ({
        id: `d${index}`,
        domain: `${index}.example`,
        is_verified: is,
      }));
    const env = environment(service.url, scratch());
    service.set('domains', domains(true));
    await tidemark(['sync'], { env });
    service.set('domains', domains(false));
    await tidemark(['sync'], { env });
    const onTerminal = (
      args: string,
      variables: Record<string, string>,
    ): { code: number | null; lines: string[] } => {
      const { status, stdout } = spawnSync(
        'script',
        ['-qec', `stty cols 80; "${process.execPath}" "${program}" ${args}`, '/dev/null'],
        {
          env: { PATH: process.env['PATH'], TERM: 'xterm', NO_COLOR: '1', ...env, ...variables },
          encoding: 'utf8',
        },
      );
      return { code: status, lines: stdout.split(/\r?\n/) };
    };
    const diff = 'diff run:1 run:2';
    const paged = onTerminal(diff, { TIDEMARK_PAGER: "sed 's/^/> /'", PAGER: 'false' });
    expect(paged.code).toBe(2);
    expect(paged.lines.find((line) => line.includes('120 records changed'))).toMatch(/^> /);
    const headed = onTerminal(diff, { PAGER: 'head -2' });
    expect(headed.code).toBe(2);
    expect(headed.lines.length).toBeLessThan(20);
    for (const [args, variables] of [
      [`${diff} --no-pager`, { PAGER: 'head -2' }],
      [diff, { PAGER: 'cat' }],
      [diff, { PAGER: '' }],
      [diff, { PAGER: 'no-such-pager-anywhere' }],
      [diff, { PAGER: 'head -2', CI: '1' }],
      [`${diff} --format markdown`, { PAGER: 'head -2' }],
    ] as const) {
      const { code, lines } = onTerminal(args, variables);
      expect(code, args).toBe(2);
      expect(lines.length, args).toBeGreaterThan(100);
    }
    const { stdout } = await tidemark(['diff', 'run:1', 'run:2'], { env: { ...env, PAGER: 'head -2' } });
    expect(stdout.split('\n').length).toBeGreaterThan(120);
  });
});
