/** JUnit and SARIF against the schemas of others (test/contract/README.md), over many random and hostile diffs. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { renderJunit } from '../../src/report/junit.ts';
import { diffReport } from '../../src/report/diff-report.ts';
import { COMMENT_LENGTH, renderMarkdown } from '../../src/report/render-markdown.ts';
import type { ReportOptions } from '../../src/report/options.ts';
import { renderSarif } from '../../src/report/sarif.ts';
import { emptyDiff, sampleDiff, sampleOptions } from '../report/sample.ts';
import { anyDiff } from './documents.ts';

const contract = (name: string): string => fileURLToPath(new URL(`../contract/${name}`, import.meta.url));
const options: ReportOptions = { definitions: definitionOf, generatedAt: '2026-03-01T07:00:01.000Z' };
const SAMPLES = 50;

/** SARIF's schema is of draft 4: of what differs from later drafts it uses only the spelling of `id`. */
function sarifSchema(): ValidateFunction {
  const { $schema, id, ...schema } = JSON.parse(
    readFileSync(contract('sarif-2.1.0-rtm.5.json'), 'utf8'),
  ) as Record<string, unknown>;
  expect($schema).toBe('http://json-schema.org/draft-04/schema#');
  expect(id).toContain('sarif-2.1.0');
  const ajv = new Ajv({ strict: false, allErrors: true, unicodeRegExp: false });
  formats.default(ajv);
  return ajv.compile(schema);
}

describe('SARIF 2.1.0', () => {
  const validate = sarifSchema();
  const problems = (sarif: string): unknown[] => {
    validate(JSON.parse(sarif));
    return validate.errors ?? [];
  };

  it('is valid by the schema of OASIS for the sample and for nothing', () => {
    expect(problems(renderSarif(sampleDiff(), sampleOptions))).toEqual([]);
    expect(problems(renderSarif(emptyDiff(), options))).toEqual([]);
  });

  it('is valid for any diff, with and without secrets', () => {
    fc.assert(
      fc.property(anyDiff, fc.boolean(), (diff, showsSecrets) => {
        expect(problems(renderSarif(diff, { ...options, showsSecrets }))).toEqual([]);
      }),
      { numRuns: SAMPLES },
    );
  });

  it('would be found out', () => {
    const wrong = renderSarif(sampleDiff(), sampleOptions).replace('"level": "error"', '"level": "grave"');
    expect(problems(wrong)).not.toEqual([]);
  });
});

const hasXmllint = spawnSync('xmllint', ['--version']).error === undefined;

describe.runIf(hasXmllint)('JUnit (checked by xmllint; without it this part does not run)', () => {
  /** Validates many documents with one process; what xmllint says of those that are not valid. */
  function problems(documents: readonly string[]): string {
    const directory = mkdtempSync(join(tmpdir(), 'tidemark-junit-'));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    const files = documents.map((document, index) => {
      const file = join(directory, `${index}.xml`);
      writeFileSync(file, document);
      return file;
    });
    const ended = spawnSync('xmllint', ['--noout', '--nonet', '--schema', contract('junit.xsd'), ...files], {
      encoding: 'utf8',
    });
    return ended.stderr
      .split('\n')
      .filter((line) => line !== '' && !line.endsWith(' validates'))
      .join('\n');
  }

  it('is valid for the sample, for nothing, and for any diff', () => {
    const random = fc.sample(anyDiff, SAMPLES).map((diff) => renderJunit(diff, options));
    const fixed = [
      renderJunit(sampleDiff(), sampleOptions),
      renderJunit(emptyDiff(), { definitions: definitionOf }),
    ];
    expect(problems([...fixed, ...random])).toBe('');
  });

  it('would be found out', () => {
    const document = renderJunit(sampleDiff(), sampleOptions);
    expect(problems([document.replace('<testsuite ', '<suite ')])).not.toBe('');
    expect(problems([document.replace(/ failures="\d+"/, ' failures="some"')])).toContain('failures');
  });
});

describe('Markdown', () => {
  it('fits a comment of a pull request whatever the diff holds, and says what it leaves out', () => {
    const LARGEST = 65_536; // characters of a comment on GitHub
    fc.assert(
      fc.property(fc.array(anyDiff, { minLength: 1, maxLength: 5 }), (diffs) => {
        const [first] = diffs;
        const changes = diffs.flatMap((diff) => diff.changes);
        const many = Array.from({ length: 40 }, () => changes).flat();
        const out = renderMarkdown(diffReport({ ...first!, changes: many }, options), {
          maxLength: COMMENT_LENGTH,
        });
        expect(out.length).toBeLessThan(LARGEST);
        const shown = out.match(/^- `+ ?[+~-]/gm)?.length ?? 0;
        const left = /\*\*([\d,]+) more changed records? (?:is|are) not shown here\*\*/.exec(out)?.[1] ?? '0';
        expect(shown + Number(left.replaceAll(',', ''))).toBe(many.length);
      }),
      { numRuns: 20 },
    );
  });
});
