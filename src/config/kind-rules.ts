/** Which kinds of a source are mirrored: contradictions are mistakes, and what an exclusion takes along is said. */
import { CATALOG } from '../catalog/catalog.ts';
import type { Checking } from './checking.ts';
import type { SourceConfig } from './config.ts';
import { type KindChoice, foundOtherwise, mirroredKinds, takenAlong } from './mirrored-kinds.ts';
import { place } from './mistakes.ts';
import type { ParsedSource } from './options.ts';
import type { Path } from './tree.ts';

/** The kinds of the source at this path. Nothing left to mirror is a mistake; less than it seems is a warning. */
export function checkKinds(checking: Checking, parsed: ParsedSource, at: Path): SourceConfig['kinds'] {
  const { tree, mistakes, warnings } = checking;
  const { include, exclude } = parsed.kinds;
  const kinds = { include: include ?? null, exclude: exclude ?? [] };
  if (include !== undefined && exclude !== undefined) {
    mistakes.add(tree, [...at, 'kinds', 'exclude'], 'expected include or exclude, got both');
    return kinds;
  }
  if (include?.length === 0) {
    mistakes.add(tree, [...at, 'kinds'], 'leaves no kind to mirror');
    return kinds;
  }
  // From a value that is wrong itself nothing follows.
  const isWrong = ['kinds', 'organizations', 'projects', 'recordings'].some((key) =>
    mistakes.covers(tree, [...at, key]),
  );
  if (isWrong || (include === undefined && exclude === undefined)) return kinds;
  const choice = { ...parsed, kinds };
  const path = [...at, 'kinds', include === undefined ? 'exclude' : 'include'];
  if (mirroredKinds(choice).size === 0) mistakes.add(tree, path, nothingLeft(choice));
  else warnings.push(...remarks(choice).map((remark) => `${place(tree, path)}${remark}`));
  return kinds;
}

function nothingLeft(choice: KindChoice): string {
  const said = 'leaves no kind to mirror';
  if (choice.kinds.include !== null)
    return `${said}: ${switchedOff(choice).join(', ')} is off (${SWITCH}: 0)`;
  const parents = [...takenAlong(choice).keys()];
  if (parents.length === 0) return said;
  const names = parents.join(' and ');
  return `${said}: without ${names} nothing else is found; take ${names} out, or name the ids of those to mirror (organizations: [ID])`;
}

function remarks(choice: KindChoice): string[] {
  const off = switchedOff(choice);
  return [
    ...[...takenAlong(choice)].map(
      ([parent, kinds]) =>
        `excluding ${parent} leaves out ${kinds.join(', ')} too, which only ${parent} lead to; name them here as well where that is meant`,
    ),
    ...[...foundOtherwise(choice)].map(
      ([parent, kinds]) =>
        `without ${parent}, ${kinds.join(', ')} are found by the organizations' teams alone; name the ids (${parent}: [ID]) where those may not show all`,
    ),
    ...(off.length === 0 ? [] : [`${off.join(', ')} is not read while ${SWITCH} is 0`]),
  ];
}

const SWITCH = 'recordings.sharingPerRun';

/** Kinds that are asked for by name and switched off elsewhere. */
function switchedOff({ kinds, recordings }: KindChoice): string[] {
  if (recordings.sharingPerRun !== 0) return [];
  return CATALOG.filter(
    ({ kind, reading }) => reading === 'each' && kinds.include?.includes(kind) === true,
  ).map(({ kind }) => kind);
}
