/** Warns if the mirror has the history of a source that is not configured, perhaps because it was renamed. */
import type { Config } from '../config/config.ts';
import type { Mirror } from '../mirror/mirror.ts';

/**
 * The warning if a source has no history yet while the mirror has that of a source which is not configured: probably it is the
 * same source, renamed, or started without its name (`TIDEMARK_NAME`) on a restored mirror. Null otherwise.
 */
export function otherSourcesNote(
  mirror: Mirror,
  { sources, configured }: Pick<Config, 'sources' | 'configured'>,
): { readonly source: string; readonly message: string; readonly next: string } | null {
  const held = mirror.runs.sources().filter((source) => mirror.runs.latest(source) !== undefined);
  const left = held.filter((source) => !configured.some(({ name }) => name === source));
  const [begun] = sources.filter(({ name }) => !held.includes(name));
  if (left.length === 0 || begun === undefined) return null;
  return {
    source: begun.name,
    message: `${begun.name} begins without history, and the mirror holds that of ${left.join(', ')}, which is not configured`,
    next: `if it is the same service, stop, and give the source its old name: \`name: ${left[0] ?? ''}\` in the configuration, or TIDEMARK_NAME=${left[0] ?? ''}`,
  };
}
