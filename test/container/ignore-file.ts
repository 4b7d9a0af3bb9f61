/** What a `.dockerignore` leaves out: the last pattern that matches a path, or a directory above it, decides. */

export function ignoredBy(text: string): (path: string) => boolean {
  const rules = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => ({
      isException: line.startsWith('!'),
      matches: expression(line.replace(/^!/, '').replace(/^\/|\/$/g, '')),
    }));
  return (path) => {
    const parts = path.split('/');
    const prefixes = parts.map((_part, index) => parts.slice(0, index + 1).join('/'));
    const rule = rules.findLast(({ matches }) => prefixes.some((prefix) => matches.test(prefix)));
    return rule !== undefined && !rule.isException;
  };
}

function expression(pattern: string): RegExp {
  const source = pattern.replaceAll(/\*\*\/?|[*?]|[.+^${}()|[\]\\]/g, (special) => {
    if (special.startsWith('**')) return '.*';
    if (special === '*') return '[^/]*';
    return special === '?' ? '[^/]' : `\\${special}`;
  });
  return new RegExp(`^${source}$`);
}
