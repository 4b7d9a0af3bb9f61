/** The metric of notices that wait: of each channel, also while none does. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { scratch } from '../../journeys/harness.ts';
import { World } from './world.ts';

it('has a series for each configured channel while nothing is pending', async () => {
  const config = join(scratch(), 'tidemark.yaml');
  const channel = (name: string): string =>
    `  - { name: ${name}, type: webhook, url: "http://127.0.0.1:1/" }`;
  writeFileSync(
    config,
    [
      'sources:',
      '  - { name: default, baseUrl: "${SERVICE_URL}", apiKey: "${TIDEMARK_API_KEY}", kinds: { include: [organizations] } }',
      'notices:',
      channel('ops'),
      channel('chat'),
    ].join('\n'),
    { mode: 0o600 },
  );
  const world = await World.create({ TIDEMARK_CONFIG: config });
  await world.sync();
  const { url } = await world.listen({});
  const text = await (await fetch(`${url}/metrics`)).text();
  expect(text.match(/^tidemark_notices_pending.*$/gm)?.sort()).toEqual([
    'tidemark_notices_pending{channel="chat"} 0',
    'tidemark_notices_pending{channel="ops"} 0',
  ]);
});
