import { isAbsolute, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { oneSource, thrownBy, workspace } from './workspace.ts';

const { directory, write, load, refused } = workspace();

describe('nothing configured', () => {
  it('says what to set', () => {
    const error = thrownBy(() => load());
    expect(error.code).toBe('config_missing');
    expect(error.message).toContain(join(directory, 'tidemark.yaml'));
    expect(error.hint).toMatch(
      /`tidemark init`.*writes the configuration.*TIDEMARK_BASE_URL and TIDEMARK_API_KEY/,
    );
  });

  it.each(['', '\n\n', '# only\n# comments\n', 'mirror: ./m.db\n', 'sources:\n', 'sources: []\n'])(
    'is the same for the file %j',
    (text) => {
      const error = refused(text);
      expect(error.code).toBe('config_missing');
      expect(error.message).toContain('tidemark.yaml');
      expect(error.hint).toContain('TIDEMARK_BASE_URL');
    },
  );

  it('names a file that --config or TIDEMARK_CONFIG promised', () => {
    const byFlag = thrownBy(() => load({}, { file: 'nowhere.yaml' }));
    expect([byFlag.code, byFlag.message]).toEqual([
      'config_missing',
      `no configuration file at ${join(directory, 'nowhere.yaml')}`,
    ]);
    expect(byFlag.hint).toContain('--config');
    expect(thrownBy(() => load({ TIDEMARK_CONFIG: 'nowhere.yaml' })).hint).toContain('TIDEMARK_CONFIG');
  });

  it('is enough for commands that only read the mirror', () => {
    const config = load({}, { keys: 'unused' });
    expect(config.sources).toEqual([]);
    expect(isAbsolute(config.mirror)).toBe(true);
    write('tidemark.yaml', oneSource('name: a'));
    expect(load({}, { keys: 'unused' }).sources.map(({ name }) => name)).toEqual(['a']);
    expect(load({}, { keys: 'unused' }).sources[0]!.apiKey.reveal()).toBe('');
    expect(() => load()).toThrow('${KEY} is not set');
  });
});
