/** The reading of PromQL that the manifests are checked with refuses what Prometheus refuses. */
import { describe, expect, it } from 'vitest';
import { typeOf } from './promql.ts';

describe('an expression', () => {
  it.each([
    ['tidemark_records', 'instant'],
    ['time() - a{b="}"} > 2', 'instant'],
    ['a + on (x) 2 * b', 'instant'],
    ['a * 2 + on (x) b', 'instant'],
    ['sum by (x, y) (rate(a[5m])) * 60', 'instant'],
    ['up == 0 or on () absent(a)', 'instant'],
    ['a < max_over_time(a[30d]) - 0.05', 'instant'],
    ['-1 + time() / 1e9', 'scalar'],
    ['a[5m]', 'range'],
    ['topk(10, a{x="y"} > 0)', 'instant'],
  ] as const)('%s is %s', (expression, type) => expect(typeOf(expression)).toBe(type));

  it.each([
    ['2 * on (x) a', 'between instant vectors'],
    ['a + 2 * on (x) b', 'between instant vectors'],
    ['time() - on (x) a', 'between instant vectors'],
    ['a or 1', 'between instant vectors'],
    ['topk(a)', 'takes a number first'],
    ['topk(10)', 'takes more'],
    ['sum(1)', 'over an instant vector'],
    ['rate(a)', 'takes range, not instant'],
    ['absent(a[5m])', 'takes instant, not range'],
    ['a[5m] > 1', 'takes no range'],
    ['1 > 2', 'need bool'],
    ['sum(a', '\\) expected'],
    ['a b', 'end expected'],
    ['a +', 'operand expected'],
    ['irate(a[5m])', 'not known here'],
    ['a ? b', 'not understood'],
    ['a{x="', 'not understood'],
  ])('%s is refused', (expression, why) => expect(() => typeOf(expression)).toThrow(new RegExp(why)));
});
