/** A value that must not be seen: prints, logs and serialises as `[secret]`, and is only read by `reveal()`. */
import { inspect } from 'node:util';

export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** The value itself. Called where it is sent, nowhere else. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return '[secret]';
  }

  toJSON(): string {
    return '[secret]';
  }

  [inspect.custom](): string {
    return '[secret]';
  }
}

/** A secret of fewer characters occurs in other texts by chance. */
export const LEAST_CHARACTERS = 8;

/** True for a text that holds one of these secrets. */
export function holdsSecret(text: string, secrets: readonly Secret[]): boolean {
  return secrets.some((secret) => {
    const value = secret.reveal();
    return value.length >= LEAST_CHARACTERS && text.includes(value);
  });
}

/** Finds any of many secrets in texts, at the cost of one search. */
export class SecretSearch {
  readonly #pattern: RegExp;

  /** @param secrets at least one, none of them empty */
  constructor(secrets: readonly Secret[]) {
    // One may be a part of another.
    const longestFirst = secrets
      .map((secret) => secret.reveal())
      .sort((one, other) => other.length - one.length);
    this.#pattern = new RegExp(longestFirst.map((text) => RegExp.escape(text)).join('|'), 'g');
  }

  /** The text with the mask in place of each. */
  masked(text: string, mask: string): string {
    return text.replace(this.#pattern, () => mask);
  }
}
