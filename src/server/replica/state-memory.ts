/** The states that were asked for last: what was found out about one holds as long as it is asked for. */
import type { ReplicaState } from './replica-state.ts';

/** A dashboard on the latest state beside a few walks through earlier ones. */
const STATES = 4;

export class StateMemory {
  /** The one that was asked for longest ago stands first. */
  readonly #states = new Map<string, ReplicaState>();

  /** @param key names the content: the root that seals the state, and how it is read */
  take(key: string, read: () => ReplicaState): ReplicaState {
    const state = this.#states.get(key) ?? read();
    this.#states.delete(key);
    this.#states.set(key, state);
    const [oldest] = this.#states.keys();
    if (this.#states.size > STATES && oldest !== undefined) this.#states.delete(oldest);
    return state;
  }
}
