/** Opens the states that references stand for: of the mirror, which is opened once, exports, and live with its progress. */
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { Config } from '../config/config.ts';
import { mirrorConfigs } from '../config/mirrors.ts';
import { definitionsFor } from '../config/source.ts';
import { TidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import { workTreeOf } from '../git/program.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { withMappedIds } from '../state/recreated-ids.ts';
import { besideFingerprints, secretsFrom } from '../state/export-secrets.ts';
import { readExport, relativeTo } from '../state/export-state.ts';
import { openMirrorState } from '../state/mirror-diff.ts';
import { readNamed } from '../state/named-organizations.ts';
import { resolvedStateOf } from '../state/resolved-state.ts';
import type { ReportOptions } from '../report/options.ts';
import { LATEST, type Reference } from '../state/reference.ts';
import type { LoadedState } from '../state/state.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import { printNote, type CommandContext } from './context.ts';
import type { Wanted } from './live-opener.ts';
import { openForReading } from './verification-note.ts';
import { fingerprintsName } from '../sync/redaction.ts';

/** True for references to states of the mirror: all but `live` and `file:`. */
export function isOfMirror({ form }: Reference): boolean {
  return form !== 'live' && form !== 'file';
}

/** One side of a comparison. */
interface Side {
  readonly reference: Reference;
  /** Null if the reference needs no source. */
  readonly source: string | null;
}

/** Opens states for one command and closes them. */
export class StateOpener {
  readonly #context: CommandContext;
  readonly #config: Config;
  readonly #command: string;
  readonly #notes = new Set<string>();
  readonly #states: LoadedState[] = [];
  #mirror: Mirror | null = null;

  constructor(context: CommandContext, config: Config, command: string, mirror: Mirror | null = null) {
    this.#context = context;
    this.#config = config;
    this.#command = command;
    this.#mirror = mirror;
  }

  /** The mirror; opened for reading at the first call. */
  mirror(): Mirror {
    this.#mirror ??= openForReading(this.#context, this.#config, this.#command);
    return this.#mirror;
  }

  /** The mirror if there is one: what it has, such as names of parents, is useful but not required. */
  mirrorIfAny(): Mirror | null {
    try {
      return this.mirror();
    } catch (error) {
      if (error instanceof TidemarkError && error.code === 'mirror_missing') return null;
      throw error;
    }
  }

  /**
   * Opens both sides. Live comes last, so that an error of the other side is reported before anything is requested.
   * @param other opens `to`, if that is in another mirror
   */
  async openPair(
    from: Side,
    to: Side,
    wanted: Wanted,
    other: StateOpener = this,
  ): Promise<{ from: LoadedState; to: LoadedState }> {
    const isLiveFirst = from.reference.form === 'live';
    const first = isLiveFirst
      ? await other.open(to.reference, to.source, wanted)
      : await this.open(from.reference, from.source, wanted);
    const second = isLiveFirst
      ? await this.#openOther(first, from, wanted)
      : await other.#openOther(first, to, wanted);
    const [left, right] = isLiveFirst ? [second, first] : [first, second];
    return {
      from: this.#besideSecrets(relativeTo(left, right, wanted.filter), right),
      to: this.#besideSecrets(relativeTo(right, left, wanted.filter), left),
    };
  }

  #besideSecrets(state: LoadedState, other: LoadedState): LoadedState {
    if (other.hasForeignSecrets !== true) return state;
    const { state: comparable, hidden } = besideFingerprints(state, other);
    if (hidden > 0)
      printNote(this.#context, [
        `${plural(hidden, 'secret')} of ${other.reference.ref} ${hidden === 1 ? 'is a fingerprint' : 'are fingerprints'} by the key of another mirror: not compared`,
      ]);
    return comparable;
  }

  /** Opens the other side, where an organization that the user named may be removed, or have another id by now. */
  async #openOther(opened: LoadedState, { reference, source }: Side, wanted: Wanted): Promise<LoadedState> {
    const { organizations, ...filter } = wanted.filter;
    const isOther = opened.source !== null && opened.source !== source;
    if (reference.form !== 'live' || source === null || organizations === undefined || isOther)
      return this.open(reference, source, beside(opened, source, wanted));
    const idMap = this.mirrorIfAny()?.restores.idMap(source) ?? [];
    const { live } = await readNamed({
      asked: organizations,
      namesOf: (id) => withMappedIds(SCOPE_KIND.organization_id, [id], idMap),
      filter,
      against: opened,
      readLive: (narrowed) =>
        this.open(reference, source, beside(opened, source, { ...wanted, filter: narrowed })),
      areAllShown: this.#config.sources.find(({ name }) => name === source)?.organizations === 'all',
      mayAdopt: false,
    });
    return live;
  }

  /** Opens one state; this opener closes it. */
  async open(reference: Reference, source: string | null, wanted: Wanted): Promise<LoadedState> {
    const state = await this.#opened(reference, source, wanted);
    this.#states.push(state);
    return state;
  }

  /** A function that finds the export file of a record of the open states (`ReportOptions.fileOf`). */
  filesOfStates(): Required<ReportOptions>['fileOf'] {
    const states = [...this.#states];
    const { cwd } = this.#context;
    const top = workTreeOf(cwd) ?? cwd;
    return (record) => {
      const place = states.map((state) => state.placeOf?.(record)).find((each) => each !== undefined);
      if (place === undefined) return undefined;
      const path = relative(top, resolve(cwd, place.file));
      const parts = path.split(sep);
      return parts[0] === '..' || isAbsolute(path) ? undefined : { path: parts.join('/'), line: place.line };
    };
  }

  /** Closes every state, and the mirror. */
  [Symbol.dispose](): void {
    this.closeStates();
    this.#mirror?.close();
    this.#mirror = null;
  }

  /** Closes the states that were opened so far; the mirror stays open. */
  closeStates(): void {
    for (const state of this.#states.splice(0)) state.close();
  }

  async #opened(reference: Reference, source: string | null, wanted: Wanted): Promise<LoadedState> {
    if (reference.form === 'file') {
      const secrets = (made: string): ReturnType<typeof secretsFrom> | null => this.#secretsOf(source, made);
      return readExport({ path: reference.path, cwd: this.#context.cwd, source, secrets });
    }
    if (source === null) throw new TidemarkError('internal', `${reference.text} needs a source`);
    if (reference.form === 'live') return this.#live(source, wanted);
    const resolvedState = resolvedStateOf(this.mirror(), reference, { source });
    if (resolvedState.note !== undefined && !this.#notes.has(resolvedState.note)) {
      this.#notes.add(resolvedState.note);
      printNote(this.#context, [resolvedState.note]);
    }
    return openMirrorState(this.mirror(), source, resolvedState);
  }

  /** Replaces fingerprints in an export by the secrets; null if they were not made with the key of this mirror. */
  #secretsOf(source: string | null, made: string): ReturnType<typeof secretsFrom> | null {
    const mirror = this.mirrorIfAny();
    if (mirror === null || made !== fingerprintsName(mirror.acceptances.fingerprintKey())) return null;
    const name = source ?? this.#config.sources[0]?.name ?? '';
    return secretsFrom(mirror, name, definitionsFor(this.#config, name));
  }

  /** The latest state of the mirror: with it, records that a live list leaves out are noticed. */
  #latest(source: string): LoadedState | undefined {
    const mirror = this.mirrorIfAny();
    if (mirror === null || mirror.runs.latest(source) === undefined) return undefined;
    return openMirrorState(mirror, source, resolvedStateOf(mirror, LATEST, { source }));
  }

  async #live(name: string, wanted: Wanted): Promise<LoadedState> {
    const source = this.#config.sources.find((each) => each.name === name);
    if (source === undefined) throw new TidemarkError('internal', `${name} is not configured`);
    const latest = this.#latest(name);
    const against = wanted.against ?? latest;
    // Loaded only here: a comparison of states of the mirror needs no HTTP.
    const { openLive } = await import('./live-opener.ts');
    return await openLive(this.#context, {
      ...{
        source,
        command: this.#command,
        mirror: this.mirrorIfAny(),
        rateLogBeside: this.#config.rateLogBeside,
      },
      wanted: {
        ...wanted,
        ...(against === undefined ? {} : { against }),
        ...(latest === undefined || latest.reference.run === against?.reference.run ? {} : { latest }),
      },
    });
  }
}

/** `wanted`, compared with `state` unless that is of another source, whose ids mean nothing here. */
function beside(state: LoadedState, source: string | null, wanted: Wanted): Wanted {
  const isOther = state.source !== null && state.source !== source;
  return isOther ? wanted : { ...wanted, against: state };
}

/** A function that lists the snapshots of the command's mirrors, to propose one; none of a mirror that cannot be read. */
export function snapshotNames(context: CommandContext): () => readonly string[] {
  return () => {
    try {
      const configs = mirrorConfigs(readLoadedConfig(context, context.options, 'unused'));
      return [...new Set(configs.flatMap((config) => namesIn(context, config)))];
    } catch {
      // The error about the reference, for which names are proposed, comes first.
      return [];
    }
  };
}

function namesIn(context: CommandContext, config: Config): string[] {
  try {
    using mirror = openConfiguredMirror(config, 'read', 'snapshots', context.pid);
    return mirror.snapshots.list().map(({ name }) => name);
  } catch {
    return [];
  }
}
