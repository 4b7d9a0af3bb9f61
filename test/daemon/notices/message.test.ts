import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../../src/core/secret.ts';
import type { TidemarkError } from '../../../src/core/errors.ts';
import {
  type Message,
  linesOf,
  messageOf,
  noticeDocument,
  noticeOf,
  withConfigFile,
} from '../../../src/daemon/notices/message.ts';
import { requireAccepted, scrubbed } from '../../../src/daemon/notices/channels/shared.ts';
import { NOTICE_EVENTS } from '../../../src/config/notice-events.ts';
import { slackRequest } from '../../../src/daemon/notices/channels/chat.ts';
import { cutShortStates } from '../../../src/daemon/notices/perhaps-open.ts';
import { transitionsOf } from '../../../src/daemon/notices/transitions.ts';
import { mailOf } from '../../../src/daemon/notices/channels/email.ts';
import { webhookRequest } from '../../../src/daemon/notices/channels/webhook.ts';
import { email, slack, webhook } from './channel.ts';
import { driftJob, finding, job, seen } from './seen.ts';

const AT = '2026-03-01T12:00:00.000Z';

function message(title: string, lines: readonly string[] = [], more: { hint?: string } = {}): Message {
  const of = { at: AT, source: 'production', subject: 'run', event: 'run_failed' } as const;
  return messageOf(1, noticeOf(of, { severity: 'high', title, lines, job: 'sync', run: 7, ...more }), 'low');
}

function drifted(threshold: 'high' | 'low'): Message {
  const findings = [
    finding('c', { severity: 'critical', path: '/level', kind: 'members', name: null, id: 'm1', level: 15 }),
    finding('h', { severity: 'high', path: '/teams/2/uuid', place: '/teams/[id=5]/uuid' }),
    finding('r', { severity: 'high', path: '', change: 'removed' }),
    finding('a', {
      ...{ severity: 'high', kind: 'role_memberships', name: null, id: 'a1', path: '', change: 'added' },
      in: 'organization Harbor, role Editors',
    }),
    ...Array.from({ length: 30 }, (_unused, n) => finding(`l${n}`, { severity: 'low', id: `${n}` })),
  ];
  const [notice] = transitionsOf([], seen(driftJob(findings))).notices;
  return messageOf(3, notice!, threshold);
}

