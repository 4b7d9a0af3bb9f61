/** All kinds: each has a file in `kinds/` and a row here, parents before children. */
import { suggest } from '../core/suggest.ts';
import type { KindDefinition } from './definition.ts';
import { batchExports } from './kinds/batch-exports.ts';
import { domains } from './kinds/domains.ts';
import { invites } from './kinds/invites.ts';
import { members } from './kinds/members.ts';
import { organizations } from './kinds/organizations.ts';
import {
  pipelineDestinations,
  pipelineFrontendApps,
  pipelineImportApps,
  pipelineTransformations,
  plugins,
} from './kinds/pipeline-components.ts';
import { projects } from './kinds/projects.ts';
import { proxyRecords } from './kinds/proxy-records.ts';
import { recordingSharing } from './kinds/recording-sharing.ts';
import { roleMemberships } from './kinds/role-memberships.ts';
import { roles } from './kinds/roles.ts';
import { sessionRecordings } from './kinds/session-recordings.ts';

/** In the order in which they are read and restored (wire-notes.md, Restore). */
export const ROWS = [
  organizations,
  projects,
  roles,
  roleMemberships,
  members,
  invites,
  domains,
  pipelineDestinations,
  pipelineFrontendApps,
  pipelineImportApps,
  pipelineTransformations,
  plugins,
  batchExports,
  proxyRecords,
  sessionRecordings,
  recordingSharing,
] as const;

/** The kinds of the API, named by their path segment (interface.md, Endpoints). */
export const KINDS = ROWS.map(({ kind }) => kind);

export type Kind = (typeof ROWS)[number]['kind'];

/** The kind that was probably meant, also by the short names of reports, such as `transformations`. */
export function nearestKind(text: string): string | undefined {
  const word = `_${text.toLowerCase().replaceAll(/[ -]/g, '_')}`;
  return KINDS.find((kind) => kind.endsWith(word) || kind.endsWith(`${word}s`)) ?? suggest(text, KINDS);
}

export type KindRow = KindDefinition<Kind>;
