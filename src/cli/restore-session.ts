/** What every command that plans or applies a restore works with: one source, its mirror, its states. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config, SourceConfig } from '../config/config.ts';
import { hasMirrorPerSource, onlyMirrorConfig, ownerOf } from '../config/mirrors.ts';
import { definitionsFor } from '../config/source.ts';
import { type Actor, commandActor } from '../core/actor.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { realMirrorPath } from '../mirror/real-path.ts';
import { isApplied } from '../mirror/unfinished-restore.ts';
import type { StateFilter } from '../state/filter.ts';
import { parentNames } from '../state/parent-names.ts';
import type { Reference } from '../state/reference.ts';
import type { LoadedState } from '../state/state.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import { type CommandContext, printNote } from './context.ts';
import type { Wanted } from './live-opener.ts';
import { StateOpener } from './state-opener.ts';
import { verificationNote } from './verification-note.ts';
import { openExistingMirror, noteRestoredViews, type Wait, whenFree } from './when-free.ts';

export interface RestoreSession {
  readonly context: CommandContext;
  readonly config: Config;
  readonly source: SourceConfig;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** Null if there is none and none is needed. */
  readonly mirror: Mirror | null;
  readonly parentName: ((kind: Kind, id: string) => string | undefined) | undefined;
  /** A state of the source; closed with the session. */
  open(reference: Reference, filter: StateFilter): Promise<LoadedState>;
  readLive(filter: StateFilter, wanted?: Pick<Wanted, 'against' | 'isNamed'>): Promise<LoadedState>;
  close(): void;
}

interface SessionOptions {
  readonly command: string;
  /** True takes the writer lock: no sync and no other restore meanwhile. */
  readonly writes: boolean;
  /** True if the mirror may be created: only its journal is needed. */
  readonly needsNoMirror: boolean;
  /** True if the service is not asked. */
  readonly needsNoKey?: boolean;
  /** The name given with `--as`. */
  readonly as?: string | undefined;
  /** Who acts, where that is not the user of this process. */
  readonly actor?: Actor;
  /** The source that a plan names. */
  readonly source?: string;
  /** The source of a restore in the journal, where several are configured: given their names. */
  readonly sourceIn?: (mirror: Mirror, names: readonly string[]) => string;
}

/** For the lock, where the remote is going to be written. */
const WAIT: Wait = {
  mostMs: 3_600_000,
  retryMs: 500,
  quietMs: 0,
  note: 'waiting until it is free, for an hour at most; Ctrl-C ends this',
  undone: 'nothing was sent',
};

/**
 * Opens the mirror, under the lock where the remote is going to be written. Another process that holds it, such as the
 * sync of a daemon, is waited for, for an hour at most; another restore is not.
 * @throws TidemarkError `usage` where it is not clear which source is meant, `mirror_locked`, `mirror_missing`,
 * `interrupted` where the wait was ended
 */
export async function openSession(context: CommandContext, options: SessionOptions): Promise<RestoreSession> {
  const config = configOf(context, options);
  const { sourceIn } = options;
  const isInJournal = sourceIn !== undefined && config.sources.length > 1;
  const known = isInJournal ? null : oneSource(config, options.source);
  // After another restore the plan would be another one.
  const isLost = (): boolean => !options.writes || isApplied(realMirrorPath(config.mirror));
  const mirror = await whenFree(context, { ...WAIT, isLost }, () => openMirrorFor(context, config, options));
  if (mirror !== null) printNote(context, verificationNote(mirror));
  const source = known ?? journaledSource(config, mirror, sourceIn);
  const definitions = definitionsFor(config, source.name);
  const opener = new StateOpener(context, config, options.command, mirror);
  // What is printed is about this source, also where only the journal or the plan knew it.
  const isOnly = ownerOf(config) === null && config.configured.length === 1;
  const isNamed = isOnly || context.options.source?.length === 1;
  if (!isNamed) context.onSourceKnown?.(source.name);
  return {
    context: isNamed ? context : { ...context, options: { ...context.options, source: [source.name] } },
    config,
    source,
    definitions,
    mirror,
    parentName: mirror === null ? undefined : parentNames(mirror, source.name, definitions),
    open: (reference, filter) => opener.open(reference, source.name, { filter }),
    readLive: (filter, wanted = {}) =>
      opener.open({ form: 'live', text: 'live' }, source.name, { filter, ...wanted }),
    close: () => opener.close(),
  };
}

