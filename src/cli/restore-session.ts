/** What every command that plans or applies a restore needs: one source, its mirror, its states. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config, SourceConfig } from '../config/config.ts';
import { hasMirrorPerSource, onlyMirrorConfig, ownerOf } from '../config/mirrors.ts';
import { definitionsFor, presentIn } from '../config/source.ts';
import { type Actor, commandActor } from '../core/actor.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { realMirrorPath } from '../mirror/real-path.ts';
import { isApplied } from '../mirror/unfinished-restore.ts';
import { renderText } from '../report/render-text.ts';
import { resultReport } from '../report/restore-report.ts';
import type { RestoreReport } from '../restore/apply/report.ts';
import type { StateFilter } from '../state/filter.ts';
import { parentNames } from '../state/parent-names.ts';
import type { Reference } from '../state/reference.ts';
import type { LoadedState } from '../state/state.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import { type CommandContext, lineOptions, printNote } from './context.ts';
import type { Wanted } from './live-opener.ts';
import { StateOpener } from './state-opener.ts';
import { verificationNote } from './verification-note.ts';
import { openExistingMirror, noteRestoredViews, type Wait, whenFree } from './when-free.ts';

export interface RestoreSession extends Disposable {
  readonly context: CommandContext;
  readonly config: Config;
  readonly source: SourceConfig;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** Null if there is no mirror and none is needed. */
  readonly mirror: Mirror | null;
  readonly parentName: ((kind: Kind, id: string) => string | undefined) | undefined;
  /** Opens a state of the source, which is closed with the session. */
  open(reference: Reference, filter: StateFilter): Promise<LoadedState>;
  readLive(filter: StateFilter, wanted?: Pick<Wanted, 'against' | 'isNamed'>): Promise<LoadedState>;
}

interface SessionOptions {
  readonly command: string;
  /** True to take the writer lock, which excludes syncs and other restores. */
  readonly writes: boolean;
  /** True if the mirror need not exist: it is created if `writes`, for the journal. */
  readonly needsNoMirror: boolean;
  /** True if nothing is requested from the service. */
  readonly needsNoKey?: boolean;
  /** The name given with `--as`. */
  readonly as?: string | undefined;
  /** Who acts, if not the user of this process. */
  readonly actor?: Actor;
  /** The source that a plan names. */
  readonly source?: string;
  /** Finds the source of a restore in the journal, given the names of the configured sources, if there are several. */
  readonly sourceIn?: (mirror: Mirror, names: readonly string[]) => string;
}

/** How to wait for the writer lock. */
const WAIT: Wait = {
  mostMs: 3_600_000,
  retryMs: 500,
  quietMs: 0,
  note: 'waiting until it is free, for an hour at most; Ctrl-C ends this',
  undone: 'nothing was sent',
};

/**
 * Opens the mirror, with the writer lock if `writes`. If another process holds the lock, such as the sync of a daemon, it
 * waits up to an hour, but not for another restore.
 * @throws TidemarkError `usage` if it is not clear which source is meant, `mirror_locked`, `mirror_missing`, `interrupted` if
 * the user ended the wait
 */
export async function openSession(context: CommandContext, options: SessionOptions): Promise<RestoreSession> {
  const config = configOf(context, options);
  const { sourceIn } = options;
  const isInJournal = sourceIn !== undefined && config.sources.length > 1;
  const known = isInJournal ? null : oneSource(config, options.source);
  // There is no use in waiting for another restore: after it, the plan would be different.
  const isLost = (): boolean => !options.writes || isApplied(realMirrorPath(config.mirror));
  const mirror = await whenFree(context, { ...WAIT, isLost }, () => openMirrorFor(context, config, options));
  if (mirror !== null) printNote(context, verificationNote(mirror));
  const source = known ?? journaledSource(config, mirror, sourceIn);
  const definitions = definitionsFor(config, source.name);
  const opener = new StateOpener(context, config, options.command, mirror);
  // Messages name this source, even if only the journal or the plan named it.
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
    [Symbol.dispose]: () => opener[Symbol.dispose](),
  };
}

/** The source that the journal names, if several are configured. Closes the mirror if there is none. */
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

/** The configuration; if each source has a mirror of its own, only that of the source which the plan names. */
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

/** The mirror of a session that writes, which is never null. */
export function journalOf({ mirror }: RestoreSession): Mirror {
  if (mirror === null) throw new TidemarkError('internal', 'a restore has to be journaled');
  return mirror;
}

/** Parses the number of a restore; undefined for `latest`, as for an option without a number. @throws TidemarkError `usage` */
export function restoreNumber(text: string): number | undefined {
  if (text === 'latest') return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new TidemarkError('usage', `a restore is a number, not ${text}`, {
    hint: '`tidemark restores` lists them; latest is the one that was begun or resumed last',
  });
}

/** The result of a restore as text. */
export function restoreText(
  context: CommandContext,
  config: Config,
  report: RestoreReport,
  {
    parentName,
    ...options
  }: Pick<RestoreSession, 'parentName'> &
    Pick<Parameters<typeof resultReport>[1], 'plan' | 'isWhole' | 'isVerbose'>,
): string {
  const document = resultReport(report, {
    ...options,
    ...(parentName && { parentName }),
    definitions: definitionsFor(config, report.source),
    present: presentIn(config, report.source),
  });
  return renderText(document, lineOptions(context));
}
