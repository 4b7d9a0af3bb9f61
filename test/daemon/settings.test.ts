/** When the daemon reads its configuration again. */
import { utimesSync, writeFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { isoTime } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { DaemonEffects } from '../../src/daemon/effects.ts';
import { Settings } from '../../src/daemon/settings.ts';
import { ActiveProblems } from '../../src/daemon/problems.ts';
import { scratch } from '../journeys/harness.ts';
import { DrivenClock } from './driven-clock.ts';

function world(env: Record<string, string> = {}) {
  const directory = scratch();
  const file = (name: string): string => join(directory, name);
  const write = (name: string, text: string): void => writeFileSync(file(name), text, { mode: 0o600 });
  write('key', 'first-key');
  write('profile.yaml', 'kinds: {}\n');
  const config = (more: string): string =>
    ['a', 'b']
      .map(
        (name) =>
          `  - { name: ${name}, baseUrl: "http://127.0.0.1:9", apiKeyFile: key, profile: ./profile.yaml }`,
      )
      .join('\n')
      .replace(/^/, 'sources:\n')
      .concat(`\n${more}\n`);
  write('tidemark.yaml', config('mirror: m.db'));
  // An hour from now: nothing here was written lately.
  const clock = new DrivenClock(Date.now() + 3_600_000);
  const counts = { reads: 0, taken: 0 };
  const effects: Pick<DaemonEffects, 'loadConfig' | 'log' | 'clock'> = {
    clock,
    log: silentLogger,
    loadConfig: () => {
      counts.reads += 1;
      return loadConfig({ file: file('tidemark.yaml'), env, cwd: directory });
    },
  };
  const problems = new ActiveProblems(clock, silentLogger);
  const settings = new Settings(effects, problems, {
    onChange: () => void (counts.taken += 1),
  });
  return { settings, counts, write, file, config, clock, env };
}

describe('the configuration of a daemon', () => {
  it('is not read again as long as none of its files is another one', () => {
    const { settings, counts } = world();
    for (let job = 0; job < 5; job += 1) settings.refresh();
    expect(counts).toEqual({ reads: 1, taken: 0 });
  });

  it.each(['key', 'profile.yaml', 'tidemark.yaml'])('is read again when %s was written', (name) => {
    const { settings, counts, write, config } = world();
    const texts: Readonly<Record<string, string>> = {
      key: 'other-key',
      'profile.yaml': 'rate: { perMinute: 7 }\n',
      'tidemark.yaml': config('mirror: m.db\nlog: { level: debug }'),
    };
    write(name, texts[name] ?? '');
    settings.refresh();
    settings.refresh();
    expect(counts).toEqual({ reads: 2, taken: 1 });
  });

  it('is read again when a file was replaced by one of the same size and times', () => {
    const { settings, counts, write, file } = world();
    const then = new Date('2026-01-01T00:00:00Z');
    utimesSync(file('key'), then, then);
    settings.refresh();
    write('next', 'other-key');
    utimesSync(file('next'), then, then);
    renameSync(file('next'), file('key'));
    settings.refresh();
    expect(settings.current().sources[0]?.apiKey.reveal()).toBe('other-key');
    expect(counts.taken).toBe(1);
  });

  it('is read again as long as a file is so young that a second writing might not show in its times', () => {
    const { settings, counts, clock, file } = world();
    clock.stepWall(-3_600_000);
    utimesSync(file('key'), new Date(), new Date());
    settings.refresh();
    settings.refresh();
    expect(counts.reads).toBe(3);
    clock.stepWall(3_600_000);
    settings.refresh();
    settings.refresh();
    expect(counts).toEqual({ reads: 4, taken: 0 });
  });

  it('has another digest for another value of a variable that it names, and of no other one', () => {
    const { write, config, env, settings } = world();
    write('tidemark.yaml', config('mirror: ${PLACE}'));
    const digestWith = (name: string, value: string): string => {
      env[name] = value;
      settings.reload();
      return settings.current().digest;
    };
    const first = digestWith('PLACE', '/tmp/a.db');
    expect(digestWith('OTHER', isoTime(0))).toBe(first);
    expect(digestWith('PLACE', '/tmp/b.db')).not.toBe(first);
  });

  it('reads a profile once for all sources, which share what comes of it', () => {
    const { settings } = world();
    const [a, b] = settings.current().sources;
    expect(a?.definitions).toBe(b?.definitions);
  });
});
