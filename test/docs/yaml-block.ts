/** YAML of the pages: what configures Tidemark is checked as `config check` does, the rest has to be YAML. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { OPTIONS } from '../../src/config/options.ts';
import { shapeOf } from '../../src/config/schema.ts';
import { SOURCE } from '../../src/config/source-options.ts';
import { commandLine } from '../journeys/command-line.ts';
import type { Block } from './markdown.ts';

const OF_THE_FILE = Object.keys(shapeOf(OPTIONS));
const OF_A_SOURCE = Object.keys(shapeOf(SOURCE));

/**
 * Checks a block. What belongs below a source is put there, and what names no source gets one: pages show parts.
 *
 * @param directory where the configuration may be written
 * @throws Error with what `tidemark config check` says of it
 */
export async function checkYaml(block: Block, directory: string): Promise<void> {
  const content: unknown = parse(block.text);
  if (typeof content !== 'object' || content === null)
    throw new Error(`line ${block.line}: this YAML is no mapping`);
  const keys = Object.keys(content);
  const isWhole = keys.every((key) => OF_THE_FILE.includes(key));
  if (!isWhole && !keys.every((key) => OF_A_SOURCE.includes(key))) return;
  const file = join(directory, 'block', 'tidemark.yaml');
  mkdirSync(join(directory, 'block'), { recursive: true });
  writeFileSync(file, isWhole ? block.text : `sources:\n  - name: production\n${indented(block.text)}`);
  const { code, stdout, stderr } = await commandLine(['config', 'check', '--config', file], {
    cwd: directory,
    env: { ...variablesOf(block.text), ...elsewhere(keys) },
  });
  // A file of the place where it will run is not here, and recipients are a topic of one page only.
  if (code !== 0 || /^warning: (?!.* (does not exist|backups are not encrypted))/m.test(stdout))
    throw new Error(`line ${block.line}: config check ended with ${code}:\n${stdout}${stderr}`);
}

function indented(text: string): string {
  return text.replaceAll(/^(?=.)/gm, '    ');
}

/** Something in every variable that the block names. */
function variablesOf(text: string): Record<string, string> {
  const names = [...text.matchAll(/\$\{(\w+)\}/g)].map((match) => match[1] ?? '');
  return Object.fromEntries(names.map((name) => [name, valueOf(name)]));
}

function valueOf(variable: string): string {
  if (variable === 'DATABASE_URL') return 'postgresql://tidemark:secret@db.example.com/tidemark';
  return /URL/.test(variable) ? 'https://example.com/hook' : 'a-value-of-some-length';
}

/** A source by the environment, for a block that names none or only a part of one. */
function elsewhere(keys: readonly string[]): Record<string, string> {
  return keys.includes('sources')
    ? {}
    : {
        TIDEMARK_BASE_URL: 'https://svc.example.com',
        TIDEMARK_API_KEY: 'a-key-of-some-length',
        TIDEMARK_NAME: 'production',
      };
}
