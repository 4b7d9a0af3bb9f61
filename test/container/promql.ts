/**
 * The grammar of PromQL as far as our expressions go, with its types: what Prometheus would refuse as it loads a rule is
 * refused here without it. `promtool` checks the same where it is installed.
 */

/** `instant`: a value per series; `range`: a time window of them. */
export type PromType = 'scalar' | 'instant' | 'range' | 'string';

interface Token {
  readonly kind: 'number' | 'string' | 'name' | 'sign' | 'braces' | 'window' | 'end';
  readonly text: string;
}

const TOKENS =
  /\s+|(?<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?<string>"[^"]*"|'[^']*')|(?<braces>\{(?:[^}"]|"[^"]*")*\})|(?<window>\[\d+(?:ms|[smhdwy])\])|(?<name>[a-zA-Z_:][\w:]*)|(?<sign>==|!=|<=|>=|[-+*/%^<>(),])/gy;
/** Binding from weak to strong (Prometheus, Operators). */
const LEVELS: readonly (readonly string[])[] = [
  ['or'],
  ['and', 'unless'],
  ['==', '!=', '<=', '<', '>=', '>'],
  ['+', '-'],
  ['*', '/', '%'],
];
/** They take how many first. */
const RANKINGS = ['topk', 'bottomk'];
const AGGREGATIONS = ['sum', 'min', 'max', 'avg', 'count', ...RANKINGS];
const FUNCTIONS: Readonly<Record<string, { readonly takes: readonly PromType[]; readonly gives: PromType }>> =
  {
    time: { takes: [], gives: 'scalar' },
    absent: { takes: ['instant'], gives: 'instant' },
    rate: { takes: ['range'], gives: 'instant' },
    increase: { takes: ['range'], gives: 'instant' },
    max_over_time: { takes: ['range'], gives: 'instant' },
  };

/** The type of an expression. @throws Error for one that Prometheus does not take, or that is beyond this grammar */
export function typeOf(expression: string): PromType {
  const parser = new Parser(tokensOf(expression));
  const type = parser.binary(0);
  parser.expect('end');
  return type;
}

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    end = match.index + match[0].length;
    const [kind, part] =
      Object.entries<string | undefined>(match.groups ?? {}).find(([, each]) => each !== undefined) ?? [];
    if (kind !== undefined) tokens.push({ kind: kind as Token['kind'], text: part ?? '' });
  }
  if (end !== text.length) throw new Error(`not understood from "${text.slice(end)}"`);
  return [...tokens, { kind: 'end', text: '' }];
}

class Parser {
  readonly #tokens: Token[];

  constructor(tokens: Token[]) {
    this.#tokens = tokens;
  }

  binary(level: number): PromType {
    const operators = LEVELS[level];
    if (operators === undefined) return this.#unary();
    let left = this.binary(level + 1);
    while (operators.includes(this.#next.text)) {
      const operator = this.#take().text;
      const isMatched = ['on', 'ignoring'].includes(this.#next.text);
      if (isMatched) this.#grouping();
      const right = this.binary(level + 1);
      const isBetweenVectors = left === 'instant' && right === 'instant';
      for (const type of [left, right])
        if (type !== 'scalar' && type !== 'instant') throw new Error(`${operator} takes no ${type}`);
      if (isMatched && !isBetweenVectors)
        throw new Error('vector matching only allowed between instant vectors');
      if (level < 2 && !isBetweenVectors) throw new Error(`${operator} is between instant vectors`);
      if (level === 2 && left === 'scalar' && right === 'scalar') throw new Error('scalars need bool');
      left = left === 'instant' || right === 'instant' ? 'instant' : 'scalar';
    }
    return left;
  }

  expect(what: Token['kind'] | '(' | ')'): Token {
    const token = this.#take();
    if (token.kind !== what && token.text !== what) throw new Error(`${what} expected, not "${token.text}"`);
    return token;
  }

  #unary(): PromType {
    if (this.#next.text === '-') this.#take();
    const token = this.#take();
    if (token.kind === 'number') return 'scalar';
    if (token.kind === 'string') return 'string';
    if (token.text === '(') {
      const type = this.binary(0);
      this.expect(')');
      return type;
    }
    if (token.kind !== 'name') throw new Error(`an operand expected, not "${token.text}"`);
    if (AGGREGATIONS.includes(token.text)) return this.#aggregation(token.text);
    if (this.#next.text === '(') return this.#call(token.text);
    if (this.#next.kind === 'braces') this.#take();
    if (this.#next.kind !== 'window') return 'instant';
    this.#take();
    return 'range';
  }

  #aggregation(name: string): PromType {
    if (['by', 'without'].includes(this.#next.text)) this.#grouping();
    this.expect('(');
    if (RANKINGS.includes(name)) {
      if (this.binary(0) !== 'scalar') throw new Error(`${name} takes a number first`);
      if (this.#take().text !== ',') throw new Error(`${name}() takes more`);
    }
    if (this.binary(0) !== 'instant') throw new Error(`${name} is over an instant vector`);
    this.expect(')');
    return 'instant';
  }

  #call(name: string): PromType {
    const known = FUNCTIONS[name];
    if (known === undefined) throw new Error(`${name}() is not known here`);
    this.expect('(');
    for (const [at, wanted] of known.takes.entries()) {
      if (at > 0 && this.#take().text !== ',') throw new Error(`${name}() takes more`);
      const given = this.binary(0);
      if (given !== wanted) throw new Error(`${name}() takes ${wanted}, not ${given}`);
    }
    this.expect(')');
    return known.gives;
  }

  /** `on (label, label)`, `by ()`. */
  #grouping(): void {
    this.#take();
    this.expect('(');
    while (this.#next.kind === 'name') {
      this.#take();
      if (this.#next.text === ',') this.#take();
    }
    this.expect(')');
  }

  get #next(): Token {
    return this.#tokens[0] ?? { kind: 'end', text: '' };
  }

  #take(): Token {
    return this.#tokens.shift() ?? { kind: 'end', text: '' };
  }
}
