/**
 * Runs `tidemark` commands that a shell sends, in this process: a process each would take a second of the processor to load
 * the program. The shell keeps what belongs to it: variables, directories, redirections, pipes and exit codes.
 */
import { createWriteStream, mkdirSync, mkdtempSync, rmSync, writeFileSync, type WriteStream } from 'node:fs';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { runCommandLine } from '../../src/cli/program.ts';

/** What bash does with its arguments: sends them with its directory and environment, waits, and prints what came of it. */
export const CLIENT = String.raw`in_process() {
  local joined=apart code place
  [ /dev/fd/1 -ef /dev/fd/2 ] && joined=joined
  exec 3<>"/dev/tcp/127.0.0.1/$COMMAND_SERVER" || exit 126
  { printf '%s\0' "$PWD" "$joined" "$#" "$@"; env -0; printf '\0'; } >&3
  read -r code place <&3 || { echo 'the command did not end' >&2; exit 126; }
  cat "$place/stdout"
  cat "$place/stderr" >&2
  exit "$code"
}`;

interface Request {
  readonly cwd: string;
  /** Whether both streams of the shell are one: then they are kept in their order. */
  readonly isJoined: boolean;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export class CommandServer {
  readonly #server: Server;
  readonly #program: string;
  readonly #directory = mkdtempSync(join(tmpdir(), 'tidemark-commands-'));
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<void>>();
  #count = 0;

  /** @param program the built one, for what a command starts as a process of its own */
  private constructor(program: string) {
    this.#program = program;
    this.#server = createServer((socket) => {
      const running = this.#answer(socket).catch((error: unknown) => {
        socket.destroy(error as Error);
      });
      this.#running.add(running);
      void running.then(() => this.#running.delete(running));
    });
  }

  static async start(program: string): Promise<CommandServer> {
    const own = new CommandServer(program);
    await new Promise<void>((resolve, reject) => {
      own.#server.on('error', reject).listen(0, '127.0.0.1', resolve);
    });
    return own;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('interrupted'));
    await Promise.all(this.#running);
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.#directory, { recursive: true, force: true });
  }

  async #answer(socket: Socket): Promise<void> {
    const { cwd, isJoined, args, env } = await receive(socket);
    const place = join(this.#directory, String((this.#count += 1)));
    const [outFile, errorFile] = [`${place}/stdout`, `${place}/stderr`];
    mkdirSync(place);
    writeFileSync(errorFile, '');
    const stdout = createWriteStream(outFile);
    const stderr = isJoined ? stdout : createWriteStream(errorFile);
    const code = await runCommandLine(args, {
      cwd,
      env,
      stdin: { isTTY: false },
      stdout,
      stderr,
      signal: this.#stop.signal,
      pid: process.pid,
      execPath: process.execPath,
      entry: this.#program,
    });
    await Promise.all([...new Set([stdout, stderr])].map(end));
    socket.end(`${code} ${place}\n`);
  }
}

async function end(stream: WriteStream): Promise<void> {
  stream.end();
  await finished(stream);
}

/** Parts that end with NUL: directory, `joined` or not, number of arguments, the arguments, the environment, an empty one. */
async function receive(socket: Socket): Promise<Request> {
  let text = '';
  socket.setEncoding('utf8');
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    text += chunk as string;
    const request = parse(text.split('\0').slice(0, -1));
    if (request !== null) return request;
  }
  throw new Error('the command was cut short');
}

/** Null where more is to come. */
function parse(parts: readonly string[]): Request | null {
  const [cwd = '', joined, count = ''] = parts;
  const args = parts.slice(3, 3 + Number(count));
  const environment = parts.slice(3 + Number(count));
  if (count === '' || environment.at(-1) !== '') return null;
  const variables = environment.slice(0, -1).map((each): [string, string] => {
    const at = each.indexOf('=');
    return [each.slice(0, at), each.slice(at + 1)];
  });
  return { cwd, isJoined: joined === 'joined', args, env: Object.fromEntries(variables) };
}
