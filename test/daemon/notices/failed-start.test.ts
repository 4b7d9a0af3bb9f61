/** A start that failed is over with everybody once a job has ended, also where a daemon stopped before that. */
import { existsSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { ChannelConfig } from '../../../src/config/channels.ts';
import { TidemarkError } from '../../../src/core/errors.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { markFailedStart } from '../../../src/daemon/lockfile.ts';
import { Deliveries } from '../../../src/daemon/notices/deliveries.ts';
import { NoticeObserver } from '../../../src/daemon/notices/notice-observer.ts';
import type { ObservedMirror } from '../../../src/daemon/jobs/observers.ts';
import { Rig } from '../rig.ts';
import { slack, webhook } from './channel.ts';

/** Starts daemons that send through one channel; the titles that it got. */
async function sending(channel: ChannelConfig = slack('chat', 'http://chat')) {
  const rig = await Rig.create({ sync: '0 * * * *' });
  const sent: string[] = [];
  const start = async (): Promise<void> => {
    const deliveries = new Deliveries({
      channels: () => [channel],
      sources: () => [{ name: 'a', origin: rig.service.url }],
      times: () => null,
      file: () => '',
      publicUrl: () => null,
      clock: rig.clock,
      random: () => 0.5,
      log: silentLogger,
      send: (_channel, { title }) => {
        sent.push(title);
        return Promise.resolve();
      },
    });
    const observers = ({ view, owner, context }: ObservedMirror) => [
      new NoticeObserver({
        ...{ clock: rig.clock, log: silentLogger, view, owner, context, deliveries },
        config: () => ({ ...view().config(), notices: [channel] }),
      }),
    ];
    await rig.start({ observers });
  };
  return { rig, sent, start };
}

it('alone is over with one notice: nothing else was reported that could be open with a program', async () => {
  const { rig, sent, start } = await sending(webhook('hook', 'http://hook'));
  expect(markFailedStart(rig.mirrorPath)).toBe('marked');
  await start();
  await rig.advanceMinutes(61);
  expect(sent).toEqual(['a: the sync works; the daemon could not start or write before']);
});

it('ends with a chat, also where the daemon after it stopped before a job of it had ended', async () => {
  const { rig, sent, start } = await sending();
  await start();
  await rig.daemon.stop();
  const jobs = rig.jobs().length;
  expect(markFailedStart(rig.mirrorPath)).toBe('marked');
  await start();
  await rig.daemon.stop();
  expect(rig.jobs()).toHaveLength(jobs);
  expect(sent).toEqual([]);
  await start();
  await rig.advanceMinutes(61);
  expect(sent).toEqual(['a: the sync works; the daemon could not start or write before']);
  expect(existsSync(`${rig.mirrorPath}.daemon-failed`)).toBe(false);
  await rig.advanceMinutes(61);
  expect(sent).toHaveLength(1);
  // A sync that failed as the disk is full is reported: the start that fails after it is not reported again.
  rig.onOpen = (mode) => {
    if (mode === 'write') throw new TidemarkError('disk_full', 'the disk is full');
  };
  await rig.advanceMinutes(60);
  await rig.daemon.stop();
  expect(sent.slice(1)).toEqual(['a: the sync failed: the disk is full']);
  expect(markFailedStart(rig.mirrorPath)).toBe('marked before');
  rig.onOpen = () => undefined;
  await start();
  await rig.advanceMinutes(61);
  expect(sent.slice(2)).toEqual(['a: the sync works; the daemon could not start or write before']);
});
