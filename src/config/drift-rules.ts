/** The value types of `drift.ignore` and `drift.severities`. */
import * as z from 'zod';
import { KINDS } from '../catalog/kinds.ts';
import { SEVERITIES } from '../catalog/severities.ts';
import { structured } from './value-types.ts';

/** A JSON pointer in which `*` and `**` stand for segments, and `[id=…]` for the element of that id. */
const PATTERN = z
  .string()
  .regex(/^\/./)
  .refine((pattern) => !/~(?![01])/.test(pattern));

/** The same as `isWidePattern` of the comparison, which this module must not import. */
function isWide(path: string): boolean {
  return path
    .split('/')
    .slice(1)
    .every((segment) => segment === '*' || segment === '**');
}

const IGNORE_RULE = z
  .strictObject({
    source: z.string().min(1).optional(),
    kind: z.enum(KINDS).optional(),
    id: z.union([z.string().min(1), z.int().transform(String)]).optional(),
    path: PATTERN.optional(),
    reason: z.string().refine((reason) => reason.trim() !== ''),
  })
  .refine(({ kind, id, path }) => kind !== undefined || id !== undefined || path !== undefined)
  .superRefine(({ kind, id, path }, context) => {
    if (kind !== undefined || id !== undefined || path === undefined || !isWide(path)) return;
    context.addIssue({
      code: 'custom',
      path: ['path'],
      message: `expected a kind or an id beside ${path}: a path of wildcards alone would hide every change`,
      params: { isReported: true },
    });
  });

const SEVERITY_RULE = z.strictObject({
  source: z.string().min(1).optional(),
  kind: z.enum(KINDS).optional(),
  path: PATTERN.optional(),
  severity: z.enum(SEVERITIES),
});

type DriftIgnoreRule = z.output<typeof IGNORE_RULE>;
type DriftSeverityRule = z.output<typeof SEVERITY_RULE>;

export const DRIFT_IGNORE = structured<readonly DriftIgnoreRule[]>(
  'list of rules',
  'a list of {kind, id, path, source, reason}: reason and at least one of kind, id and path, path as a JSON pointer; one of wildcards alone needs a kind or an id',
  z.array(IGNORE_RULE),
);

export const DRIFT_SEVERITIES = structured<readonly DriftSeverityRule[]>(
  'list of rules',
  'a list of {kind, path, source, severity}: severity one of critical, high, medium, low; path as a JSON pointer',
  z.array(SEVERITY_RULE),
);
