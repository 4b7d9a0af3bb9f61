/** Addresses of backup targets: a path, or `s3://bucket/prefix?endpoint=…&region=…&path-style=…`. */
import type { S3TargetConfig } from './config.ts';

const SCHEME = 's3://';
const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/;
const PARAMETERS = ['endpoint', 'region', 'path-style'];

/** How an address has to look, after "expected". */
export const TARGET_ADDRESS =
  'a path, or s3://BUCKET/PREFIX with ?endpoint=URL, &region=NAME or &path-style=true|false behind it where needed';

export function isS3Address(address: string): boolean {
  return address.startsWith(SCHEME);
}

/** What an address says of a place in S3; null where it is no such address. Nothing is removed there. */
export function parseS3Address(address: string): S3TargetConfig | null {
  if (!isS3Address(address)) return null;
  const [place = '', query = ''] = address.slice(SCHEME.length).split('?', 2);
  const [bucket = '', ...path] = place.split('/');
  const prefix = path.filter((part) => part !== '').join('/');
  const parameters = new URLSearchParams(query);
  if (!BUCKET.test(bucket) || [...parameters.keys()].some((name) => !PARAMETERS.includes(name))) return null;
  const endpoint = parameters.get('endpoint');
  if (endpoint !== null && !(URL.canParse(endpoint) && /^https?:$/.test(new URL(endpoint).protocol)))
    return null;
  const pathStyle = parameters.get('path-style');
  if (pathStyle !== null && pathStyle !== 'true' && pathStyle !== 'false') return null;
  return {
    type: 's3',
    bucket,
    prefix,
    endpoint,
    region: parameters.get('region') ?? (endpoint === null ? null : 'us-east-1'),
    // Buckets are host names at AWS; most others take them in the path.
    isPathStyle: pathStyle === null ? endpoint !== null : pathStyle === 'true',
    objectLock: null,
    retention: null,
  };
}
