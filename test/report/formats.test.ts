/** JUnit and SARIF against what their schemas allow, written down here for the parts that are used. */
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { severities } from '../../src/diff/severity.ts';
import type { DiffDocument } from '../../src/diff/change.ts';
import { assessDrift } from '../../src/diff/drift.ts';
import { fingerprints } from '../../src/diff/fingerprint.ts';
import { renderJunit } from '../../src/report/junit.ts';
import { renderSarif } from '../../src/report/sarif.ts';
import { emptyDiff, sampleDiff, sampleOptions } from './sample.ts';

/** junit-10.xsd of Jenkins' xUnit plugin: attributes required and allowed, children allowed. */
const JUNIT: Record<string, { required: string[]; allowed: string[]; children: string[] }> = {
  testsuites: {
    required: [],
    allowed: ['name', 'time', 'tests', 'failures', 'errors'],
    children: ['testsuite'],
  },
  testsuite: {
    required: ['name', 'tests', 'failures', 'errors'],
    allowed: [
      'name',
      'tests',
      'failures',
      'errors',
      'group',
      'time',
      'skipped',
      'timestamp',
      'hostname',
      'id',
      'package',
      'file',
      'log',
      'url',
    ],
    children: ['testsuite', 'properties', 'testcase', 'system-out', 'system-err'],
  },
  testcase: {
    required: ['name'],
    allowed: ['name', 'time', 'classname', 'group'],
    children: ['skipped', 'error', 'failure', 'system-out', 'system-err'],
  },
  failure: { required: [], allowed: ['type', 'message'], children: [] },
  error: { required: [], allowed: ['type', 'message'], children: [] },
  'system-out': { required: [], allowed: [], children: [] },
};

interface Element {
  tag: string;
  attributes: Map<string, string>;
  children: Element[];
}

