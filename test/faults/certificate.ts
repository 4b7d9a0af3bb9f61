/** Certificates for servers of the tests with TLS, made by the machine's openssl. */
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';

export const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

/** A certificate for `host`, signed by itself, with its key: paths of PEM files `NAME.pem` and `NAME.pem.key` in `directory`. */
export function selfSigned(
  directory: string,
  host: string,
  name = 'certificate',
): { readonly key: string; readonly cert: string } {
  const cert = join(directory, `${name}.pem`);
  const key = `${cert}.key`;
  const made = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2'.split(' ');
  const of = ['-subj', `/CN=${host}`, '-addext', `subjectAltName=DNS:${host}`];
  execFileSync('openssl', ['req', '-x509', ...made, ...of, '-keyout', key, '-out', cert], { stdio: 'pipe' });
  return { key, cert };
}
