/** When the daemon sends what waits: its loop has to wake for it. */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, it, onTestFinished } from 'vitest';
import { silentLogger } from '../../../src/core/logger.ts';
import { openNoticeService } from '../../../src/daemon/notices/notice-service.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { respond } from '../../journeys/service.ts';
import { Rig } from '../rig.ts';
import { type Receiver, receiver } from './receiver.ts';

async function twoSources(wait: string) {
  const hook = await receiver();
  const rig = await Rig.create({ sync: '0 * * * *' });
  const text = readFileSync(rig.configFile, 'utf8');
  const [, source = ''] = /^sources:\n([\s\S]*?)^schedules:/m.exec(text) ?? [];
  writeFileSync(rig.configFile, text.replace(source, `${source}${source.replace('name: a', 'name: b')}`));
  appendFileSync(
    rig.configFile,
    `\ndaemon: { noticeWait: ${wait} }\nnotices: [{ name: hook, type: webhook, url: "${hook.url}" }]\n`,
  );
  const config = loadConfig({ file: rig.configFile, env: {}, cwd: rig.directory });
  const service = openNoticeService({
    config: () => config,
    clock: rig.clock,
    random: () => 0.5,
    log: silentLogger,
    env: {},
  });
  onTestFinished(() => service.close());
  await rig.start({ observers: service.observersOf });
  return { hook, rig };
}

/** What the hook gets, each with how long after its event: seconds, rounded up to five. */
async function waitsOf(rig: Rig, hook: Receiver, seconds: number): Promise<[string, number][]> {
  const before = hook.received.length;
  const waits: [string, number][] = [];
  for (let passed = 0; passed < seconds; passed += 5) {
    await rig.advance(5_000);
    for (const { body } of hook.received.slice(before + waits.length)) {
      const { event, at } = JSON.parse(body) as { event: string; at: string };
      waits.push([event, Math.ceil((rig.clock.now() - Date.parse(at)) / 5_000) * 5]);
    }
  }
  return waits;
}

it('what a job or a check reports is sent at the end of the wait, not at the next look of the daemon', async () => {
  const { hook, rig } = await twoSources('20s');
  rig.service.quirks.push((_request, response) => respond(response, 401, '{"detail":"no"}'));
  await rig.advanceMinutes(58);
  const refused = await waitsOf(rig, hook, 240);
  await rig.advanceMinutes(12);
  expect([...refused, ...(await waitsOf(rig, hook, 360))]).toEqual([
    ['key_refused', 20],
    ['sync_overdue', 20],
  ]);
});
