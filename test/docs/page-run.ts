/** Runs a page from its first block to its last, as a reader would, in an empty directory. */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { MadeDemo } from '../tools/made-demo.ts';
import { CommandServer } from './command-server.ts';
import type { Block } from './markdown.ts';
import { checkTable, openMirrorToRead } from './mirror-answer.ts';
import { freePorts, NAMED_PORTS, writePrograms, type Ports } from './programs.ts';
import { allowedCodes, commandsOf, firstMisfit, transcriptOf, trimmed, type Command } from './script.ts';
import { Shell } from './shell.ts';
import { checkYaml } from './yaml-block.ts';

export const NOT_RUN = /^not run: (.+)$/;
export const BESIDE = 'in a terminal of its own';
/** The same, said by a note behind one command of several. */
const IN_ANOTHER_TERMINAL = /# in (?:one terminal|another)\b/;
/** Blocks that nothing runs by their language; the commands in them are checked all the same. */
const UNTRIED: Readonly<Record<string, string>> = {
  '': 'of no language',
  crontab: 'a line for cron',
  js: 'for programs elsewhere',
};
/** What the pages call a service that is not the sandbox. */
const SERVICE = 'https://svc.example.com';
/** The key that such a service takes. */
export const SERVICE_KEY = 'sandbox-key';

export interface PageOptions {
  /** A directory of the page's own. */
  readonly root: string;
  /** What `tidemark` starts: a file for Node. */
  readonly program: string;
  readonly env?: Readonly<Record<string, string>>;
  /** A service for pages that speak of one: its address stands for `https://svc.example.com`. */
  readonly service?: string;
  /** What `npm run demo` leaves behind and prints, on a page that says it. */
  readonly demo?: MadeDemo;
  /** Path of the mirror that SQL is asked of, below the page's directory. */
  readonly mirror?: string;
}

export interface Told {
  /** Blocks that were run or read. */
  readonly tried: number;
  /** Reasons of those that were not, in order. */
  readonly notRun: readonly string[];
}

/** @throws Error naming line, command and what was printed instead */
export async function runPage(blocks: readonly Block[], options: PageOptions): Promise<Told> {
  const page = await PageRun.open(options);
  const notRun: string[] = [];
  let tried = 0;
  try {
    for (const block of blocks) {
      const reason = NOT_RUN.exec(block.comment ?? '')?.[1] ?? UNTRIED[block.language];
      if (reason !== undefined) {
        notRun.push(reason);
        continue;
      }
      await page.take(block);
      tried += 1;
    }
  } finally {
    await page.close();
  }
  return { tried, notRun };
}

interface Started {
  readonly shell: Shell;
  readonly commands: CommandServer;
}

class PageRun {
  readonly #directory: string;
  readonly #options: PageOptions;
  readonly #ports: Ports;
  readonly #shell: Shell;
  readonly #commands: CommandServer;
  /** Output of the latest block of commands. */
  #printed: string[] = [];

  private constructor(directory: string, options: PageOptions, ports: Ports, started: Started) {
    this.#directory = directory;
    this.#options = options;
    this.#ports = ports;
    this.#shell = started.shell;
    this.#commands = started.commands;
  }

  static async open(options: PageOptions): Promise<PageRun> {
    const { root, program, demo } = options;
    const directory = join(root, 'work');
    const programs = join(root, 'bin');
    const ports = await freePorts();
    mkdirSync(directory, { recursive: true });
    const commands = await CommandServer.start(program);
    writePrograms(programs, {
      program,
      ports,
      commands: commands.port,
      ...(demo === undefined ? {} : { demo }),
    });
    const env = {
      PATH: `${programs}:${process.env['PATH'] ?? ''}`,
      HOME: root,
      TMPDIR: process.env['TMPDIR'] ?? '/tmp',
      LANG: 'C.UTF-8',
      USER: 'reader',
      NO_COLOR: '1',
      ...options.env,
    };
    return new PageRun(directory, options, ports, { shell: new Shell(directory, env, root), commands });
  }

