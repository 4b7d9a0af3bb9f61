import { join } from 'node:path';
import { mkdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { KINDS } from '../../src/catalog/kinds.ts';
import { KEY, oneSource, workspace } from './workspace.ts';

const { directory, write, load, yaml, refused } = workspace();

describe('a file', () => {
  it('gives every value, with units as the program uses them', () => {
    const config = yaml(
      `mirror: ./mine/mirror.db
sources:
  - name: production
    baseUrl: https://svc.example.com/prefix/
    apiKey: \${KEY}
    profile: posthog
    organizations: [0190-a, 17]
    projects: all
    kinds: { exclude: [session_recordings, session_recordings] }
    rate: { perMinute: 10 }
    pageSize: 50
    retry: { attempts: 2, maxWaitSeconds: 30 }
    sync: { maxDuration: 30m }
    recordings: { sharingPerRun: all, fullSweepEvery: 7d }
    removals: { maxRecords: 0, maxShare: 1, confirmAfter: 90s }
schedules:
  sync: { cron: "*/30  * * * *", jitter: 60s }
  drift: { cron: "0 0 7 * * mon-fri", zone: Europe/Berlin }
  verify: { cron: off }
retention: { keepLast: 3, keepWithin: 7d }
http: { listen: "[::1]:9000" }
log: { level: debug }
`,
      KEY,
    );
    expect(config.file).toBe(join(directory, 'tidemark.yaml'));
    expect(config.mirror).toBe(join(directory, 'mine/mirror.db'));
    const { definitions, baseUrl, apiKey, ...source } = config.sources[0]!;
    expect(baseUrl.href).toBe('https://svc.example.com/prefix/');
    expect(apiKey.reveal()).toBe('phx_test');
    expect(definitions).toHaveLength(KINDS.length);
    expect(source).toEqual({
      name: 'production',
      profile: 'posthog',
      keyOption: 'apiKey',
      proxies: { https: null, http: null, exceptions: [] },
      keyPath: '/api/personal_api_keys/@current/',
      organizations: ['0190-a', '17'],
      projects: 'all',
      kinds: { include: null, exclude: ['session_recordings'] },
      rate: {
        perMinute: 10,
        perHour: 4800,
        concurrency: 4,
        kinds: [{ kinds: ['session_recordings', 'recording_sharing'], perMinute: 240, perHour: 1200 }],
      },
      pageSize: 50,
      retry: { attempts: 2, maxWaitSeconds: 30 },
      sync: { maxDurationMs: 1_800_000 },
      recordings: { sharingPerRun: 'all', fullSweepEveryMs: 604_800_000 },
      removals: { maxRecords: 0, maxShare: 1, confirmAfterMs: 90_000 },
      restore: { maxShare: 0.3, minRecords: 10, maxAgeMs: 86_400_000, ownUser: null },
      redact: false,
      secrets: [],
      given: { secrets: [], definitions: [] },
      git: null,
    });
    expect(config.schedules.sync).toEqual({
      cron: '*/30 * * * *',
      zone: 'UTC',
      jitterMs: 60_000,
      sources: ['production'],
    });
    expect(config.schedules.drift).toEqual({
      cron: '0 0 7 * * mon-fri',
      zone: 'Europe/Berlin',
      jitterMs: 0,
      sources: ['production'],
    });
    expect(config.schedules.verify).toBeNull();
    expect(config.schedules.drill).toMatchObject({ cron: '0 5 * * 1', sources: ['production'] });
    expect(config.retention).toEqual({ last: 3, withinMs: 604_800_000 });
    expect(config.daemon).toEqual({
      shutdownGraceMs: 10_000,
      slots: 2,
      jobTimeout: 6 * 3_600_000,
      noticeWait: 30_000,
      noticeInterval: 300_000,
    });
    expect(config.http).toEqual({
      host: '::1',
      port: 9000,
      token: null,
      tokenFile: null,
      triggerToken: null,
      mcp: false,
      allowRestore: false,
      publicUrl: null,
      trustedProxies: [],
      userHeader: null,
    });
    expect(config.log.level).toBe('debug');
    expect(config.warnings).toEqual([expect.stringContaining('leaves out recording_sharing too')]);
  });

  it.each([
    ['[127.0.0.1]', 'X-Forwarded-User', '', []],
    ['[127.0.0.1]', 'X-Forwarded-User', null, [/http\.userHeader: needs http\.token or http\.tokenFile/]],
    ['[]', 'X-Forwarded-User', '', [/http\.userHeader: needs http\.trustedProxies/]],
    [
      '[10.0.0.0/8, 0.0.0.0/0]',
      'Remote-User',
      '',
      [/http\.trustedProxies: .* got 0\.0\.0\.0\/0: everybody could send Remote-User/],
    ],
    ['["::/0"]', 'Remote-User', '', [/got ::\/0: everybody/]],
    ['[127.0.0.1]', 'cookie', '', [/http\.userHeader: .*expected the name of a header/]],
    ['[127.0.0.1]', 'a b', '', [/http\.userHeader: .*expected the name of a header/]],
  ] as const)('with trustedProxies %s and userHeader %s', (proxies, header, token, mistakes) => {
    const http = `http: { ${token === null ? '' : 'token: 0123456789abcdef, '}trustedProxies: ${proxies}, userHeader: "${header}" }`;
    const text = `${oneSource()}${http}\n`;
    if (mistakes.length === 0) expect(yaml(text, KEY).http.userHeader).toBe(header);
    for (const mistake of mistakes) expect(refused(text, KEY).message).toMatch(mistake);
  });

  it('warns of networks that have more than proxies in them', () => {
    const http =
      'http: { trustedProxies: [10.0.0.0/8, 127.0.0.0/8, 127.0.0.1, 10.1.0.0/16, "fd00::/8", "fd00:1::/32", "::/0"] }';
    const warnings = yaml(`${oneSource()}${http}\n`, KEY).warnings.map((line) =>
      line.replace(/^.*Proxies: /, ''),
    );
    expect(warnings).toEqual(
      ['10.0.0.0/8', '127.0.0.0/8', 'fd00::/8', '::/0'].map((network): unknown =>
        expect.stringMatching(
          `^${network} is wide: ${network.startsWith('127') ? 'every user of this machine' : 'whoever is in it'} can claim`,
        ),
      ),
    );
  });

  it('warns of a clone that is not there and that nothing makes', () => {
    const warnings = (git: string): readonly string[] =>
      yaml(oneSource(`git: { ${git} }`), KEY).warnings.filter((line) => line.includes('no clone'));
    expect(warnings('directory: ./never-made')).toEqual([
      expect.stringMatching(/git\.directory: there is no clone in \S+never-made, .* or set git\.repository$/),
    ]);
    expect(warnings('directory: ./never-made, repository: ./origin.git')).toEqual([]);
    expect(warnings('directory: .')).toEqual([]);
  });

  it('is frozen all the way down', () => {
    const config = yaml(oneSource(), KEY);
    const thaw: string[] = [];
    const look = (value: unknown, path: string): void => {
      if (typeof value !== 'object' || value === null) return;
      if (!Object.isFrozen(value)) thaw.push(path);
      if (!(value instanceof URL))
        for (const [key, child] of Object.entries(value)) look(child, `${path}.${key}`);
    };
    look(config, 'config');
    expect(thaw).toEqual([]);
  });

  it('is found by --config before TIDEMARK_CONFIG before ./tidemark.yaml; relative paths start beside it', () => {
    mkdirSync(join(directory, 'etc'), { recursive: true });
    write('etc/a.yaml', oneSource('name: a'));
    write('etc/b.yaml', oneSource('name: b'));
    write('tidemark.yaml', oneSource('name: c'));
    const nameOf = (env: object, file?: string): string =>
      load({ ...KEY, ...env }, { file }).sources[0]!.name;
    expect(nameOf({ TIDEMARK_CONFIG: 'etc/b.yaml' }, 'etc/a.yaml')).toBe('a');
    expect(nameOf({ TIDEMARK_CONFIG: 'etc/b.yaml' })).toBe('b');
    expect(nameOf({})).toBe('c');
    expect(load(KEY, { file: 'etc/a.yaml' }).mirror).toBe(join(directory, 'etc/data/mirror.db'));
  });

  it('may use anchors and aliases within reason', () => {
    const config = yaml(
      `sources:
  - { name: a, baseUrl: https://a.example.com, apiKey: "\${KEY}", rate: &slow { perMinute: 7 } }
  - { name: b, baseUrl: https://b.example.com, apiKey: "\${KEY}", rate: *slow }
`,
      KEY,
    );
    expect(config.sources.map(({ rate }) => rate.perMinute)).toEqual([7, 7]);
  });

  it('may leave sections empty', () => {
    expect(yaml(`${oneSource('rate:', 'kinds:')}schedules:\nhttp:\n`, KEY).sources[0]!.rate.perMinute).toBe(
      480,
    );
  });
});

describe('mistakes', () => {
  it('are reported all at once, by line, with what was expected', () => {
    const error = refused(
      `mirrors: x
sources:
  - name: One
    baseUrl: https://svc.example.com
    apiKey: \${KEY}
    rate:
      perMinute: fast
      perhour: 1
    kinds: { exclude: [memebers] }
  - name: two
    apiKey: \${NOT_SET}
    baseUrl: ftp://svc.example.com
    profile: posthig
schedules: { sync: { cron: "* * 25 * *", zone: Mars } }
log: { level: loud }
`,
      KEY,
    );
    expect(error.code).toBe('config_invalid');
    expect(error.message.split('\n')).toEqual([
      '10 mistakes in the configuration:',
      'tidemark.yaml:1: mirrors: unknown option; did you mean mirror?',
      'tidemark.yaml:3: sources[0].name: expected a name of lower-case letters, digits, - and _, got "One"',
      'tidemark.yaml:7: sources[0].rate.perMinute: expected a whole number from 0 to 1000000, got "fast"',
      'tidemark.yaml:8: sources[0].rate.perhour: unknown option; did you mean perHour?',
      'tidemark.yaml:9: sources[0].kinds.exclude[0]: expected a kind, got "memebers"; did you mean "members"?',
      'tidemark.yaml:11: sources[1].apiKey: ${NOT_SET} is not set in the environment',
      'tidemark.yaml:12: sources[1].baseUrl: expected an http:// or https:// URL, got "ftp://svc.example.com"',
      'tidemark.yaml:13: sources[1].profile: expected one of posthog, svc, svc-writable or the path of a file, got "posthig"; did you mean "posthog"?',
      'tidemark.yaml:14: schedules.sync.zone: expected a time zone such as UTC or Europe/Berlin, got "Mars"',
      'tidemark.yaml:15: log.level: expected one of silent, error, warn, info, debug, trace, got "loud"',
    ]);
  });

  it('a reference to a source names the sources as they were given, and to one of a wrong name is no further mistake', () => {
    const error = refused(
      `sources:
  - { name: One, baseUrl: https://svc.example.com, apiKey: "\${KEY}" }
  - { name: Two, baseUrl: https://svc.example.com, apiKey: "\${KEY}" }
schedules: { sync: { sources: [Two, other] } }
`,
      KEY,
    );
    expect(error.message.split('\n').slice(1)).toEqual([
      expect.stringContaining('sources[0].name: expected a name'),
      expect.stringContaining('sources[1].name: expected a name'),
      'tidemark.yaml:4: schedules.sync.sources[1]: expected the name of a source; "other" is none (configured: One, Two)',
    ]);
  });

  it.each([
    ['a text for a number', 'rate: { perMinute: "480" }', 'rate.perMinute: expected a whole number'],
    ['a negative number', 'rate: { perMinute: -1 }', 'rate.perMinute: expected a whole number from 0'],
    ['a fraction', 'pageSize: 1.5', 'pageSize: expected a whole number from 1 to 10000, got 1.5'],
    [
      'zero where one is least',
      'rate: { concurrency: 0 }',
      'rate.concurrency: expected a whole number from 1',
    ],
    ['not a number', 'pageSize: .nan', 'pageSize: expected a whole number from 1 to 10000, got NaN'],
    ['infinity', 'pageSize: .inf', 'pageSize: expected a whole number from 1 to 10000, got Infinity'],
    ['a huge number', 'pageSize: 1e300', 'pageSize: expected a whole number from 1 to 10000, got 1e+300'],
    [
      'a share above one',
      'removals: { maxShare: 10 }',
      'removals.maxShare: expected a number from 0 to 1, got 10',
    ],
    [
      'a duration without unit',
      'removals: { confirmAfter: 60 }',
      'expected a duration such as 10s, 5m, 1h or 7d, got 60',
    ],
    ['a duration in words', 'recordings: { fullSweepEvery: daily }', 'expected a duration'],
    ['nothing', 'pageSize:', 'pageSize: expected a whole number from 1 to 10000, got nothing'],
    [
      'a list for a section',
      'rate: [480]',
      'rate: expected a mapping with perMinute, perHour, concurrency…, got a list',
    ],
    [
      'both include and exclude',
      'kinds: { include: [roles], exclude: [plugins] }',
      'expected include or exclude, got both',
    ],
    ['an empty include', 'kinds: { include: [] }', 'kinds: leaves no kind to mirror'],
    [
      'an unknown kind',
      'kinds: { include: [dashboards] }',
      'kinds.include[0]: expected a kind, got "dashboards"',
    ],
    [
      'a kind outside a list',
      'kinds: { include: roles }',
      'kinds.include: expected a list of kinds, got "roles"',
    ],
    ['an empty list of ids', 'projects: []', 'projects: expected "all" or a list of ids'],
    [
      'an id that lost digits',
      'projects: [12345678901234567890]',
      'projects: expected "all" or a list of ids (quote ids',
    ],
    ['a key of another case', 'Name: x', 'Name: unknown option; did you mean name?'],
    ['a prototype key', '__proto__: { pageSize: 1 }', '__proto__: unknown option'],
    ['a variable that is not set', 'name: ${NOPE}', 'name: ${NOPE} is not set in the environment'],
    [
      'a key in place of its variable',
      `name: \${phx_${'a1b2c3'.repeat(6)}}`,
      'name: ${phx_[secret]} is not set',
    ],
    ['an unset variable in a list', 'projects: [a, "${NOPE}", c]', 'projects[1]: ${NOPE} is not set'],
    ['a broken reference', 'name: ${NO PE}', 'name: expected ${NAME} with letters'],
    ['a profile that is nowhere', 'profile: ./mine.yaml', 'mine.yaml does not exist'],
  ])('name %s', (_name, line, message) => {
    const error = refused(oneSource(line), KEY);
    expect(error.code).toBe('config_invalid');
    expect(error.message).toMatch(/^tidemark\.yaml:4: sources\[0\]/);
    expect(error.message).toContain(message);
    expect(error.message.split('\n')).toHaveLength(1);
  });

  it.each([
    ['https://user:hunter2@svc.example.com', 'without credentials'],
    ['https://svc.example.com/?a=1', 'without a query'],
    ['https://svc.example.com/#top', 'without a query or a fragment'],
    ['svc.example.com', 'an http:// or https:// URL'],
    ['file:///etc/passwd', 'an http:// or https:// URL'],
    ['htps://user:hunter2@svc.example.com', 'an http:// or https:// URL'],
    ['', 'an http:// or https:// URL'],
  ])('name the base URL %j without its password', (url, message) => {
    const error = refused(`sources:\n  - { baseUrl: '${url}', apiKey: '\${KEY}' }\n`, KEY);
    expect(error.message).toContain('tidemark.yaml:2: sources[0].baseUrl: expected');
    expect(error.message).toContain(message);
    expect(error.message).not.toContain('hunter2');
  });

  it('name an option that stands elsewhere', () => {
    expect(refused(`${oneSource()}perMinute: 3\n`, KEY).message).toContain(
      'tidemark.yaml:4: perMinute: unknown option; did you mean sources[].rate.perMinute?',
    );
  });

  it('name sources that share a name, given or not', () => {
    const source = (name: string): string =>
      `  - { ${name}baseUrl: https://a.example.com, apiKey: "\${KEY}" }\n`;
    expect(refused(`sources:\n${source('name: a, ')}${source('name: a, ')}`, KEY).message).toBe(
      'tidemark.yaml:3: sources[1].name: "a" is the name of sources[0] too; expected a different name for each source',
    );
    expect(refused(`sources:\n${source('')}${source('')}`, KEY).message).toContain(
      'sources[1].name: missing',
    );
  });

  it.each([
    ['sources: { a: { baseUrl: x } }', 'sources: expected a list, got a mapping'],
    ['sources: [abc]', 'sources[0]: expected a mapping with name'],
    ['sources: [{}]', 'sources[0].apiKey: missing'],
    [
      'schedules: { sync: { sources: [staging] } }',
      'schedules.sync.sources[0]: expected the name of a source; "staging" is none',
    ],
    [
      'schedules: { sync: { every: 24h } }',
      'schedules.sync.every: unknown option; expected cron, zone, jitter, sources',
    ],
    ['schedules: { syn: { cron: "* * * * *" } }', 'schedules.syn: unknown option; did you mean sync?'],
    ['http: { listen: "127.0.0.1" }', 'http.listen: expected host:port'],
    ['http: { listen: "127.0.0.1:99999" }', 'http.listen: expected host:port'],
    ['http: { listen: "0.0.0.0:80" }', 'http.listen: 0.0.0.0 is not a loopback address and needs http.token'],
  ])('name %s', (line, message) => {
    expect(refused(`${line}\n`).message).toContain(`tidemark.yaml:1: ${message}`);
  });
});

describe('warnings', () => {
  it('tell of a key in clear, of plain http, and of nothing else', () => {
    const text = 'sources:\n  - { baseUrl: http://svc.example.com, apiKey: phx_clear }\n';
    const { warnings } = yaml(text);
    expect(warnings).toHaveLength(2);
    expect(warnings[0]).toContain('tidemark.yaml:2: sources[0].apiKey: written in clear');
    expect(warnings[1]).toContain('http:// sends the key unencrypted to svc.example.com');
    expect(warnings.join()).not.toContain('phx_clear');
    for (const host of ['localhost:8000', '127.0.0.1:1', '[::1]:1', '127.9.9.9']) {
      expect(yaml(`sources:\n  - { baseUrl: 'http://${host}', apiKey: '\${KEY}' }\n`, KEY).warnings).toEqual(
        [],
      );
    }
  });
});
