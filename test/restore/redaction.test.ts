import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { replaceValues } from '../../src/core/json.ts';
import { isRedacted, redactionWith } from '../../src/sync/redaction.ts';

describe('replacing values in JSON text', () => {
  it('leaves any text as it is where nothing is named, and puts the same value at every place that is', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(0, 1, 2), (text, space) => {
        const value: unknown = JSON.parse(text);
        const spaced = JSON.stringify(value, null, space);
        expect(replaceValues(spaced, () => null)).toBe(spaced);
        const echoed = replaceValues(spaced, (path, whole) => (path.length === 2 ? whole() : null));
        expect(echoed).toBe(spaced);
        const replaced = replaceValues(spaced, (path) => (path.length === 1 ? '"x"' : null));
        const isContainer = typeof value === 'object' && value !== null;
        const each = Array.isArray(value)
          ? value.map(() => 'x')
          : Object.fromEntries(Object.keys(isContainer ? value : {}).map((name) => [name, 'x']));
        expect(JSON.parse(replaced)).toEqual(isContainer ? each : value);
      }),
    );
  });

  it('refuses what is not JSON, however deep', () => {
    for (const text of ['{"a":1', '[1,2', '{"a" 1}', '[1}', '{"a":1}}', '{a:1}']) {
      expect(() => replaceValues(text, () => null)).toThrow(SyntaxError);
    }
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    expect(replaceValues(deep, () => null)).toBe(deep);
  });
});

describe('a redaction', () => {
  const redaction = redactionWith(new Uint8Array(32));
  const destination = definitionOf('pipeline_destinations');
  const sharing = definitionOf('recording_sharing');
  const redacted = (text: string): unknown => JSON.parse(redaction.text(destination, text));

  it('keeps spelling, order, big numbers and everything that is not a secret', () => {
    const text =
      '{ "id":7, "n":1.10,"big":12345678901234567890 , "config_schema":{"api_key":"s3","token":true} }';
    const out = redaction.text(destination, text);
    expect(out.replace(/"\[redacted:[0-9a-f]{16}\]"/, '"s3"')).toBe(text);
  });

  it('leaves null, empty texts, masks and switches, and takes whole what stands under a secret name', () => {
    const same = { password: null, secret: '', token: '********', credentials: false };
    expect(redacted(JSON.stringify({ config_schema: same }))).toEqual({ config_schema: same });
    const whole = redacted('{"config_schema":{"credentials":{"user":"u","parts":["a","b"]}}}') as {
      config_schema: { credentials: string };
    };
    expect(isRedacted(whole.config_schema.credentials)).toBe(true);
  });

  it('takes members that no documentation knows by their names, and documented ones by the documentation', () => {
    const of = redacted(
      '{"id":1,"name":"n","webhook_secret":"s","has_token":true,"extra":{"password":"p"}}',
    ) as { webhook_secret: string; extra: { password: string } };
    expect(isRedacted(of.webhook_secret)).toBe(true);
    expect(isRedacted(of.extra.password)).toBe(true);
    expect(of).toMatchObject({ id: 1, name: 'n', has_token: true });
  });

  it.each([
    'https://u:p@h.example/',
    'https:\\u002f\\/u:p@h.example/',
    'https://h.example/?token=T',
    'post to https://hooks.slack.com/services/T0/B0/XX',
    'Server=s;Password=p',
    'Server\\u003ds;Pwd\\u003dp',
    'Bearer abcdefgh01234567',
    '-----BEGIN PRIVATE KEY-----\\nMII',
  ])('takes a text with a secret that reports mask: %s', (text) => {
    const of = redacted(`{"name":"https://h.example/?page=2","description":"${text}"}`) as {
      description: string;
    };
    expect(isRedacted(of.description)).toBe(true);
    expect(of).toMatchObject({ name: 'https://h.example/?page=2' });
  });

  it('takes names of members with such a secret, each with a fingerprint of its own', () => {
    const [one, other, plain] = [
      'https://u:a@h.example/',
      'https://u:b@h.example/',
      'https://h.example/?p=2',
    ];
    const seen = new Map<string, string>();
    const jobs = { [one]: { [other]: 1 }, [other]: 'x', [plain]: 'y' };
    const text = redaction.text(destination, JSON.stringify({ id: 1, public_jobs: jobs }), (mark, secret) => {
      seen.set(JSON.parse(mark) as string, JSON.parse(secret) as string);
    });
    const of = (JSON.parse(text) as { public_jobs: Record<string, unknown> }).public_jobs;
    const [first = '', second = ''] = Object.keys(of);
    expect([first, second].every(isRedacted)).toBe(true);
    expect(of).toEqual({ [first]: { [second]: 1 }, [second]: 'x', [plain]: 'y' });
    expect([...seen]).toEqual([
      [first, one],
      [second, other],
    ]);
    expect(redaction.text(destination, text)).toBe(text);
  });

  it.each([
    'Bearer abcdefgh01234567',
    'Authorization: Bearer abcdefgh01234567',
    '-----BEGIN PRIVATE KEY-----\nMII',
  ])('takes a name of a member with any secret that reports mask: %j', (name) => {
    const of = redacted(JSON.stringify({ id: 1, public_jobs: { [name]: { [name]: 1 }, basic: 2 } })) as {
      public_jobs: Record<string, object>;
    };
    const [first = '', second] = Object.keys(of.public_jobs);
    expect([isRedacted(first), second]).toEqual([true, 'basic']);
    expect(Object.keys(of.public_jobs[first] ?? {})).toEqual([first]);
  });

  it('differs by value and key, not by spelling', () => {
    const of = (value: string, key = redaction): string =>
      (JSON.parse(key.text(sharing, `{"access_token":${value}}`)) as { access_token: string }).access_token;
    expect(isRedacted(of('"a"'))).toBe(true);
    expect(of('"a"')).toBe(of('"\\u0061"'));
    expect(of('"a"')).not.toBe(of('"b"'));
    expect(of('"a"')).not.toBe(of('"a"', redactionWith(new Uint8Array(32).fill(1))));
  });
});
