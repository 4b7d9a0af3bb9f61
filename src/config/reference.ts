/** The configuration reference (docs/configuration.md), written from the options table. */
import { KIND_OVERRIDES } from './override-options.ts';
import type { Section } from './option.ts';
import { OPTIONS, PROFILE_OPTIONS } from './options.ts';
import { type OptionRow, rowsOf } from './rows.ts';

/** The whole page as Markdown. */
export function configReference(): string {
  const groups = Object.entries(OPTIONS.options).flatMap(([name, node]) => {
    const title = node.node === 'option' ? [] : ['', `## ${name}`, '', node.description];
    const rows = rowsOf(OPTIONS).filter((row) => row.keys[0] === name);
    return [...title, '', ...optionTable(rows)];
  });
  return [INTRODUCTION, ...groups, '', ...overrideSection(), '', ...profileSection(), ''].join('\n');
}

const INTRODUCTION = `# Configuration

This page is written from the options table (\`src/config/options.ts\`); \`test/config/generated.test.ts\` holds it up to date, and rewrites it when run
with \`npx vitest run test/config/generated.test.ts -u\`.

- The file is \`./tidemark.yaml\`, or what \`--config\` or \`TIDEMARK_CONFIG\` names. \`config/example.yaml\` shows every option, \`config/default.yaml\` the
  defaults. \`tidemark config check\` reads it and reports every mistake with its line; \`tidemark config schema\` prints a JSON Schema for editors.
- Every option can also come from its environment variable, which goes before the file. Lists are separated by commas, mappings are JSON. An empty
  variable counts as not set. Variables of \`sources[]\` options apply where there is one source; without a file, \`TIDEMARK_BASE_URL\` with
  \`TIDEMARK_API_KEY\` or \`TIDEMARK_API_KEY_FILE\` define one called \`default\`.
- \`\${VAR}\` in any text of the file is replaced by that variable, which must be set; \`$\${\` is a plain \`\${\`.
  Under \`secrets\` a variable that is not set, or empty, blocks the steps that need it, and nothing else.
- Secrets: by \`\${VAR}\`, or by the \`…File\` option that names a file (its content is trimmed). A key written in clear works, with a warning.
- Durations are a number with \`ms\`, \`s\`, \`m\`, \`h\` or \`d\`: \`90s\`, \`24h\`, \`7d\`.
- Relative paths in the file start at the file's directory, those in variables at the current one.
- Unknown options are errors.`;

function optionTable(rows: readonly OptionRow[]): string[] {
  return [
    '| option | type | default | variable | what it does |',
    '|---|---|---|---|---|',
    ...rows.map((row) => {
      const cells = [
        `\`${row.text}\``,
        typeOf(row),
        defaultOf(row),
        `\`${row.variable}\``,
        row.node.description,
      ];
      return `| ${cells.map(escapeCell).join(' | ')} |`;
    }),
  ];
}

function typeOf({ node }: OptionRow): string {
  if (node.node === 'map') return `mapping by ${node.keyTitle}`;
  return node.unit === null ? node.value.title : `${node.value.title} (${node.unit})`;
}

function defaultOf({ node }: OptionRow): string {
  if (node.node === 'map' || node.default === undefined) return '';
  const value = `\`${typeof node.default === 'string' ? node.default : JSON.stringify(node.default)}\``;
  return node.defaultNote === null ? value : `${value}, ${node.defaultNote}`;
}

function overrideSection(): string[] {
  return [
    '## definitions.KIND',
    '',
    'What a source may say about a kind, over its profile. `tidemark catalog` lists the kinds and their fields. To make a field of a kind whose payload the',
    'interface does not show restorable, name it with its type:',
    '',
    '```yaml',
    'definitions:',
    '  roles:',
    '    fields:',
    '      name: { type: string, writable: true }',
    '```',
    '',
    ...innerTable(KIND_OVERRIDES.of, 'KIND'),
    '',
    ...innerTable(KIND_OVERRIDES.of.options.fields.of, 'KIND.fields.FIELD'),
  ];
}

function profileSection(): string[] {
  return [
    '## Profiles',
    '',
    'A profile says what is known about one kind of deployment. `svc` is the interface as documented, `posthog` the wire names, list shapes and writable fields of that',
    'service; both are in `config/profiles`. A path in `profile` names one of your own, with these keys; `kinds` is as `definitions` above.',
    '',
    ...innerTable(PROFILE_OPTIONS, ''),
  ];
}

function innerTable(section: Section, prefix: string): string[] {
  return [
    '| key | type | what it says | example |',
    '|---|---|---|---|',
    ...rowsOf(section).map((row) => {
      const key = prefix === '' ? row.text : `${prefix}.${row.text}`;
      const cells = [
        `\`${key}\``,
        typeOf(row),
        row.node.description,
        `\`${JSON.stringify(row.node.example)}\``,
      ];
      return `| ${cells.map(escapeCell).join(' | ')} |`;
    }),
  ];
}

function escapeCell(text: string): string {
  return text.replaceAll('|', '\\|');
}
