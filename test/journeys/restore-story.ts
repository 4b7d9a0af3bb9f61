/** The sandbox with the demo behind a proxy that records, a mirror of it, and short ways to damage and restore it. */
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import type { Kind } from '../../src/catalog/kinds.ts';
import { type Clock, systemClock } from '../../src/core/clock.ts';
import { createSandbox } from '../../src/server/sandbox.ts';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';
import type { Seed } from '../../src/server/seed/seed.ts';
import { type FaultProxy, type ProxiedRequest, startFaultProxy } from '../faults/fault-proxy.ts';
import { commandLine } from './command-line.ts';
import { type Ended, environment, mirrorOnce, scratch, start } from './harness.ts';
import { oneOrganization } from '../server/small-demo.ts';
import { alterFile } from '../tools/alter.ts';

export const ORGANIZATION = `/api/organizations/${KITTIWAKE_ID}/`;
const KEY = 'test-key-of-some-length';

export type Body = Record<string, unknown>;

export interface StepJson {
  readonly n: number;
  readonly action: string;
  readonly kind: string;
  readonly id: string;
  readonly name: string;
  readonly fields: readonly { readonly path: string; readonly from?: unknown; readonly to?: unknown }[];
  readonly request: { readonly method: string; readonly path: string; readonly body: Body | null } | null;
  readonly reason: string | null;
  readonly needs: readonly { readonly any_of: readonly string[] }[];
}

export interface PlanJson {
  readonly schema: string;
  readonly plan: string;
  readonly steps: readonly StepJson[];
  readonly refused: readonly { readonly guard: string }[];
  readonly warnings?: readonly string[];
  readonly left: readonly { readonly kind: string; readonly count: number }[];
  readonly summary: Readonly<Record<string, number>>;
}

export interface RestoreJson {
  readonly schema: string;
  readonly restore: number;
  readonly outcome: string;
  readonly steps: readonly {
    readonly n: number;
    readonly outcome: string;
    readonly new_id: string | null;
    readonly verified: boolean | null;
  }[];
  readonly summary: Readonly<Record<string, number>>;
  readonly by_hand?: readonly { readonly id: string; readonly reason: string }[];
}

/** Settings of a mirror with these kinds alone: each command has the lists of the others less to read, and to check. */
export function only(...kinds: readonly Kind[]): Record<string, string> {
  return { TIDEMARK_KINDS_INCLUDE: kinds.join(), TIDEMARK_KINDS_EXCLUDE: '' };
}

/** Waits a moment where a restore waits for half a minute: the lists of the sandbox are never late. */
export const IMPATIENT: Clock = {
  ...systemClock,
  sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 20), signal),
};

export class Story {
  readonly proxy: FaultProxy;
  readonly url: string;
  readonly directory: string;
  readonly env: Record<string, string>;

  private constructor(proxy: FaultProxy, url: string, env: Record<string, string>, directory: string) {
    this.proxy = proxy;
    this.url = url;
    this.env = env;
    this.directory = directory;
  }

  /** A mirror of everything but recordings, which are never written. The demo has one organization, unless `seed` has more. */
  static async start(
    more: Readonly<Record<string, string>> = {},
    seed: () => Seed = oneOrganization,
  ): Promise<Story> {
    const sandbox = await createSandbox({
      clock: systemClock,
      keys: [{ key: KEY, permissions: 'all' }],
      seed: seed(),
    });
    onTestFinished(() => sandbox.close());
    const { url } = await sandbox.listen({ host: '127.0.0.1', port: 0 });
    const proxy = await startFaultProxy(url);
    onTestFinished(() => proxy.close());
    const directory = scratch();
    const env = environment(proxy.url, directory, {
      TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing',
      TIDEMARK_RETRY_ATTEMPTS: '1',
      ...more,
    });
    const story = new Story(proxy, url, env, directory);
    await mirrorOnce(`${seed.name} ${JSON.stringify(more)}`, story.file('mirror.db'), async () => {
      await story.expectRun(0, 'sync', '--quiet');
    });
    return story;
  }

