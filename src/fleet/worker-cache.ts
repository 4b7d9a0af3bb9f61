/** The cache directory of a worker: for each group, the mirrors of its cells and the log of its requests. */
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../core/clock.ts';
import { exportRateLog, mergeRateLog, type RateLogState } from '../mirror/rate-log.ts';
import { removeCached } from './cell-mirror.ts';
import type { CellOrder } from './cell.ts';
import type { CellPlace } from './registry/registry.ts';

/** The end of the name of a cell's mirror. */
const MIRROR_END = '.db';

/** The paths of the files of a cell; see `CellOrder`. */
export function cachedFiles(
  cache: string,
  group: number,
  cell: string,
): Pick<CellOrder, 'mirror' | 'configFile' | 'rateLog'> {
  const directory = join(cache, String(group));
  const file = encodeURIComponent(cell);
  return {
    mirror: join(directory, `${file}${MIRROR_END}`),
    configFile: join(directory, `${file}.yaml`),
    rateLog: join(directory, 'group'),
  };
}

/**
 * The requests of a group that its processes recorded; null if there are none.
 * @param before the rate log that the previous holder left, with ages as of now
 */
export function cachedRequests(
  cache: string,
  group: number,
  before: RateLogState | null,
  clock: Clock,
): RateLogState | null {
  if (!existsSync(join(cache, String(group)))) return null;
  const { rateLog } = cachedFiles(cache, group, '');
  if (before !== null) mergeRateLog(rateLog, before, clock);
  return exportRateLog(rateLog, clock);
}

/**
 * Removes mirrors of cells that were retired or have another key, if storage has them.
 * @param placesOf as `Registry.placesOf`
 * @param isAtWork whether this worker is working on a group
 * @returns the names of the cells
 */
export async function cleanCache(
  cache: string,
  placesOf: (names: readonly string[]) => Promise<readonly CellPlace[]>,
  isAtWork: (group: number) => boolean,
): Promise<readonly string[]> {
  const cached = readdirSync(cache, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /^\d+$/.test(entry.name))
    .flatMap(({ name: group }) =>
      readdirSync(join(cache, group))
        .filter((file) => file.endsWith(MIRROR_END))
        .map((file) => ({
          group: Number(group),
          name: decodeURIComponent(file.slice(0, -MIRROR_END.length)),
        })),
    );
  if (cached.length === 0) return [];
  const places = new Map(
    (await placesOf(cached.map(({ name }) => name))).map((place) => [place.name, place]),
  );
  return cached.flatMap(({ group, name }) => {
    const place = places.get(name);
    const isNeeded = place?.isRetired === false && place.group === group;
    if (place?.isStored !== true || isNeeded || isAtWork(group)) return [];
    const { mirror, configFile } = cachedFiles(cache, group, name);
    removeCached(mirror);
    rmSync(configFile, { force: true });
    const directory = join(cache, String(group));
    if (!readdirSync(directory).some((each) => each.endsWith(MIRROR_END)))
      rmSync(directory, { recursive: true });
    return [name];
  });
}
