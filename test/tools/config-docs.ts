/** What is written from the configuration's schema: docs/configuration.md, config/example.yaml and config/default.yaml. */
import { stringify } from 'yaml';
import * as z from 'zod';
import { OPTION_ROWS, optionRows } from '../../src/config/environment.ts';
import { OPTIONS } from '../../src/config/options.ts';
import { KIND_OVERRIDES, PROFILE_OPTIONS } from '../../src/config/override-options.ts';
import { aboutOf, defaultOf, inner, schemasAlong, shapeOf } from '../../src/config/schema.ts';
import { isMapping } from '../../src/config/tree.ts';

type Schema = z.core.$ZodType;
type OptionRow = (typeof OPTION_ROWS)[number];

const [, KIND = OPTIONS, , FIELD = OPTIONS] = schemasAlong(KIND_OVERRIDES, ['roles', 'fields', 'name'], {});

/** The whole page as Markdown. */
export function configReference(): string {
  const groups = Object.entries(shapeOf(OPTIONS)).flatMap(([name, schema]) => {
    const { example, description = '' } = aboutOf(schema);
    const title = example === undefined ? ['', `## ${name}`, '', description] : [];
    const rows = OPTION_ROWS.filter((row) => row.keys[0] === name);
    return [...title, '', ...optionTable(rows)];
  });
  return [INTRODUCTION, ...groups, '', ...overrideSection(), '', ...profileSection(), ''].join('\n');
}

const INTRODUCTION = `# Configuration

Look up an option. \`tidemark init\` writes a first file, \`tidemark config check\` reports every mistake with its line, and \`tidemark config schema\` prints a JSON Schema for editors.

- **The file** is \`./tidemark.yaml\`, or what \`--config\` or \`TIDEMARK_CONFIG\` names. \`config/example.yaml\` shows every option. Unknown options are errors.
- **Variables**: each option can come from its environment variable, which takes precedence over the file. Lists are separated by commas, mappings are JSON, and an empty variable counts as not set. Variables of \`sources[]\`
  options apply if there is one source. Without a file, \`TIDEMARK_BASE_URL\` with \`TIDEMARK_API_KEY\` or \`TIDEMARK_API_KEY_FILE\` define a source called \`default\`.
- **Secrets**: \`\${VAR}\` in any text of the file is replaced by that variable, which must be set (under \`secrets\`, an unset one only blocks the steps that need it); \`$\${\` is a plain \`\${\`. A \`…File\` option names a file instead, whose content is trimmed.
  A key in clear text works, with a warning.
- **Durations** are a number with \`ms\`, \`s\`, \`m\`, \`h\` or \`d\`: \`90s\`, \`24h\`, \`7d\`.
- **HTTP proxies** come from \`HTTPS_PROXY\`, \`HTTP_PROXY\` and \`NO_PROXY\` ([details](container.md#private-authority-proxy)).
- **Relative paths** in the file start at the file's directory, those in variables at the current one.

The tables are generated from \`src/config/options.ts\` (\`npx vitest run test/config/generated.test.ts -u\`).`;

function optionTable(rows: readonly OptionRow[]): string[] {
  return [
    '| option | type | default | variable | meaning |',
    '|---|---|---|---|---|',
    ...rows.map((row) => {
      const cells = [
        `\`${row.text}\``,
        typeOf(row),
        defaultCell(row),
        `\`${row.variable}\``,
        row.about.description,
      ];
      return `| ${cells.map(escapeCell).join(' | ')} |`;
    }),
  ];
}

function typeOf({ schema, about }: OptionRow): string {
  const title = about.type ?? derivedType(schema);
  return about.unit === undefined ? title : `${title} (${about.unit})`;
}

function derivedType(schema: Schema): string {
  const node = inner(schema);
  if (node instanceof z.ZodEnum) return 'word';
  if (node instanceof z.ZodBoolean) return 'true or false';
  if (node instanceof z.ZodRecord) return `mapping by ${aboutOf(schema).keyTitle}`;
  return 'string';
}

