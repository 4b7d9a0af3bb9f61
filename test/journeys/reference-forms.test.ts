/** Every way to name a state, given to every command that takes one: accepted, or refused in one line. */
import { expect, it } from 'vitest';
import { only, Story } from './restore-story.ts';

it('every form of a state is accepted by each command, or refused by name', async () => {
  const story = await Story.start(only('organizations', 'projects', 'pipeline_destinations', 'plugins'));
  await story.expectRun(0, 'snapshots', 'pin', 'day-one');
  await story.expectRun(0, 'snapshots', 'baseline', 'day-one');
  await story.expectRun(0, 'sync', '--quiet');
  const [component] = await story.list('pipeline_destinations');
  const forms = ['latest', 'run:1', 'run:-1', 'snapshot:day-one', 'baseline'];
  // All before the first run: what a period begins with, never where one ends.
  const old = ['1h', '2w', 'yesterday', '2026-03-01'];
  const commands: readonly (readonly [readonly string[], ...string[]])[] = [
    [['diff'], 'latest'],
    [['drift', '--from']],
    [['restore']],
    [['show', 'plugins', String(component?.['id']), '--at']],
    [['changes', '--since']],
    [['changes', '--since', '2026-03-01', '--until']],
    [['export', '--kind', 'projects', '--at']],
  ];
  for (const [before, ...after] of commands) {
    const run = (form: string) => story.run(...before, form, ...after);
    for (const form of [...forms, ...old, 'live', 'file:/nowhere/at-all', 'day-one']) {
      const { code, stderr } = await run(form);
      const what = `${before.join(' ')} ${form}: ${code} ${stderr}`;
      const others = { 'changes --since': old, diff: ['live'], 'drift --from': ['live'] }[before.join(' ')];
      if (forms.includes(form) || others?.includes(form) === true) {
        expect([0, 2, 3], what).toContain(code);
      } else {
        expect(code, what).toBe(4);
        const [line, hint, ...more] = stderr.trimEnd().split('\n');
        expect(line, what).toMatch(/^tidemark: /);
        expect(hint, what).toMatch(/^ {2}→ (name|write|check|give|file:PATH names)/);
        expect(more, what).toEqual([]);
        // As the other times for people: without milliseconds.
        expect(stderr).not.toMatch(/\.\d{3}Z/);
      }
    }
  }
});
