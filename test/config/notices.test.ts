import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { KEY, oneSource, workspace } from './workspace.ts';

const { directory, write, yaml, load, refused } = workspace();

const URLS = { ...KEY, HOOK: 'https://hooks.example.com/T0PS3CRET', SMTP: 'smtps://me:pw@mail.example.com' };
const notices = (...lines: string[]): string =>
  `${oneSource('name: production')}notices:\n${lines.map((line) => `  ${line}\n`).join('')}`;

describe('notices', () => {
  it('of every type are read, with their secrets, and show none of them', () => {
    write('hmac', 'sign-me\n');
    const config = yaml(
      notices(
        '- { name: hook, type: webhook, url: "${HOOK}", secretFile: hmac, on: [run_failed, run_failed], sources: [production] }',
        '- { name: chat, type: slack, url: "${HOOK}", severity: high, template: "{{ title }}" }',
        '- { name: mail, type: email, smtpUrl: "${SMTP}", from: "A <a@example.com>", to: [b@example.com], subject: "{{ event }}" }',
        '- { name: team, type: teams, url: "${HOOK}" }',
        '- { name: pager, type: pagerduty, routingKey: "${KEY}", apiUrl: "https://events.eu.pagerduty.com/" }',
        '- { name: page, type: command, command: [./page, "${HOOK}"], timeout: 5s, env: { TOKEN: "${KEY}" } }',
      ),
      URLS,
    );
    const [hook, chat, mail, team, pager, page] = config.notices;
    expect(team?.type === 'teams' && team.url.reveal()).toBe(URLS.HOOK);
    expect(pager).toMatchObject({ apiUrl: 'https://events.eu.pagerduty.com' });
    expect(pager?.type === 'pagerduty' && pager.routingKey.reveal()).toBe('phx_test');
    expect(hook).toMatchObject({
      on: ['run_failed'],
      sources: ['production'],
      severity: 'low',
      problem: null,
    });
    expect(hook?.type === 'webhook' && [hook.url.reveal(), hook.secret?.reveal(), hook.contentType]).toEqual([
      URLS.HOOK,
      'sign-me',
      'application/json',
    ]);
    expect(chat).toMatchObject({ severity: 'high', template: '{{ title }}', sources: null });
    expect(chat?.on).toContain('drift_new');
    expect(chat?.on).not.toContain('test');
    expect(mail).toMatchObject({ from: 'A <a@example.com>', to: ['b@example.com'], subject: '{{ event }}' });
    expect(page?.type === 'command' && page.command.map((word) => word.reveal())).toEqual([
      './page',
      URLS.HOOK,
    ]);
    expect(page).toMatchObject({ timeout: 5000, directory });
    expect(config.warnings).toEqual([]);
    expect(inspect(config, { depth: null }) + JSON.stringify(config)).not.toMatch(/T0PS3CRET|sign-me|me:pw/);
  });

  it('with an empty variable are refused by its name and place, and nothing else is said of them', () => {
    const error = refused(
      `${notices('- { name: chat, type: slack, url: "${HOOK}" }', '- { name: mail, type: email, smtpUrl: "${SMTP}", from: a@example.com, to: ["${HOOK}"] }')}pings:\n  - success: "\${HOOK}"\n`,
      { ...URLS, HOOK: '' },
    );
    expect(error.code).toBe('config_invalid');
    expect(error.message.split('\n').slice(1)).toEqual([
      expect.stringMatching(
        /^tidemark\.yaml:\d+: notices\[0\]\.url: \$\{HOOK\} is empty in the environment$/,
      ),
      expect.stringMatching(
        /^tidemark\.yaml:\d+: notices\[1\]\.to\[0\]: \$\{HOOK\} is empty in the environment$/,
      ),
      expect.stringMatching(
        /^tidemark\.yaml:\d+: pings\[0\]\.success: \$\{HOOK\} is empty in the environment$/,
      ),
    ]);
  });

  it('behind one of an unknown type are reported all the same, with their positions', () => {
    const { message } = refused(
      notices(
        '- { name: a, type: slak }',
        '- { name: b, type: email, severity: grave }',
        '- { name: c, type: slack, url: "${HOOK}" }',
        '- { name: c, type: webhook }',
      ),
      URLS,
    );
    expect(message.match(/notices\[\d\]\.\w+/g)?.sort()).toEqual([
      'notices[0].type',
      'notices[1].from',
      'notices[1].severity',
      'notices[1].smtpUrl',
      'notices[1].to',
      'notices[3].name',
      'notices[3].url',
    ]);
  });

  it('with a key that two other types have are reported once', () => {
    const { message } = refused(
      notices('- { name: a, type: email, smtpUrl: "${SMTP}", from: a@b.c, to: [d@e.f], url: "${HOOK}" }'),
      URLS,
    );
    expect(message.match(/notices\[0\]\.url/g)).toHaveLength(1);
  });

  it.each<[string, string, string]>([
    [
      'an unknown type',
      '- { name: a, type: slak, url: x }',
      'notices[0].type: expected one of webhook, slack, teams, mattermost, discord, pagerduty, opsgenie, email, command; did you mean "slack"?',
    ],
    [
      'an unknown event',
      '- { name: a, type: slack, url: "${HOOK}", on: [run_faild] }',
      'notices[0].on[0]: expected an event; did you mean "run_failed"?',
    ],
    [
      'an unknown source',
      '- { name: a, type: slack, url: "${HOOK}", sources: [prodction] }',
      '"prodction" is none; did you mean production?',
    ],
    [
      'an unknown severity',
      '- { name: a, type: slack, url: "${HOOK}", severity: grave }',
      'notices[0].severity: expected one of critical, high, medium, low',
    ],
    ['an unknown key', '- { name: a, type: slack, url: "${HOOK}", chanel: x }', 'unknown key "chanel"'],
    [
      'a key of another type',
      '- { name: a, type: slack, url: "${HOOK}", to: [a@b.c] }',
      'notices[0].to: not for a channel of type slack, which has url, urlFile',
    ],
    ['no URL', '- { name: a, type: webhook }', 'notices[0].url: missing; give url: ${VARIABLE} or urlFile'],
    ['both', '- { name: a, type: slack, url: "${HOOK}", urlFile: x }', 'expected url or urlFile, got both'],
    [
      'a URL of another kind',
      '- { name: a, type: slack, url: "${SMTP}" }',
      'notices[0].url: expected a URL that begins with http:// or https://',
    ],
    [
      'no address',
      '- { name: a, type: email, smtpUrl: "${SMTP}", from: "a@b.c\\r\\nBcc: x@y.z", to: ["x, y@z.a"] }',
      'notices[0].from: expected an e-mail address',
    ],
    [
      'a name twice',
      '- { name: a, type: command, command: [a] }\n  - { name: a, type: command, command: [b] }',
      'notices[1].name: expected a different name for each channel',
    ],
    [
      'a place that there is not',
      '- { name: a, type: slack, url: "${HOOK}", template: "{{ titel }}" }',
      'notices[0].template: there is no value {{ titel }}; did you mean title?',
    ],
    [
      'a place without an end',
      '- { name: a, type: slack, url: "${HOOK}", template: "{{ title" }',
      'expected }} behind every {{',
    ],
    [
      'a place outside of quotes',
      "- { name: a, type: webhook, url: '${HOOK}', template: '{\"a\": {{ run }}}' }",
      'expected JSON with every {{ … }} within quotes',
    ],
    ['no program', '- { name: a, type: command }', 'notices[0].command: missing'],
    [
      'a timeout without an end',
      '- { name: a, type: command, command: [a], timeout: 2d }',
      'notices[0].timeout: expected a duration up to 10m',
    ],
  ])('with %s are refused, and no secret is quoted', (_name, line, message) => {
    const error = refused(notices(line), URLS);
    expect(error.code).toBe('config_invalid');
    expect(error.message).toContain(message);
    expect(error.message).not.toMatch(/T0PS3CRET|me:pw/);
  });

  it('with a key that two other types have are told so once', () => {
    const line =
      '- { name: a, type: email, smtpUrl: "${SMTP}", from: a@b.example, to: [a@b.example], url: x }';
    expect(refused(notices(line), URLS).message).toBe(
      'tidemark.yaml:6: notices[0].url: not for a channel of type email, which has smtpUrl, smtpUrlFile, from, to, subject',
    );
  });

  it('whose secret is not there stay configured, silent, with a warning: a sync needs none of them', () => {
    const config = yaml(
      notices(
        '- { name: a, type: slack, url: "${NOT_SET}" }',
        '- { name: b, type: webhook, urlFile: nowhere }',
        '- { name: c, type: email, smtpUrl: "${SMTP}", from: "${NOT_SET}", to: ["${NOT_SET}"] }',
      ),
      URLS,
    );
    expect(config.notices.map(({ name, problem }) => [name, problem === null])).toEqual([
      ['a', false],
      ['b', false],
      ['c', false],
    ]);
    expect(config.notices[0]?.problem).toContain('${NOT_SET} is not set in the environment');
    expect(config.notices[1]?.problem).toContain('nowhere does not exist');
    expect(config.warnings).toHaveLength(4);
    for (const warning of config.warnings) expect(warning).toContain('disabled until it is set');
  });

  it('in clear give a warning without being quoted', () => {
    const { warnings } = yaml(
      notices('- { name: a, type: slack, url: https://hooks.example.com/T0PS3CRET }'),
      KEY,
    );
    expect(warnings).toEqual([
      'tidemark.yaml:6: notices[0].url: written in clear; refer to a variable (${NAME}) or use urlFile',
    ]);
  });

  it.each([
    ['on this machine holds no secret', 'http://127.0.0.1:9613/hook', 0],
    ['on this machine may have one in its path', 'http://localhost:8065/hooks/9xuqwrwgstrb3mzrxb83nb357a', 1],
    ['on this machine may have one in its query', "'http://localhost/hook?token=T0PS3CRET'", 1],
  ])('in clear %s', (_name, url, count) => {
    expect(yaml(notices(`- { name: a, type: webhook, url: ${url} }`), KEY).warnings).toHaveLength(count);
  });

  it('come from their variable as JSON', () => {
    const config = load({
      TIDEMARK_BASE_URL: 'https://svc.example.com',
      TIDEMARK_API_KEY: 'k',
      TIDEMARK_NOTICES: JSON.stringify([{ name: 'a', type: 'slack', url: 'https://hooks.example.com/x' }]),
    });
    expect(config.notices).toMatchObject([{ name: 'a', type: 'slack' }]);
    expect(config.warnings).toEqual([]);
  });
});