  async close(): Promise<void> {
    await this.#shell.stop();
    await this.#commands.close();
  }

  async take(block: Block): Promise<void> {
    const first = block.line + 1;
    switch (block.language) {
      case 'sh':
        if (block.comment === BESIDE) await this.#startBeside(block);
        else await this.#run(commandsOf(block.text, first));
        break;
      case 'console':
        await this.#run(transcriptOf(block.text, first));
        break;
      case 'text':
        this.#checkExcerpt(block);
        break;
      case 'json':
        JSON.parse(block.text);
        break;
      case 'yaml':
        await checkYaml(block, this.#directory);
        break;
      case 'sql':
        this.#ask(block);
        break;
      default:
        throw new Error(`line ${block.line}: nothing tries a block of ${block.language}`);
    }
  }

  async #startBeside(block: Block): Promise<void> {
    await this.#shell.startBeside(this.#local(block.text));
  }

  async #run(commands: readonly Command[]): Promise<void> {
    this.#printed = [];
    for (const [index, command] of commands.entries()) {
      if (IN_ANOTHER_TERMINAL.test(command.text)) {
        await this.#shell.startBeside(this.#local(command.text));
        continue;
      }
      const { code, lines } = await this.#shell.run(this.#local(command.text));
      const printed = trimmed(lines.map((line) => this.#named(line)));
      this.#printed.push(...printed);
      const said = `line ${command.line}: ${command.text}`;
      // A transcript shows the code of a command that does not end with 0.
      const isAsked = commands[index + 1]?.text.startsWith('echo $?') === true;
      if (!isAsked && !allowedCodes(command.text).includes(code))
        throw new Error(`${said}\nended with ${code}:\n${printed.join('\n')}`);
      if (command.expected === null) continue;
      const misfit = firstMisfit(command.expected, printed);
      if (misfit !== null)
        throw new Error(
          `${said}\nprinted nothing like this line: ${command.expected[misfit] ?? '(the end)'}\nbut:\n${printed.join('\n')}`,
        );
    }
  }

  /** What a block of commands printed: lines of it in their order, whatever their stats. */
  #checkExcerpt(block: Block): void {
    const masked = (line: string): string =>
      line
        .replaceAll(/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/g, '0')
        .replaceAll(/\d[\d.,:TZ-]*/g, '0')
        .replaceAll(/ {2,}/g, '  ');
    const expected = ['…', ...trimmed(block.text.split('\n')).flatMap((line) => [masked(line), '…'])];
    const misfit = firstMisfit(expected, this.#printed.map(masked));
    if (misfit !== null)
      throw new Error(
        `line ${block.line}: the commands before printed nothing like: ${expected[misfit] ?? '(the end)'}\nbut:\n${this.#printed.join('\n')}`,
      );
  }

  #ask(block: Block): void {
    const mirror = join(this.#directory, this.#options.mirror ?? 'data/mirror.db');
    if (!existsSync(mirror)) throw new Error(`line ${block.line}: there is no mirror at ${mirror}`);
    checkTable(block, openMirrorToRead(mirror, block.text));
  }

  /** A command with the ports and the service of this run. */
  #local(text: string): string {
    let local = text;
    for (const [name, port] of Object.entries(NAMED_PORTS))
      local = local.replaceAll(`${port}`, String(this.#ports[name as keyof Ports]));
    const { service } = this.#options;
    return service === undefined
      ? local
      : local.replaceAll(SERVICE, service).replaceAll('_API_KEY=…', `_API_KEY=${SERVICE_KEY}`);
  }

  /** A line of output with the ports and the service as the pages name them. */
  #named(text: string): string {
    let named = text;
    for (const [name, port] of Object.entries(NAMED_PORTS))
      named = named.replaceAll(`:${this.#ports[name as keyof Ports]}`, `:${port}`);
    const { service } = this.#options;
    return service === undefined ? named : named.replaceAll(service, SERVICE);
  }
}
