/** When `serve` and `fleet serve` read their configuration again. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { ServedSettings } from '../../src/cli/served-settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { DrivenClock } from '../daemon/driven-clock.ts';
import { scratch } from '../journeys/harness.ts';

function world({ isTTY = false } = {}) {
  const directory = scratch();
  const token = join(directory, 'token');
  writeFileSync(token, 'first-token-of-some-length', { mode: 0o600 });
  const stop = new AbortController();
  const clock = new DrivenClock(Date.now());
  const warned: string[] = [];
  const log = {
    ...silentLogger,
    error: (_facts: unknown, message?: string) => void warned.push(message ?? ''),
  } as typeof silentLogger;
  let hangUp = (): void => undefined;
  const settings = new ServedSettings(
    {
      signal: stop.signal,
      clock,
      stdin: { isTTY },
      onHangup: (listener) => (hangUp = listener),
    },
    {
      log,
      load: () => loadConfig({ env: { TIDEMARK_HTTP_TOKEN_FILE: token }, cwd: directory, keys: 'unused' }),
      take: ({ http }) => {
        if (http.token === null) throw new Error('no token');
      },
    },
  );
  let looks = 0;
  const over = settings.untilStopped(() => {
    looks += 1;
    return Promise.resolve();
  });
  const aMinute = async (): Promise<void> => {
    const before = looks;
    clock.move(60_000);
    await vi.waitUntil(() => looks > before);
  };
  return { settings, aMinute, token, stop, over, warned, hangUp: () => hangUp(), looks: () => looks };
}

describe('what serves until it is stopped', () => {
  it('takes a new token within a minute, keeps it while its file has none, and says that once', async () => {
    const { settings, aMinute, token, stop, over, warned } = world();
    const current = (): string | undefined => settings.current().http.token?.reveal();
    writeFileSync(token, 'second-token-of-some-length');
    await aMinute();
    expect(current()).toBe('second-token-of-some-length');
    rmSync(token);
    await aMinute();
    await aMinute();
    expect(current()).toBe('second-token-of-some-length');
    expect(warned).toEqual([expect.stringContaining('the old configuration stays active')]);
    stop.abort();
    await over;
  });

  it('stops at SIGHUP where a terminal is attached, which was closed', async () => {
    const { over, hangUp, looks } = world({ isTTY: true });
    hangUp();
    await over;
    expect(looks()).toBe(0);
  });
});