describe('pings', () => {
  const pings = (line: string): string => `${oneSource('name: production')}pings:\n  ${line}\n`;

  it('are read with their URLs', () => {
    const config = yaml(
      pings('- { sources: [production], success: "${HOOK}", fail: "${HOOK}/fail", method: GET }'),
      URLS,
    );
    const [ping] = config.pings;
    expect(ping).toMatchObject({ sources: ['production'], method: 'GET', start: null, problem: null });
    expect(ping?.fail?.reveal()).toBe(`${URLS.HOOK}/fail`);
  });

  it.each([
    [
      'nothing to call',
      '- { sources: [production] }',
      'pings[0]: expected at least one of start, success and fail',
    ],
    ['an unknown source', '- { sources: [x], fail: "${HOOK}" }', '"x" is none'],
    ['no URL', '- { fail: "${KEY}" }', 'pings[0].fail: expected a URL'],
  ])('with %s are refused', (_name, line, message) => {
    expect(refused(pings(line), URLS).message).toContain(message);
  });

  it('whose URL is not there are silent, with a warning', () => {
    const config = yaml(pings('- { success: "${NOT_SET}" }'), URLS);
    expect(config.pings[0]).toMatchObject({ success: null });
    expect(config.pings[0]?.problem).toContain('NOT_SET');
    expect(config.warnings).toHaveLength(1);
  });
});
