/** The tokens of the replica: from a file of its own, or the configuration's. */
import { resolve } from 'node:path';
import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { TidemarkError } from '../core/errors.ts';
import { asFileTrouble } from '../core/file-errors.ts';
import { Secret } from '../core/secret.ts';

/**
 * @param file one token a line; empty lines and lines that begin with `#` do not count
 * @throws TidemarkError `usage` for a file without a token, and for a token that is the key of a source;
 * `config_invalid` where the configuration names a file that gave none; `file_system` for a file that cannot be read
 */
export function replicaTokens(config: Config, cwd: string, file: string | undefined): readonly Secret[] {
  const tokens = file === undefined ? configuredTokens(config) : tokensOf(resolve(cwd, file));
  for (const { name, apiKey } of config.configured) {
    const key = apiKey.reveal();
    if (key === '' || !tokens.some((token) => token.reveal() === key)) continue;
    throw new TidemarkError('usage', `a token of the replica is the key of source ${name}`, {
      hint: 'give the replica a token of its own, such as `openssl rand -hex 32` prints: the key opens the service itself',
    });
  }
  return tokens;
}

function configuredTokens({ replica: { token, tokenFile } }: Config): readonly Secret[] {
  if (token !== null) return [token];
  if (tokenFile === null) return [];
  throw new TidemarkError('config_invalid', `replica.tokenFile ${tokenFile} gave no token`, {
    hint: 'put the token in that file and make it readable, or name another file with --token-file',
  });
}

function tokensOf(path: string): readonly Secret[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw asFileTrouble(error, path, 'read');
  }
  const lines = text.split('\n').map((line) => line.trim());
  const tokens = lines.filter((line) => line !== '' && !line.startsWith('#'));
  const broken = tokens.find((token) => !/^[\x21-\x7e]+$/.test(token));
  if (tokens.length > 0 && broken === undefined) return tokens.map((token) => new Secret(token));
  const what = broken === undefined ? 'holds no token' : 'holds a token that no header could carry';
  throw new TidemarkError('usage', `${path} ${what}`, {
    hint: 'write one token a line: visible ASCII characters without spaces, such as `openssl rand -hex 32` prints',
  });
}
