/** `tidemark mirror move`: from one mirror of all sources to one per source, and back. */
import { existsSync, renameSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, resolve } from 'node:path';
import { hasMirrorPerSource, mirrorOf, namesOf, rateLogBesideOf } from '../config/mirrors.ts';
import { mirrorPath as MIRROR_PATH } from '../config/schema.ts';
import { commandActor } from '../core/actor.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { plural } from '../core/wording.ts';
import { removeMirrorFile } from '../mirror/database.ts';
import { acquireWriterLock } from '../mirror/lock.ts';
import type { Mirror } from '../mirror/mirror.ts';
import {
  compareMoved,
  makeMovedMirror,
  type MovedPart,
  readMirrorFacts,
  settleMirrorFile,
} from '../mirror/move.ts';
import { MIRROR_VARIABLE } from '../config/environment.ts';
import { isMirrorSetByVariable } from './config-check.ts';
import { MOVED_SUFFIX, openMirror } from '../mirror/open.ts';
import { copyRateLog } from '../mirror/rate-log.ts';
import { realMirrorPath } from '../mirror/real-path.ts';
import { readLoadedConfig } from '../wire.ts';
import { print, type CommandContext, printJson } from './context.ts';
import { daemonOf } from './daemon-effects.ts';

interface MoveOptions {
  readonly to?: string;
  readonly from?: string;
  readonly remove?: boolean;
  readonly as?: string;
}

type LockHolder = Parameters<typeof acquireWriterLock>[1];

interface Target {
  readonly path: string;
  readonly parts: readonly MovedPart[];
}

/** Copies all runs to the new mirrors, verifies these, then puts the old ones away (`.moved`) or removes them. */
export async function moveMirror(context: CommandContext, options: MoveOptions): Promise<ExitCode> {
  const loaded = readLoadedConfig(context, context.options, 'unused');
  if (context.options.source !== undefined)
    throw new TidemarkError('usage', 'a move covers all sources', { hint: 'leave --source out' });
  const to = pathGiven(context, '--to', options.to);
  const from = options.from === undefined ? loaded.mirrorPath : pathGiven(context, '--from', options.from);
  const isSplit = hasMirrorPerSource({ mirrorPath: to });
  if (isSplit === hasMirrorPerSource({ mirrorPath: from })) {
    throw new TidemarkError('usage', `${from} and ${to} have the same form: move files with \`mv\``, {
      hint: 'give --to a path with {source} for a mirror per source, or one without for a shared one',
    });
  }
  const names = loaded.configured.map(({ name }) => name);
  const olds = isSplit ? [from] : names.map((name) => mirrorOf({ mirrorPath: from }, name));
  const there = olds.filter((path) => existsSync(path)).map(realMirrorPath);
  const isDone = there.length === 0 && olds.some((path) => existsSync(`${path}${MOVED_SUFFIX}`));
  if (there.length === 0 && !isDone) {
    throw new TidemarkError('mirror_missing', `there is no mirror at ${from}`, {
      hint: 'name the one that is to be moved with --from',
    });
  }
  // What an interrupted move put away is in the new file already; without that file it would be lost.
  const away = olds.filter((path) => !existsSync(path) && existsSync(`${path}${MOVED_SUFFIX}`));
  if (!isSplit && !isDone && away.length > 0 && !existsSync(to)) {
    throw new TidemarkError('mirror_missing', `${away.join(', ')} was moved before, and ${to} is not there`, {
      hint: 'rename the .moved files to their old names, then run the command again',
    });
  }
  const lines = isDone ? ['moved already'] : await move(context, options, { olds: there, to, isSplit });
  if (!isDone) copyRateLog(rateLogBesideOf({ mirrorPath: from }), rateLogBesideOf({ mirrorPath: to }));
  const shown = dirname(loaded.file ?? '') === context.cwd ? (options.to ?? to) : to;
  if (context.options.json === true) {
    const configuration = { mirror: shown };
    await printJson(context, { schema: 'tidemark.mirror_move/1', from, to, configuration, notes: lines });
    return EXIT.done;
  }
  const set = isMirrorSetByVariable(context)
    ? [`${MIRROR_VARIABLE} is set here, and counts in place of the file: set it to that, too`]
    : [];
  const text = [...lines, `Now set in the configuration:  mirror: ${shown}`, ...set];
  await print(context, `${text.join('\n')}\n`);
  return EXIT.done;
}