function defaultCell({ schema, about }: OptionRow): string {
  const given = defaultOf(schema);
  if (given === undefined) return '';
  const value = `\`${typeof given === 'string' ? given : JSON.stringify(given)}\``;
  return about.defaultNote === undefined ? value : `${value}, ${about.defaultNote}`;
}

function overrideSection(): string[] {
  return [
    '## definitions.KIND',
    '',
    'Correct what is known about a kind, for one source. `tidemark catalog` lists the kinds and their fields. To make a field restorable that the API does not document as',
    'writable, name it with its type:',
    '',
    '```yaml',
    'definitions:',
    '  roles:',
    '    fields:',
    '      name: { type: string, writable: true }',
    '```',
    '',
    ...innerTable(KIND, 'KIND'),
    '',
    ...innerTable(FIELD, 'KIND.fields.FIELD'),
  ];
}

function profileSection(): string[] {
  return [
    '## Profiles',
    '',
    'A profile describes one kind of deployment; [a real deployment](real-deployment.md#choose-a-profile) says which one to choose. `profile` can be a path to your own file',
    'with these keys; `kinds` is like `definitions` above.',
    '',
    ...innerTable(PROFILE_OPTIONS, ''),
  ];
}

function innerTable(section: Schema, prefix: string): string[] {
  return [
    '| key | type | meaning | example |',
    '|---|---|---|---|',
    ...optionRows(section).map((row) => {
      const key = prefix === '' ? row.text : `${prefix}.${row.text}`;
      const cells = [
        `\`${key}\``,
        typeOf(row),
        row.about.description,
        `\`${JSON.stringify(row.about.example)}\``,
      ];
      return `| ${cells.map(escapeCell).join(' | ')} |`;
    }),
  ];
}

function escapeCell(text: string | undefined): string {
  return (text ?? '').replaceAll('|', '\\|');
}

// The two sample files under config/.

/** Options that exclude a neighbour, or need a secret that a reader does not have: shown as comments. */
const SHOWN_AS_COMMENT = new Set([
  ...['apiKeyFile', 'include', 'token', 'tokenFile'],
  ...['triggerToken', 'triggerTokenFile', 'userHeader'],
]);

const COMMENT_WIDTH = 100;

interface Style {
  readonly title: readonly string[];
  /** What follows the key; undefined leaves the option out. */
  readonly valueOf: (schema: Schema) => unknown;
  readonly isExample: boolean;
}

/** `config/example.yaml`: every option with its comment and an example value. */
export function exampleFile(): string {
  return render({
    title: ['Every option of Tidemark, with an example value.', 'Copy what you need into tidemark.yaml.'],
    valueOf: (schema) => aboutOf(schema).example,
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
    valueOf: (schema) => defaultOf(schema),
    isExample: false,
  });
}

function render(style: Style): string {
  const title = style.title.map((line) => `# ${line}\n`).join('');
  return `${title}${renderSection(OPTIONS, style, '').join('\n')}\n`;
}

function renderSection(section: Schema, style: Style, indent: string): string[] {
  return Object.entries(shapeOf(section)).flatMap(([name, schema]) =>
    renderOption(name, schema, style, indent),
  );
}

function renderOption(name: string, schema: Schema, style: Style, indent: string): string[] {
  const heading = indent === '' ? [''] : [];
  const about = aboutOf(schema);
  const description = about.description ?? '';
  if (about.example === undefined) {
    const list = inner(schema);
    const isList = list instanceof z.ZodArray;
    const below = renderSection(isList ? list.element : schema, style, `${indent}${isList ? '    ' : '  '}`);
    if (below.length === 0) return [];
    const lines = isList ? asElement(below, indent) : below;
    return [...heading, ...comment(description, indent), `${indent}${name}:`, ...lines];
  }
  const value = style.valueOf(schema);
  if (value === undefined) return [];
  const mark = style.isExample && SHOWN_AS_COMMENT.has(name) ? '# ' : '';
  const remark = style.isExample ? comment(description, indent) : [];
  return [...heading, ...remark, `${indent}${mark}${name}: ${yamlValue(value)}`];
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
