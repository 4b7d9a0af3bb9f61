import { describe, expect, it } from 'vitest';
import type { CommandContext } from '../../src/cli/context.ts';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { consents, requireConsent, riskiestStepLines } from '../../src/cli/plan.ts';
import { askYesNo } from '../../src/cli/prompt.ts';
import { restoreProgressLines, restoreProgressText } from '../../src/cli/restore-send.ts';
import { inputOf, organization, posthog, record, withBody } from '../restore/states.ts';
import { planRestore } from '../../src/restore/plan/planner.ts';
import { Keyboard, Screen } from './terminal.ts';

async function ask(keys: string, signal = new AbortController().signal): Promise<boolean | null> {
  const [keyboard, screen] = [new Keyboard(), new Screen()];
  const answer = askYesNo({ stderr: screen, signal }, 'send?', { yes: 'Yes', no: 'No' }, keyboard);
  if (keys !== '') keyboard.write(keys);
  const result = await answer;
  expect(screen.text).toContain('send?');
  expect(keyboard.isRaw).toBe(false);
  return result;
}

describe('the question', () => {
  it.each([
    ['Enter alone is no', '\r', false],
    ['y is yes', 'y', true],
    ['n is no', 'n', false],
    ['the other answer, then Enter, is yes', '\u001b[D\r', true],
    ['Ctrl-C leaves', '\u0003', null],
    ['Escape leaves', '\u001b', null],
  ])('%s', async (_name, keys, expected) => {
    expect(await ask(keys)).toBe(expected);
  });

  it('is left when the command is stopped', async () => {
    const stop = new AbortController();
    const answer = ask('', stop.signal);
    stop.abort();
    expect(await answer).toBe(null);
  });
});

function context(more: Partial<CommandContext>): CommandContext {
  return {
    env: {},
    cwd: '/',
    stdin: { isTTY: true },
    stdout: new Screen(),
    stderr: new Screen(),
    signal: new AbortController().signal,
    pid: 1,
    execPath: '',
    entry: '',
    options: {},
    ...more,
  };
}

describe('consent', () => {
  it.each([
    ['a terminal can be asked', {}, {}, null],
    ['--yes needs no terminal', { stdin: { isTTY: false } }, { yes: true }, null],
    ['input from elsewhere cannot', { stdin: { isTTY: false } }, {}, 'no terminal'],
    ['a document for machines shows no plan', { options: { json: true } }, {}, 'the plan is not shown'],
  ])('%s', (_name, surroundings, options, words) => {
    const act = (): void => requireConsent(context(surroundings), options, 'tidemark restore');
    if (words === null) expect(act).not.toThrow();
    else
      expect(act).toThrow(
        expect.objectContaining({ code: 'usage', message: expect.stringContaining(words) as string }),
      );
  });

  it('with --yes asks nothing', async () => {
    const screen = new Screen();
    const plan = planRestore(inputOf([organization], [withBody(organization, { enforce_2fa: false })]));
    expect(
      await consents(context({ stderr: screen }), { yes: true }, plan, {
        source: { name: 'production' },
        definitions: definitionOf,
      }),
    ).toBe(true);
    expect(screen.text).toBe('');
  });
});

describe('what is asked about', () => {
  const named = (count: number): string => {
    const roles = Array.from({ length: count }, (_none, n) =>
      record('roles', `r${n}`, { id: `r${n}`, name: `Role ${n}` }),
    );
    return riskiestStepLines(planRestore(inputOf([organization, ...roles], [organization])), posthog).join(
      '\n',
    );
  };

  it('counts every step that it does not name, by what it does, and never leaves out a single one', () => {
    expect(named(6)).toMatch(/6 create role Role 5$/);
    expect(named(8)).toMatch(/5 create role Role 4\n *and 3 more: 3 × create role$/);
  });
});

describe('the progress of a restore', () => {
  const view = {
    steps: 40,
    done: 12,
    failed: 1,
    underWay: ['Events → S3'],
    elapsedMs: 6000,
    waitingMs: 5000,
    requests: 37,
  };
  it('tells how far it is, what failed, what is waited for and what is left', () => {
    const text = restoreProgressLines(view, 100).join('\n');
    for (const part of [
      '12/40 steps',
      '1 failed',
      'waiting 5.0 s',
      'about 14 s left',
      '37 requests',
      'Events → S3',
    ])
      expect(text).toContain(part);
  });
  it.each([10, 20, 40, 60, 79, 80, 200])('fits into %i columns', (columns) => {
    for (const line of restoreProgressLines(view, columns)) expect(line.length).toBeLessThan(columns);
  });
  it('says for how long the service has not answered a write, and when that is given up', () => {
    const silent = { ...view, waitingMs: null, silentMs: 150_500 };
    const [first, second] = restoreProgressLines(silent, 120);
    expect(first).toContain('12/40 steps, 1 failed, no answer for 2 min 30 s');
    expect(second).toBe('37 requests · Events → S3 · gives up after 5 requests without one, up to 60 s each');
    const create = { action: 'create', kind: 'roles', request: null } as const;
    const underWay = [{ ...create, n: 1, name: 'Events → S3' }];
    expect(restoreProgressText({ ...silent, failed: 0, underWay, lookedUp: new Set() })).toBe(
      '12 of 40 steps done; no answer for 2 min 30 s (gives up after 5 requests without one, up to 60 s each); in progress: create Events → S3',
    );
  });
  it('off a terminal says what is at work, first of all what has no answer', () => {
    const create = { action: 'create', kind: 'batch_exports', request: null } as const;
    const step = (n: number) => ({ ...create, n, name: `Export ${n}` });
    const state = { steps: 5, done: 1, failed: 0 };
    const none: ReadonlySet<number> = new Set();
    expect(restoreProgressText({ ...state, underWay: [], lookedUp: none })).toBe('1 of 5 steps done');
    expect(
      restoreProgressText({
        ...{ ...state, failed: 1 },
        underWay: [1, 2, 3, 4].map(step),
        lookedUp: new Set([4]),
      }),
    ).toBe(
      '1 of 5 steps done, 1 failed; in progress: create Export 4 (no answer came: looking whether it was done), create Export 1, create Export 2 and 1 more',
    );
  });
  it('names an action as the plan does', () => {
    const request = { act: 'unpause', kind: 'batch_exports' } as const;
    const step = { n: 1, action: 'act', kind: 'batch_exports', name: 'Events → S3', request } as const;
    const text = restoreProgressText({
      ...{ steps: 1, done: 0, failed: 0, underWay: [step] },
      lookedUp: new Set(),
    });
    expect(text).toBe('0 of 1 steps done; in progress: unpause Events → S3');
  });
  it('of nothing is done', () => {
    const [first] = restoreProgressLines({ ...view, steps: 0, done: 0, failed: 0, waitingMs: null }, 80);
    expect(first).toContain('0/0 steps');
  });
});
