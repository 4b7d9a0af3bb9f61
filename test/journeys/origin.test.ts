/** A person under the name of somebody else: wherever it is shown, so is how the program knew who it was. */
import { describe, expect, it } from 'vitest';
import { commandActor } from '../../src/core/actor.ts';
import { ORGANIZATION, Story } from './restore-story.ts';

const { via } = commandActor();
/** Names that say what only the program can know. */
const NAMES = ['token@http', 'ciso (token)'] as const;

/** All that one person did: a baseline, accepted drift, and a restore of something else. */
async function told(name: string): Promise<{ story: Story; role: string; member: string }> {
  const story = await Story.start({ TIDEMARK_PROFILE: 'svc-writable' });
  const as = ['--as', name];
  await story.expectRun(0, 'snapshots', 'pin', 'q4', '--baseline', ...as);
  const [role, other, third] = await story.list('roles');
  for (const [record, text] of [
    [role, 'Night shift'],
    [other, 'Day shift'],
    [third, 'No shift'],
  ] as const)
    await story.call('PATCH', `${ORGANIZATION}roles/${String(record?.['id'])}/`, { name: text });
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'drift', 'accept', 'roles', 'Night shift', '--reason', 'renamed', ...as);
  await story.expectRun(0, 'drift', 'accept', 'roles', 'No shift', '--reason', 'renamed', ...as);
  await story.call('PATCH', `${ORGANIZATION}roles/${String(third?.['id'])}/`, { name: 'A shift again' });
  const restored = String(other?.['id']);
  await story.applied(0, 'restore', 'baseline', '--kind', 'roles', '--id', restored, '--apply', ...as);
  await story.expectRun(0, 'sync', '--quiet');
  return { story, role: restored, member: String(role?.['id']) };
}

/** Each object of a document that has the name of who did something. */
function* named(value: unknown, name: string): Generator<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return;
  for (const member of Object.values(value)) yield* named(member, name);
  if (!Array.isArray(value) && Object.values(value).includes(name)) yield value as Record<string, unknown>;
}

/** As it is read: without the signs of the format. */
function unmarked(text: string): string {
  return text
    .replaceAll(/<\/?bdi>|\\/g, '')
    .replaceAll('&#64;', '@')
    .replaceAll(/\s+/g, ' ');
}

/** Commands that may say nothing of the person. */
const UNNAMED = ['unaccept'];

function timesIn(text: string, part: string): number {
  return text.split(part).length - 1;
}

describe.each(NAMES)('who calls themselves %s', (name) => {
  it('is shown with how the program knew them, wherever they are shown', async () => {
    const { story, role, member } = await told(name);
    const kind = ['roles', role];
    const TEXTS: readonly (readonly string[])[] = [
      ['changes'],
      ['changes', '--format', 'html'],
      ['log', ...kind],
      ['blame', ...kind],
      ['drift', '--verbose'],
      ['drift', '--format', 'markdown'],
      ['drift', '--format', 'html'],
      ['drift', 'accepted'],
      ['snapshots'],
      ['snapshots', 'baseline'],
      ['restores'],
      ['restores', 'show', '1'],
      ['restore', 'baseline', '--kind', 'roles'],
      ['restore', 'baseline', '--kind', 'roles', '--format', 'markdown'],
      ['restore', 'baseline', '--kind', 'roles', '--format', 'html'],
      ['restore', 'baseline', '--kind', 'roles', '--keep-accepted'],
      ['drift', 'unaccept', 'roles', member],
      ['audit'],
    ];
    const plain: string[] = [];
    for (const args of TEXTS) {
      const { stdout, stderr } = await story.run(...args);
      const text = unmarked(`${stdout}\n${stderr}`);
      const [shown, known] = [timesIn(text, name), timesIn(text, `${name} (${via})`)];
      if (shown !== known || (shown === 0 && !UNNAMED.includes(args[1] ?? '')))
        plain.push(`${args.join(' ')}: ${shown}, ${known} with the origin`);
    }
    expect(plain).toEqual([]);
  });

  it('is named with `via` in each document', async () => {
    const { story, role, member } = await told(name);
    const kind = ['roles', role];
    const DOCUMENTS: readonly (readonly string[])[] = [
      ['changes'],
      ['log', ...kind],
      ['blame', ...kind],
      ['drift'],
      ['drift', 'accepted'],
      ['snapshots'],
      ['snapshots', 'baseline'],
      ['restores'],
      ['restores', 'show', '1'],
      ['restore', 'baseline', '--kind', 'roles'],
      ['restore', 'baseline', '--kind', 'roles', '--keep-accepted'],
      ['audit'],
      ['drift', 'unaccept', 'roles', member],
      ['audit', '--action', 'unaccept'],
    ];
    const without: string[] = [];
    for (const args of DOCUMENTS) {
      const { stdout } = await story.run(...args, '--json');
      const all = [...named(JSON.parse(stdout), name)];
      if (all.length === 0) without.push(`${args.join(' ')}: not named`);
      for (const each of all)
        if (each['by'] !== name || each['via'] !== via)
          without.push(`${args.join(' ')}: ${JSON.stringify(each)}`);
    }
    expect(without).toEqual([]);
    const { stdout } = await story.expectRun(0, 'changes', '--format', 'csv');
    const [head, ...lines] = stdout.trim().split('\n');
    expect(head?.split(',')).toEqual(expect.arrayContaining(['by', 'via']));
    const own = lines.filter((line) => line.includes(name));
    expect(own.length).toBeGreaterThan(0);
    for (const line of own) expect(line).toContain(`${name},${via}`);
  });
});