/** Closes the mirror if the source is not known from it. */
function journaledSource(
  config: Config,
  mirror: Mirror | null,
  sourceIn: SessionOptions['sourceIn'],
): SourceConfig {
  try {
    const names = config.sources.map(({ name }) => name);
    return oneSource(config, mirror === null ? undefined : sourceIn?.(mirror, names));
  } catch (error) {
    mirror?.close();
    throw error;
  }
}

function openMirrorFor(
  context: CommandContext,
  config: Config,
  { command, writes, needsNoMirror, as, actor }: SessionOptions,
): Mirror | null {
  if (writes) {
    const writer = actor ?? commandActor(as);
    return needsNoMirror
      ? noteRestoredViews(context, openConfiguredMirror(config, 'write', command, context.pid, writer))
      : openExistingMirror(context, config, command, writer);
  }
  try {
    return openConfiguredMirror(config, 'read', command, context.pid);
  } catch (error) {
    if (needsNoMirror && error instanceof TidemarkError && error.code === 'mirror_missing') return null;
    throw error;
  }
}

/** Of a plan it is the mirror of its source, where each has one. */
function configOf(
  context: CommandContext,
  { source, needsNoKey }: Pick<SessionOptions, 'source' | 'needsNoKey'>,
): Config {
  const loaded = readLoadedConfig(context, context.options, needsNoKey === true ? 'unused' : 'required');
  const meant = loaded.sources.filter(({ name }) => name === source);
  const isNarrowed = hasMirrorPerSource(loaded) && meant.length > 0;
  return onlyMirrorConfig(isNarrowed ? { ...loaded, sources: meant } : loaded);
}

function oneSource({ sources }: Config, wanted: string | undefined): SourceConfig {
  const [first, ...others] = wanted === undefined ? sources : sources.filter(({ name }) => name === wanted);
  if (first !== undefined && others.length === 0) return first;
  const names = sources.map(({ name }) => name).join(', ');
  if (first === undefined) {
    throw new TidemarkError('usage', `source ${wanted ?? ''}, to which this belongs, was not selected`, {
      hint: `correct --source or --config; there are: ${names}`,
    });
  }
  throw new TidemarkError('usage', 'a restore is for one source, and several are configured', {
    hint: `name it with --source: ${names}`,
  });
}

/** The mirror of a session that writes. */
export function journalOf({ mirror }: RestoreSession): Mirror {
  if (mirror === null) throw new TidemarkError('internal', 'a restore has to be journaled');
  return mirror;
}

// Which restore is meant, as an argument.

/** The number of a restore; undefined for `latest`, as where an option is given without a number. @throws TidemarkError `usage` */
export function restoreNumber(text: string): number | undefined {
  if (text === 'latest') return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new TidemarkError('usage', `a restore is a number, not ${text}`, {
    hint: '`tidemark restores` lists them; latest is the one that was begun or resumed last',
  });
}

// Closing after the work, done or not.

/** Does the work, then closes the session. Where both fail, as on a full disk, the error of the work says what was done. */
export async function closedAfter<T>(
  session: Pick<RestoreSession, 'close'>,
  work: () => Promise<T>,
): Promise<T> {
  let result: T;
  try {
    result = await work();
  } catch (error) {
    try {
      session.close();
    } catch {
      // Closing empties the log: it fails for the reason that the work failed for.
    }
    throw error;
  }
  session.close();
  return result;
}