describe('a message', () => {
  it('has the configuration file in the commands that it advises, where the daemon was started with one', () => {
    const sent = message('x', ['`tidemark verify` says more'], { hint: '`tidemark runs show 7` shows more' });
    expect(withConfigFile(sent, undefined)).toEqual(sent);
    const named = withConfigFile(sent, '/etc/my tidemark.yaml');
    expect(named.hint).toBe("`tidemark runs show 7 --config '/etc/my tidemark.yaml'` shows more");
    expect(named.lines).toEqual(["`tidemark verify --config '/etc/my tidemark.yaml'` says more"]);
  });

  it('of drift leaves out what matters less to its channel, counts and title included', () => {
    const all = drifted('low');
    expect(all.title).toBe('production: 34 new findings of drift (1 critical, 3 high, 30 low)');
    expect(linesOf(all)).toHaveLength(21);
    expect(linesOf(all).at(-1)).toBe('… and 14 more');
    const grave = drifted('high');
    expect(grave.title).toBe('production: 4 new findings of drift (1 critical, 3 high)');
    expect(linesOf(grave)).toEqual([
      'critical: members m1 (owner): /level',
      'high: batch_exports Nightly: /teams/[id=5]/uuid',
      'high: batch_exports Nightly: removed',
      'high: role_memberships a1 in organization Harbor, role Editors: added',
    ]);
    expect(noticeDocument(grave)).toMatchObject({
      count: 4,
      more: 0,
      severities: { low: 0 },
      severity: 'critical',
      is_assumed: false,
    });
  });

  it.each([
    [{ run: 7, job: 'sync' }, '/runs/7'],
    [{ restore: 2 }, '/restores/2'],
    [{ job: 'drift' }, '/drift'],
    [{ job: 'verify' }, '/'],
  ] as const)('about %j leads to its page', (content, page) => {
    const of = { at: AT, source: 'production', subject: 'x', event: 'run_failed' } as const;
    const notice = noticeOf(of, { severity: 'high', title: 't', ...content });
    expect(messageOf(1, notice, 'low', 'https://t.example').link).toBe(`https://t.example${page}`);
    expect(messageOf(1, notice, 'low', 'https://t.example', 'a').link).toBe(
      `https://t.example${page}?source=a`,
    );
  });

  it('about the whole mirror has the name of the only source in its title, and the same keys', () => {
    const of = { at: AT, source: '', subject: 'job:backup', event: 'backup_failed' } as const;
    const notice = noticeOf(of, { severity: 'high', title: 'mirror: backup failed in /b' });
    const whole = messageOf(1, notice, 'low');
    const named = messageOf(1, notice, 'low', null, null, 'production');
    expect(named).toEqual({ ...whole, title: 'production: backup failed in /b' });
    const gone = noticeOf(of, { severity: 'high', title: 'mirror: it is damaged' });
    expect(messageOf(1, gone, 'low', null, 'a').title).toBe('a: the mirror is damaged');
  });

  it('of an end that nobody may be waiting for says so to programs', () => {
    const states = cutShortStates([], ['production'], '2026-03-01T11:00:00.000Z');
    const { notices } = transitionsOf(states, seen(job('sync', 'done')));
    expect(notices.map((notice) => noticeDocument(messageOf(4, notice, 'low')))).toMatchObject([
      { event: 'run_recovered', is_assumed: true },
      { event: 'mirror_back', is_assumed: true },
    ]);
    expect(transitionsOf([], seen(job('sync', 'done'))).notices).toEqual([]);
  });

  it('of drift that is over in part says what is still open, and is as grave as that; what a channel is told of may be over', () => {
    const findings = (['critical', 'high', 'low'] as const).map((severity) =>
      finding(severity, { severity, id: severity }),
    );
    const begun = transitionsOf([], seen(driftJob(findings)));
    const { notices } = transitionsOf(begun.states, seen(driftJob(findings.slice(1))));
    const shown = (threshold: 'critical' | 'low') => messageOf(3, notices[0]!, threshold);
    expect(shown('low')).toMatchObject({
      title: 'production: 1 finding of drift is no longer open (1 critical); 2 still open (1 high, 1 low)',
      severity: 'high',
      isResolved: false,
    });
    expect(shown('critical')).toMatchObject({
      title: 'production: 1 finding of drift is no longer open (1 critical)',
      isResolved: true,
    });
  });

  it('has no empty text: without details the title says it', () => {
    expect(noticeDocument(message('it is well again'))).toMatchObject({ text: 'it is well again' });
    expect(noticeDocument(message('it failed', ['no space']))).toMatchObject({ text: 'no space' });
  });

  it('writes out what would move a cursor or turn the reading direction', () => {
    expect(message('a\u001b[2Jb').title).toBe('a\\u{001b}[2Jb');
    expect(linesOf(message('x', ['a\u202eb\nc']))).toEqual(['a\\u{202e}b\\nc']);
  });
});

