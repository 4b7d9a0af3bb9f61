/** A plan, or the result of a restore, with ids that are secrets and secrets of URLs masked everywhere. */
import { cached } from '../core/cached.ts';
import { defined } from '../core/defined.ts';
import { pointerTo, splitPointer } from '../core/json-pointer.ts';
import type { Plan, PlanStep } from '../restore/plan/plan.ts';
import type { RestoreReport } from '../restore/apply/report.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { MemberNames, shownText } from '../catalog/masks.ts';
import { isRawNumber } from '../core/json.ts';
import { isSecretId, maskedId } from './mask.ts';
import type { ReportOptions } from './options.ts';

const UUID = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;
/** Most ids are one such word: a text is searched once, however many ids there are. */
const WORD = /[\w-]+/g;

/**
 * The plan for output, with secret ids masked everywhere (in steps, in records that were found under another id, in names and
 * in reasons), and without the secrets of URLs. It cannot be applied.
 */
export function maskedPlan<T extends Plan>(plan: T, definitions: ReportOptions['definitions']): T {
  const ids = new SecretIds(definitions);
  for (const { kind, desired_id: from, live_id: to } of plan.adopted) ids.add(kind, from, to);
  for (const step of plan.steps) {
    const { kind, id, precondition, desired, request } = step;
    ids.add(kind, id, desired?.id, precondition?.state === 'present' ? precondition.id : undefined);
    ids.addNamed(step);
    if (request === null) continue;
    const { idParameter } = definitions(request.kind);
    const parameter = request.parameters.find(({ name }) => name === idParameter);
    if (parameter !== undefined && 'value' in parameter) ids.add(request.kind, parameter.value);
  }
  return ids.maskedIn({ ...plan, steps: plan.steps.map((step) => withNumberedPlaces(step, definitions)) });
}

/** The step with masked places of its fields: places that only differ in a secret are numbered. */
function withNumberedPlaces<T extends Pick<PlanStep, 'kind' | 'fields' | 'accepted' | 'ignored' | 'kept'>>(
  step: T,
  definitions: ReportOptions['definitions'],
): T {
  const definition = definitions(step.kind);
  const names = new MemberNames(definition);
  const shown = (place: string): string => {
    if (shownText(place, definition) === place) return place;
    const segments = splitPointer(place);
    return pointerTo(segments.map((name, index) => names.shown(name, pointerTo(segments.slice(0, index)))));
  };
  const places = <P extends { readonly path: string }>(list: readonly P[] | undefined): P[] | undefined =>
    list?.map((each) => ({ ...each, path: shown(each.path) }));
  return {
    ...step,
    fields: step.fields.map((field) => ({
      ...field,
      path: shown(field.path),
      ...defined({
        from_path: field.from_path && shown(field.from_path),
        place: field.place && shown(field.place),
      }),
    })),
    ...defined({
      accepted: places(step.accepted),
      ignored: places(step.ignored),
      kept: places(step.kept),
    }),
  };
}

/** The report with secret ids and secrets of URLs masked, also in messages of the service. */
export function maskedRestore<T extends Pick<RestoreReport, 'steps'>>(
  report: T,
  definitions: ReportOptions['definitions'],
): T {
  const ids = new SecretIds(definitions);
  for (const step of report.steps) {
    ids.add(step.kind, step.id);
    ids.addNamed(step);
    ids.add(step.new_kind ?? step.kind, step.new_id);
  }
  return ids.maskedIn(report);
}

/** Secret ids, with the marks that replace them. */
class SecretIds {
  readonly #definitions: ReportOptions['definitions'];
  readonly #kinds: ReadonlySet<Kind>;
  readonly #marks = new Map<string, string>();

  constructor(definitions: ReportOptions['definitions']) {
    this.#definitions = definitions;
    this.#kinds = new Set(KINDS.filter((kind) => isSecretId(definitions(kind))));
  }

  add(kind: Kind, ...ids: readonly (string | null | undefined)[]): void {
    if (!this.#kinds.has(kind)) return;
    for (const id of ids) if (id) this.#marks.set(id, maskedId(id, this.#definitions(kind)));
  }

  /** Adds the ids in a reason: it may name records without a step, such as those of the same name. */
  addNamed({ kind, reason, scope }: Pick<PlanStep, 'kind' | 'reason' | 'scope'>): void {
    if (reason === null || this.#definitions(kind).idType !== 'uuid') return;
    const parents = Object.values<string | undefined>(scope);
    const named = [...reason.matchAll(UUID)].map(([id]) => id);
    this.add(kind, ...named.filter((id) => !parents.includes(id)));
  }

  /** The value with these ids replaced by their marks, and without secrets of URLs, in every text of it; numbers keep every digit. */
  maskedIn<T>(value: T): T {
    const marked = marker(this.#marks);
    // Any kind: all definitions have the secrets of the configuration.
    const any = this.#definitions('organizations');
    // A large plan repeats most of its texts, and all names of its members.
    const shownTexts = new Map<string, string>();
    const shown = (text: string): string =>
      cached(shownTexts, text, () => shownText(this.#marks.size === 0 ? text : marked(text), any));
    const plainNames = new Map<string, boolean>();
    const isPlain = (name: string): boolean => cached(plainNames, name, () => shownText(name, any) === name);
    const replaced = (here: unknown): unknown => {
      if (typeof here === 'string') return shown(here);
      if (Array.isArray(here)) return here.map(replaced);
      if (here === null || typeof here !== 'object' || isRawNumber(here)) return here;
      const names = new MemberNames(any);
      return Object.fromEntries(
        Object.entries(here).map(([name, member]) => [
          isPlain(name) ? name : names.shown(name),
          replaced(member),
        ]),
      );
    };
    return replaced(value) as T;
  }
}

/** Returns a function that replaces ids in a text by their marks. */
function marker(marks: ReadonlyMap<string, string>): (text: string) => string {
  const byWord = new Map<string, string>();
  const others: [string, string][] = [];
  for (const [id, mark] of marks) {
    for (const written of new Set([id, encodeURIComponent(id)])) {
      if (/^[\w-]+$/.test(written)) byWord.set(written, mark);
      else others.push([written, mark]);
    }
  }
  return (text) => {
    let shown = text.replace(WORD, (word) => byWord.get(word) ?? word);
    for (const [written, mark] of others) shown = shown.replaceAll(written, () => mark);
    return shown;
  };
}