function pathGiven(context: CommandContext, flag: string, text: string | undefined): string {
  if (text !== undefined && MIRROR_PATH.safeParse(text).success) return resolve(context.cwd, text);
  throw new TidemarkError(
    'usage',
    `${flag} ${text ?? ''}: expected a path without braces, or with {source} before an ending such as .db`,
    { hint: "for example --to './data/{source}.db'" },
  );
}

async function move(
  context: CommandContext,
  options: MoveOptions,
  { olds, to, isSplit }: { readonly olds: readonly string[]; readonly to: string; readonly isSplit: boolean },
): Promise<string[]> {
  const holder = {
    command: 'mirror move',
    pid: context.pid,
    host: hostname(),
    since: isoTime(systemClock.now()),
  };
  for (const path of olds) {
    const daemon = daemonOf(context, path);
    if (daemon !== null)
      throw new TidemarkError('mirror_locked', `a daemon (pid ${daemon.pid}) runs on ${path}`, {
        hint: 'stop it, then run the command again',
      });
    if (existsSync(`${path}${MOVED_SUFFIX}`)) throw inTheWay(`${path}${MOVED_SUFFIX}`);
  }
  const mirrors: Mirror[] = [];
  try {
    for (const path of olds) mirrors.push(openMirror(path, { ...holder, mode: 'write', clock: systemClock }));
    for (const mirror of mirrors) await requireSound(mirror);
    const roots = olds.map((path) => readMirrorFacts(path, ({ root }) => root));
    const ordered = isSplit ? olds : withKeyFirst(olds);
    const targets = targetsOf(ordered, to, isSplit);
    const actor = commandActor(options.as);
    const lines = await makeTargets(targets, roots, { at: isoTime(systemClock.now()), actor }, context);
    lines.push(...(isSplit ? [] : otherBackupsLine(ordered)));
    for (const mirror of mirrors.splice(0)) mirror.close();
    for (const [index, path] of olds.entries())
      lines.push(retire(path, roots[index] ?? null, holder, options.remove === true));
    return lines;
  } finally {
    for (const mirror of mirrors) mirror.close();
  }
}

async function requireSound(mirror: Mirror): Promise<void> {
  const { problems } = await mirror.verify();
  const [problem] = problems;
  if (problem === undefined) return;
  throw new TidemarkError('mirror_corrupt', `${mirror.path}: ${problem.message}: nothing was moved`, {
    hint: '`tidemark verify` names everything that is damaged; restore a backup of the mirror',
  });
}

/**
 * The files in an order such that the new mirror gets the fingerprint key of the first. Acceptances, and the fingerprints
 * that `redact` stores, are made with the key of their mirror and cannot be computed again: the mirror has neither the accepted
 * values nor the secrets.
 * @throws TidemarkError `usage` if more than one key is needed
 */
function withKeyFirst(olds: readonly string[]): readonly string[] {
  const all = olds.map((path) =>
    readMirrorFacts(path, ({ fingerprintKey, needsItsKey, sources }) => ({
      ...{ path, fingerprintKey, needsItsKey, sources },
    })),
  );
  const needing = all.filter(({ needsItsKey }) => needsItsKey);
  if (new Set(needing.map(({ fingerprintKey }) => fingerprintKey)).size > 1) {
    throw new TidemarkError(
      'usage',
      `${namesOf(needing.flatMap(({ sources }) => sources))} have accepted drift, or fingerprints of secrets (redact), under keys of their own, and one mirror has one key`,
      {
        hint: 'of all but one of them, withdraw what was accepted (`tidemark drift accepted` lists it) and accept it again afterwards; sources with `redact` stay apart',
      },
    );
  }
  const [first] = needing;
  return first === undefined ? olds : [first.path, ...olds.filter((path) => path !== first.path)];
}