  run(...args: string[]): Promise<Ended> {
    return commandLine(args, { env: this.env, cwd: this.directory, clock: IMPATIENT });
  }

  async expectRun(code: number, ...args: string[]): Promise<Ended> {
    const ended = await this.run(...args);
    expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
    return ended;
  }

  async plan(code: number, ...args: string[]): Promise<PlanJson> {
    const { stdout } = await this.expectRun(code, 'restore', ...args, '--json');
    return JSON.parse(stdout) as PlanJson;
  }

  async applied(code: number, ...args: string[]): Promise<RestoreJson> {
    const { stdout } = await this.expectRun(code, ...args, '--yes', '--json');
    return JSON.parse(stdout) as RestoreJson;
  }

  /** Somebody else creates an export, paused, that sends nothing. @returns its id */
  async createExport(name: string): Promise<string> {
    const settings = { name, model: 'events', interval: 'day', paused: true };
    const destination = { type: 'NoOp', config: {} };
    const { id } = await this.call('POST', `${ORGANIZATION}batch_exports/`, { ...settings, destination });
    return String(id);
  }

  /** Past the proxy: what somebody else does. */
  async call(method: string, path: string, body?: unknown): Promise<Body> {
    const answer = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === '' ? {} : (JSON.parse(text) as Body);
  }

  /** Every record of an organization's collection. */
  async list(kind: string): Promise<Body[]> {
    const page = await this.call('GET', `${ORGANIZATION}${kind}/?limit=1000`);
    return page['results'] as Body[];
  }

  async named(kind: string, name: string): Promise<Body> {
    const found = (await this.list(kind)).find((each) => each['name'] === name || each['domain'] === name);
    if (found === undefined) throw new Error(`there is no ${kind} called ${name}`);
    return found;
  }

  async member(firstName: string): Promise<Body & { id: string }> {
    const found = (await this.list('members')).find(
      ({ user }) => (user as { first_name: string }).first_name === firstName,
    );
    if (found === undefined) throw new Error(`there is no member ${firstName}`);
    return { ...found, id: (found['user'] as { uuid: string }).uuid };
  }

  /** Requests through the proxy that were anything but GET. */
  writes(): ProxiedRequest[] {
    return this.proxy.requests.filter(({ method }) => method !== 'GET');
  }

  /** Alters its mirror past Tidemark. */
  alter(sql: string): void {
    alterFile(this.file('mirror.db'), sql);
  }

  file(name: string): string {
    return join(this.directory, name);
  }

  /** Values for whatever the demo's exports need, by environment. */
  supplySecrets(secret: string): void {
    const names = ['aws_access_key_id', 'aws_secret_access_key', 'user', 'password', 'private_key', 'token'];
    const more = ['json_config_file', 'client_email', 'token_uri', 'private_key_id'];
    const values = Object.fromEntries(
      [...names, ...more].map((name) => [`/destination/config/${name}`, `${secret}-${name}`]),
    );
    this.env['TIDEMARK_SECRETS'] = JSON.stringify({ batch_exports: [{ values }] });
  }
}

/** Kills restore 1 while that request is under way; returns what lets the request reach the service. */
export async function killedInside(
  story: Story,
  kinds: readonly string[],
  request: { readonly method: string; readonly path: RegExp; readonly nth: number },
): Promise<PromiseWithResolvers<undefined>> {
  story.env['TIDEMARK_RATE_CONCURRENCY'] = '1';
  const opened = Promise.withResolvers<undefined>();
  const came = Promise.withResolvers<undefined>();
  const gate = { kind: 'gate', until: opened.promise, reached: () => came.resolve(undefined) } as const;
  story.proxy.setRules([{ ...request, fault: gate }]);
  const command = ['restore', 'run:1', ...kinds.flatMap((kind) => ['--kind', kind]), '--apply', '--yes'];
  const { child, ended } = start(command, { env: story.env, cwd: story.directory });
  const failed = ended.then(({ stderr }) => expect(stderr).toBe('still running'));
  await Promise.race([came.promise, failed]);
  child.kill('SIGKILL');
  expect((await ended).code).toBe(null);
  story.proxy.setRules([]);
  return opened;
}
