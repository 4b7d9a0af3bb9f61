/** The page with all cells: a table with search and filter, sorted by health. */
import { formatInteger, plural } from '../../core/wording.ts';
import {
  ageHtml,
  aheadHtml,
  badge,
  chipsHtml,
  emptyHtml,
  faint,
  nameHtml,
  section,
  tableHtml,
  type Tone,
} from '../../daemon/dashboard/components.ts';
import { type Html, markup, NOTHING, trusted } from '../../daemon/dashboard/html.ts';
import type { PageContent } from '../../daemon/dashboard/layout.ts';
import type { CellHealth, CellOverview, WorkerOverview } from '../registry/overview.ts';
import { driftText, HEALTH_TEXT, isWrong, lacksWorkers, problemOf } from './health.ts';

/** Most rows of the table; the search finds the others. */
const SHOWN = 200;

const TONES: Readonly<Record<CellHealth, Tone>> = {
  quarantined: 'bad',
  failing: 'bad',
  not_stored: 'bad',
  late: 'bad',
  new: 'warn',
  partial: 'warn',
  checked_out: 'plain',
  fine: 'good',
  retired: 'plain',
};

interface FleetPageFacts {
  /** Sorted by health, worst first. */
  readonly cells: readonly CellOverview[];
  readonly workers: readonly WorkerOverview[];
  readonly search: string;
  /** Shows only these; empty for all. */
  readonly statuses: readonly CellHealth[];
  readonly now: number;
}

export function fleetPage(facts: FleetPageFacts): PageContent {
  const { cells, workers, search, statuses } = facts;
  const wrong = cells.filter(isWrong).length;
  const text = search.toLowerCase();
  const found = cells.filter(
    (cell) =>
      (statuses.length === 0 || statuses.includes(cell.health)) &&
      [cell.name, cell.owner ?? '', cell.address].some((each) => each.toLowerCase().includes(text)),
  );
  const isSynced = !lacksWorkers(cells, workers);
  const state =
    cells.length === 0
      ? 'There are no cells yet.'
      : wrong === 0
        ? `All ${plural(cells.length, 'cell')} are fine${isSynced ? '' : ' as of their last run'}.`
        : `${formatInteger(wrong)} of ${plural(cells.length, 'cell')} ${wrong === 1 ? 'needs' : 'need'} a look.`;
  const verdict = isSynced ? state : `No worker is alive: no cell is synced. ${state}`;
  const body = markup`<h1>Fleet</h1><p class="verdict">${verdict}</p>
${filterHtml(facts)}
${cellsHtml(found, facts)}
${workersHtml(facts)}`;
  return { title: 'Fleet', body };
}

function filterHtml({ cells, search, statuses }: FleetPageFacts): Html {
  const present = [...Map.groupBy(cells, ({ health }) => health)];
  const chips = present.map(([health, own]): readonly [CellHealth, string] => [
    health,
    `${HEALTH_TEXT[health]} ${formatInteger(own.length)}`,
  ]);
  return markup`<form class="search" method="get" action="/" role="search" data-filter>
<label class="grow">Cell, owner or address<input type="search" name="q" value="${search}" autocomplete="off" maxlength="200"></label>
${chipsHtml('Status', 'status', chips, statuses)}
<noscript><button>Search</button></noscript></form>`;
}

function cellsHtml(found: readonly CellOverview[], { now }: FleetPageFacts): Html {
  if (found.length === 0)
    return emptyHtml('No cell fits.', 'Search for less, or `tidemark fleet apply FILE` adds cells.');
  const rows = found
    .slice(0, SHOWN)
    .map((cell) => [
      markup`${nameHtml(cell.name)}${cell.owner === null ? NOTHING : faint(' ', cell.owner)}`,
      badge(TONES[cell.health], HEALTH_TEXT[cell.health]),
      cell.publishedAt === null ? 'never' : markup`run ${cell.lastRun}, ${ageHtml(cell.publishedAt, now)}`,
      cell.dueAt === null || cell.state === 'checked_out'
        ? ''
        : cell.holder !== null
          ? markup`at work: ${cell.holder}`
          : aheadHtml(cell.dueAt, now),
      formatInteger(cell.records),
      driftText(cell),
      cell.checkoutHolder === null || isWrong(cell)
        ? problemOf(cell)
        : `checked out by ${cell.checkoutHolder}`,
    ]);
  const columns = [
    { head: 'Cell' },
    { head: 'Status' },
    { head: 'Published' },
    { head: 'Next', style: 'spare' },
    { head: 'Records', style: 'num spare' },
    { head: 'Drift', style: 'num' },
    { head: 'Problem', style: 'wide below' },
  ];
  const more =
    found.length > SHOWN
      ? markup`<p class="faint">${plural(found.length - SHOWN, 'more cell')}: search for them.</p>`
      : NOTHING;
  return section('cells', 'Cells', tableHtml('Cells', columns, rows), more);
}

function workersHtml({ workers, now }: FleetPageFacts): Html {
  if (workers.length === 0)
    return section('workers', 'Workers', emptyHtml('No worker.', 'Start one with `tidemark fleet work`.'));
  const rows = workers.map((worker) => [
    nameHtml(worker.name),
    worker.host,
    worker.version,
    formatInteger(worker.groups),
    !worker.isAlive ? badge('bad', 'silent') : worker.isDraining ? badge('plain', 'draining') : trusted(''),
    ageHtml(worker.seenAt, now),
  ]);
  const columns = [
    { head: 'Worker' },
    { head: 'Host' },
    { head: 'Version', style: 'spare' },
    { head: 'Jobs', style: 'num' },
    { head: '' },
    { head: 'Heard of' },
  ];
  return section('workers', 'Workers', tableHtml('Workers', columns, rows));
}
