/** `tidemark config schema`: the JSON Schema of the configuration, for editors. */
import { configJsonSchema } from '../config/json-schema.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { print, type CommandContext } from './context.ts';

export async function configSchema(context: CommandContext): Promise<ExitCode> {
  await print(context, `${JSON.stringify(configJsonSchema(), null, 2)}\n`);
  return EXIT.done;
}
