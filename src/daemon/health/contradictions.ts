/** What people recorded and another program altered since, as far as that is found in milliseconds: each health check looks for it. */
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { contradictionText } from '../../report/drift-document.ts';
import { alteredLogLines } from '../../state/intact.ts';
import { repairHintToName } from '../jobs/verify-result.ts';
import type { HealthFacts } from './facts.ts';

/** Acceptances and snapshots that differ from the audit log, and an audit log that was altered. */
export function contradictionsOf(config: Config, mirror: Mirror): HealthFacts['contradictions'] {
  const accepted = [
    ...mirror.acceptances
      .checked()
      .flatMap(
        (acceptance) =>
          contradictionText(acceptance, acceptance.source, definitionsFor(config, acceptance.source)) ?? [],
      ),
    ...mirror.acceptances.unreadable(),
  ];
  const pinned = mirror.snapshots.contradictions();
  const rows = [...accepted, ...pinned.map(({ line }) => line)];
  // Empty if one of the rows above says it already.
  const log = alteredLogLines(mirror, rows);
  const tables = [
    ...log.map(() => ({})),
    ...accepted.map(() => ({ about: 'acceptances' }) as const),
    ...pinned.map(({ again }) => ({ about: 'snapshots', ...(again === null ? {} : { again }) }) as const),
  ];
  return {
    lines: [...log, ...rows],
    hint: `\`tidemark verify\` names everything that does not match the audit log; ${repairHintToName(tables)}`,
  };
}
