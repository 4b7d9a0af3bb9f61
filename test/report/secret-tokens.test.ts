/** Tokens that their beginning shows, and names and parameters of secrets, beyond those of `secret-names.test.ts`. */
import { expect, it } from 'vitest';
import { isSecretName, MASK, withoutUrlSecrets } from '../../src/catalog/masks.ts';

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
  ["curl -s -u user:p4ss 'https://a.example'", "curl -s -u user:[secret] 'https://a.example'"],
  ["curl --user 'ann:p4ss' a.example", "curl --user 'ann:[secret]' a.example"],
  ...[
    'curl -u user:$PASS h',
    'curl -u user h; sort -u a:b',
    'sort -u a:b',
    'sk-proj-short, phx_short, rk_live_short, dop_v1_short',
    '?hmacs=1&pw_policy=2',
    'https://a.example/?token=${token}&key={token}&password={0}',
  ].map((text): [string, string] => [text, text]),
])('in a text: %s', (text, shown) => {
  expect(withoutUrlSecrets(text, MASK)).toBe(shown);
});

it('by the name of a member', () => {
  const names = ['dbpassword', 'dbPassword', 'sslpassword', 'sslkeypassword', 'pw', 'db_pw'];
  expect(names.filter(isSecretName)).toEqual(names);
  expect(['pw_policy', 'password_policy', 'passwords_changed'].filter(isSecretName)).toEqual([]);
});
