/** Elements that moved are reported as moves, in every form for people. */
import { changedDefinition } from '../../src/catalog/resource-definition.ts';
import { createColors } from 'picocolors';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { compareBodies, type FieldChange } from '../../src/diff/compare.ts';
import { fieldHtml } from '../../src/report/html-field.ts';
import { renderMarkdown } from '../../src/report/render-markdown.ts';
import { fieldLines } from '../../src/report/render-text.ts';
import { fieldLine } from '../../src/report/value-text.ts';
import { maskedFields } from '../../src/report/mask.ts';

const definition = definitionOf('proxy_records');
const steps = (...ids: (string | number)[]): object[] => ids.map((id) => ({ id, note: `of ${id}` }));

function change(from: object[], to: object[], name = 'steps'): FieldChange {
  const [field, ...others] = compareBodies(
    definition,
    { [name]: from } as never,
    { [name]: to } as never,
    'default',
  );
  if (field === undefined || others.length > 0) throw new Error('expected one change');
  return field;
}

function fieldMarkdown(field: FieldChange): string {
  const item = { kind: definition.kind, change: 'changed', name: 'x', fields: [field] } as const;
  const part = { type: 'records', heading: '', groups: [{ items: [item] }], layout: 'blocks' } as const;
  const text = renderMarkdown({ title: '', summary: '', parts: [part] });
  return /^ +- (.*)$/m.exec(text)?.[1] ?? text;
}

function everyForm(field: FieldChange): string[] {
  return [
    fieldLine(field, 200),
    fieldLines(field, { colors: createColors(false), width: 100 })
      .join('\n')
      .trim(),
    fieldMarkdown(field),
    fieldHtml(field),
  ];
}

describe('an element that moved', () => {
  it('is named with where it was and where it is, instead of both arrays', () => {
    const field = change(steps(1, 2, 3, 4), steps(2, 3, 4, 1));
    expect(everyForm(field)).toEqual([
      '/steps: [id=1] moved 0 → 3',
      '/steps [id=1] moved 0 → 3',
      '`/steps`: `[id=1] moved 0 → 3`',
      '<div class="field single"><code class="path">/steps</code><div class="value">[id=1] moved 0 → 3</div></div>',
    ]);
  });

  it('is one of many: the first ten are named, the rest counted', () => {
    const ids = Array.from({ length: 14 }, (_unused, n) => n);
    const line = fieldLine(change(steps(...ids), steps(...ids.toReversed())), 200);
    expect(line.match(/moved/g)).toHaveLength(10);
    expect(line).toMatch(/, and 3 more moves$/);
  });

  it('has its id written out harmlessly, and masked where it is a secret', () => {
    for (const text of everyForm(change(steps('<b>\u001b[31m', 'x'), steps('x', '<b>\u001b[31m')))) {
      expect(text).toContain('moved');
      expect(text).not.toMatch(/\u001b/);
    }
    expect(fieldHtml(change(steps('<b>', 'x'), steps('x', '<b>')))).not.toContain('<b>');
    const [name] = definition.fields;
    if (name === undefined) throw new Error('expected a field');
    const secretive = changedDefinition(definition, {
      fields: [...definition.fields, { ...name, name: 'steps', isSecret: false, secretPointers: ['/*/id'] }],
    });
    const [masked] = maskedFields([change(steps('s1', 's2', 's3'), steps('s3', 's1', 's2'))], secretive);
    if (masked === undefined) throw new Error('expected a field');
    expect(fieldLine(masked, 200)).toBe('/steps: [id=[secret]] moved 2 → 0');
    for (const text of everyForm(masked)) expect(text).not.toMatch(/s[123]/);
  });
});
