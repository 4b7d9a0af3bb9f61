import { changedDefinition } from '../../src/catalog/resource-definition.ts';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { MASK, withoutUrlSecrets } from '../../src/catalog/masks.ts';
import { isSecretName, SECRET_NAMES } from '../../src/catalog/named-secrets.ts';
import { pointerTo } from '../../src/core/json-pointer.ts';
import type { RestoreReport } from '../../src/restore/apply/report.ts';
import { maskedRestore } from '../../src/report/plan-mask.ts';
import { maskedAt, maskedBody, maskedFields } from '../../src/report/mask.ts';
import { redactionWith } from '../../src/sync/redaction.ts';

const redaction = redactionWith(new Uint8Array(32));

describe('secrets that nothing but their name tells of', () => {
  it.each([
    'api_key',
    'apiKey',
    'API-Key',
    'Password',
    'sasl.password',
    'access_token',
    'Authorization',
    'connection_string',
    'clientSecret',
    'credentials',
    'private_key',
    'authorization_header',
    'jwt',
    'bearer',
    'db_pass',
    'pass',
    'mail.config.Pass',
    ...SECRET_NAMES,
    ...SECRET_NAMES.map((name) => `my-${name.replaceAll('_', '')}`),
    'ssh_key',
    'otp',
    'serviceAccountJson',
  ])('%s is one', (name) => {
    expect(isSecretName(name)).toBe(true);
  });

  it.each([
    'max_tokens',
    'token_count',
    'authentication_type',
    'key',
    'secret_name',
    'interval',
    'bucket_name',
    'aws_region',
    'first_pass',
    'passed',
    'bypass',
    'pass_through',
    'service_account',
    'pin',
    'ssh_public_key',
    'bearer_format',
  ])('%s is none', (name) => {
    expect(isSecretName(name)).toBe(false);
  });

  it('a password in an address goes, the rest stays', () => {
    expect(withoutUrlSecrets('postgres://u:p4ss@db.example/x?y=1 and https://a@b', MASK)).toBe(
      'postgres://u:[secret]@db.example/x?y=1 and https://a@b',
    );
    expect(withoutUrlSecrets('https://example.com:8443/a@b', MASK)).toBe('https://example.com:8443/a@b');
  });

  it.each([
    ['SECRET_KEY=%a1b2', 'SECRET_KEY=[secret]'],
    ['SECRET_KEY=%SECRET_KEY%', 'SECRET_KEY=%SECRET_KEY%'],
    ['token=%a1b2', 'token=%a1b2'],
    ['FROM node\nARG TOKEN=hunter\nRUN x', 'FROM node\nARG TOKEN=[secret]\nRUN x'],
    ['  ENV GITHUB_TOKEN="hunter"  # why', '  ENV GITHUB_TOKEN=[secret]  # why'],
    ['ARG TOKEN', 'ARG TOKEN'],
    ['ARG TOKEN=$TOKEN', 'ARG TOKEN=$TOKEN'],
    ['ARG TOKEN_FILE=/run/x', 'ARG TOKEN_FILE=/run/x'],
    ['arg token=expired', 'arg token=expired'],
    ['env token: a1b2c3', 'env token: a1b2c3'],
    ['setx API_TOKEN a1b2c3', 'setx API_TOKEN [secret]'],
    ['a\r\n  setx "DB_PASSWORD" "hunter two" /M\r\nb', 'a\r\n  setx "DB_PASSWORD" [secret] /M\r\nb'],
    ['setx API_TOKEN %API_TOKEN%', 'setx API_TOKEN %API_TOKEN%'],
    ['setx TOKEN_COUNT 12345', 'setx TOKEN_COUNT 12345'],
    ['use setx TOKEN first', 'use setx TOKEN first'],
  ])('of a shell, a Dockerfile or Windows: %s', (text, shown) => {
    expect(withoutUrlSecrets(text, MASK)).toBe(shown);
  });

  it.each([
    ['https://svc:PW@app.example/x?token=T', 'https://svc:[secret]@app.example/x?token=[secret]'],
    [
      'https://a.example/?page=2&api_key=K&X-Amz-Signature=S&next=/b#access_token=A https://b.example?key=K',
      'https://a.example/?page=2&api_key=[secret]&X-Amz-Signature=[secret]&next=/b#access_token=[secret] https://b.example?key=[secret]',
    ],
    [
      'https://a.example/?monkey=1&token_count=2&keys=3&sig=',
      'https://a.example/?monkey=1&token_count=2&keys=3&sig=',
    ],
    ['token=T and key?key=K', 'token=T and key?key=K'],
    ['see a%26password%3DZq5%2B1%26b%3D2', 'see a%26password%3D[secret]%26b%3D2'],
    ['see https%3A%2F%2Fh%2F%3Fpage%3D2%26sig%3DZq5', 'see https%3A%2F%2Fh%2F%3Fpage%3D2%26sig%3D[secret]'],
    [
      'x%3Dpassword%3D%24%7Bpw%7D%26keys%3D3%26sig%3DZq5',
      'x%3Dpassword%3D%24%7Bpw%7D%26keys%3D3%26sig%3DZq5',
    ],
    ['password&#x3D;Zq5', 'password=[secret]'],
    ['a &#61; b, 20&#37; of a%3Db', 'a &#61; b, 20&#37; of a%3Db'],
    [
      `PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 2\r\n${'Aa+/'.repeat(16)}\r\nAb==\r\nPrivate-MAC: 0a1b`,
      'PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 2\r\n[secret]\r\nPrivate-MAC: 0a1b',
    ],
    ['password:\n  Zq5Ab2 # old\nuser: ann', 'password:\n  [secret] # old\nuser: ann'],
    ['"Token:\n  "p w"', '"Token:\n  "p w"'],
    [
      'credentials:\n  aws_production_account_2:\n    a: b\ntoken:\n  expired\npassword:\n\n  min-8-chars',
      'credentials:\n  aws_production_account_2:\n    a: b\ntoken:\n  expired\npassword:\n\n  min-8-chars',
    ],
    ['secret:\n  - a1b2c3\ntoken:\nkey1: b', 'secret:\n  - a1b2c3\ntoken:\nkey1: b'],
    ['<n:token id="1" value="Zq5"/>', '<n:token id="1" value="[secret]"/>'],
    ['<input value="a1"/><token value="${t}"/>', '<input value="a1"/><token value="${t}"/>'],
    ['a digest with response="ok" and signature=a1', 'a digest with response="ok" and signature=a1'],
    ['https://u:p@PW@h.example/?to=a@b', 'https://u:[secret]@h.example/?to=a@b'],
    ['https://u:p@h.example?to=a@b', 'https://u:[secret]@h.example?to=a@b'],
    ['https://ghp_0123456789abcdef@h.example/1', 'https://[secret]@h.example/1'],
    ['https://ann@h.example/', 'https://ann@h.example/'],
    [
      'https://h.example/?pass=P&pw=W&jwt=J&code=C&token[]=T&x[token]=T&x%5Btoken%5D=T&token="T T"',
      'https://h.example/?pass=[secret]&pw=[secret]&jwt=[secret]&code=[secret]&token[]=[secret]&x[token]=[secret]&x%5Btoken%5D=[secret]&token=[secret]',
    ],
    [
      'https://h.example/?next=https%3A%2F%2Fu%3APW%40h%2F&country_code=DE',
      'https://h.example/?next=[secret]&country_code=DE',
    ],
    ['https://h.example/?next=https%3A%2F%2Fh%2F', 'https://h.example/?next=https%3A%2F%2Fh%2F'],
    [
      'would also change /jobs/https:~1~1u:PW@h.example~1?token=TK/a~0b, /x',
      'would also change /jobs/https:~1~1u:[secret]@h.example~1?token=[secret]/a~0b, /x',
    ],
    ['/jobs/https:~1~1h.example~1x/a', '/jobs/https:~1~1h.example~1x/a'],
    ['https://hooks.slack.com/services/T0/B0/XX', 'https://hooks.slack.com/services/T0/B0/[secret]'],
    ['to hooks.slack.com/triggers/E0/12/XX/YY, daily', 'to hooks.slack.com/triggers/E0/12/[secret] daily'],
    [
      'https://discord.com/api/v10/webhooks/123/To-k_en/slack?wait=1',
      'https://discord.com/api/v10/webhooks/123/[secret]/slack?wait=1',
    ],
    [
      'https://o.webhook.office.com/webhookb2/g@t/IncomingWebhook/0a/g',
      'https://o.webhook.office.com/webhookb2/g@t/IncomingWebhook/[secret]',
    ],
    [
      'https://api.telegram.org/bot12:AA-x/sendMessage',
      'https://api.telegram.org/bot12:[secret]/sendMessage',
    ],
    ['https://mm.example/hooks/abcdefghij0123456789abcdef', 'https://mm.example/hooks/[secret]'],
    ['https://hooks.zapier.com/hooks/catch/12/xy/', 'https://hooks.zapier.com/hooks/catch/12/[secret]'],
    ['https://hook.eu1.make.com/xy', 'https://hook.eu1.make.com/[secret]'],
    [
      'https://h.example/services/T0/B0/api/webhooks/list',
      'https://h.example/services/T0/B0/api/webhooks/list',
    ],
    ['Server=s;User Id=u;Password=p w;Pooling=no', 'Server=s;User Id=u;Password=[secret];Pooling=no'],
    ['Driver={x};Pwd={a;b}}c};Uid=u', 'Driver={x};Pwd=[secret];Uid=u'],
    ['Password="a;""b";Uid=u', 'Password=[secret];Uid=u'],
    ['"Server=s;PWD=it\'s" is not found', '"Server=s;PWD=[secret]" is not found'],
    ['host=h password=p dbname=d', 'host=h password=[secret] dbname=d'],
    ['Server=h;User Id=sa;Password = Zq5;Encrypt=yes', 'Server=h;User Id=sa;Password = [secret];Encrypt=yes'],
    ['Driver={SQL Server};Server=h;Uid=a;Pwd = Zq5;', 'Driver={SQL Server};Server=h;Uid=a;Pwd = [secret];'],
    ['x;AccountKey = Zq5/+==;', 'x;AccountKey = [secret];'],
    ['Server=h; Password = "Zq 5";x=1', 'Server=h; Password = [secret];x=1'],
    ['Server=h; Password= Zq5; x=1', 'Server=h; Password= [secret]; x=1'],
    ['Server = h; Password = hunter; x = 1', 'Server = h; Password = [secret]; x = 1'],
    ['"Password = Zq5; Server = h"', '"Password = [secret]; Server = h"'],
    ['jdbc:sqlserver://h:1433;user=sa;password= Zq5', 'jdbc:sqlserver://h:1433;user=sa;password= [secret]'],
    ['Server=h;\nPassword = Zq5;', 'Server=h;\nPassword = [secret];'],
    [
      'Server=h;\r\n  Uid = a;\r\n  Password = Zq5;\r\n',
      'Server=h;\r\n  Uid = a;\r\n  Password = [secret];\r\n',
    ],
    ['{password: Zq5Ab}', '{password: [secret]}'],
    ['x = {password: "Zq5", user: a}', 'x = {password: [secret], user: a}'],
    ["{user: a, db: {b: 1}, apiKey:'Zq5'} ", '{user: a, db: {b: 1}, apiKey:[secret]} '],
    ['db({\n  user: a,\n  password: "Zq5",\n})', 'db({\n  user: a,\n  password: [secret],\n})'],
    ['"x = {password: \\"Zq5\\"}"', '"x = {password: [secret]}"'],
    ['{"smtp":{"user":"u","pass":"Zq5"}}', '{"smtp":{"user":"u","pass":"[secret]"}}'],
    ['PASS=hunter2', 'PASS=[secret]'],
    // Addresses that are secrets by their names.
    ...[
      'webhook_url: ',
      '- slack_webhook_url: ',
      'WEBHOOK_URL=',
      'export WEBHOOK_URL=',
      'DSN=',
      'connection_uri: ',
      '- name: WEBHOOK_URL\n  value: ',
    ].flatMap((before) =>
      ['https://hooks.example/in/Wy00kT8q', 'h.example:5432/Zq5', 'h:1/Zq5', '/in/Zq5'].map((value) => [
        `${before}${value}`,
        `${before}[secret]`,
      ]),
    ),
    ['{webhook_url: https://h.example/Zq5}', '{webhook_url: [secret]}'],
    ['{a: 1, connection_string: h:1/Zq5, b: 2}', '{a: 1, connection_string: [secret], b: 2}'],
    ['password: ann:hunter2\nSECRET_KEY=app:Zq5Ab2', 'password: [secret]\nSECRET_KEY=[secret]'],
    ['SECRET_KEY=!a1b2c3\nsecret_key: /aB3dE+f9g==', 'SECRET_KEY=[secret]\nsecret_key: [secret]'],
    // Texts that a program gives a name.
    ...[
      ["const password = '", "';"],
      ["const apiKey = '", "';"],
      ['let token = "', '"'],
      ['apiKey := "', '"'],
      ['val password: String = "', '"'],
      ['static final String PASSWORD = "', '"; // a'],
      ["os.environ['API_KEY'] = '", "'"],
      ["ENV['API_KEY'] ||= '", "'"],
      ['$env:TOKEN = "', '"'],
      ['$this->password = "', '";'],
      ['f(a, token="', '", 2)'],
      ['var apiKey string = "', '"'],
      [String.raw`"const password = \"`, String.raw`\";"`],
    ].map(([before = '', after = '']) => [
      `${before}hunter${after}`,
      `${before.replace(/\\?["']$/, '')}[secret]${after.replace(/^\\?["']/, '')}`,
    ]),
    ["define('DB_PASSWORD', 'hunter')", "define('DB_PASSWORD', '[secret]')"],
    // Variables of containers.
    ['- {name: DB_PASSWORD, value: Zq5Ab}', '- {name: DB_PASSWORD, value: [secret]}'],
    ['- { value: "Zq5", name: STRIPE_KEY }', '- { value: [secret], name: STRIPE_KEY }'],
    ['- value: Zq5Ab\n  name: DB_PASSWORD', '- value: [secret]\n  name: DB_PASSWORD'],
    ['- name: DB_PASSWORD\n  value: |\n    Zq5Ab\n', '- name: DB_PASSWORD\n  value: |\n    [secret]\n'],
    ['- name: DB_PASSWORD\n  value: >-\n    Zq5Ab', '- name: DB_PASSWORD\n  value: >-\n    [secret]'],
    ['- name: DB_PASSWORD\n  value:\n    Zq5Ab', '- name: DB_PASSWORD\n  value:\n    [secret]'],
    [
      '- name: DB_PASSWORD # a\n  # old\n  value: Zq5Ab',
      '- name: DB_PASSWORD # a\n  # old\n  value: [secret]',
    ],
    ['{"env":[{"name":"STRIPE_KEY","value":"Zq"}]}', '{"env":[{"name":"STRIPE_KEY","value":"[secret]"}]}'],
    ['{"value":"Zq","name":"STRIPE_KEY"}', '{"value":"[secret]","name":"STRIPE_KEY"}'],
    [
      '{"passwords":["a1b2c3"],"dbPasswords":["a1b2c3"]}',
      '{"passwords":["[secret]"],"dbPasswords":["[secret]"]}',
    ],
    ['curl -H "Ocp-Apim-Subscription-Key: a1b2c3d4" h', 'curl -H "Ocp-Apim-Subscription-Key: [secret]" h'],
    [
      'kubectl create --from-literal=password=Zq5 -n a',
      'kubectl create --from-literal=password=[secret] -n a',
    ],
    ['no access with token=a1b2c3d4, try', 'no access with token=[secret], try'],
    ...[
      'webhook_url: ${URL}\ndsn: postgres\nconnection_url: config.url\nwebhookUrl: getUrl(2),\nnot_a_url: https://h/a',
      'const password = input.value; token = ""; secret = "<password>"; pwd = "${X}"; apiKey = "string"',
      'const SET_TOKEN = "set-token"; if (token == "a1" || token !== "b2") a()',
      '"token = " + token + " and secret="+x+" or pwd = "',
      `token = '" + token + "'; authorization = "Bearer " + t`,
      'token=apiToken; token=expired; next_token=token_is_in_words max_tokens=a1b2c3d4',
      "define('DB_HOST', 'localhost2'); f('password', 'hunter2')",
      '- {name: DB_HOST, value: Zq5Ab}\n- {name: DB_PASSWORD, valueFrom: a1b2}',
      '- name: A\n  value: a1b2c3\n- name: DB_PASSWORD\n  valueFrom: x1',
      '{"name":"A_HOST","value":"Zq"}, {"STRIPE_KEY":"Zq"}',
      '{"tokens":["a few words","words"],"max_tokens":"a1b2c3","tokens":5}',
      'kubectl create --from-literal=host=h2 --from-literal=password=$PW',
    ].map((text) => [text, text]),
    ['pass: hunter2', 'pass: [secret]'],
    [
      '[["Authorization","Bearer Zq5"],["X-Api-Key","Zq5"]]',
      '[["Authorization","[secret]"],["X-Api-Key","[secret]"]]',
    ],
    ['[\\"Cookie\\", \\"sid=Zq5\\"]', '[\\"Cookie\\", \\"[secret]\\"]'],
    ["r.setHeader('Cookie', 'sid=Zq5')", "r.setHeader('Cookie', '[secret]')"],
    [
      'env:\n  - name: DB_PASSWORD\n    value: "Zq5"\n  - name: A\n    value: "b"',
      'env:\n  - name: DB_PASSWORD\n    value: [secret]\n  - name: A\n    value: "b"',
    ],
    [
      '- name: "STRIPE_KEY"\r\n  value: hunter # old\r\n',
      '- name: "STRIPE_KEY"\r\n  value: [secret] # old\r\n',
    ],
    ...[
      'a = 1; password = read(); b = 2',
      'server = h; password = getPassword(h); x = 1;',
      'const server = a;\npassword = pw;\nb = 2;',
      'see a; password = hunter2; b',
      'Server=h; Password = ${pw}; x=1',
      'Server=h; Password = ; x=1',
      '{password: string, token: {{ token }}, secret: ${s}, key: a1}',
      'login({user, password: getPassword(), token: req.body.token, secret: apiSecret})',
      '{password: null, token: *ref1, secret: true}, password: hunter2, a',
      'z.object({password: z.string().min(8), token: user2.token, max_tokens: 5})',
      '{pass: 3, fail: 12/14}',
      'pass: 3 of 4 tests\nbypass: a1b2c3\npassed: 12of14',
      'pass: 12/14',
      'pass: 100%',
      'PASS=12',
      '["Authorization","Content-Type"], ["X-Api-Key","X-Request-Id"], ["password","token2"]',
      'missing("X-Api-Key", "is required, 2")',
      '["Authorization","Bearer ${token}"]',
      '- name: DB_PASSWORD\n  value: $(DB_PW)\n- name: DB_PASSWORD\n  valueFrom:\n    key: a1b2',
      '- name: token\n  value: expired\n- name: TOKEN\nvalue_of: a1b2c3',
    ].map((text) => [text, text]),
    ['Bearer abcdefgh01234567', 'Bearer [secret]'],
    ['basic dXNlcjpwYXNzd29yZA==', 'basic [secret]'],
    ['curl -H "Authorization: Bearer tok-en.x" h', 'curl -H "Authorization: Bearer [secret]" h'],
    ['{\\"authorization\\":\\"Basic dXNlcjpw\\"}', '{\\"authorization\\":\\"Basic [secret]\\"}'],
    ['Basic internationalization', 'Basic internationalization'],
    ['Bearer tokens are sent with version 2', 'Bearer tokens are sent with version 2'],
    [
      '{"k":"-----BEGIN RSA PRIVATE KEY-----\\nMII/E=\\n-----END RSA PRIVATE KEY-----\\n","p":1}',
      '{"k":"-----BEGIN RSA PRIVATE KEY-----[secret]-----END RSA PRIVATE KEY-----\\n","p":1}',
    ],
    ['-----BEGIN PRIVATE KEY-----\nMII', '-----BEGIN PRIVATE KEY-----[secret]'],
    ['-----BEGIN PUBLIC KEY-----\nMII', '-----BEGIN PUBLIC KEY-----\nMII'],
    ['AccountName=a;AccountKey=k==;x=y', 'AccountName=a;AccountKey=[secret];x=y'],
    ['jdbc:sqlserver://h:1433;user=u;password=p&q', 'jdbc:sqlserver://h:1433;user=u;password=[secret]'],
    // What puts a value in is none.
    ['f("https://h/?token=" + token + "&a=b")', 'f("https://h/?token=" + token + "&a=b")'],
    ['https://h/?token=${token}&key={{key}}&code={c}', 'https://h/?token=${token}&key={{key}}&code={c}'],
    ['WHERE password=:pw OR password=%s', 'WHERE password=:pw OR password=%s'],
    ['"http://"+location.host+e,t.includes("@")', '"http://"+location.host+e,t.includes("@")'],
    ['def f():\n  connect(h, password=self.pw)', 'def f():\n  connect(h, password=self.pw)'],
    ['DB_PASSWORD=p\nA=b', 'DB_PASSWORD=[secret]\nA=b'],
    ['https://h/?a=1&amp;token=t', 'https://h/?a=1&amp;token=[secret]'],
    ['password = read(); pwd == x; pwd=>1; Password=;', 'password = read(); pwd == x; pwd=>1; Password=;'],
    ...[
      'https://user:${PASS}@host/ https://u:{{pass}}@h {{u}}://u:%s@h http://u:%(pass)s@h ftp://u:%PASS%@h',
      'https://u:$PASS@h https://u:<password>@h https://u:{}@h https://u:#{pass}@h https://u:$(PASS)@h',
      'https://${GITHUB_TOKEN_OF_CI}@github.com/',
      'const password=input.value',
      'let pwd=field.value; go()',
      'UPDATE u SET user=?, password=? WHERE id=?',
      'UPDATE u SET password=$1 WHERE id=$2',
      'WHERE pwd=@pw AND id=@id',
      'password=getPassword()',
      'login(password=getPassword("main"), 2)',
      'connect(password=os.environ.DB_PW)',
      'Password=@pw',
      'Password={0}',
      'Server={0};Password={1};x={2}',
      'Server=s;Password={{pass}};x=y',
      'cd $PWD; PWD=/home/x',
      'OLDPWD=/srv/a PWD=~/b',
    ].map((text) => [text, text]),
    ['curl -H "X-Api-Key: k3y-0123456789" h', 'curl -H "X-Api-Key: [secret]" h'],
    ['x-auth-token:abcdef12', 'x-auth-token:[secret]'],
    [
      `push with ghp_${'a1'.repeat(18)} and github_pat_${'B2'.repeat(20)}.`,
      'push with ghp_[secret] and github_pat_[secret].',
    ],
    ['xoxb-12345-abcdef-GHI and xoxp-1234567890', 'xoxb-[secret] and xoxp-[secret]'],
    [`glpat-${'a1B2'.repeat(5)} sk_live_${'a1'.repeat(12)}`, 'glpat-[secret] sk_live_[secret]'],
    ['rk_live_abc123DEF456ghi789 sk_test_mode_of_stripe', 'rk_live_[secret] sk_test_mode_of_stripe'],
    [`npm_${'a1'.repeat(18)}`, 'npm_[secret]'],
    [`sk_test_${'a1'.repeat(12)} whsec_${'a1B/'.repeat(8)}`, 'sk_test_[secret] whsec_[secret]'],
    [`sk-${'aB1'.repeat(16)} and shpat_${'a1'.repeat(16)}.`, 'sk-[secret] and shpat_[secret].'],
    [`AGE-SECRET-KEY-1${'QP8Z3'.repeat(12).slice(0, 58)}`, 'AGE-SECRET-KEY-1[secret]'],
    [`hf_${'aB'.repeat(17)} dckr_pat_${'a-B'.repeat(9)}`, 'hf_[secret] dckr_pat_[secret]'],
    [`pypi-AgEIcHlwaS5vcmc${'a-B_'.repeat(15)}`, 'pypi-[secret]'],
    [`lin_api_${'aB1x'.repeat(10)}, hvs.${'aB-_'.repeat(8)}`, 'lin_api_[secret], hvs.[secret]'],
    [`ya29.a0${'aB-_'.repeat(20)} ends`, 'ya29.[secret] ends'],
    ['got eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2Q from', 'got eyJ[secret] from'],
    ['AKIA0123456789ABCDEF and ASIA0123456789ABCDEF.', 'AKIA[secret] and ASIA[secret].'],
    [`SG.${'a1-B'.repeat(5)}xy.${'a_1B'.repeat(10)}xyz`, 'SG.[secret]'],
    [`key AIza${'a1-B_'.repeat(7)}`, 'key AIza[secret]'],
    ['xapp-1-A012-345-abcdef', 'xapp-[secret]'],
    ['password: hunter2', 'password: [secret]'],
    [
      'db:\n  host: h\n  password: p@ss!wd # old\n  - api_key: \'K\'\ntoken: "swordfish"\r\nx: y',
      'db:\n  host: h\n  password: [secret] # old\n  - api_key: [secret]\ntoken: [secret]\r\nx: y',
    ],
    ['clientSecret: a1-b2-c3', 'clientSecret: [secret]'],
    ['token: a1b2.c3d4', 'token: [secret]'],
    ['token: summer.dev1\nsecret: sk-live-42', 'token: [secret]\nsecret: [secret]'],
    ['password: winter-2024\nsecret: kfb-xkq-7', 'password: [secret]\nsecret: [secret]'],
    ['aws_secret_access_key=wJalrXUtnFEMI/K7MDENG', 'aws_secret_access_key=[secret]'],
    ['AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMI/K7MDENG', 'AWS_SECRET_ACCESS_KEY: [secret]'],
    ['{"user": "u", "password": "hunter2", "a":1}', '{"user": "u", "password": "[secret]", "a":1}'],
    ['{\\"apiKey\\":\\"K\\",\\"n\\":\\"m\\"}', '{\\"apiKey\\":\\"[secret]\\",\\"n\\":\\"m\\"}'],
    ...[
      'X-Api-Key: required in each request',
      `sk-${'a-b'.repeat(16)}, pypi-publish-to-the-index-with-a-name-that-is-long, hf_hub_download and age-secret-key-1`,
      'ghp_short, xoxb-short, eyJhbGciOiJIUzI1.x.y and my-eyJhbGciOiJIUzI1',
      '{"password": "string", "token": "{{token}}", "secret": "", "key": "v", "password":1}',
      'password: is what you type',
      'token: see wiki2 (page 3)',
      'Token: expired\nsecret: none\npassword: "required"',
      'The password: hunter2 was changed',
      'password: ${DB_PASS2}\ntoken: {{ token2 }}\napi_key: $API_KEY2\nsecret: !vault x9\nsecret: |\n  x9',
      'token: "{{ vault.token2 }}"\npassword: *anchor1\npassword: <your-password>',
      'login({\n  user,\n  password: getPassword2(),\n  token: req.body.token,\n  secret: apiSecret\n})',
      'type T = {\n  password: string;\n  token?: string | null2;\n}',
      'apiKey: inputs2.apiKey',
      'token: user2.token',
      '{\n  apiKey: s3.key\n}',
      'Secret: 2FA-app\nPassword: min-8-chars\ncredentials: team-42',
      'max_tokens: 4096\ntoken_count: 12345678\ntokens: 1234567',
      'token: /run/secrets/token1\nsecret: arn:aws:secretsmanager:eu-1:x',
      'token: 2026-01-01T00:00:00Z\nsecret: 12',
      'AKIAxx, ASIA, Asia0123456789abcdef, SG.x.y, msg.text, AIzaShort and XAKIA0123456789ABCDEF',
    ].map((text) => [text, text]),
    // A value that only resembles one.
    ['https://u:${PASS:-hunter2}@h/', 'https://u:[secret]@h/'],
    ['https://u:${A}b@h/ https://u:a{}@h/', 'https://u:[secret]@h/ https://u:[secret]@h/'],
    ['https://u:$ecret@h/ https://u:%20a@h/', 'https://u:[secret]@h/ https://u:[secret]@h/'],
    ["WHERE pwd='x'", 'WHERE pwd=[secret]'],
    ['const password="hunter2"', 'const password=[secret]'],
    ['let password=12345', 'let password=[secret]'],
    ['Server=s;Password=@pw;Uid=u', 'Server=s;Password=[secret];Uid=u'],
    ['Password=a(b);Uid=u', 'Password=[secret];Uid=u'],
    ['host=h password=p(x) dbname=d', 'host=h password=[secret] dbname=d'],
    ['Password=@dm1n', 'Password=[secret]'],
    ['Password=?x', 'Password=[secret]'],
    ['Pwd={self};Uid=u', 'Pwd=[secret];Uid=u'],
    ['Server=s;PWD=/x/y;Uid=u', 'Server=s;PWD=[secret];Uid=u'],
    ['host=db user=app password=@secret dbname=x', 'host=db user=app password=[secret] dbname=x'],
    ['server=h,port=1,password=@secret', 'server=h,port=1,password=[secret]'],
    ['EndpointUrl=x password=local.dev1', 'EndpointUrl=x password=[secret]'],
    ['EndpointUrl=x password=@dev', 'EndpointUrl=x password=[secret]'],
    ['jdbc:sqlserver://h:1433 password=body.x1', 'jdbc:sqlserver://h:1433 password=[secret]'],
    ['jdbc:x://h?user=u password=@pw', 'jdbc:x://h?user=u password=[secret]'],
    ...['port', 'address', 'endpoint', 'initial catalog', 'sslmode'].map((name) => [
      `${name}=x password=@pw`,
      `${name}=x password=[secret]`,
    ]),
    ...[
      'Secret(2024)',
      'Secret2024()',
      'Data.Base99',
      'local.devpass',
      '{123}',
      '{hunter2}',
      '{{hunter2}}',
      '{0}x1',
    ].flatMap((value) => [
      [`password=${value}`, 'password=[secret]'],
      [`it is "password=${value}"`, 'it is "password=[secret]"'],
      [`Log in:\npassword=${value}`, 'Log in:\npassword=[secret]'],
    ]),
    ['const s="x password=Secret(2024) y"', 'const s="x password=[secret] y"'],
    ['DB_PASSWORD=Secret(2024)\nA=b', 'DB_PASSWORD=[secret]\nA=b'],
    [
      'Settings => Database (if used):\npassword=local.dev',
      'Settings => Database (if used):\npassword=[secret]',
    ],
    ['let password=hunter2', 'let password=[secret]'],
    ['Server=h;Password={12}34;Uid=a', 'Server=h;Password=[secret];Uid=a'],
    ['Server=x;Password={{hunter2}};Uid=a', 'Server=x;Password=[secret];Uid=a'],
    ['mysql://root:{hunter2}@h', 'mysql://root:[secret]@h'],
    ['mysql://root:<Pa55>@h mysql://r:{123}@h', 'mysql://root:[secret]@h mysql://r:[secret]@h'],
    ['https://h/?token=$ABC123DEF456', 'https://h/?token=[secret]'],
    ['https://u:$ABC123DEF456@h/ https://u:${a1b2c3d4e5}@h', 'https://u:[secret]@h/ https://u:[secret]@h'],
    ['https://$ABC123DEF456GHI7@h/', 'https://[secret]@h/'],
    ['Password=@pw;\nPooling=no', 'Password=[secret];\nPooling=no'],
    ['to host=h password={a}9 of\nx', 'to host=h password=[secret]\nx'],
    ['Pwd={a}-b;x=1', 'Pwd=[secret];x=1'],
    // Behind another one.
    ['UPDATE u SET password=@p, pwd=hunter2', 'UPDATE u SET password=@p, pwd=[secret]'],
    ['password=$1,pwd=hunter2 user_password=x', 'password=$1,pwd=[secret] user_password=[secret]'],
    ['login(password=getPassword(), pwd=hunter2)', 'login(password=getPassword(), pwd=[secret]'],
    ['host=h password=p pwd=hunter2 port=1', 'host=h password=[secret] pwd=[secret] port=1'],
    ...[
      'https://u:{db_pass}@h https://u:$DB2_PASS@h https://h/?token=$API_TOKEN',
      'UPDATE u SET user=@u, password=@p WHERE id=@id',
      'WHERE host=? AND password=?',
      'Server=h;Uid=u;Password={0}',
      'connect(h, password=os.environ.DB_PW)',
      'const password=read(1)',
      'const a = 1;\npassword=read(1)',
      'const a = 1;\npassword=read(1);\nb=2',
      'def f(a):\n  return 1\npassword=self.pw1',
      'on(e => {password=event.target.value})',
    ].map((text) => [text, text]),
  ])('what is secret in an address or a connection string is not shown: %s', (text, shown) => {
    expect(withoutUrlSecrets(text, MASK)).toBe(shown);
    expect(withoutUrlSecrets(shown, MASK)).toBe(shown);
    expect(maskedAt('/name', text, definitionOf('roles'))).toBe(shown);
    // A redaction, and so git, takes the same.
    const stored = redaction.text(definitionOf('roles'), JSON.stringify({ name: text, [text]: true }));
    const kept = { name: text, [text]: true };
    if (shown === text) expect(JSON.parse(stored)).toEqual(kept);
    else
      expect(
        Object.entries(JSON.parse(stored) as object)
          .flat()
          .filter((each) => each === text),
      ).toEqual([]);
  });

  it('a value without quotes in a program does not make a redaction of all of it, though reports mask it', () => {
    const line = (value: string): string => `send({\n  user,\n  token: ${value}\n})`;
    expect(withoutUrlSecrets(line('key2'), MASK)).toBe(line(MASK));
    const stored = (text: string): unknown =>
      (JSON.parse(redaction.text(definitionOf('roles'), JSON.stringify({ name: text }))) as { name: string })
        .name;
    expect(stored(line('key2'))).toBe(line('key2'));
    expect(stored('const a = read(1)\ntoken: key2')).toBe('const a = read(1)\ntoken: key2');
    for (const text of [line('"key2"'), line('glpat-abcdefghijklmnopqrst'), 'a: {b: c}\ntoken: key2'])
      expect(stored(text)).toMatch(/^\[redacted:/);
  });

  it.each(
    [
      ...[
        'password=',
        'password=x ',
        'password="',
        'password=x\n',
        ';Password={',
        'pwd=/;PWD=/',
        'const pwd=a.b,',
      ],
      ...[
        '{{',
        '{',
        ':',
        '://:',
        '://u:',
        '://u:{',
        '@',
        '://u:p@',
        'a:b@',
        '?token=',
        '&key={',
        '"password":"',
      ],
      ...String.raw`"a": \"password\":\" " eyJ eyJa- eyJaaaaaaaaaaa. ghp_ xoxb- x-api-key:`.split(' '),
      ...String.raw`\ \" "a":"\" "a":"\\ \\\"a\\\":\\\" \"a\":\"b\\\" '\'' a_key='\'' pwd="\" --key="a <a> <a: <token>a --a-`.split(
        ' ',
      ),
      ...[
        'password=@p ',
        'password=@p,',
        'password=:a ',
        'password={0} ',
        'pwd=${',
        'pwd={a ',
        'pwd="+ ',
        "pwd='+ ",
        'pwd=a.b ',
        'f(pwd=os.a,',
        'pwd=a(" ',
      ],
      ...['endpoint', 'user ', 'const a', 'return ', 'new a.', '://u:{{', '://u:$A', '?token=$A1', '&a=${a1'],
      ...['-----BEGIN PRIVATE KEY-----', 'authorization: bearer ', '~1', '/', 'getPassword(', 'password=a('],
      ...[
        'authorization:bearer ${',
        'token=${a:-',
        'token',
        '${a:-{',
        'curl -u a:${',
        '\n-u a',
        'curl \\\n',
        '\\/',
      ],
      ...['"name":"', '"name":"a","value":"', '"value":"a","key":"', 'export a_key=', '\na_key=', '-u '],
      ...['\na_key="\\"', '\n-u "a:', '\n-u "a:b\\', 'curl -u "a:\\\\', "-u 'a:b ", '?token=;', '?a="'],
      ...[
        'Server=h;Password = ',
        '; pwd = ',
        ';',
        ' = ',
        'server=',
        '{a:"',
        '{password:"\\',
        ',password: a',
        '{ ',
        '[\\"Cookie\\",\\"',
        '["Cookie","',
        "('a-key','",
      ],
      ...['- name: a_key\nvalue: "', 'name: a_key\n', '\nname: a\n value:', '{password: a1,', '\t'],
      ...[
        'pwd\t=\t{',
        'password = a',
        "token = '",
        'token = "',
        '$a.token=',
        'token=a1',
        'token : a',
        '- value: a\n #\n',
      ],
      ...[
        '{value: a, ',
        '{name: a_key, ',
        '- name: a_key\n #\n',
        '- value: |\n a1\n',
        'webhook_url: a:/',
        'token: a1:',
      ],
      ...[
        '--from-literal=',
        '--from-literal=a_key',
        "define('a', '",
        '"passwords":["',
        'a.',
        'a[]',
        'token = \\"',
      ],
      ...[' ', '; ', '--token ', "'a': '", 'authorization: token ', '"a" => "', 'pwd="a\\"b '],
    ].map((part) => [part]),
  )('no text takes long: %j, repeated', (part) => {
    const text = part.repeat(Math.ceil(200_000 / part.length));
    for (const each of [text, `password=${text}`, `://u:${text}`, `${text}=x@h`]) {
      // The processor's time: other tests run beside it.
      const times = [1, 2].map(() => {
        const before = process.cpuUsage();
        withoutUrlSecrets(each, MASK);
        const { user, system } = process.cpuUsage(before);
        return (user + system) / 1000;
      });
      expect(Math.min(...times)).toBeLessThan(200);
    }
  });

  it('are masked in the names of members too, and in pointers to them', () => {
    const definition = definitionOf('batch_exports');
    const name = 'https://u:PW@h/?token=TK';
    const shown = 'https://u:[secret]@h/?token=[secret]';
    expect(maskedBody({ destination: { config: { [name]: 'x' } } }, definition)).toEqual({
      destination: { config: { [shown]: 'x' } },
    });
    const path = pointerTo(['destination', 'config', name]);
    const masked = pointerTo(['destination', 'config', shown]);
    const fields = [{ path, place: path, from_path: path, from: 'x', to: 'y' }];
    expect(maskedFields(fields, definition)).toEqual([
      { path: masked, place: masked, from_path: masked, from: 'x', to: 'y' },
    ]);
  });

  it.each([
    'Bearer abcdefgh~/01234567',
    'Authorization: Basic dXNlcjpwYXNz',
    '-----BEGIN PRIVATE KEY-----\nMI/Iabc',
  ])('of a header or a key are masked in pointers too: %j', (name) => {
    const secret = name.slice(-8);
    const pointer = pointerTo(['public_jobs', name, '0']);
    for (const text of [pointer, `${pointer} is not what was sent`])
      expect(withoutUrlSecrets(text, MASK)).not.toContain(secret);
    expect(withoutUrlSecrets(pointer, MASK)).toMatch(/^\/public_jobs\/.*\[secret\]/);
  });

  it('names of members that differ in their secrets only are numbered', () => {
    const definition = definitionOf('batch_exports');
    const [a, b, shown] = ['https://u:A@h/', 'https://u:B@h/', 'https://u:[secret]@h/'];
    expect(maskedBody({ destination: { config: { [a]: 'x', [b]: 'y', c: 'z' } } }, definition)).toEqual({
      destination: { config: { [shown]: 'x', [`${shown} (2)`]: 'y', c: 'z' } },
    });
    const fields = [a, b, a].map((name, n) => ({
      path: pointerTo(['destination', 'config', name, String(n)]),
      to: 1,
    }));
    expect(maskedFields(fields, definition).map(({ path }) => path)).toEqual(
      [shown, `${shown} (2)`, shown].map((name, n) => pointerTo(['destination', 'config', name, String(n)])),
    );
    const step = {
      kind: 'batch_exports',
      id: 'i',
      name: 'n',
      new_id: null,
      reason: null,
      seen: { [a]: 1, [b]: 2 },
    };
    const report = { steps: [step] } as unknown as Pick<RestoreReport, 'steps'>;
    const [masked] = maskedRestore(report, definitionOf).steps;
    expect(masked).toMatchObject({ seen: { [shown]: 1, [`${shown} (2)`]: 2 } });
  });

  it('are masked at any depth below the top level, and flags are not', () => {
    const definition = definitionOf('batch_exports');
    const body = {
      name: 'Nightly',
      destination: {
        type: 'HTTP',
        config: {
          headers: { Authorization: 'Bearer abc' },
          url: 'https://u:p@h/x',
          secret: true,
          list: [{ api_key: 'k' }],
          pass: 'p',
          sent: [
            ['X-Api-Key', 'k3y'],
            ['Accept', 'x/y'],
          ],
        },
      },
    };
    expect(maskedBody(body, definition)).toEqual({
      name: 'Nightly',
      destination: {
        type: 'HTTP',
        config: {
          headers: { Authorization: MASK },
          url: `https://u:${MASK}@h/x`,
          secret: true,
          list: [{ api_key: MASK }],
          pass: MASK,
          sent: [
            ['X-Api-Key', MASK],
            ['Accept', 'x/y'],
          ],
        },
      },
    });
    expect(redaction.text(definition, JSON.stringify(body))).not.toMatch(/k3y|"p"/);
    expect(maskedAt('/destination/config/headers/Authorization', 'Bearer abc', definition)).toBe(MASK);
    expect(maskedAt('/destination/config/api_key', 'x', definition)).toBe(MASK);
    expect(maskedAt('/destination/config/bucket', 'x', definition)).toBe('x');
  });

  it('are masked at the top level too, unless the catalog knows the field', () => {
    const definition = definitionOf('domains');
    const body = {
      verification_challenge: 'c',
      webhook_secret: 's',
      token_count: 3,
      api_key: '',
      token: null,
    };
    expect(maskedBody(body, definition)).toEqual({ ...body, webhook_secret: MASK });
    expect(maskedAt('/webhook_secret', 's', definition)).toBe(MASK);
    const told = { ...definition.fields[0], name: 'webhook_secret', isSecret: false, secretPointers: [] };
    const knows = changedDefinition(definition, {
      fields: [...definition.fields, told as (typeof definition.fields)[number]],
    });
    expect(maskedBody(body, knows)).toEqual(body);
  });
});
