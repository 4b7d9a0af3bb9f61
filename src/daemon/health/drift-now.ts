/**
 * Drift of a source now, by the same comparison and rules as the command line, cached until the baseline, the latest run, the acceptances
 * or the configuration change.
 */
import type { Config } from '../../config/config.ts';
import { maskedMessage } from '../../config/known-secrets.ts';
import { TidemarkError, asTidemarkError } from '../../core/errors.ts';
import { formatInteger, plural } from '../../core/wording.ts';
import { AuditLogContradicted } from '../../mirror/audited-rows.ts';
import { damagedMirror } from '../../mirror/database.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { type SourceDrift, driftBetween } from '../../state/drift.ts';
import { hiddenNewest, requireNewest } from '../../state/intact.ts';
import { openMirrorState } from '../../state/mirror-diff.ts';
import type { DaemonView } from '../view.ts';
import { resolvedStateOf } from '../../state/resolved-state.ts';
import { BASELINE, LATEST } from '../../state/reference.ts';
import { ACTIVITY_KINDS } from '../http/changes.ts';
import type { DriftProblem, FoundDrifts } from './drift-counts.ts';

/** The most changed records on a page or in a response; the command line streams any number. */
const MOST_CHANGES = 5_000;
/** The number of sources whose drift is cached. */
const KEPT = 16;
const WHY_LEFT_OUT = 'activity data; `tidemark drift --kind` compares it';

interface KeptDrift {
  readonly config: Config;
  readonly key: string;
  readonly drift: Promise<SourceDrift>;
}

interface FoundDamage {
  readonly message: string;
  readonly verify: number | undefined;
}

/** The most altered rows of runs that are named. */
const ROWS_NAMED = 3;

export class DriftNow {
  /** Least recently used first. */
  readonly #kept = new Map<string, KeptDrift>();
  /** By mirror and source: why it is damaged, and the latest verification at that time. */
  readonly #damaged = new WeakMap<Mirror, Map<string, FoundDamage>>();

  /**
   * The drift of a source; null without a baseline, or if nothing of the source was published.
   * @throws TooMuchChanged, and what a comparison throws
   */
  async of(mirror: Mirror, config: Config, source: string, now: number): Promise<SourceDrift | null> {
    const damaged = this.#damaged.get(mirror) ?? new Map<string, FoundDamage>();
    this.#damaged.set(mirror, damaged);
    try {
      const drift = await this.#find(mirror, config, source, now);
      if (drift !== null) damaged.delete(source);
      return drift;
    } catch (error) {
      const { code, message } = asTidemarkError(error);
      // If only what people recorded was changed, records and history may be intact.
      if (code === 'mirror_corrupt' && !(error instanceof AuditLogContradicted))
        damaged.set(source, {
          message: maskedMessage(message, config.knownSecrets),
          verify: lastVerification(mirror),
        });
      throw error;
    }
  }

  async #find(mirror: Mirror, config: Config, source: string, now: number): Promise<SourceDrift | null> {
    const baseline = mirror.snapshots.baseline();
    if (baseline === undefined) return null;
    requireNewest(mirror, source);
    const latest = mirror.runs.latest(source);
    if (latest === undefined) return null;
    const acceptances = mirror.acceptances.list(source);
    const ended = (until: string | undefined): boolean => until !== undefined && !(Date.parse(until) > now);
    const key = JSON.stringify([
      baseline,
      latest.run,
      latest.root,
      // Whether they differ from the audit log is found with the drift: it depends only on these rows and on the log.
      acceptances.map((acceptance) => [acceptance, ended(acceptance.until)]),
      mirror.lastEntry(),
      foundSince(mirror, source),
    ]);
    const kept = this.#kept.get(source);
    this.#kept.delete(source);
    const fits = kept !== undefined && kept.key === key && kept.config === config;
    const found: KeptDrift = fits ? kept : { key, config, drift: findDrift(mirror, config, source, now) };
    this.#kept.set(source, found);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT && oldest !== undefined) this.#kept.delete(oldest);
    try {
      return await found.drift;
    } catch (error) {
      // The damage, or another error, may be over the next time.
      if (this.#kept.get(source) === found && !(error instanceof TooMuchChanged)) this.#kept.delete(source);
      throw error;
    }
  }

