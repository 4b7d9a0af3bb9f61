/** Reads a Dockerfile as far as ours goes: stages of instructions, lines continued, comments gone. */

export interface Instruction {
  /** Upper case. */
  readonly name: string;
  /** `--from=build` as `from: 'build'`. */
  readonly flags: Readonly<Record<string, string>>;
  /** What follows the flags. */
  readonly text: string;
}

export interface Stage {
  /** Its name, or its number as text. */
  readonly name: string;
  /** The image that it stands on. */
  readonly base: string;
  readonly instructions: readonly Instruction[];
}

/** @throws Error when the file does not begin with a stage */
export function parseDockerfile(text: string): Stage[] {
  const stages: { name: string; base: string; instructions: Instruction[] }[] = [];
  const joined = text
    .split('\n')
    .filter((line) => !/^\s*#/.test(line))
    .join('\n')
    .replaceAll(/\\\n\s*/g, ' ');
  for (const line of joined.split('\n')) {
    if (line.trim() === '') continue;
    const instruction = parseInstruction(line);
    if (instruction.name === 'FROM') {
      const [base = '', , name = String(stages.length)] = instruction.text.split(/\s+/);
      stages.push({ name, base, instructions: [] });
      continue;
    }
    const stage = stages.at(-1);
    if (stage === undefined) throw new Error(`${instruction.name} before FROM`);
    stage.instructions.push(instruction);
  }
  return stages;
}

function parseInstruction(line: string): Instruction {
  const [, name = '', rest = ''] = /^\s*(\w+)\s+(.*)$/.exec(line) ?? [];
  const flags: Record<string, string> = {};
  let text = rest;
  for (;;) {
    const flag = /^--([\w-]+)=(\S+)\s+/.exec(text);
    if (flag === null) return { name: name.toUpperCase(), flags, text: text.trim() };
    flags[flag[1]!] = flag[2]!;
    text = text.slice(flag[0].length);
  }
}

/** The words of an exec form, `["node", "x"]`. */
export function execForm(instruction: Instruction): string[] {
  return JSON.parse(instruction.text) as string[];
}

/** `A=b C="d e"` as pairs. */
export function pairs(instruction: Instruction): [string, string][] {
  return [...instruction.text.matchAll(/([\w.]+)=(?:"([^"]*)"|(\S*))/g)].map(
    ([, name = '', quoted, plain = '']) => [name, quoted ?? plain],
  );
}
