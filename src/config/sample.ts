/** The two sample files under config/, written from the options table. */
import { stringify } from 'yaml';
import type { OptionNode, Section } from './option.ts';
import { OPTIONS } from './options.ts';
import { isMapping } from './tree.ts';

/** Options that exclude a neighbour, or need a secret that a reader does not have: shown as comments. */
const SHOWN_AS_COMMENT = new Set(['apiKeyFile', 'include', 'token', 'tokenFile']);

const COMMENT_WIDTH = 100;

interface Style {
  readonly title: readonly string[];
  /** The text after the key; undefined leaves the option out. */
  readonly valueOf: (node: Exclude<OptionNode, Section>) => unknown;
  readonly isExample: boolean;
}

/** `config/example.yaml`: every option with its comment and an example value. */
export function exampleFile(): string {
  return render({
    title: ['Every option of Tidemark, with an example value.', 'Copy what you need into tidemark.yaml.'],
    valueOf: (node) => (node.node === 'list' ? [] : node.example),
    isExample: true,
  });
}

/** `config/default.yaml`: every option that has a default, with that default. */
export function defaultFile(): string {
  return render({
    title: [
      'The defaults: what holds when tidemark.yaml says nothing else.',
      'Rates come from the profile where it names them. Nothing reads this file; it is for people.',
    ],
    valueOf: (node) => (node.node === 'option' ? node.default : undefined),
    isExample: false,
  });
}

function render(style: Style): string {
  const title = style.title.map((line) => `# ${line}\n`).join('');
  return `${title}${renderSection(OPTIONS, style, '').join('\n')}\n`;
}

function renderSection(section: Section, style: Style, indent: string): string[] {
  return Object.entries(section.options).flatMap(([name, node]) => renderNode(name, node, style, indent));
}

function renderNode(name: string, node: OptionNode, style: Style, indent: string): string[] {
  const heading = indent === '' ? [''] : [];
  if (node.node === 'section' || node.node === 'list') {
    const inner = node.node === 'section' ? node : node.of;
    const below = renderSection(inner, style, `${indent}${node.node === 'section' ? '  ' : '    '}`);
    if (below.length === 0) return [];
    const lines = node.node === 'section' ? below : asElement(below, indent);
    return [...heading, ...comment(node.description, indent), `${indent}${name}:`, ...lines];
  }
  const value = style.valueOf(node);
  if (value === undefined) return [];
  const mark = style.isExample && SHOWN_AS_COMMENT.has(name) ? '# ' : '';
  const about = style.isExample ? comment(node.description, indent) : [];
  return [...heading, ...about, `${indent}${mark}${name}: ${yamlValue(value)}`];
}

/** Lines of a section as the first element of a list: the dash precedes its first key. */
function asElement(lines: readonly string[], indent: string): string[] {
  const first = lines.findIndex((line) => !line.trimStart().startsWith('#'));
  return lines.map((line, index) => {
    if (index === first) return `${indent}  - ${line.trimStart()}`;
    return index < first ? `${indent}  ${line.trimStart()}` : line;
  });
}

/** In flow style, as Prettier would leave it. */
function yamlValue(value: unknown, isInside = false): string {
  if (Array.isArray(value)) return `[${value.map((each) => yamlValue(each, true)).join(', ')}]`;
  if (isMapping(value)) {
    const members = Object.entries(value).map(([key, member]) => `${key}: ${yamlValue(member, true)}`);
    return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`;
  }
  // Within brackets a brace ends a plain text.
  if (isInside && typeof value === 'string' && /[{}[\],]/.test(value))
    return `'${value.replaceAll("'", "''")}'`;
  return stringify(value, { singleQuote: true, lineWidth: 0 }).trim();
}

function comment(text: string, indent: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < COMMENT_WIDTH - indent.length) {
      lines[lines.length - 1] = `${last} ${word}`;
    } else lines.push(`${indent}# ${word}`);
  }
  return lines;
}
