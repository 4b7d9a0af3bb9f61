/** A command that changes the mirror for a moment waits for a process that holds it, and says for whom. */
import { expect, it } from 'vitest';
import { type Wait, whenFree } from '../../src/cli/when-free.ts';
import { TidemarkError } from '../../src/core/errors.ts';
import { FakeClock } from '../faults/fake-clock.ts';

const LOCKED = new TidemarkError('mirror_locked', 'm.db is held by `sync`', {
  hint: 'run it again',
  isRetryable: true,
});
const WAIT: Wait = {
  mostMs: 30_000,
  retryMs: 200,
  quietMs: 1_000,
  note: 'waiting for it',
  undone: 'nothing was changed',
};

/** Tries to open a mirror that is held for that long; what came of it, and what was said meanwhile. */
async function tried(heldMs: number, wait: Partial<Wait> = {}, error: Error = LOCKED) {
  const clock = new FakeClock();
  const begin = clock.monotonicMs();
  const said: { readonly at: number; readonly text: string }[] = [];
  const stderr = {
    write: (text: string) => void said.push({ at: clock.monotonicMs() - begin, text: text.trim() }),
  };
  const context = { options: {}, stderr, signal: new AbortController().signal };
  const result = await whenFree(
    context as never,
    { ...WAIT, ...wait },
    () => {
      if (clock.monotonicMs() - begin < heldMs) throw error;
      return 'open';
    },
    clock,
  ).catch((thrown: unknown) => thrown);
  return { result, said, tookMs: clock.monotonicMs() - begin };
}

it('says nothing of a wait of less than a second', async () => {
  expect(await tried(900)).toEqual({ result: 'open', said: [], tookMs: 1_000 });
});

it('says once for whom it waits, after a second', async () => {
  expect(await tried(20_000)).toEqual({
    result: 'open',
    said: [{ at: 1_000, text: 'tidemark: m.db is held by `sync`: waiting for it' }],
    tookMs: 20_000,
  });
});

it('gives up after the wait, with the reason and how long it waited', async () => {
  const { result, said, tookMs } = await tried(Infinity);
  expect(result).toMatchObject({
    code: 'mirror_locked',
    message: 'm.db is held by `sync`; waited 30 s for it',
    hint: 'run it again',
  });
  expect([said.length, tookMs]).toEqual([1, 30_000]);
});

it('does not wait where there is no use, nor for another error', async () => {
  expect(await tried(Infinity, { isLost: () => true })).toEqual({ result: LOCKED, said: [], tookMs: 0 });
  const missing = new TidemarkError('mirror_missing', 'there is none');
  expect(await tried(Infinity, {}, missing)).toEqual({ result: missing, said: [], tookMs: 0 });
});
