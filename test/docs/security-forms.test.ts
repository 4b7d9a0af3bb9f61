/** The forms of secrets in docs/security.md: what the program shows of each example is what the page says. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { environment, scratch, tidemark } from '../journeys/harness.ts';
import { FakeService } from '../journeys/service.ts';

const page = readFileSync(new URL('../../docs/security.md', import.meta.url), 'utf8');
const section = page.slice(page.indexOf('### Forms of secrets'), page.indexOf('#### Tokens with'));
const examples = [...section.matchAll(/^\| .+ \| `([^`]+)` \| `([^`]+)` \|$/gm)].map(
  ([, example = '', shown = '']) => ({
    example: example.replaceAll('\\n', '\n'),
    shown: shown.replaceAll('\\n', '\n'),
  }),
);

it('each example is shown as the page says', async () => {
  expect(examples.length).toBeGreaterThan(25);
  const service = await FakeService.start();
  const env = environment(service.url, scratch());
  service.set('domains', [{ id: 'd1', extra: {} }]);
  expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
  service.set('domains', [{ id: 'd1', extra: { texts: examples.map(({ example }) => example) } }]);
  expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
  const { stdout } = await tidemark(['diff', 'run:1', 'run:2', '--json'], { env });
  const { changes } = JSON.parse(stdout) as {
    changes: { fields: { to: { texts: string[] } | string[] }[] }[];
  };
  const to = changes[0]?.fields[0]?.to ?? [];
  expect(Array.isArray(to) ? to : to.texts).toEqual(examples.map(({ shown }) => shown));
});
