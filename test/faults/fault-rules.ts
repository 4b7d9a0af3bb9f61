/** What a fault proxy does to which request. Pure but for counting. */
import { seededRandom } from './seeded-random.ts';

export type Fault =
  /** Answers by itself; the origin never sees the request. */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly body?: unknown;
      readonly headers?: Readonly<Record<string, string>>;
    }
  | { readonly kind: 'redirect'; readonly location: string; readonly status?: number }
  /** Resets the connection before the origin sees the request. */
  | { readonly kind: 'reset' }
  /** Lets the origin act, then resets: the client cannot know what happened. */
  | { readonly kind: 'reset-after' }
  /** Never answers. */
  | { readonly kind: 'hang' }
  /** Holds the request back until the gate opens, then passes it on; `reached` is called when one came. */
  | { readonly kind: 'gate'; readonly until: Promise<void>; readonly reached?: () => void }
  /** Ends the connection after that many bytes of the origin's body. */
  | { readonly kind: 'cut'; readonly afterBytes: number }
  /** The origin's status with another body. */
  | { readonly kind: 'replace'; readonly body: string; readonly contentType?: string }
  /** The origin's JSON, changed. Numbers pass through doubles: not for tests of exactness. */
  | { readonly kind: 'rewrite'; readonly json: (body: unknown, path: string) => unknown }
  /** Asks the origin for at most that many rows. */
  | { readonly kind: 'cap'; readonly rows: number }
  /** Asks the origin for another place: > 0 leaves rows out, < 0 repeats some. Not for the first page. */
  | { readonly kind: 'shift'; readonly rows: number }
  /** Answers with what the origin gave for the list's first page. */
  | { readonly kind: 'first-page' };

export interface FaultRule {
  readonly method?: string;
  /** Matched against path and query as sent. */
  readonly path?: RegExp;
  /** Which of the requests that method and path match, counted from 1; all by default. */
  readonly nth?: number | readonly number[];
  /** Chance per request that is matched so far, from the seeded random. */
  readonly probability?: number;
  readonly fault: Fault;
}

/** Picks the first rule that matches a request. */
export function createRuleBook(seed: number): {
  set(rules: readonly FaultRule[]): void;
  pick(method: string, path: string): Fault | null;
} {
  const random = seededRandom(seed);
  let rules: { readonly rule: FaultRule; matched: number }[] = [];
  return {
    set: (next) => (rules = next.map((rule) => ({ rule, matched: 0 }))),
    pick: (method, path) => {
      let picked: Fault | null = null;
      for (const entry of rules) {
        const { rule } = entry;
        if (rule.method !== undefined && rule.method !== method) continue;
        if (rule.path !== undefined && !rule.path.test(path)) continue;
        entry.matched += 1;
        if (picked !== null) continue;
        const nth = rule.nth === undefined ? null : [rule.nth].flat();
        if (nth !== null && !nth.includes(entry.matched)) continue;
        if (rule.probability !== undefined && random() >= rule.probability) continue;
        picked = rule.fault;
      }
      return picked;
    },
  };
}

/** Changes members of a list's envelope. */
export function withEnvelope(members: Readonly<Record<string, unknown>>): Fault {
  return {
    kind: 'rewrite',
    json: (body) =>
      typeof body === 'object' && body !== null && 'results' in body ? { ...body, ...members } : body,
  };
}
