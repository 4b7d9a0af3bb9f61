/** What the stories about `diff` and `drift` have in common. */
import { expect } from 'vitest';
import { commandLine } from './command-line.ts';
import { environment, scratch, type Ended } from './harness.ts';
import { FakeService, ORG } from './service.ts';

export interface DiffJson {
  readonly schema: string;
  readonly source?: string;
  readonly from: {
    readonly ref: string;
    readonly run?: number;
    readonly at?: string;
    readonly source?: string;
  };
  readonly to: DiffJson['from'];
  readonly compared: { readonly collections: number; readonly records: number };
  readonly skipped: readonly Named[];
  readonly stale: readonly (Named & { readonly side: string })[];
  readonly left_out: readonly Named[];
  readonly changes: readonly {
    readonly kind: string;
    readonly id: string;
    readonly name: string;
    readonly change: string;
    readonly fields: readonly { readonly path: string; readonly from?: unknown; readonly to?: unknown }[];
  }[];
  readonly summary: Readonly<Record<string, number>>;
}

interface Named {
  readonly kind: string;
  readonly scope: Readonly<Record<string, string>>;
  readonly reason: string;
}

export interface World {
  readonly service: FakeService;
  readonly directory: string;
  readonly env: Record<string, string>;
  /** Runs `tidemark ARGS` and returns how it ended. */
  readonly run: (...args: string[]) => Promise<Ended>;
  /** The same; the exit code is part of the story. */
  readonly expectRun: (code: number, ...args: string[]) => Promise<Ended>;
  readonly diff: (code: number, ...args: string[]) => Promise<DiffJson>;
}

export const DOMAINS = [
  { id: 'd1', domain: 'one.example', jit_provisioning_enabled: false },
  { id: 'd2', domain: 'two.example', jit_provisioning_enabled: false },
];
export const MEMBERS = [
  { id: 'x1', user: { uuid: 'u1', email: 'ann@one.example' }, level: 15, last_login: '2026-01-01T00:00:00Z' },
  { id: 'x2', user: { uuid: 'u2', email: 'bob@one.example' }, level: 1, last_login: '2026-01-01T00:00:00Z' },
];

/** A service with two domains and two members, and an empty directory for its mirror. */
export async function world(more: Readonly<Record<string, string>> = {}): Promise<World> {
  const service = await FakeService.start();
  service.set('domains', DOMAINS);
  service.set('members', MEMBERS);
  const directory = scratch();
  const env = environment(service.url, directory, { TIDEMARK_RETRY_ATTEMPTS: '1', ...more });
  const run = (...args: string[]): Promise<Ended> => commandLine(args, { env, cwd: directory });
  const expectRun = async (code: number, ...args: string[]): Promise<Ended> => {
    const ended = await run(...args);
    expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
    return ended;
  };
  const diff = async (code: number, ...args: string[]): Promise<DiffJson> => {
    const { stdout } = await expectRun(code, 'diff', ...args, '--json');
    return JSON.parse(stdout) as DiffJson;
  };
  return { service, directory, env, run, expectRun, diff };
}

/** The paths that the service was asked for since `from`, without the query, each once. */
export function askedFor(service: FakeService, from = 0): string[] {
  const paths = service.seen.slice(from).map(({ url }) => (url.split('?')[0] ?? '').replace(ORG, 'ORG'));
  return [...new Set(paths)].sort();
}
