/**
 * What anybody would write who puts fields back: look at each record, PATCH it, look again; four at a time, without a
 * plan or a journal. `node bench/restore-loop.ts URL COLLECTION LANES` reads lines `ID BODY` from its input.
 */
import { createInterface } from 'node:readline';
import { request } from 'undici';

const [, , base = '', collection = '', lanes = '4'] = process.argv;
const headers = { authorization: 'Bearer bench', 'content-type': 'application/json' };

const steps: { url: string; body: string }[] = [];
for await (const line of createInterface({ input: process.stdin })) {
  const space = line.indexOf(' ');
  steps.push({ url: `${base}${collection}${line.slice(0, space)}/`, body: line.slice(space + 1) });
}

async function send(url: string, method: 'GET' | 'PATCH', body: string | null): Promise<unknown> {
  const answer = await request(url, { method, headers, body });
  const value: unknown = JSON.parse(await answer.body.text());
  if (answer.statusCode !== 200) throw new Error(`${method} ${url}: ${answer.statusCode}`);
  return value;
}

const next = steps[Symbol.iterator]();
await Promise.all(
  Array.from({ length: Number(lanes) }, async () => {
    for (let step = next.next(); step.done !== true; step = next.next()) {
      await send(step.value.url, 'GET', null);
      await send(step.value.url, 'PATCH', step.value.body);
      await send(step.value.url, 'GET', null);
    }
  }),
);