/** A strict reader of the XML that we write: throws on anything that is not well-formed. */
function parseXml(xml: string): Element {
  const declaration = '<?xml version="1.0" encoding="UTF-8"?>\n';
  expect(xml.startsWith(declaration)).toBe(true);
  const root: Element = { tag: '', attributes: new Map(), children: [] };
  const stack = [root];
  for (const [whole, slash, tag, attributes, empty, content] of xml
    .slice(declaration.length)
    .matchAll(/<(\/?)([a-z-]+)((?: [a-z]+="[^"<]*")*)(\/?)>|([^<]+)|</g)) {
    if (tag === undefined) {
      if (content === undefined) throw new Error(`a bare < in ${whole}`);
      expect(content.replace(/&(?:amp|lt|gt|quot|#39);/g, '')).not.toMatch(/[&>]/);
    } else if (slash === '/') {
      expect(stack.pop()!.tag).toBe(tag);
    } else {
      const element: Element = {
        tag,
        attributes: new Map(
          [...attributes!.matchAll(/ ([a-z]+)="([^"]*)"/g)].map(([, name, value]) => [name!, value!]),
        ),
        children: [],
      };
      stack.at(-1)!.children.push(element);
      if (empty === '') stack.push(element);
    }
  }
  expect(stack).toHaveLength(1);
  expect(root.children).toHaveLength(1);
  return root.children[0]!;
}

function checkJunit(element: Element): void {
  const rule = JUNIT[element.tag]!;
  const names = [...element.attributes.keys()];
  expect(rule.allowed).toEqual(expect.arrayContaining(names));
  expect(names).toEqual(expect.arrayContaining(rule.required));
  for (const child of element.children) {
    expect(rule.children).toContain(child.tag);
    checkJunit(child);
  }
}

const count = (element: Element, tag: string): number =>
  element.children.reduce((sum, child) => sum + (child.tag === tag ? 1 : 0) + count(child, tag), 0);

describe('junit', () => {
  it.each([
    ['a diff', sampleDiff()],
    ['no differences', emptyDiff()],
    ['nothing compared', { ...emptyDiff(), compared: { collections: 0, records: 0 } }],
  ])('is valid, with stats that add up, for %s', (_name, document) => {
    const root = parseXml(renderJunit(document, sampleOptions));
    checkJunit(root);
    for (const suite of [root, ...root.children]) {
      expect(Number(suite.attributes.get('tests'))).toBe(count(suite, 'testcase'));
      expect(Number(suite.attributes.get('failures'))).toBe(count(suite, 'failure'));
      expect(Number(suite.attributes.get('errors'))).toBe(count(suite, 'error'));
    }
    expect(count(root, 'testcase')).toBeGreaterThan(0);
  });

  it('has a suite per kind and a failure per record', () => {
    const root = parseXml(renderJunit(sampleDiff(), sampleOptions));
    expect(root.children.map(({ attributes }) => attributes.get('name'))).toEqual([
      'comparison',
      'organizations',
      'members',
      'invites',
      'domains',
      'plugins',
      'batch_exports',
      'recording_sharing',
    ]);
    expect(count(root, 'failure')).toBe(sampleDiff().changes.length);
    expect(count(root, 'error')).toBe(1);
  });

  it('has the notes with the comparison', () => {
    const notes = ['restore 1 was applied after run 2', 'a <b>\u0007'];
    const xml = renderJunit(sampleDiff(), { ...sampleOptions, notes });
    expect(count(parseXml(xml).children[0]!, 'system-out')).toBe(1);
    expect(xml).toContain('<system-out>restore 1 was applied after run 2\na &lt;b&gt;\\u{0007}</system-out>');
  });
});

interface Sarif {
  version: string;
  runs: {
    tool: { driver: { name: string; rules: { id: string; defaultConfiguration: { level: string } }[] } };
    invocations: {
      executionSuccessful: boolean;
      toolExecutionNotifications: { level: string; message: { text: string } }[];
    }[];
    results: {
      ruleId: string;
      ruleIndex: number;
      level: string;
      message: { text: string };
      locations: {
        physicalLocation: { artifactLocation: { uri: string } };
        logicalLocations: { name: string; fullyQualifiedName: string; kind: string }[];
      }[];
      partialFingerprints: Record<string, string>;
    }[];
  }[];
}
const sarifOf = (document = sampleDiff()): Sarif => JSON.parse(renderSarif(document, sampleOptions)) as Sarif;

/** Members that SARIF 2.1.0 (additionalProperties: false throughout) allows where we write them. */
const SARIF_MEMBERS: Record<string, string[]> = {
  '': ['$schema', 'version', 'runs'],
  runs: ['tool', 'invocations', 'properties', 'results'],
  tool: ['driver'],
  driver: ['name', 'rules'],
  rules: ['id', 'shortDescription', 'defaultConfiguration', 'properties'],
  shortDescription: ['text'],
  defaultConfiguration: ['level'],
  invocations: ['executionSuccessful', 'endTimeUtc', 'toolExecutionNotifications'],
  toolExecutionNotifications: ['level', 'message'],
  message: ['text'],
  results: ['ruleId', 'ruleIndex', 'level', 'message', 'locations', 'partialFingerprints'],
  locations: ['physicalLocation', 'logicalLocations'],
  physicalLocation: ['artifactLocation', 'region'],
  artifactLocation: ['uri'],
  region: ['startLine'],
  logicalLocations: ['name', 'fullyQualifiedName', 'kind'],
};

function checkSarif(value: unknown, name: string): void {
  if (Array.isArray(value)) for (const element of value) checkSarif(element, name);
  else if (
    typeof value === 'object' &&
    value !== null &&
    name !== 'properties' &&
    name !== 'partialFingerprints'
  ) {
    expect(SARIF_MEMBERS[name]).toEqual(expect.arrayContaining(Object.keys(value)));
    for (const [member, inner] of Object.entries(value)) checkSarif(inner, member);
  }
}

describe('sarif', () => {
  it('holds only what the schema allows, and what it requires', () => {
    const sarif = sarifOf();
    checkSarif(sarif, '');
    const run = sarif.runs[0]!;
    expect(sarif.version).toBe('2.1.0');
    expect(run.tool.driver.name).toBe('tidemark');
    expect(new Set(run.tool.driver.rules.map(({ id }) => id)).size).toBe(run.tool.driver.rules.length);
    for (const result of run.results) {
      expect(result.message.text).not.toBe('');
      expect(['error', 'warning', 'note']).toContain(result.level);
      expect(run.tool.driver.rules[result.ruleIndex]!.id).toBe(result.ruleId);
      // A valid relative reference: no scheme, no raw space or bracket.
      expect(result.locations[0]!.physicalLocation.artifactLocation.uri).toMatch(
        /^(?:[A-Za-z0-9\-_.!~*'()/]|%[0-9A-F]{2})+$/,
      );
      expect(['object', 'property']).toContain(result.locations[0]!.logicalLocations[0]!.kind);
    }
  });

  it('carries the drift fingerprints, each once', () => {
    const fingerprintOf = fingerprints({ source: 'default', key: new Uint8Array(32) });
    const drift = assessDrift({
      fingerprintOf,
      diff: sampleDiff(),
      rules: [],
      acceptances: [],
      severityOf: severities(definitionOf),
      now: 0,
    });
    const text = renderSarif(sampleDiff(), { ...sampleOptions, fingerprintOf });
    const prints = (JSON.parse(text) as Sarif).runs[0]!.results.map(
      ({ partialFingerprints }) => partialFingerprints['tidemark/v2']!,
    );
    expect(prints.toSorted()).toEqual(drift.open.map(({ fingerprint }) => fingerprint).toSorted());
    expect(new Set(prints).size).toBe(prints.length);
  });

  it('without a key tells results apart by their places alone', () => {
    const valued = (to: string): DiffDocument => ({
      ...emptyDiff(),
      changes: [
        { kind: 'domains', scope: {}, id: 'd', name: 'd', change: 'changed', fields: [{ path: '/a', to }] },
      ],
    });
    const [one, other] = ['4711', '4712'].map((to) => sarifOf(valued(to)).runs[0]!.results[0]!);
    expect(one!.partialFingerprints).toEqual(other!.partialFingerprints);
    expect(Object.keys(one!.partialFingerprints)).toEqual(['tidemarkPlace/v1']);
    const all = sarifOf().runs[0]!.results.map(({ partialFingerprints }) => partialFingerprints);
    expect(new Set(all.map((prints) => prints['tidemarkPlace/v1'])).size).toBe(all.length);
  });

  it('says that it is not the whole truth when something was skipped', () => {
    const [invocation] = sarifOf().runs[0]!.invocations;
    expect(invocation!.executionSuccessful).toBe(false);
    expect(invocation!.toolExecutionNotifications).toMatchObject([
      { level: 'warning' },
      { level: 'note', message: { text: sampleOptions.notes[0] } },
    ]);
    const clean = sarifOf(emptyDiff()).runs[0]!;
    expect(clean.invocations[0]!.executionSuccessful).toBe(true);
    expect(clean.results).toEqual([]);
  });
});
