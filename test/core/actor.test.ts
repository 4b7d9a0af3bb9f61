/** Names that people are recorded under. */
import { expect, it } from 'vitest';
import { actorName, commandActor, whoText } from '../../src/core/actor.ts';

it('takes no name that looks as if it had its origin behind it', () => {
  for (const name of ['Bob (root@vm)', 'Bob(@)', ' Bob (token@http) ']) {
    expect(actorName(name), name).toBeUndefined();
    expect(() => commandActor(name), name).toThrow('--as is not a name');
  }
  for (const name of [
    'Bob （ｒｏｏｔ＠ｖｍ）',
    'Bob ⁽root﹫vm⁾',
    'Bob ❨root@vm❩',
    'Bob (root@vm)\u034f',
    'Bob (root@vm)\u2800',
  ])
    expect(actorName(name), name).toBeUndefined();
  expect(actorName('ｒｏｏｔ＠ｖｍ')).toBe('root@vm');
  for (const name of ['Cem [cem@vm]', 'Cem (vm)', 'eve@elsewhere', '(root@vm) Bob'])
    expect(whoText(commandActor(name)), name).toMatch(/^[^]* \([^()]*@[^()]*\)$/);
});
