/** What `tidemark`, `npx` and `npm` are while a page is tried: this checkout, on ports that nobody else has. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { MadeDemo } from '../tools/made-demo.ts';
import { CLIENT } from './command-server.ts';

/** Ports that the pages name, by what listens there unless it is given another port. */
export const NAMED_PORTS = { sandbox: 8600, replica: 8700, daemon: 8787 } as const;

export type Ports = Readonly<Record<keyof typeof NAMED_PORTS, number>>;

/** One free port for each that the pages name. */
export async function freePorts(): Promise<Ports> {
  const [sandbox, replica, daemon] = await Promise.all([freePort(), freePort(), freePort()]);
  return { sandbox, replica, daemon };
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

export interface Programs {
  /** What `tidemark` starts, where that is to be a process: a file for Node. */
  readonly program: string;
  readonly ports: Ports;
  /** Port of the `CommandServer`. */
  readonly commands: number;
  /** What `npm run demo` leaves behind and prints. */
  readonly demo?: MadeDemo;
}

/**
 * Writes the programs into a directory that goes first in PATH. What a reader types when `init` asks, `TYPED_URL` says. `npm ci` and `npm test` do nothing: a
 * clean clone is installed, built and tested elsewhere, and the tests cannot run themselves. What `npm run demo` prints was
 * printed by a demo that ran for all tests. Commands that serve, or read a pipe, are processes of their own.
 */
export function writePrograms(directory: string, { program, ports, commands, demo }: Programs): void {
  mkdirSync(directory, { recursive: true });
  const write = (name: string, text: string): void => {
    writeFileSync(join(directory, name), `#!/bin/bash\n${text}`);
    chmodSync(join(directory, name), 0o755);
  };
  write(
    'tidemark',
    `COMMAND_SERVER=${commands}
${CLIENT}
port() { [[ " $* " == *" --port "* ]]; }
case "$1" in
  sandbox) port "$@" || set -- "$@" --port ${ports.sandbox} ;;
  serve) port "$@" || set -- "$@" --port ${ports.replica} ;;
  init) [[ " $* " == *" --url "* ]] || set -- "$@" --url "$TYPED_URL" --key-env SVC_API_KEY ;;
  daemon) export TIDEMARK_HTTP_LISTEN="\${TIDEMARK_HTTP_LISTEN:-127.0.0.1:${ports.daemon}}" ;;
esac
case "$1" in
  sandbox | serve | daemon | mcp | fleet) ;;
  *) [ -p /dev/stdin ] || in_process "$@" ;;
esac
exec "${process.execPath}" --disable-warning=ExperimentalWarning "${program}" "$@"
`,
  );
  write(
    'npx',
    `[ "$1" = tidemark ] || { echo "npx $1: not in the docs' programs" >&2; exit 127; }
shift
exec tidemark "$@"
`,
  );
  // What changes the machine, or needs one of its own, is never started by accident.
  for (const name of ['docker', 'kubectl', 'sudo', 'systemctl', 'apt', 'apt-get', 'restic', 'rclone'])
    write(name, `echo "${name}: say <!-- not run: REASON --> before this block" >&2; exit 127\n`);
  write(
    'npm',
    `case "$1 $2" in
  "ci " | "test " | "run build" | "link ") exit 0 ;;
  "run demo") ${demo === undefined ? 'echo "this page has no demo" >&2; exit 127' : printDemo(demo)} ;;
  "run -s") [ "$3 $4" = "tidemark --" ] && { shift 4; exec tidemark "$@"; } ;;
esac
echo "npm $*: not in the docs' programs" >&2
exit 127
`,
  );
}

/** Commands of a shell that do in `data/demo` what the demo did, and print it with that path. */
function printDemo({ directory, printed }: MadeDemo): string {
  return `mkdir -p data/demo && cp -r "${directory}/." data/demo/ && sed "s#${directory}#$PWD/data/demo#g" "${printed}" && exit 0`;
}
