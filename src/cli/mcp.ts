/** `tidemark mcp`: the read-only tools for an MCP client that starts this program (docs/mcp.md). */
import process from 'node:process';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { ChildCommands } from '../mcp/child-command.ts';
import { Mcp } from '../mcp/server.ts';
import { readLoadedConfig } from '../wire.ts';
import { printNote, type CommandContext } from './context.ts';

/** Serves MCP on stdin and stdout until stdin ends or the command is stopped. */
export async function mcp(context: CommandContext): Promise<ExitCode> {
  // A wrong configuration is reported once, at the start, instead of by every tool.
  readLoadedConfig(context, context.options, 'unused');
  const server = openMcp(context);
  if (context.stdin.isTTY)
    printNote(context, ['an MCP client is expected on stdin: docs/mcp.md says how to add it']);
  context.signal.addEventListener('abort', () => server.close(), { once: true });
  await server.serveStdio(process.stdin, context.stdout);
  return EXIT.done;
}

/** The tools of this configuration, for the command and for the daemon. */
export function openMcp({ execPath, entry, env, cwd, options }: CommandContext): Mcp {
  const { config, source } = options;
  const globalOptions = [
    ...(config === undefined ? [] : [`--config=${config}`]),
    '--log-level=error',
    '--no-color',
  ];
  return new Mcp(new ChildCommands({ execPath, entry, env, cwd, globalOptions }), source ?? null);
}
