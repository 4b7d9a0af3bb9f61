import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { aborted, whenAborted } from '../../src/core/aborted.ts';

function listenersOn(signal: AbortSignal): number {
  return getEventListeners(signal, 'abort').length;
}

describe('whenAborted', () => {
  it('calls what is still waiting, once, and at once where the signal is aborted already', () => {
    const stop = new AbortController();
    const called: string[] = [];
    const dropSecond = [
      whenAborted(stop.signal, () => called.push('first')),
      whenAborted(stop.signal, () => called.push('second')),
    ][1];
    dropSecond?.();
    stop.abort();
    whenAborted(stop.signal, () => called.push('late'));
    expect(called).toEqual(['first', 'late']);
  });

  it('shares one listener, and leaves none once nobody waits', () => {
    const stop = new AbortController();
    const drops = Array.from({ length: 50 }, () => whenAborted(stop.signal, () => undefined));
    expect(listenersOn(stop.signal)).toBe(1);
    for (const drop of drops) drop();
    for (const drop of drops) drop();
    expect(listenersOn(stop.signal)).toBe(0);
    const called: string[] = [];
    whenAborted(stop.signal, () => called.push('again'));
    stop.abort();
    expect(called).toEqual(['again']);
  });

  it('an action may drop another one while the signal is being aborted', () => {
    const stop = new AbortController();
    const called: string[] = [];
    const drop = whenAborted(stop.signal, () => {
      called.push('first');
      drop();
    });
    whenAborted(stop.signal, () => called.push('second'));
    stop.abort();
    expect(called).toEqual(['first', 'second']);
  });
});

it('aborted leaves no listener once nobody waits', async () => {
  const stop = new AbortController();
  const over = new AbortController();
  void aborted(stop.signal, over.signal);
  expect(listenersOn(stop.signal)).toBe(1);
  over.abort();
  await Promise.resolve();
  expect(listenersOn(stop.signal)).toBe(0);
});
