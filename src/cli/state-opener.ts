/** Opens the states that references name, for commands: the mirror once, exports, and live with its progress. */
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
import { readExport } from '../state/export-state.ts';
import { openMirrorState } from '../state/mirror-diff.ts';
import { readNamed } from '../state/named-organizations.ts';
import { resolvedStateOf } from '../state/resolved-state.ts';
import type { ReportOptions } from '../report/options.ts';
import { LATEST, type Reference } from '../state/reference.ts';
import { relativeTo } from '../state/export-state.ts';
import type { LoadedState } from '../state/state.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import { printNote, type CommandContext } from './context.ts';
import type { Wanted } from './live-opener.ts';
import { openForReading } from './verification-note.ts';
import { fingerprintsName } from '../sync/redaction.ts';

/** References to states of the mirror: all but `live` and `file:`. */
export function isOfMirror({ form }: Reference): boolean {
  return form !== 'live' && form !== 'file';
}

export class StateOpener {
  readonly #context: CommandContext;
  readonly #config: Config;
  readonly #command: string;
  readonly #said = new Set<string>();
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

  /** The mirror if there is one: it knows names of parents and the last hour's requests, which are useful, not needed. */
  mirrorIfAny(): Mirror | null {
    try {
      return this.mirror();
    } catch (error) {
      if (error instanceof TidemarkError && error.code === 'mirror_missing') return null;
      throw error;
    }
  }

  /**
   * Opens both sides; live last, so that whatever is wrong with the other is said before the service is asked. `source`
   * is null where no source is needed.
   * @param other opens `to`: of another mirror
   */
  async openPair(
    from: { readonly reference: Reference; readonly source: string | null },
    to: { readonly reference: Reference; readonly source: string | null },
    wanted: Wanted,
    other: StateOpener = this,
  ): Promise<{ from: LoadedState; to: LoadedState }> {
    const pair = await this.#openBoth(from, to, wanted, other);
    return {
      from: this.#besideSecrets(relativeTo(pair.from, pair.to, wanted.filter), pair.to),
      to: this.#besideSecrets(relativeTo(pair.to, pair.from, wanted.filter), pair.from),
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

  async #openBoth(
    from: { readonly reference: Reference; readonly source: string | null },
    to: { readonly reference: Reference; readonly source: string | null },
    wanted: Wanted,
    other: StateOpener,
  ): Promise<{ from: LoadedState; to: LoadedState }> {
    if (from.reference.form !== 'live') {
      const opened = await this.open(from.reference, from.source, wanted);
      return { from: opened, to: await other.#openOther(opened, to, wanted) };
    }
    const opened = await other.open(to.reference, to.source, wanted);
    return { from: await this.#openOther(opened, from, wanted), to: opened };
  }

  /** The other side. An organization that the user named may be gone from it, or have another id there by now. */
  async #openOther(
    opened: LoadedState,
    { reference, source }: { readonly reference: Reference; readonly source: string | null },
    wanted: Wanted,
  ): Promise<LoadedState> {
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

  /** One state; this opener closes it. */
  async open(reference: Reference, source: string | null, wanted: Wanted): Promise<LoadedState> {
    const state = await this.#opened(reference, source, wanted);
    this.#states.push(state);
    return state;
  }

  /** Finds the file of a record that the open states have from an export (`ReportOptions.fileOf`). */
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
  close(): void {
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
    if (resolvedState.note !== undefined && !this.#said.has(resolvedState.note)) {
      this.#said.add(resolvedState.note);
      printNote(this.#context, [resolvedState.note]);
    }
    return openMirrorState(this.mirror(), source, resolvedState);
  }

  /** What puts the secrets of an export back that the mirror's key made fingerprints of; null for another key's. */
  #secretsOf(source: string | null, made: string): ReturnType<typeof secretsFrom> | null {
    const mirror = this.mirrorIfAny();
    if (mirror === null || made !== fingerprintsName(mirror.acceptances.fingerprintKey())) return null;
    const name = source ?? this.#config.sources[0]?.name ?? '';
    return secretsFrom(mirror, name, definitionsFor(this.#config, name));
  }

  /** A list that leaves a record out is found out by who knows of the record. */
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
    // Loaded here: a comparison of what the mirror holds needs no HTTP.
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

/** Another source's ids say nothing of this one's. */
function beside(state: LoadedState, source: string | null, wanted: Wanted): Wanted {
  const isOther = state.source !== null && state.source !== source;
  return isOther ? wanted : { ...wanted, against: state };
}

/** The names of the snapshots of the mirrors that the command may be about, to propose one: none of a mirror that cannot be read. */
export function snapshotNames(context: CommandContext): () => readonly string[] {
  return () => {
    try {
      const configs = mirrorConfigs(readLoadedConfig(context, context.options, 'unused'));
      return [...new Set(configs.flatMap((config) => namesIn(context, config)))];
    } catch {
      // The mistake that is being reported comes first: it is the reference.
      return [];
    }
  };
}

function namesIn(context: CommandContext, config: Config): string[] {
  try {
    const mirror = openConfiguredMirror(config, 'read', 'snapshots', context.pid);
    try {
      return mirror.snapshots.list().map(({ name }) => name);
    } finally {
      mirror.close();
    }
  } catch {
    return [];
  }
}
