/** Tokens that their beginning shows, and names and parameters of secrets, beyond those of `secret-names.test.ts`. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { MASK, maySecretsBeIn, recordedText, withoutUrlSecrets } from '../../src/catalog/masks.ts';
import { isSecretName } from '../../src/catalog/named-secrets.ts';
import { changedDefinition } from '../../src/catalog/resource-definition.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { pointerTo } from '../../src/core/json-pointer.ts';
import { Secret, SecretSearch } from '../../src/core/secret.ts';
import { maskedBody, maskedPlace } from '../../src/report/mask.ts';
import { redactionWith } from '../../src/sync/redaction.ts';

it.each<[text: string, shown: string]>([
  [`rk_live_${'a1'.repeat(12)} phx_${'a1B2'.repeat(10)}`, 'rk_live_[secret] phx_[secret]'],
  [`sk-proj-${'a1_B'.repeat(10)} sk-ant-api03-${'a1-B'.repeat(10)}`, 'sk-proj-[secret] sk-ant-[secret]'],
  [`dop_v1_${'ab12'.repeat(16)}`, 'dop_v1_[secret]'],
  ['X-Amz-Security-Token=IQoJb3JpZ2luX2VjEJ%2F%2Fab', 'X-Amz-Security-Token=[secret]'],
  [
    'postgres://h/d?sslpassword=P&sslkeypassword=Q&pw=R&sslmode=require',
    'postgres://h/d?sslpassword=[secret]&sslkeypassword=[secret]&pw=[secret]&sslmode=require',
  ],
  ['https://a.example/hook?hmac=0a1b', 'https://a.example/hook?hmac=[secret]'],
  ['https://a.example/?token=${token:-hunter2024}&a=1', 'https://a.example/?token=[secret]&a=1'],
  ['https://a.example/?token={hunter2}', 'https://a.example/?token=[secret]'],
  ['password: ${PW:-Zq5Ab2}', 'password: [secret]'],
  ['Server=x;Password=${PW:-Zq5Ab2}', 'Server=x;Password=[secret]'],
  ['curl -u user:${PASS:-hunter2} h', 'curl -u user:[secret] h'],
  ['curl -s \\\n  -u user:pw h', 'curl -s \\\n  -u user:[secret] h'],
  ['-u user:pw', '-u user:[secret]'],
  ['Authorization: Bearer ${t:-ghp_x}', 'Authorization: Bearer [secret]'],
  ['"Authorization: Bearer real" is sent', '"Authorization: Bearer [secret]" is sent'],
  ['aws_secret_access_key=${X:-abc}', 'aws_secret_access_key=[secret]'],
  ['a; TOKEN="${X:-a b}" b', 'a; TOKEN="[secret]" b'],
  ['API_TOKEN=abc123', 'API_TOKEN=[secret]'],
  [
    'A=1\nexport STRIPE_KEY=Zq5Ab2 # old\nexport  CI_SECRET=swordfish\nmy_password="p w"',
    'A=1\nexport STRIPE_KEY=[secret] # old\nexport  CI_SECRET=[secret]\nmy_password=[secret]',
  ],
  ['password: {hunter2}', 'password: [secret]'],
  ['add ?token=${T:-ghp_abc} or ?api_key=abc', 'add ?token=[secret] or ?api_key=[secret]'],
  [
    '[{"name":"Authorization","value":"Zq5"},{"name":"Accept","value":"a/b"},{"value":"Zq6","key":"X-Api-Key"}]',
    '[{"name":"Authorization","value":"[secret]"},{"name":"Accept","value":"a/b"},{"value":"[secret]","key":"X-Api-Key"}]',
  ],
  ['{"u":"https:\\/\\/user:PW@h.example\\/a"}', '{"u":"https://user:[secret]@h.example/a"}'],
  ["curl -s -u user:p4ss 'https://a.example'", "curl -s -u user:[secret] 'https://a.example'"],
  ["curl --user 'ann:p4ss' a.example", "curl --user 'ann:[secret]' a.example"],
  [
    String.raw`{"user":"svc","password":"correct\"horse9"} and curl -u "ann:pass9 word" https://x.example`,
    '{"user":"svc","password":"[secret]"} and curl -u "ann:[secret]" https://x.example',
  ],
  [String.raw`{"a":1,"api_key":"s3cr3t\\Zq5","b":2}`, '{"a":1,"api_key":"[secret]","b":2}'],
  [String.raw`{"api_key":"s3cr3t\\","b":"\\"}`, String.raw`{"api_key":"[secret]","b":"\\"}`],
  [String.raw`{"name":"X-Api-Key","value":"a\"Zq5"}`, '{"name":"X-Api-Key","value":"[secret]"}'],
  [String.raw`{"value":"a\"Zq5","name":"X-Api-Key"}`, '{"value":"[secret]","name":"X-Api-Key"}'],
  [
    JSON.stringify({ a: JSON.stringify({ token: 'x"Zq5\\', b: 'c' }) }),
    JSON.stringify({ a: JSON.stringify({ token: MASK, b: 'c' }) }),
  ],
  [
    JSON.stringify({ a: JSON.stringify({ a: JSON.stringify({ token: 'x"Zq5\\', b: 'c' }) }) }),
    JSON.stringify({ a: JSON.stringify({ a: JSON.stringify({ token: MASK, b: 'c' }) }) }),
  ],
  [
    `password: "a\\"Zq5"\npassword: 'a''Zq5' # old\nAPI_TOKEN="a\\"Zq5"\nAPI_KEY='a'\\''Zq5'\nexport PASSWORD="a\\"b c"`,
    'password: [secret]\npassword: [secret] # old\nAPI_TOKEN=[secret]\nAPI_KEY=[secret]\nexport PASSWORD=[secret]',
  ],
  [
    "curl -u 'ann:correct horse' a; curl --user \"bo b:it's\" h",
    'curl -u \'ann:[secret]\' a; curl --user "bo b:[secret]" h',
  ],
  [
    `curl -u ann:"hunter2pwU1" a; curl -u ann:'it is U2' b; curl --user "$U":"it's \\"U3" c`,
    `curl -u ann:"[secret]" a; curl -u ann:'[secret]' b; curl --user "$U":"[secret]" c`,
  ],
  [
    `--password 'two words1' --api-key="two1 it's Q9" --password "a \\"b 1c" X-Api-Key: "abc1234 tailH1"`,
    `--password '[secret]' --api-key="[secret]" --password "[secret]" X-Api-Key: "[secret]"`,
  ],
  [
    String.raw`{"run":"cmd --token=\"abc1234 tailP3\" -v"}`,
    String.raw`{"run":"cmd --token=\"[secret]\" -v"}`,
  ],
  [
    '[{"name":"X-Api-Key","type":"text","on":true,"value":"Zq5"},{"value":"Zq6","n":1,"key":"Cookie"},{"name":"a","b":"c","value":"d"}]',
    '[{"name":"X-Api-Key","type":"text","on":true,"value":"[secret]"},{"value":"[secret]","n":1,"key":"Cookie"},{"name":"a","b":"c","value":"d"}]',
  ],
  [
    '{"name":"a","password":"Zq5","value":"d"}, {"value":"d","password":"Zq5","name":"a"}',
    '{"name":"a","password":"[secret]","value":"d"}, {"value":"d","password":"[secret]","name":"a"}',
  ],
  ['https://x.example/?token=a1b2c3;Zq5&a=1', 'https://x.example/?token=[secret]&a=1'],
  [
    'get("https://x.example/?token=a1b2c3"); https://x.example/?key=K;',
    'get("https://x.example/?token=[secret]"); https://x.example/?key=[secret];',
  ],
  ['a; export PASSWORD="a\\"b c" d', 'a; export PASSWORD=[secret] d'],
  ['curl -u ann:b"c d" h; curl -u ann:"e"f\'g h\' i', 'curl -u ann:[secret] h; curl -u ann:[secret] i'],
  [
    String.raw`{"run":"curl -u ann:b\"c d\" h","a":"curl -u ann:b","c":"d"}`,
    '{"run":"curl -u ann:[secret] h","a":"curl -u ann:[secret]","c":"d"}',
  ],
  [
    'curl -x p -U ann:b1 h; curl --proxy-user ann:b1 h',
    'curl -x p -U ann:[secret] h; curl --proxy-user ann:[secret] h',
  ],
  ['cmd --password ab1"c d" -v', 'cmd --password [secret] -v'],
  ['curl -u "ann:b c', 'curl -u "ann:[secret]'],
  ['{"user":"a","password":"abc', '{"user":"a","password":"[secret]'],
  ['{"password":"abc... (cut)\nnext: "a"', '{"password":"[secret]\nnext: "a"'],
  [String.raw`{"body":"{\"password\":\"abc"}`, String.raw`{"body":"{\"password\":\"[secret]"}`],
  ['{"name":"Cookie","on":true,"value":"a b', '{"name":"Cookie","on":true,"value":"[secret]'],
  [`{"password":"${'x'.repeat(5000)}"}`, '{"password":"[secret]"}'],
  [
    String.raw`{"p\u0061ssword":"x","\u0050assword":"y","a\u0062":"z"} {\"p\\u0061ssword\":\"x\"}`,
    String.raw`{"p\u0061ssword":"[secret]","\u0050assword":"[secret]","a\u0062":"z"} {\"p\\u0061ssword\":\"[secret]\"}`,
  ],
  [
    '{"password":["x1y2","hunter2"],"credentials":{"user":"ann","keys":[{"a":"Zq5/Ab2"}],"n":1},"b":"Zq5Ab2"}',
    '{"password":["[secret]","[secret]"],"credentials":{"user":"ann","keys":[{"a":"[secret]"}],"n":1},"b":"Zq5Ab2"}',
  ],
  [
    String.raw`{\"Cookie\":[\"a=b; path=/\"],\"Authorization\":[\"Bearer swordfish\"],\"Accept\":[\"a1b2/c\"]}`,
    String.raw`{\"Cookie\":[\"[secret]\"],\"Authorization\":[\"[secret]\"],\"Accept\":[\"a1b2/c\"]}`,
  ],
  ['{"tokens":["Zq5Ab2"],"token":["Zq5Ab2","Zq6Ab', '{"tokens":["Zq5Ab2"],"token":["[secret]","[secret]'],
  ['Cookie: sid=a1b2c3d4; b=c\nAccept: a', 'Cookie: [secret]\nAccept: a'],
  [
    `curl -H "Cookie: sid=a1b2c3d4" -H 'PRIVATE-TOKEN: a1b2c3d4' h`,
    `curl -H "Cookie: [secret]" -H 'PRIVATE-TOKEN: [secret]' h`,
  ],
  ['Authorization: ApiKey Zq5Ab2', 'Authorization: ApiKey [secret]'],
  ['curl --oauth2-bearer Zq5Ab2 h', 'curl --oauth2-bearer [secret] h'],
  [
    'sshpass -p Zq5 ssh h; docker login -u a -p Zq5 h',
    'sshpass -p [secret] ssh h; docker login -u a -p [secret] h',
  ],
  ['machine h login a password Zq5', 'machine h login a password [secret]'],
  ['jdbc:oracle:thin:ann/Zq5@h:1521/x', 'jdbc:oracle:thin:ann/[secret]@h:1521/x'],
  [
    '-----BEGIN PRIVATE KEY-----<br>Zq5<br>-----END PRIVATE KEY-----',
    '-----BEGIN PRIVATE KEY-----[secret]-----END PRIVATE KEY-----',
  ],
  [
    'https://sk1a2b3c:@h/ https://a1b2c3d4:x-oauth-basic@h/',
    'https://[secret]:@h/ https://[secret]:[secret]@h/',
  ],
  ['https%3A%2F%2Fann%3AZq5%40h', 'https%3A%2F%2Fann%3A[secret]%40h'],
  ['https://h/x;jsessionid=a1b2c3d4?a=1', 'https://h/x;jsessionid=[secret]?a=1'],
  ['&quot;password&quot;: &quot;Zq5&quot;', '"password": "[secret]"'],
  ['a,"{""password"":""Zq5""}"', 'a,"{"password":"[secret]"}"'],
  [
    '**password**: Zq5Ab2\n* token: Zq5Ab2\n> token: Zq5Ab2',
    '**password**: [secret]\n* token: [secret]\n> token: [secret]',
  ],
  ['//registry.example/:_authToken=Zq5Ab2', '//registry.example/:_authToken=[secret]'],
  ['password: |\n  Zq5Ab2\nsecret_key_base: Zq5Ab2', 'password: |\n  [secret]\nsecret_key_base: [secret]'],
  [
    '<add key="password" value="Zq5"/><password><![CDATA[Zq5]]></password>',
    '<add key="password" value="[secret]"/><password><![CDATA[[secret]]]></password>',
  ],
  ['Authorization: Token Zq5', 'Authorization: Token [secret]'],
  ['Authorization: Token token="Zq5"', 'Authorization: Token token="[secret]"'],
  ['cmd --token Zq5Ab2 --ci-api-key="Zq5Ab2"', 'cmd --token [secret] --ci-api-key="[secret]"'],
  [`"api_key" => "Zq5", 'token': 'it\\'s'`, `"api_key" => "[secret]", 'token': '[secret]'`],
  ['<a><s:Password>p w</s:Password></a>', '<a><s:Password>[secret]</s:Password></a>'],
  ['connection-string: Zq5Ab2x9', 'connection-string: [secret]'],
  ['secret-key-base: Zq5Ab2x9', 'secret-key-base: [secret]'],
  ["define('pw', 'hunter2')", "define('pw', '[secret]')"],
  ['token:|\n  abc12345', 'token:|\n  [secret]'],
  ['- name: API_TOKEN\n  value:|\n    hunter2x', '- name: API_TOKEN\n  value:|\n    [secret]'],
  ['{"token"  : "x"}', '{"token"  : "[secret]"}'],
  ['{"token"\n: "x"}', '{"token"\n: "[secret]"}'],
  ['machine\th\tlogin\ta\tpassword\tZq5', 'machine\th\tlogin\ta\tpassword\t[secret]'],
  ...[
    'authorization: token expired, --token is --max-token 500 --password $PASS1 --password 2>/dev/null',
    `{'Authorization': 'Bearer ' + token, "Authorization": "Basic " + a, 'authorization': 'Bearer {{token}}'}`,
    "a ? 'token' : 'session1' a?'secret':'b'",
    "<token>{{token}}</token> <password>required</password> don't': 'a'",
    'curl -u user:$PASS h',
    `"--token " + token1 + " b", 'curl -u a:' + pw1 + ' b', --password 'or', --token "$T1"`,
    'curl -u user h; sort -u a:b',
    'sort -u a:b\n-u https://a.example',
    'sk-proj-short, phx_short, rk_live_short, dop_v1_short',
    '?hmacs=1&pw_policy=2',
    'https://a.example/?token=${token}&key={token}&password={0}',
    'curl -u user:${PASS} h; curl -u "u:{pw}" h; curl -u u:$(cat pw) h',
    'Authorization: Bearer ${TOKEN:-} or {token} or $token\nAuthorization: Bearer $token\nAuthorization: Bearer ...',
    'Authorization: Basic auth, Authorization: Bearer tokens',
    'tokens=5\nsort_key=created_at\nmonkey=abc12\nAPI_TOKEN=$OTHER\nexport API_TOKEN=${OTHER}\nKEY=a\nTOKEN_COUNT=1234',
    'password: {db_pass}\npassword: {a: b2}\ntoken: {}',
    '?token=$TOKEN and ?token={token} and ?tokens=5 and `?token=…`',
    '[{"name":"Authorization","value":"{{token}}"},{"name":"a","value":"b"}] {"name":"token"}',
    '{"password":["This field is required.","It has fewer than 8 characters."],"token":["invalid"]}',
    '{"password":{"type":"string","format":"uuid4","pattern":"^[a-z0-9]{8}$","minLength":8}}',
    `'password' => ['required', 'min:8', Rule::in(["a"])], "token": {"label": "Your token", "help": "/docs/v2"}`,
    '{"token":["{{token1}}","${T}"],"password":[]} the member "password": "',
    'Cookie: required, cookie: a=b; docker login -p $PW; the machine of a login a password is for',
    '* password: required\n> token: expired\n**password**: see below\npassword: |\n  words of a form',
    '&quot;password&quot;: &quot;{{pw}}&quot; it&#39;s "a":"" and "":""',
    '<input name="password" value=""/><input name="token" value="{{token}}"><input name="a" value="b1">',
    'use "curl -u ann:$PW", "a b" and \'curl -u ann:$PW\' or',
    'https:\\/\\/user@h.example\\/a',
  ].map((text): [string, string] => [text, text]),
])('in a text: %s', (text, shown) => {
  expect(withoutUrlSecrets(text, MASK)).toBe(shown);
  expect(maySecretsBeIn(JSON.stringify(text)) || shown === text).toBe(true);
  expect(withoutUrlSecrets(shown, MASK)).toBe(shown);
});

it('wherever it is in a text: the quick test for signs of a secret misses none', () => {
  const oneOf = (...texts: readonly string[]): fc.Arbitrary<string> => fc.constantFrom(...texts);
  const gap = oneOf('', ' ', '  ', '\t', '\n', '|\n  ', ' >\n ');
  const quote = oneOf('', '"', "'", '\\"');
  const before = oneOf(
    '',
    '- ',
    'define(',
    'setx ',
    'export ',
    'curl -u ',
    '--',
    '{',
    '[',
    '<',
    'name: ',
    '"name": "',
  );
  const name = oneOf(
    'password',
    'token',
    'api-key',
    'secret_key_base',
    'connection.string',
    'pw',
    'X_TOKEN',
    'Cookie',
  );
  const sign = oneOf(':', '=', ' => ', ',', '', '\nvalue:', '","value":"', '>', '" value="');
  const value = oneOf('hunter2x', 'Zq5Ab2x9', 'it is', '12');
  fc.assert(
    fc.property(before, quote, name, gap, sign, gap, quote, value, (first, open, ...others) => {
      const [named, space, between, blank, mark, own] = others;
      const text = `${first}${open}${named}${open}${space}${between}${blank}${mark}${own}${mark}`;
      // The slash before it leads past the quick test.
      const shown = withoutUrlSecrets(`/\n${text}`, MASK).slice(2);
      if (shown === text) return;
      expect(withoutUrlSecrets(text, MASK)).not.toBe(text);
      expect(maySecretsBeIn(JSON.stringify(text))).toBe(true);
    }),
    { numRuns: 20_000 },
  );
});

it('in JSON below a secret name, at any depth, with escapes in the name, and cut off anywhere', () => {
  const secret = fc.stringMatching(/^[a-z][0-9][a-z]{4,9}[A-Z+/"\\]{3,9}$/);
  const name = fc.constantFrom('password', 'apiKey', 'client_secret', 'Authorization').chain((each) =>
    fc.nat(each.length - 1).map((at) => ({
      plain: each,
      escaped: `${each.slice(0, at)}\\u00${each.charCodeAt(at).toString(16)}${each.slice(at + 1)}`,
    })),
  );
  const below = fc.letrec((tie) => ({
    value: fc.oneof(
      fc.constant('SECRET'),
      fc.array(tie('value'), { minLength: 1 }),
      fc.record({ a: tie('value') }),
    ),
  })).value;
  fc.assert(
    fc.property(secret, name, below, fc.nat(2), fc.nat(), (text, { plain, escaped }, value, within, cut) => {
      let json = JSON.stringify({ a: 'b', [plain]: value, c: 'd' })
        .replaceAll('"SECRET"', () => JSON.stringify(text))
        .replace(plain, () => escaped);
      for (let level = 0; level < within; level++) json = JSON.stringify({ body: json });
      for (const shown of [json, json.slice(0, cut % json.length)])
        expect(withoutUrlSecrets(shown, MASK)).not.toContain(text.slice(0, 6));
      expect(withoutUrlSecrets(json, MASK)).toMatch(/"c\\*":\\*"d/);
    }),
  );
});

it('and no sentence, word or rule below such a name', () => {
  const words = fc.constantFrom(
    'is',
    'too',
    'short',
    'required',
    'needs 8 characters',
    'min:8',
    '2FA-app',
    'ungültig',
  );
  fc.assert(
    fc.property(
      fc.array(words, { minLength: 1 }),
      fc.constantFrom('password', 'token', 'secret'),
      (all, name) => {
        const text = JSON.stringify({
          errors: { [name]: [all.join(' '), ...all], more: { [name]: { help: all } } },
        });
        expect(withoutUrlSecrets(text, MASK)).toBe(text);
      },
    ),
  );
});

it('in a pair of a name and a value, also within a record', () => {
  const pairs = (value: string): object[] => [
    { name: 'Authorization', value },
    { value, key: 'x-api-key' },
    { name: 'STRIPE_KEY', value },
    { name: 'Accept', value: 'a/b' },
    { name: 'Forgot password', value: 'a page' },
  ];
  const body = (value: string): JsonObject => ({ destination: { headers: pairs(value) } }) as JsonObject;
  const definition = definitionOf('batch_exports');
  expect(maskedBody(body('Zq5'), definition)).toEqual(body(MASK));
  const stored = redactionWith(new Uint8Array(32)).text(definition, JSON.stringify(body('Zq5')));
  expect(stored).not.toContain('Zq5');
  expect(JSON.parse(stored)).toMatchObject({
    destination: { headers: [{}, {}, {}, ...pairs('Zq5').slice(3)] },
  });
});

it('by the name of a member', () => {
  const names = ['dbpassword', 'dbPassword', 'sslpassword', 'sslkeypassword', 'pw', 'db_pw'];
  expect(names.filter(isSecretName)).toEqual(names);
  expect(['pw_policy', 'password_policy', 'passwords_changed'].filter(isSecretName)).toEqual([]);
});

it('in names of members, and in ids of elements that name them in a path', () => {
  const key = 'own/key~of-it';
  const withheld = new SecretSearch([new Secret(key)]);
  const definition = changedDefinition(definitionOf('batch_exports'), { withheld });
  const body = (name: string): JsonObject => ({ destination: { config: { keys: { [name]: 'reader' } } } });
  expect(maskedBody(body(key), definition)).toEqual(body(MASK));
  const token = `ghp_${'a1B2'.repeat(9)}`;
  for (const [name, shown] of [
    [key, MASK],
    [`[id=${key}]`, `[id=${MASK}]`],
    [`[id=${token}]`, `[id=ghp_${MASK}]`],
    ['[id=https://u:PW@h.example/]', `[id=https://u:${MASK}@h.example/]`],
    ['[id="7"]', '[id="7"]'],
  ] as const)
    expect(maskedPlace(pointerTo(['config_schema', name, 'v']), definition)).toBe(
      pointerTo(['config_schema', shown, 'v']),
    );
});

it('a key of the configuration in other forms', () => {
  const key = 'a"b\\c/d&e+F1 2';
  const search = new SecretSearch([new Secret(key), new Secret(`${key} longer`)]);
  const html = key.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
  const json = JSON.stringify(JSON.stringify(key)).slice(3, -3);
  const lines = new SecretSearch([new Secret('line one\nline two')]);
  expect(lines.isIn(JSON.stringify('a line one\nline two'))).toBe(true);
  for (const form of [key, json, JSON.stringify(key).slice(1, -1), encodeURIComponent(key), html]) {
    expect(search.masked(`<${form}>`, MASK)).toBe(`<${MASK}>`);
    expect(() => recordedText(form, 'the reason', [new Secret(key)])).toThrow('the reason holds a key');
  }
  for (const before of ['', 'u:', 'us:']) {
    const shown = search.masked(`Basic ${Buffer.from(`${before}${key}`).toString('base64url')}`, MASK);
    expect(shown).toMatch(/^Basic .{0,5}\[secret\].?$/);
  }
  expect(search.masked('aaaaaaaaaaaaaaaaaaaa', MASK)).toBe('aaaaaaaaaaaaaaaaaaaa');
});
