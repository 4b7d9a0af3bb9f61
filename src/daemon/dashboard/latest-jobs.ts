/** The latest job of each name, on the overview. */
import { JOB_NAMES } from '../../mirror/daemon-store.ts';
import type { HealthSnapshot } from '../health/health-facts.ts';
import { isUnreadable } from '../health/status-answers.ts';
import {
  ageHtml,
  tookText,
  emptyHtml,
  faint,
  nameHtml,
  outcomeBadge,
  section,
  tableHtml,
} from './components.ts';
import type { Html } from './html.ts';

/** @param owner the source whose own mirror it is */
export function jobsSection(snapshot: HealthSnapshot, owner: string | null): Html {
  const { lastJobs, now } = snapshot;
  const rows = JOB_NAMES.flatMap((name) =>
    lastJobs.of(name).map((job) => {
      const source = job.source ?? owner;
      return [
        source === null ? name : [name, ' ', faint(nameHtml(source))],
        outcomeBadge(job.outcome),
        ageHtml(job.finishedAt ?? job.startedAt, now),
        tookText(job),
      ];
    }),
  );
  const columns = [
    { head: 'What', style: 'wraps' },
    { head: 'Outcome' },
    { head: 'When' },
    { head: 'Took', style: 'num spare' },
  ];
  const empty = isUnreadable(snapshot)
    ? emptyHtml('Not known.', 'The mirror, which records them, cannot be read.')
    : emptyHtml('Nothing done yet.', 'The latest jobs of the daemon appear here.');
  const content = rows.length === 0 ? empty : tableHtml('Latest jobs', columns, rows);
  return section('done', 'Recent jobs', content);
}
