/** The configuration that `init` writes: commented, with the key by reference. Pure. */
import type { Kind } from '../catalog/definition.ts';

export interface ConfigChoices {
  readonly name: string;
  readonly url: string;
  readonly key: KeyReference;
  readonly profile: string;
  /** Null for a sync that somebody else starts. */
  readonly syncCron: string | null;
  /** Kinds to leave out. */
  readonly excluded: readonly Kind[];
}

export type KeyReference =
  { readonly by: 'variable'; readonly name: string } | { readonly by: 'file'; readonly path: string };

/** YAML text. JSON's quoting is YAML's, so that no answer can be anything but a text. */
export function configText({ name, url, key, profile, syncCron, excluded }: ConfigChoices): string {
  const quoted = (text: string): string => JSON.stringify(text);
  const keyLine = key.by === 'variable' ? `apiKey: \${${key.name}}` : `apiKeyFile: ${quoted(key.path)}`;
  const kinds =
    excluded.length === 0
      ? '# kinds: { exclude: [session_recordings, recording_sharing] }'
      : `kinds: { exclude: [${excluded.join(', ')}] }`;
  return `# What Tidemark mirrors, from where, and when. \`tidemark config check\` tells how it is understood;
# docs/configuration.md and config/example.yaml have every option.

# The copy: one SQLite file. Relative paths start at the directory of this file.
mirror: ./data/mirror.db

sources:
  - name: ${quoted(name)}
    baseUrl: ${quoted(url)}
    # The key itself stands elsewhere, never in this file.
    ${keyLine}
    # What is known about the deployment: svc (the interface as documented), posthog, or the path of a file.
    profile: ${quoted(profile)}
    # All that the key sees, or lists of ids.
    organizations: all
    projects: all
    # Kinds that are not mirrored; \`tidemark catalog\` lists all of them.
    ${kinds}
    # Requests: the profile's limits. A service without limits is read faster with 0.
    # rate: { perMinute: 480, perHour: 4800, concurrency: 4 }

# What \`tidemark daemon\` does when; cron instead of the daemon reads none of it.
schedules:
  sync: { cron: ${quoted(syncCron ?? 'off')}, zone: UTC, jitter: 60s }
  # Compares with the baseline, once one is set: \`tidemark snapshots baseline NAME\`.
  drift: { cron: "0 7 * * *", zone: UTC }
  verify: { cron: "0 3 * * 0", zone: UTC }

# History that is kept; without these lines all of it is.
# retention: { keepLast: 48, keepDaily: 30, keepWeekly: 12, keepMonthly: 24 }

# A copy of the mirror in another place, once a day. The directory has to exist.
# copies: { directory: /var/backups/tidemark }
`;
}
