/** The latest job of each name, on the overview. */
import { JOB_NAMES } from '../../mirror/daemon-store.ts';
import { type HealthSnapshot } from '../health/health-facts.ts';
import { isUnreadable } from '../health/status-answers.ts';
import { tookMs } from '../http/wording.ts';
import {
  ageHtml,
  durationHtml,
  emptyHtml,
  faint,
  nameHtml,
  outcomeBadge,
  section,
  tableHtml,
} from './components.ts';
import { type Html, markup, NOTHING } from './html.ts';

/** @param owner the source whose own mirror it is */
export function jobsSection(snapshot: HealthSnapshot, owner: string | null): Html {
  const { lastJobs, now } = snapshot;
  const rows = JOB_NAMES.flatMap((name) =>
    lastJobs
      .of(name)
      .map((job) => [
        jobHtml(name, job.source ?? owner),
        outcomeBadge(job.outcome),
        ageHtml(job.finishedAt ?? job.startedAt, now),
        durationHtml(tookMs(job)),
      ]),
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
  return section('done', 'Recent jobs', NOTHING, content);
}

function jobHtml(name: string, source: string | null): Html {
  return markup`${name} ${source === null ? NOTHING : faint(nameHtml(source))}`;
}
