/** Addresses of backup targets: a path, or `s3://bucket/prefix?endpoint=…&region=…&path-style=…`. */

/** A place in S3-compatible storage. The AWS SDK finds the credentials. */
export interface S3Place {
  readonly type: 's3';
  readonly bucket: string;
  /** Without slashes at its ends; empty for the bucket itself. */
  readonly prefix: string;
  /** Of a service other than AWS; null for AWS, or the value of AWS_ENDPOINT_URL. */
  readonly endpoint: string | null;
  readonly region: string | null;
  /** The bucket in the path instead of the host name. */
  readonly isPathStyle: boolean;
}

const SCHEME = 's3://';
const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/;
const PARAMETERS = ['endpoint', 'region', 'path-style'];

/** The form of an address, after "expected". */
export const TARGET_ADDRESS =
  'a path, or s3://BUCKET/PREFIX (the name of a bucket has 3 to 63 characters) with ?endpoint=URL, &region=NAME or &path-style=true|false behind it where needed';

export function isS3Address(address: string): boolean {
  return address.startsWith(SCHEME);
}

/**
 * The address that a text without a slash or the colon was meant to be; undefined for other texts. A directory of that
 * name is written as `./s3:…`.
 */
export function meantS3Address(address: string): string | undefined {
  const [, rest] = /^\s*s3(?::\/?|\/\/)(?!\/)(.*)$/is.exec(address) ?? [];
  return rest === undefined ? undefined : `${SCHEME}${rest}`;
}

/** True for a valid S3 address and for a path; false for URLs of other schemes. */
export function isTargetAddress(address: string): boolean {
  if (meantS3Address(address) !== undefined) return false;
  return hasScheme(address) ? parseS3Address(address) !== null : address.trim() !== '';
}

/** True for a text that is written as a URL, and so is never taken for a path. */
export function hasScheme(address: string): boolean {
  return /^\s*[a-z][a-z0-9+.-]*:\/\//i.test(address);
}

/** The place in S3 that an address names; null for any other text. */
export function parseS3Address(address: string): S3Place | null {
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
    // At AWS, buckets are host names; most other services expect them in the path.
    isPathStyle: pathStyle === null ? endpoint !== null : pathStyle === 'true',
  };
}
