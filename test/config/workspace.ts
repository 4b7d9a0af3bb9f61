/** A directory of its own for one test file, and short ways to load from it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { onlyMirrorConfig } from '../../src/config/mirrors.ts';
import { TidemarkError } from '../../src/core/errors.ts';

type LoadOptions = Parameters<typeof loadConfig>[0];

export interface Workspace {
  /** Path of the directory; empty before each test. */
  readonly directory: string;
  readonly write: (name: string, content: string | Uint8Array) => string;
  readonly load: (env?: LoadOptions['env'], more?: Partial<LoadOptions>) => Config;
  /** Loads this YAML as `tidemark.yaml`. */
  readonly yaml: (text: string, env?: LoadOptions['env']) => Config;
  /** The error that loading this YAML ends in. */
  readonly refused: (text: string | Uint8Array, env?: LoadOptions['env']) => TidemarkError;
}

export function workspace(): Workspace {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-config-'));
  const write = (name: string, content: string | Uint8Array): string => {
    const path = join(directory, name);
    writeFileSync(path, content, { mode: 0o600 });
    return path;
  };
  const load = (env: LoadOptions['env'] = {}, more: Partial<LoadOptions> = {}): Config =>
    onlyMirrorConfig(loadConfig({ env, cwd: directory, ...more }));
  afterEach(() => rmSync(join(directory, 'tidemark.yaml'), { recursive: true, force: true }));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  return {
    directory,
    write,
    load,
    yaml: (text, env) => {
      write('tidemark.yaml', text);
      return load(env);
    },
    refused: (text, env) => {
      write('tidemark.yaml', text);
      return thrownBy(() => load(env));
    },
  };
}

/** The `TidemarkError` that a call throws; anything else fails the test. */
export function thrownBy(call: () => unknown): TidemarkError {
  try {
    call();
  } catch (error) {
    if (error instanceof TidemarkError) return error;
    throw error;
  }
  throw new Error('expected an error');
}

/** A source that is right, to which a test adds lines (indented by four spaces). */
export function oneSource(...lines: string[]): string {
  return [
    'sources:',
    '  - baseUrl: https://svc.example.com',
    '    apiKey: ${KEY}',
    ...lines.map((line) => `    ${line}`),
    '',
  ].join('\n');
}

export const KEY = { KEY: 'phx_test' } as const;
