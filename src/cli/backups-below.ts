/** Backups in places below a target: each mirror of a single source has its own place there. */
import { ANSWERS_MS, answered } from '../backup/work.ts';
import type { Backup } from '../backup/list.ts';
import type { BackupTarget } from '../backup/targets/target.ts';
import { isS3Address } from '../config/backup-target.ts';
import { systemClock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { formatInteger } from '../core/wording.ts';

const PLACES_SHOWN = 20;

/**
 * Looks for backups in places below targets that have none themselves.
 * @param address as the user gave it; null for that of the target
 * @param hint what to do with the address of such a place
 * @returns `reference_unknown`, which lists these places; null if there is none
 */
export async function backupsBelow(
  targets: readonly BackupTarget[],
  address: string | null,
  hint: (place: string) => string,
): Promise<TidemarkError | null> {
  for (const target of targets) {
    const names = (await placesBelow(target)).map(({ name }) => name);
    const [first] = names;
    if (first === undefined) continue;
    return new TidemarkError(
      'reference_unknown',
      `there is no backup in ${target.address} itself, but in these places below it, one for each source: ${namesText(names)}`,
      { hint: `${hint(placeAddress(target, address, first))} of ${first}` },
    );
  }
  return null;
}

/**
 * Looks below targets for newer backups of the sources in their newest one: there are some if `mirror move` has since given each
 * source its own mirror. Parameters and result as for `backupsBelow`.
 */
export async function newerBelow(
  targets: readonly { readonly target: BackupTarget; readonly newest: Backup }[],
  address: string | null,
  hint: (place: string) => string,
): Promise<TidemarkError | null> {
  for (const { target, newest } of targets) {
    const sources = new Set(newest.manifest?.sources.map(({ source }) => source));
    const places = (await placesBelow(target)).filter(
      ({ name, newestAt }) => sources.has(name) && Date.parse(newestAt) > Date.parse(newest.madeAt),
    );
    const [first] = places;
    if (first === undefined) continue;
    return new TidemarkError(
      'reference_unknown',
      `${newest.name} is the newest backup in ${target.address} itself, but there are newer ones in these places below it, one for each source: ${namesText(places.map(({ name }) => name))}`,
      {
        hint: `${hint(placeAddress(target, address, first.name))} of ${first.name}; the older one can be named: ${newest.path}`,
      },
    );
  }
  return null;
}

async function placesBelow(target: BackupTarget) {
  return await answered(target, target.placesBelow(), ANSWERS_MS, systemClock);
}

function placeAddress(target: BackupTarget, address: string | null, name: string): string {
  const given = address ?? target.address;
  const [path = '', query] = isS3Address(given) ? given.split('?', 2) : [given];
  return `${path.replace(/\/+$/, '')}/${name}${query === undefined ? '' : `?${query}`}`;
}

function namesText(names: readonly string[]): string {
  const more = names.length - PLACES_SHOWN;
  return `${names.slice(0, PLACES_SHOWN).join(', ')}${more > 0 ? ` and ${formatInteger(more)} more` : ''}`;
}
