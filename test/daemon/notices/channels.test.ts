/** Chats and incident services against a real HTTP server on loopback: what arrives there. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { openPoster } from '../../../src/api/post.ts';
import { NO_PROXIES } from '../../../src/config/proxy.ts';
import type { ChannelConfig } from '../../../src/config/channels.ts';
import type { NoticeEvent } from '../../../src/config/notice-events.ts';
import { systemClock } from '../../../src/core/clock.ts';
import type { TidemarkError } from '../../../src/core/errors.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { type Message, messageOf, noticeOf } from '../../../src/daemon/notices/message.ts';
import { createSend } from '../../../src/daemon/notices/sending.ts';
import { chat, opsgenie, pagerduty } from './channel.ts';
import { receiver } from './receiver.ts';

const PUBLIC = 'https://tidemark.example.com';

function message(
  event: NoticeEvent,
  title: string,
  more: Partial<Parameters<typeof noticeOf>[1]> = {},
): Message {
  const of = { at: '2026-03-01T12:00:00.000Z', source: 'production', subject: 'run', event };
  return messageOf(1, noticeOf(of, { severity: 'high', title, job: 'sync', run: 7, ...more }), 'low', PUBLIC);
}

function send(channel: ChannelConfig, sent: Message): Promise<void> {
  const poster = openPoster(() => NO_PROXIES);
  onTestFinished(() => poster.close());
  const effects = { poster, clock: systemClock, log: silentLogger, env: {} };
  return createSend(effects)(channel, sent, new AbortController().signal);
}

async function failure(channel: ChannelConfig): Promise<TidemarkError> {
  return send(channel, message('run_failed', 'x')).then(
    () => Promise.reject(new Error('it was delivered')),
    (error: unknown) => error as TidemarkError,
  );
}

const HOSTILE = '@everyone <@123> <!here> **bold** [click](https://evil.example)';

describe('chats', () => {
  const textOf: Record<'teams' | 'mattermost' | 'discord', (body: string) => string> = {
    teams: (body) => {
      const [card] = (JSON.parse(body) as TeamsMessage).attachments;
      return card!.content.body.flatMap(({ inlines }) => inlines.map(({ text }) => text)).join('\n');
    },
    mattermost: (body) => (JSON.parse(body) as { text: string }).text,
    discord: (body) => (JSON.parse(body) as { content: string }).content,
  };

  interface TeamsMessage {
    readonly type: string;
    readonly attachments: readonly {
      readonly contentType: string;
      readonly content: {
        readonly type: string;
        readonly body: readonly {
          readonly type: string;
          readonly inlines: readonly { readonly text: string }[];
        }[];
        readonly actions?: readonly object[];
      };
    }[];
  }

  describe.each(['teams', 'mattermost', 'discord'] as const)('%s', (type) => {
    it('is sent title, lines and facts, once, with the id of the notice', async () => {
      const far = await receiver({ status: 200 });
      const sent = message('run_failed', 'production: the sync failed', {
        lines: ['no route'],
        hint: 'look',
      });
      await send(chat(type, `${far.url}/hook`), sent);
      expect(far.received).toHaveLength(1);
      const [{ path, headers, body }] = far.received as [(typeof far.received)[0]];
      expect([path, headers['idempotency-key']]).toEqual(['/hook', sent.id]);
      const text = textOf[type](body);
      for (const part of ['🟠', 'production: the sync failed', 'no route', '→ look', 'run 7'])
        expect(text).toContain(part);
      expect(body).toContain(`${PUBLIC}/runs/7`);
    });

    it.each([
      ['in its own form', null],
      ['by a template', 'Look: {{ title }} {{ text }}'],
    ])('%s notifies nobody and formats nothing by what a record holds', async (_name, template) => {
      const far = await receiver({ status: 200 });
      await send(chat(type, far.url, template), message('run_failed', HOSTILE, { lines: [HOSTILE] }));
      const text = textOf[type](far.received[0]!.body);
      expect(text).not.toMatch(/@everyone|<@|<!here/);
      // A card's rich text knows no markup.
      if (type !== 'teams') expect(text).not.toMatch(/(?<!\\)\[click|(?<!\\)\*\*bold/);
    });

    it('is never sent more than it takes', async () => {
      const far = await receiver({ status: 200 });
      await send(
        chat(type, far.url),
        message('run_failed', 'x'.repeat(9000), { lines: ['*'.repeat(20_000)] }),
      );
      const { body } = far.received[0]!;
      if (type === 'teams') expect(Buffer.byteLength(body)).toBeLessThan(28_000);
      else expect(textOf[type](body).length).toBeLessThanOrEqual(type === 'discord' ? 2000 : 4000);
    });

    it('that refuses is reported without the secret of its address', async () => {
      const far = await receiver({ status: 403, text: 'no hook T0PS3CRET here' });
      const error = await failure(chat(type, `${far.url}/T0PS3CRET`));
      expect(error).toMatchObject({ code: 'forbidden', isRetryable: false });
      expect(error.message).not.toContain('T0PS3CRET');
    });
  });

  it('Teams is sent an adaptive card with a button to the dashboard', async () => {
    const far = await receiver({ status: 202 });
    await send(chat('teams', far.url), message('run_recovered', 'production: the sync works again'));
    const { type, attachments } = JSON.parse(far.received[0]!.body) as TeamsMessage;
    expect(type).toBe('message');
    expect(attachments[0]).toMatchObject({
      contentType: 'application/vnd.microsoft.card.adaptive',
      content: {
        type: 'AdaptiveCard',
        actions: [{ type: 'Action.OpenUrl', url: `${PUBLIC}/runs/7` }],
      },
    });
    expect(textOf.teams(far.received[0]!.body)).toMatch(/^🟢/);
  });

  it('Discord is told to mention nobody, whatever the text is', async () => {
    const far = await receiver({ status: 204 });
    await send(chat('discord', far.url, '@everyone {{ title }}'), message('run_failed', 'x'));
    expect(JSON.parse(far.received[0]!.body)).toMatchObject({ allowed_mentions: { parse: [] } });
  });
});

describe('PagerDuty', () => {
  it('gets an incident and its end under one key', async () => {
    const far = await receiver({ status: 202 });
    for (const event of ['run_failed', 'run_partial', 'run_recovered'] as const)
      await send(pagerduty(far.url), message(event, `production: ${event}`, { lines: ['no route'] }));
    const events = far.received.map(({ path, body }) => ({ path, ...(JSON.parse(body) as object) }));
    expect(events).toMatchObject([
      {
        path: '/v2/enqueue',
        routing_key: 'R0UTING-KEY',
        event_action: 'trigger',
        dedup_key: 'tidemark/production/run',
        links: [{ href: `${PUBLIC}/runs/7` }],
        payload: {
          summary: 'production: run_failed',
          source: 'production',
          severity: 'error',
          class: 'run_failed',
        },
      },
      { event_action: 'trigger', dedup_key: 'tidemark/production/run' },
      { event_action: 'resolve', dedup_key: 'tidemark/production/run' },
    ]);
  });

  it('keeps an incident of drift open while findings are', async () => {
    const far = await receiver({ status: 202 });
    for (const isResolved of [false, true])
      await send(pagerduty(far.url), message('drift_resolved', 'x', { isResolved }));
    expect(far.received.map(({ body }) => JSON.parse(body) as object)).toMatchObject([
      { event_action: 'trigger' },
      { event_action: 'resolve' },
    ]);
  });

  it('a test shows both, and leaves nothing open', async () => {
    const far = await receiver({ status: 202 });
    await send(pagerduty(far.url), message('test', 'a test'));
    expect(far.received.map(({ body }) => JSON.parse(body) as object)).toMatchObject([
      { event_action: 'trigger' },
      { event_action: 'resolve' },
    ]);
  });

  it('that refuses is reported without the key', async () => {
    const far = await receiver({ status: 400, text: 'invalid routing key R0UTING-KEY' });
    const error = await failure(pagerduty(far.url));
    expect(error.code).toBe('rejected');
    expect(error.message).not.toContain('R0UTING-KEY');
  });
});

describe('Opsgenie', () => {
  it('gets an alert and its end under one alias, with the key in a header only', async () => {
    const far = await receiver({ status: 202 });
    for (const event of ['key_refused', 'run_recovered'] as const)
      await send(opsgenie(far.url), message(event, 'p'.repeat(200), { severity: 'critical', hint: 'look' }));
    const [created, closed] = far.received;
    expect(created).toMatchObject({ method: 'POST', path: '/v2/alerts' });
    expect(created!.headers['authorization']).toBe('GenieKey GEN1E-KEY');
    const alert = JSON.parse(created!.body) as { message: string; description: string };
    expect(alert).toMatchObject({ alias: 'tidemark/production/run', priority: 'P1', entity: 'production' });
    expect(alert.message).toHaveLength(130);
    expect(alert.description).toContain(`${PUBLIC}/runs/7`);
    expect(closed!.path).toBe('/v2/alerts/tidemark%2Fproduction%2Frun/close?identifierType=alias');
    for (const { path, body } of far.received) expect(path + body).not.toContain('GEN1E-KEY');
  });

  it('that refuses is reported without the key', async () => {
    const far = await receiver({ status: 422, text: 'key GEN1E-KEY' });
    const error = await failure(opsgenie(far.url));
    expect(error.message).toContain('422');
    expect(error.message).not.toContain('GEN1E-KEY');
  });
});

it('without a public address no notice has a link', async () => {
  const far = await receiver({ status: 200 });
  const sent = { ...message('run_failed', 'x'), link: null };
  await send(chat('teams', far.url), sent);
  await send(pagerduty(far.url), sent);
  for (const { body } of far.received) expect(body).not.toMatch(/Action\.OpenUrl|client_url/);
});
