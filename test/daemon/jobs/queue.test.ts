/** Whose turn comes first. */
import { describe, expect, it } from 'vitest';
import { JobQueue } from '../../../src/daemon/jobs/queue.ts';
import type { QueuedJob } from '../../../src/daemon/jobs/work.ts';

const sync = (source: string, trigger: QueuedJob['trigger'] = 'schedule'): QueuedJob => ({
  name: 'sync',
  source,
  trigger,
  schedule: trigger === 'request' ? null : 'sync',
  full: false,
  kinds: null,
});

function counter(): () => number {
  let count = 0;
  return () => (count += 1);
}

function takeFirst(queue: JobQueue): ReturnType<JobQueue['take']> {
  return queue.take(queue.all()[0]?.ticket ?? 0);
}

function order(queue: JobQueue): string[] {
  const taken: string[] = [];
  for (let next = takeFirst(queue); next !== undefined; next = takeFirst(queue)) {
    taken.push(`${next.job.source ?? ''}${next.job.trigger === 'request' ? '!' : ''}`);
  }
  return taken;
}

describe('the queue of jobs', () => {
  it('takes what somebody asks for first, in order of arrival', () => {
    const queue = new JobQueue(() => '', counter());
    for (const source of ['a', 'b', 'c']) queue.add(sync(source));
    const [z, y] = [queue.add(sync('z', 'request')), queue.add(sync('y', 'request'))];
    expect(queue.all().map(({ ticket }) => ticket)).toEqual([z, y, 1, 2, 3]);
    expect(order(queue)).toEqual(['z!', 'y!', 'a', 'b', 'c']);
  });

  it('takes the source first whose last job began the longest ago', () => {
    const ranks: Readonly<Record<string, string>> = {
      a: '2026-03-02T10:02:00.000Z',
      b: '2026-03-02T10:01:00.000Z',
    };
    const queue = new JobQueue(({ source }) => ranks[source ?? ''] ?? '', counter());
    for (const source of ['a', 'b', 'new', 'newer']) queue.add(sync(source));
    expect(order(queue)).toEqual(['new', 'newer', 'b', 'a']);
  });

  it('makes a request of what waits for its schedule, once, and keeps the schedule', () => {
    const queue = new JobQueue(() => '', counter());
    queue.add(sync('a'));
    const waiting = queue.add(sync('b'));
    expect(queue.add(sync('b', 'request'))).toBe(waiting);
    expect(queue.add(sync('b'))).toBe(waiting);
    expect(queue.holds('sync', 'b')).toBe(true);
    expect(queue.holds('sync', 'c')).toBe(false);
    expect(order(queue)).toEqual(['b!', 'a']);
  });

  it('lets requests without end not stop the schedules', () => {
    const queue = new JobQueue(() => '', counter());
    queue.add(sync('a'));
    queue.add(sync('b'));
    for (let asked = 0; asked < 25; asked += 1) queue.add(sync(`r${asked}`, 'request'));
    const shown = queue.all().map(({ job }) => job.source);
    const taken = order(queue).map((text) => text.replace('!', ''));
    expect(taken).toEqual(shown);
    expect(taken.indexOf('a')).toBe(10);
    expect(taken.indexOf('b')).toBe(21);
  });

  it('lets a burst of webhooks take part in one waiting sync, which reads what all of them ask for', () => {
    const queue = new JobQueue(() => '', counter());
    const hook = (source: string, kinds: QueuedJob['kinds']): QueuedJob => ({
      ...sync(source, 'request'),
      kinds,
      joins: true,
    });
    const first = queue.add(hook('a', ['members']));
    expect(queue.requestedWith([hook('a', ['roles']), hook('b', null)])).toBe(2);
    expect(queue.add(hook('a', ['members']))).toBe(first);
    expect(queue.add(hook('a', ['roles', 'members']))).toBe(first);
    expect(queue.all().map(({ job }) => job.kinds)).toEqual([['members', 'roles']]);
    expect(queue.add(hook('b', ['roles']))).not.toBe(first);
    expect(queue.add(hook('a', null))).toBe(first);
    expect(queue.all().map(({ job }) => [job.source, job.kinds])).toEqual([
      ['a', null],
      ['b', ['roles']],
    ]);
    // The one that has begun may have read past the change: the next webhook waits again.
    takeFirst(queue);
    expect(queue.add(hook('a', ['roles']))).not.toBe(first);
  });

  it("lets a webhook take part in a person's sync that reads as much, and leaves a narrower one as it is", () => {
    const queue = new JobQueue(() => '', counter());
    const narrow = queue.add({ ...sync('a', 'request'), kinds: ['roles'] });
    const hook = queue.add({ ...sync('a', 'request'), kinds: ['members'], joins: true });
    expect(hook).not.toBe(narrow);
    const whole = queue.add({ ...sync('b', 'request'), full: true });
    expect(queue.add({ ...sync('b', 'request'), kinds: ['members'], joins: true })).toBe(whole);
    expect(queue.all().map(({ job }) => [job.source, job.kinds])).toEqual([
      ['a', ['roles']],
      ['a', ['members']],
      ['b', null],
    ]);
  });
});
