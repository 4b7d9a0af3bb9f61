/** The sources that a mirror holds, whatever the configuration names today. */
import type { Config } from '../config/config.ts';
import type { Mirror } from '../mirror/mirror.ts';

/** The configured sources; without any, a command that only reads the mirror takes what the mirror holds. */
export function sourcesToRead(config: Config, mirror: Mirror): string[] {
  return config.sources.length > 0 ? config.sources.map(({ name }) => name) : mirror.sources();
}