describe('a webhook', () => {
  it('signs time and body, and keeps its id over attempts', () => {
    const channel = webhook('a', 'https://example.com/x', { secret: new Secret('sign-me') });
    const [first, second] = [1_000_000, 2_000_000].map((now) => webhookRequest(channel, message('x'), now));
    expect(first!.headers['x-tidemark-signature']).toBe(
      `t=1000,v1=${createHmac('sha256', 'sign-me').update(`1000.${first!.body}`).digest('hex')}`,
    );
    expect(second!.headers['x-tidemark-signature']).not.toBe(first!.headers['x-tidemark-signature']);
    expect(second!.headers['idempotency-key']).toBe(first!.headers['idempotency-key']);
    expect(second!.body).toBe(first!.body);
    expect(webhookRequest(webhook('a', 'https://example.com/x'), message('x'), 0).headers).not.toHaveProperty(
      'x-tidemark-signature',
    );
  });

  it('fills a JSON template so that it stays JSON, and puts nothing in twice', () => {
    const channel = webhook('a', 'https://example.com/', {
      template: '{"content": "{{title}}\\n{{ text }}"}',
    });
    const { body } = webhookRequest(channel, message('say "{{ run }}"', ['a\\b', 'c']), 0);
    expect(JSON.parse(body)).toEqual({ content: 'say "{{ run }}"\na\\b\nc' });
    const plain = webhook('a', 'https://example.com/', {
      template: '{{title}}|{{error.code}}|{{run}}',
      contentType: 'text/plain',
    });
    expect(webhookRequest(plain, message('"x"'), 0).body).toBe('"x"||7');
  });

  it.each([
    [301, 'redirected', false],
    [400, 'rejected', false],
    [404, 'not_found', false],
    [429, 'throttled', true],
    [503, 'server_error', true],
  ])('takes %d for %s', (status, code, isRetryable) => {
    const answer = { status, text: 'said', retryAfter: '7', date: undefined };
    const error = (() => {
      try {
        requireAccepted(answer, [], 0);
      } catch (thrown) {
        return thrown as TidemarkError;
      }
      throw new Error('it was accepted');
    })();
    expect(error).toMatchObject({
      code,
      isRetryable,
      retryAfterMs: 7000,
      message: `the receiver answered ${status}: said`,
    });
  });
});

describe('Slack', () => {
  interface Payload {
    readonly text: string;
    readonly blocks: readonly { readonly type: string; readonly text?: { readonly text: string } }[];
  }
  const payload = (of: Message): Payload =>
    JSON.parse(slackRequest(slack('s', 'https://x'), of).body) as Payload;

  it('cannot be made to mention or link by what a record is called', () => {
    const { text, blocks } = payload(message('x', ['<!channel> & <https://evil|here>']));
    const shown = '&lt;\u2060!channel&gt; &amp; &lt;https://evil|here&gt;';
    expect(text).toContain(shown);
    expect(blocks[1]).toEqual({
      type: 'section',
      text: { type: 'mrkdwn', verbatim: true, text: shown },
    });
  });

  it('shows what got better as good, however grave it was, and nothing else', () => {
    const better = /_(recovered|on_time|settled|resolved|back)$|^source_removed$/;
    const shown = NOTICE_EVENTS.map((event) => [
      event,
      payload({ ...message('x'), event, severity: 'critical', isResolved: true }).text.startsWith('🟢'),
    ]);
    expect(shown).toEqual(NOTICE_EVENTS.map((event) => [event, better.test(event)]));
    const low = payload({ ...message('x'), event: 'drift_new', severity: 'low' });
    expect(low.text).toMatch(/^🔵/u);
    const left = payload({ ...message('x'), event: 'drift_resolved', severity: 'high', isResolved: false });
    expect(left.text).toMatch(/^🟠/u);
  });

  it('keeps within its limits without cutting a character or an escape', () => {
    const { text, blocks } = payload(message('😀'.repeat(200), ['&'.repeat(2000), '<'.repeat(9000)]));
    expect(text.length).toBeLessThanOrEqual(4000);
    expect(blocks[0]!.text!.text.length).toBeLessThanOrEqual(150);
    expect(blocks[1]!.text!.text.length).toBeLessThanOrEqual(3000);
    for (const cut of [text, blocks[0]!.text!.text, blocks[1]!.text!.text]) {
      expect(cut.isWellFormed()).toBe(true);
      expect(cut).toMatch(/(;|[^a-z&])…$/);
    }
  });

  it('escapes what a template is filled with, and leaves the template its markup', () => {
    const channel = slack('s', 'https://x', { template: '*{{ title }}* <https://example.com|dashboard>' });
    expect(JSON.parse(slackRequest(channel, message('<!here>')).body)).toEqual({
      text: '*&lt;\u2060!here&gt;* <https://example.com|dashboard>',
    });
  });
});