  /**
   * Why the mirror is damaged: a newest run is hidden, rows of runs do not match their seals, or the latest comparison of a source found
   * damage, and neither another comparison nor a verification was made since. Null if it is not.
   */
  damage(mirror: Mirror): string | null {
    const [hidden] = mirror.runs.sources().flatMap((source) => hiddenNewest(mirror, source) ?? []);
    if (hidden !== undefined) return hidden.message;
    const altered = mirror.runs.alteredLines();
    if (altered.length > 0) {
      const more = altered.length - ROWS_NAMED;
      const others = more > 0 ? [`so it is with ${plural(more, 'more row')}`] : [];
      return damagedMirror(mirror.path, [...altered.slice(0, ROWS_NAMED), ...others].join('; ')).message;
    }
    const verify = lastVerification(mirror);
    const found = [...(this.#damaged.get(mirror)?.values() ?? [])];
    return found.find((each) => each.verify === verify)?.message ?? null;
  }

  /** As `ofAll`, of the configured sources. Empty if the mirror cannot be read: health says why. */
  async ofView(view: Pick<DaemonView, 'mirror' | 'config'>, now: number): Promise<FoundDrifts> {
    const config = view.config();
    let mirror: Mirror;
    try {
      mirror = view.mirror();
    } catch {
      return { drifts: [], problems: [] };
    }
    const names = config.sources.map(({ name }) => name);
    return this.ofAll(mirror, config, names, now);
  }

  /** The drift of each source, or why it could not be found. */
  async ofAll(mirror: Mirror, config: Config, sources: readonly string[], now: number): Promise<FoundDrifts> {
    const drifts: SourceDrift[] = [];
    const problems: DriftProblem[] = [];
    for (const source of sources) {
      try {
        const found = await this.of(mirror, config, source, now);
        if (found !== null) drifts.push(found);
      } catch (error) {
        const { message, hint } = asTidemarkError(error);
        const name = sources.length > 1 ? `${source}: ` : '';
        const what = hint === undefined ? '' : `; ${hint}`;
        const reason = `${name}${maskedMessage(message, config.knownSecrets)}`;
        const isTooMuch = error instanceof TooMuchChanged;
        problems.push({ source, cause: causeOf(error), reason, line: `${reason}${what}`, isTooMuch });
      }
    }
    return { drifts, problems };
  }
}

/** Too much changed to compare it for a page or a scrape. */
class TooMuchChanged extends TidemarkError {
  constructor(source: string, changes: number) {
    super(
      'usage',
      `about ${formatInteger(changes)} records changed since the baseline: too many to show here`,
      { hint: `\`tidemark drift --source ${source}\` shows them; set a newer baseline to compare less` },
    );
  }
}

/** Why there is no drift, in a few words. */
function causeOf(error: unknown): string {
  if (error instanceof TooMuchChanged) return 'too much changed';
  if (error instanceof AuditLogContradicted) return 'the baseline is not as the audit log has it';
  const { code } = asTidemarkError(error);
  if (code === 'mirror_corrupt') return 'the mirror is damaged';
  // The source was added later than the baseline, or retention dropped what it held then.
  return code === 'reference_unknown' ? 'no state as of the baseline' : 'the comparison failed';
}

function lastVerification(mirror: Mirror): number | undefined {
  return mirror.daemon.jobs({ name: 'verify', limit: 1 })[0]?.job;
}

/** Part of the cache's key: changes if a job may have met damage that an earlier comparison did not, and that the cache would hide. */
function foundSince(mirror: Mirror, source: string): readonly unknown[] {
  const [verify] = mirror.daemon.jobs({ name: 'verify', limit: 1 });
  const [drift] = mirror.daemon.jobs({ name: 'drift', source, limit: 1 });
  return [verify?.job, verify?.outcome, drift?.outcome === 'failed' ? drift.job : null];
}

async function findDrift(mirror: Mirror, config: Config, source: string, now: number): Promise<SourceDrift> {
  const [from, to] = [
    resolvedStateOf(mirror, BASELINE, { source }),
    resolvedStateOf(mirror, LATEST, { source }),
  ];
  const changes = mirror.runs.countChangesBetween({
    source,
    after: Math.min(from.run, to.run),
    upTo: Math.max(from.run, to.run),
    exceptKinds: ACTIVITY_KINDS,
  });
  if (changes > MOST_CHANGES) throw new TooMuchChanged(source, changes);
  return driftBetween(
    config,
    mirror,
    { from: openMirrorState(mirror, source, from), to: openMirrorState(mirror, source, to) },
    true,
    { source, filter: {}, mode: 'default', fields: [], now, whyLeftOut: WHY_LEFT_OUT },
  );
}
