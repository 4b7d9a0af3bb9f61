/** What every rendering of a diff may use in addition to the diff. */
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
  /** What the configuration has of what is advised to add to it; nothing when left out. */
  readonly present?: Present;
  /** Severities in force; the catalog's when left out. */
  readonly severityOf?: SeverityOf;
  /** True writes secrets in clear; left out, they are masked. */
  readonly showsSecrets?: boolean;
  /** Heading, e.g. `Configuration drift`. */
  readonly title?: string;
  /** The source that the places of findings name; left out, that of the document, or `default`. */
  readonly source?: string;
  /** The fingerprints of drift, if the mirror with their key is available. */
  readonly fingerprintOf?: FingerprintOf;
  /** The name of a parent record, where the caller knows it: shown before its id. */
  readonly parentName?: (kind: Kind, id: string) => string | undefined;
  /** The same of what was removed, as FROM has it; left out, `parentName`. */
  readonly removedParentName?: ReportOptions['parentName'];
  /** The file that has a record, if it is in the git work tree of the current directory, or without one below that directory; relative to it. */
  readonly fileOf?: (record: RecordKey) => { readonly path: string; readonly line: number } | undefined;
  /** True puts the kind with the worst change first, instead of the catalog's order. */
  readonly isGravestFirst?: boolean;
  /** What comes before the counts of the summary, e.g. records that are missing and still count. */
  readonly lead?: string;
  /** What to do next, with commands in backticks. */
  readonly next?: readonly string[];
  /** Further lines of the summary, e.g. how much drift was accepted. */
  readonly notes?: readonly string[];
  /** What drift found open: counted by severity, where a diff counts its records. */
  readonly findings?: readonly Pick<Finding, 'severity'>[];
  /** Findings of drift that an acceptance hides: listed with it. */
  readonly accepted?: readonly AcceptedFinding[];
  /** Findings of drift that a rule hides: listed with its reason. */
  readonly ignored?: Drift['ignored'];
  /** Changes of form that explain differences, which are then not among the findings. */
  readonly forms?: readonly ExplainedForm[];
  /** How times are written; left out, as ISO 8601 in UTC. */
  readonly timeText?: (at: string) => string;
  /** True lists what is only counted otherwise. */
  readonly isWhole?: boolean;
  /** True shows some of the steps of a plan that are alike, and counts the others. */
  readonly countsAlike?: boolean;
  /** When the report was made, ISO 8601; left out, it does not say. */
  readonly generatedAt?: string;
}