describe('mentions in what a record is called notify nobody', () => {
  const evil = '@everyone @channel @here @ann <!channel> <@U123> (@all) x@here.example team@example.com';
  const harmless =
    '@\u2060everyone @\u2060channel @\u2060here @\u2060ann <\u2060!channel> <\u2060@\u2060U123> (@\u2060all) x@\u2060here.example team@example.com';
  const forms: readonly [string, string, (of: Message) => string][] = [
    ['Slack', 'own', (of) => slackRequest(slack('s', 'https://x'), of).body],
    [
      'Slack',
      'template',
      (of) => slackRequest(slack('s', 'https://x', { template: '@oncall {{ title }} {{ text }}' }), of).body,
    ],
    [
      'webhook, JSON',
      'template',
      (of) =>
        webhookRequest(
          webhook('w', 'https://x', { template: '{"content":"@oncall {{ title }} {{ text }}"}' }),
          of,
          0,
        ).body,
    ],
    [
      'webhook, text',
      'template',
      (of) =>
        webhookRequest(
          webhook('w', 'https://x', {
            template: '@oncall {{ title }} {{ text }}',
            contentType: 'text/plain',
          }),
          of,
          0,
        ).body,
    ],
  ];

  it.each(forms)('%s, %s', (channel, form, bodyOf) => {
    const body = bodyOf(message(evil, [`line ${evil}`])).replaceAll('@oncall', '');
    const said = channel === 'Slack' ? harmless.replaceAll('<', '&lt;').replaceAll('>', '&gt;') : harmless;
    expect(body).toContain(said);
    expect(body).not.toMatch(/@(everyone|channel|here|ann|all|U123)|(<|&lt;)[!@#]/);
    if (form === 'template') expect(bodyOf(message(evil))).toContain('@oncall');
  });

  it('the document of a webhook without a template is exact', () => {
    const document = JSON.parse(webhookRequest(webhook('w', 'https://x'), message(evil), 0).body) as object;
    expect(document).toMatchObject({ title: evil });
  });
});

describe('e-mail', () => {
  it('cannot be given another header or recipient by what a record is called', () => {
    const channel = email('e', 'smtp://localhost', {
      subject: '{{ title }}',
      from: 'Ops, Team <t@example.com>',
    });
    const mail = mailOf(channel, message('x\r\nBcc: evil@example.com', ['<script>alert(1)</script>']));
    expect(mail.subject).toBe('x\\r\\nBcc: evil@example.com');
    expect(mail.from).toEqual({ name: 'Ops, Team', address: 't@example.com' });
    expect(mail.html).toContain('&lt;script&gt;');
    expect(mail.html).not.toContain('<script');
    expect(mail.messageId).toMatch(/^<[0-9a-f]{32}\.e@example\.com>$/);
    expect(mailOf(channel, message('x\r\nBcc: evil@example.com')).messageId).toBe(mail.messageId);
  });
});

it('hides the URL, its parts and its credentials in what a receiver says', () => {
  const url = new Secret('https://user%40x:p%3Ass@hooks.example.com/services/T0000/B0000AAA?token=abcdef1');
  const said =
    'no /services/T0000/B0000AAA?token=abcdef1 for user@x with p:ss; B0000AAA is gone\r\n\u001b[31mabcdef1';
  const line = scrubbed(said, [url]);
  expect(line).not.toMatch(/B0000AAA|abcdef1|p:ss|user@x|services/);
  expect(line).not.toMatch(/[\r\n\u001b]/);
  expect(line).toContain('is gone');
});
