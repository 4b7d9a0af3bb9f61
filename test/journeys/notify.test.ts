/** `tidemark notify test` against real receivers of every type. */
import { createHmac } from 'node:crypto';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mailServer, receiver } from '../daemon/notices/receiver.ts';
import { scratch, tidemark } from './harness.ts';

interface Result {
  readonly schema: string;
  readonly channels: readonly {
    readonly channel: string;
    readonly type: string;
    readonly outcome: string;
    readonly milliseconds: number;
    readonly error: { readonly code: string; readonly message: string; readonly hint: string } | null;
  }[];
}

function configured(...lines: string[]): string {
  const directory = scratch();
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    ['notices:', ...lines.map((line) => `  ${line}`), ''].join('\n'),
  );
  return directory;
}

describe('notify test', () => {
  it('reaches a webhook, Slack, a mail server and a command, and says how long each took', async () => {
    const web = await receiver({ status: 202 });
    const slack = await receiver({ status: 200, text: 'ok' });
    const mail = await mailServer();
    const directory = configured(
      '- { name: hook, type: webhook, url: "${HOOK}", secret: "${SIGNING}" }',
      '- { name: chat, type: slack, url: "${CHAT}" }',
      `- { name: post, type: email, smtpUrl: "smtp://127.0.0.1:${mail.port}", from: "Tidemark <t@example.com>", to: [ops@example.com] }`,
      '- { name: pager, type: command, command: [./page, ops team] }',
    );
    writeFileSync(
      join(directory, 'page'),
      '#!/bin/sh\ncat > got.json\nprintf "%s|%s" "$1" "$TIDEMARK_NOTICE_EVENT" > got.txt\n',
    );
    chmodSync(join(directory, 'page'), 0o755);
    const env = { HOOK: `${web.url}/in/T0PS3CRET`, SIGNING: 'sign-me', CHAT: `${slack.url}/services/T/B/x` };
    const { code, stdout, stderr } = await tidemark(['notify', 'test', '--json'], { cwd: directory, env });
    expect(stderr).toBe('');
    const result = JSON.parse(stdout) as Result;
    expect(result.schema).toBe('tidemark.notify/1');
    expect(result.channels.map(({ channel, outcome, error }) => [channel, outcome, error])).toEqual([
      ['hook', 'delivered', null],
      ['chat', 'delivered', null],
      ['post', 'delivered', null],
      ['pager', 'delivered', null],
    ]);
    expect(code).toBe(0);

    const [hooked] = web.received;
    const [t, v1] = String(hooked?.headers['x-tidemark-signature'])
      .split(',')
      .map((part) => part.split('=')[1]!);
    expect(v1).toBe(createHmac('sha256', 'sign-me').update(`${t}.${hooked!.body}`).digest('hex'));
    const document = JSON.parse(hooked!.body) as Record<string, unknown>;
    expect(document).toMatchObject({ schema: 'tidemark.notice/1', event: 'test', source: null });
    expect(hooked!.headers['idempotency-key']).toBe(document['id']);
    expect(JSON.parse(slack.received[0]!.body)).toMatchObject({
      text: expect.stringContaining('Tidemark: a test notice') as string,
    });
    expect(mail.mails[0]).toMatchObject({
      from: 'MAIL FROM:<t@example.com>',
      to: ['RCPT TO:<ops@example.com>'],
    });
    expect(readFileSync(join(directory, 'got.txt'), 'utf8')).toBe('ops team|test');
    expect(JSON.parse(readFileSync(join(directory, 'got.json'), 'utf8'))).toMatchObject({ event: 'test' });
  });

  it('says what failed, never with a secret, and ends with 3 where some arrived and 1 where none did', async () => {
    const web = await receiver({ status: 404, text: 'no such hook: /in/T0PS3CRET' });
    const good = await receiver({ status: 200 });
    const directory = configured(
      '- { name: hook, type: webhook, url: "${HOOK}" }',
      '- { name: good, type: webhook, url: "${GOOD}" }',
      '- { name: unset, type: slack, url: "${NOT_SET}" }',
    );
    const env = { HOOK: `${web.url}/in/T0PS3CRET`, GOOD: good.url };
    const some = await tidemark(['notify', 'test'], { cwd: directory, env });
    expect(some.code).toBe(3);
    expect(some.stdout).toMatch(
      /^hook +webhook +failed \(not_found\): the receiver answered 404: no such hook: \[secret\]$/m,
    );
    expect(some.stdout).toMatch(/^good +webhook +delivered in [\d,]+ ms$/m);
    expect(some.stdout).toMatch(
      /^unset +slack +failed \(config_invalid\): .*NOT_SET\} is not set in the environment$/m,
    );
    expect(some.stdout).toContain('→ ');
    expect(some.stdout + some.stderr).not.toContain('T0PS3CRET');

    const none = await tidemark(['notify', 'test', 'unset', 'hook'], { cwd: directory, env });
    expect(none.code).toBe(1);
    expect(good.received).toHaveLength(1);
  });

  it('names the recipients that a mail server refused, and what it said of them', async () => {
    const mail = await mailServer({ offersAuth: true });
    mail.refuse['RCPT TO:<gone@example.com>'] = '550 hunter2222 has no such user';
    const to = 'to: [ops@example.com, gone@example.com]';
    const directory = configured(
      `- { name: post, type: email, smtpUrl: "\${SMTP}", from: "t@example.com", ${to} }`,
    );
    const env = { SMTP: `smtp://me:hunter2222@127.0.0.1:${mail.port}` };
    const some = await tidemark(['notify', 'test'], { cwd: directory, env });
    const refused = 'gone@example.com: 550 [secret] has no such user';
    expect(some.stdout).toMatch(/^post +email +delivered to some in [\d,]+ ms, not to gone@/m);
    expect(some.stdout.replaceAll(/\s+/g, ' ')).toContain(refused);
    expect(some.stderr).toContain('the mail server refused some recipients');
    expect(some.code).toBe(3);
    expect(mail.mails).toHaveLength(1);
    const { stdout } = await tidemark(['notify', 'test', '--json'], { cwd: directory, env });
    expect((JSON.parse(stdout) as Result).channels).toMatchObject([
      { outcome: 'partial', refused: [refused], error: null },
    ]);
  });

  it('refuses a channel that there is not, and a configuration without any', async () => {
    const directory = configured('- { name: ops, type: command, command: ["true"] }');
    const unknown = await tidemark(['notify', 'test', 'opps'], { cwd: directory });
    expect(unknown.code).toBe(4);
    expect(unknown.stderr).toContain('there is no channel opps; did you mean ops?');
    writeFileSync(join(directory, 'tidemark.yaml'), 'mirror: ./m.db\n');
    const empty = await tidemark(['notify', 'test'], { cwd: directory });
    expect(empty.code).toBe(4);
    expect(empty.stderr).toContain('no channel is configured');
  });
});
