/**
 * The files that a configuration was read from, to detect that it may have changed, and one hash of their contents, by which
 * two configurations are distinguished.
 */
import { createHash } from 'node:crypto';

export class FilesRead {
  readonly #contents = new Map<string, string>();

  /**
   * @param path absolute
   * @param content what was taken from it, or why nothing was; kept as a hash
   */
  note(path: string, content: string): void {
    this.#contents.set(path, createHash('sha256').update(content).digest('hex'));
  }

  paths(): string[] {
    return [...this.#contents.keys()];
  }

  /** @param variables name and value of each variable of the environment that the configuration depends on */
  digest(variables: readonly (readonly [string, string | undefined])[]): string {
    const all = [[...this.#contents], variables.toSorted(([one], [other]) => (one < other ? -1 : 1))];
    return createHash('sha256').update(JSON.stringify(all)).digest('hex');
  }
}
