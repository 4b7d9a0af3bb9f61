/** `${VAR}` in configuration texts. */

export type Environment = Readonly<Record<string, string | undefined>>;

type Interpolated =
  | { readonly isPlain: true; readonly value: string }
  | { readonly isPlain: false; readonly value: string; readonly variables: readonly string[] }
  /** `isUnset`: nothing but variables that are not set. */
  | { readonly mistake: string; readonly isUnset: boolean };

/**
 * Replaces each `${VAR}` by the variable's value; `$${` stands for `${`. Values are not looked at again, so a value
 * that holds `${` stays as it is. A variable that is not set, or a name that is none, is a mistake.
 * @param needsText true where an empty variable counts as not set: a secret that is empty, or has a hole, is none
 */
export function interpolate(text: string, env: Environment, needsText = false): Interpolated {
  const variables: string[] = [];
  const mistakes: string[] = [];
  let isUnset = true;
  const value = text.replace(
    /(\$?)\$\{([^}]*)(\}?)/g,
    (match, escape: string, name: string, close: string) => {
      if (escape !== '') return match.slice(1);
      if (close === '' || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
        isUnset = false;
        mistakes.push('expected ${NAME} with letters, digits and _ (write $${ for a plain ${)');
        return '';
      }
      variables.push(name);
      const set = Object.hasOwn(env, name) ? env[name] : undefined;
      if (set === undefined) mistakes.push(`\${${name}} is not set in the environment`);
      else if (set === '' && needsText) mistakes.push(`\${${name}} is empty in the environment`);
      return set ?? '';
    },
  );
  if (mistakes.length > 0) return { mistake: [...new Set(mistakes)].join('; '), isUnset };
  return variables.length === 0 ? { isPlain: true, value } : { isPlain: false, value, variables };
}
