/** What the reports use in addition to their documents. */
import type { Kind } from '../catalog/kinds.ts';
import type { RecordKey } from '../catalog/order.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Present } from '../config/source.ts';
import type { AcceptedFinding, Drift, Finding } from '../diff/drift.ts';
import type { FingerprintOf } from '../diff/fingerprint.ts';
import type { ExplainedForm } from '../diff/form-change.ts';
import type { SeverityOf } from '../diff/severity.ts';

export interface ReportOptions {
  /** Definitions in force (profile and overrides applied): titles, severities, and which fields are secret. */
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** What the configuration already has of the settings that reports suggest; by default nothing. */
  readonly present?: Present;
  /** Severities in force; by default those of the catalog. */
  readonly severityOf?: SeverityOf;
  /** True shows secrets; by default they are masked. */
  readonly showsSecrets?: boolean;
  /** Heading, e.g. `Configuration drift`. */
  readonly title?: string;
  /** The source in the places of findings; by default that of the document, or `default`. */
  readonly source?: string;
  /** The fingerprints of drift, if the mirror with their key is available. */
  readonly fingerprintOf?: FingerprintOf;
  /** The name of a parent record, shown before its id. */
  readonly parentName?: (kind: Kind, id: string) => string | undefined;
  /** The same in FROM, for removed records; by default `parentName`. */
  readonly removedParentName?: ReportOptions['parentName'];
  /** The file of a record, relative to the current directory, if it is in its git work tree or, without one, below it. */
  readonly fileOf?: (record: RecordKey) => { readonly path: string; readonly line: number } | undefined;
  /** True sorts kinds by their most severe change, not in the order of the catalog. */
  readonly isWorstFirst?: boolean;
  /** Precedes the counts of the summary, e.g. missing records whose removal is held. */
  readonly lead?: string;
  /** What to do next, with commands in backticks. */
  readonly next?: readonly string[];
  /** Further lines of the summary, e.g. how much drift was accepted. */
  readonly notes?: readonly string[];
  /** The open findings of drift, to be counted by severity instead of records. */
  readonly findings?: readonly Pick<Finding, 'severity'>[];
  /** Accepted findings of drift, to be listed. */
  readonly accepted?: readonly AcceptedFinding[];
  /** Findings of drift that a rule ignores, to be listed. */
  readonly ignored?: Drift['ignored'];
  /** Changes of form that explain differences, which then are not findings. */
  readonly forms?: readonly ExplainedForm[];
  /** How times are written; by default as ISO 8601 in UTC. */
  readonly timeText?: (at: string) => string;
  /** True lists what is otherwise only counted. */
  readonly isWhole?: boolean;
  /** True shows only some of the steps of a plan that are alike, and counts the others. */
  readonly countsAlike?: boolean;
  /** When the report was made, ISO 8601. */
  readonly generatedAt?: string;
}
