/** A word as a shell's user typed it. */

/**
 * What the word means without its quotes and backslashes; a quote that is still open ends with the word. Nothing in it is
 * carried out: variables and substitutions stay as they are.
 */
export function unquoted(word: string): string {
  let text = '';
  let quote = '';
  for (let at = 0; at < word.length; at += 1) {
    const character = word.charAt(at);
    if (character === quote) quote = '';
    else if (quote === '' && (character === '"' || character === "'")) quote = character;
    else if (character === '\\' && quote !== "'") {
      const next = word.charAt((at += 1));
      // Between double quotes a backslash stands for itself, but before these.
      text += quote === '' || '"\\$`'.includes(next) ? next : `\\${next}`;
    } else text += character;
  }
  return text;
}

/** A path with the `~/` that the shell would have replaced. */
export function withHome(path: string, home: string | undefined): string {
  return home !== undefined && path.startsWith('~/') ? `${home}${path.slice(1)}` : path;
}