/** A backup names its mirror by the fingerprint key (`mirrorId`): those of files that lose their key belong to no mirror any more. */
function otherBackupsLine(ordered: readonly string[]): string[] {
  const [first, ...others] = ordered.map((path) =>
    readMirrorFacts(path, ({ fingerprintKey, sources }) => ({ fingerprintKey, sources })),
  );
  const names = others.flatMap(({ fingerprintKey, sources }) =>
    fingerprintKey === first?.fingerprintKey ? [] : sources,
  );
  return names.length === 0
    ? []
    : [
        `earlier backups of ${namesOf(names)}, if there are any, count as those of another mirror: retention does not remove them`,
      ];
}

function targetsOf(olds: readonly string[], to: string, isSplit: boolean): Target[] {
  const parts = olds.map((path): MovedPart => ({
    path,
    sources: readMirrorFacts(path, ({ sources }) => sources),
  }));
  if (!isSplit) return [{ path: to, parts }];
  return parts.flatMap(({ path, sources }) =>
    sources.map((source) => ({
      path: mirrorOf({ mirrorPath: to }, source),
      parts: [{ path, sources: [source] }],
    })),
  );
}

/** Makes and verifies all of them under temporary names before any gets its own name. */
async function makeTargets(
  targets: readonly Target[],
  roots: readonly (string | null)[],
  facts: Parameters<typeof makeMovedMirror>[2],
  context: CommandContext,
): Promise<string[]> {
  const lines: string[] = [];
  const made: Target[] = [];
  const pending = targets.filter(({ path }) => !isOfThisMove(path, roots));
  try {
    for (const target of pending) {
      context.signal.throwIfAborted();
      const temporary = `${target.path}-moving`;
      made.push(target);
      const { notes, runs } = makeMovedMirror(temporary, target.parts, facts);
      compareMoved(temporary, target.parts);
      lines.push(...notes, ...[...runs].map(([source, numbers]) => numbersLine(source, numbers)));
      using mirror = openMirror(temporary, { mode: 'read', command: 'mirror move', clock: systemClock });
      await requireSound(mirror);
    }
  } catch (error) {
    for (const { path } of made) removeMirrorFile(`${path}-moving`);
    throw error;
  }
  for (const { path } of pending) {
    if (existsSync(path)) throw inTheWay(path);
    renameMirror(`${path}-moving`, path);
  }
  for (const { path, parts } of targets)
    lines.push(
      `${parts.flatMap(({ sources }) => sources).join(', ')}: ${path}, verified and equal in every run`,
    );
  return lines;
}

/** True for a file that this move made before it was interrupted, if nothing has written it since. */
function isOfThisMove(path: string, roots: readonly (string | null)[]): boolean {
  if (!existsSync(path)) return false;
  const isOurs = readMirrorFacts(
    path,
    ({ mark, knows }) => mark?.isUntouched === true && roots.every((root) => root !== null && knows(root)),
  );
  if (!isOurs) throw inTheWay(path);
  return true;
}

function inTheWay(path: string): TidemarkError {
  return new TidemarkError('file_system', `${path} exists already; nothing was moved`, {
    hint: 'move it away, or choose another path',
  });
}

function numbersLine(source: string, numbers: ReadonlyMap<number, number>): string {
  const changed = [...numbers]
    .filter(([old, number]) => old !== number)
    .map(([old, number]) => `${old}→${number}`);
  return changed.length === 0
    ? `${source}: ${plural(numbers.size, 'run')}, numbers kept`
    : `${source}: new numbers of runs: ${changed.join(', ')}`;
}

/** Puts the old file away, as the last step: until then it is the mirror in use. */
function retire(path: string, root: string | null, holder: LockHolder, isRemoved: boolean): string {
  const lock = acquireWriterLock(path, holder);
  try {
    if (readMirrorFacts(path, (facts) => facts.root) !== root) {
      throw new TidemarkError('mirror_locked', `${path} was written meanwhile and stays in use`, {
        hint: 'remove the new files, then run the command again',
      });
    }
    if (isRemoved) removeMirrorFile(path);
    else renameMirror(path, `${path}${MOVED_SUFFIX}`);
    return isRemoved ? `removed: ${path}` : `the old mirror is kept as ${path}${MOVED_SUFFIX}`;
  } finally {
    lock.release();
  }
}

/** Renames the file after its WAL was folded into it, so that one rename moves everything. */
function renameMirror(path: string, to: string): void {
  settleMirrorFile(path);
  try {
    renameSync(path, to);
  } catch (error) {
    throw asFileError(error, to, 'written');
  }
}
