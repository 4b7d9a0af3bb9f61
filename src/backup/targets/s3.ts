/**
 * S3-compatible storage as a target (AWS, R2, B2, MinIO, Garage, GCS by its S3 interface). An object is visible when
 * its upload is complete. The manifest is uploaded last, after the backup was read back, and only objects with a
 * manifest count as backups. The right to delete is needed only for retention.
 */
import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
  paginateListObjectsV2,
} from '@aws-sdk/client-s3';
import type { S3TargetConfig } from '../../config/config.ts';
import { NO_PROXIES, proxyFor } from '../../config/proxy.ts';
import type { Clock } from '../../core/clock.ts';
import { systemCodeOf, TidemarkError } from '../../core/errors.ts';
import { asFileError } from '../../core/file-errors.ts';
import { backupOfManifest, manifestName, parseBackupName, placesWith } from '../name.ts';
import { digestOfStream, readsBackOtherwise, release } from '../packing.ts';
import { addressOf, type BackupTarget, type LocalBackup, type StoreOptions } from './target.ts';

const MEBIBYTE = 1024 * 1024;
/** S3 allows 10,000 parts, each but the last of 5 MiB or more. A part is held in memory. */
const PART_BYTES = 8 * MEBIBYTE;
const MOST_PARTS = 9_000;
const DAY_MS = 24 * 3_600_000;
/** Unfinished uploads are removed after this time: until then, another process may be working on them. */
const ABANDONED_MS = DAY_MS;

/** Node's own agents, which support proxies since Node.js 22.21 and 24.5; older versions connect directly. */
function agents({ bucket, endpoint, region, proxies = NO_PROXIES }: S3TargetConfig): {
  readonly httpAgent: HttpAgent;
  readonly httpsAgent: HttpsAgent;
} {
  const url = new URL(endpoint ?? `https://${bucket}.s3.${region === null ? '' : `${region}.`}amazonaws.com`);
  const proxy = proxyFor(url, proxies)?.href;
  // Always set: otherwise, with NODE_USE_ENV_PROXY, Node would read the environment in its own way.
  const proxyEnv = proxy === undefined ? {} : { HTTP_PROXY: proxy, HTTPS_PROXY: proxy };
  const options = { keepAlive: true, maxSockets: 50, proxyEnv };
  return { httpAgent: new HttpAgent(options), httpsAgent: new HttpsAgent(options) };
}

export class S3Target implements BackupTarget {
  readonly address: string;
  readonly isManifestLast = true;
  readonly #config: S3TargetConfig;
  readonly #clock: Clock;
  readonly #client: S3Client;
  /** For completing uploads: services may send nothing until that is done, and the limit of a socket is set for a client. */
  readonly #patient: S3Client;

  constructor(config: S3TargetConfig, clock: Clock) {
    this.#config = config;
    this.#clock = clock;
    this.address = addressOf(config);
    const limits = {
      connectionTimeout: 10_000,
      // Without a byte in either direction, so that a slow upload does not count as idle.
      socketTimeout: 20_000,
      requestTimeout: 120_000,
      throwOnRequestTimeout: true,
      ...agents(config),
    };
    const settings = {
      ...(config.region === null ? {} : { region: config.region }),
      ...(config.endpoint === null ? {} : { endpoint: config.endpoint }),
      forcePathStyle: config.isPathStyle,
      // With the limits above, a service that does not answer, or stops answering, is given up after a minute.
      maxAttempts: 3,
      // Checksums are sent as Content-MD5, which every service supports; not all support newer headers.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    } as const;
    this.#client = new S3Client({ ...settings, requestHandler: limits });
    this.#patient = new S3Client({ ...settings, requestHandler: { ...limits, socketTimeout: 120_000 } });
  }

  pathOf(name: string): string {
    return `${this.address}/${name}`;
  }

  async check(signal: AbortSignal): Promise<void> {
    await this.#asking('listed', async () => {
      await this.#client.send(
        new ListObjectsV2Command({ Bucket: this.#bucket, Prefix: this.#key(''), MaxKeys: 1 }),
        { abortSignal: signal },
      );
    });
  }

  async list() {
    return await this.#asking('listed', async () => {
      const files: { name: string; bytes: number; at: number }[] = [];
      for await (const file of this.#objects()) {
        if (parseBackupName(file.name) !== undefined || backupOfManifest(file.name) !== undefined)
          files.push(file);
      }
      return files;
    });
  }

  async placesBelow() {
    return await this.#asking('listed', async () => {
      const filesIn = new Map<string, string[]>();
      for await (const { name } of this.#objects()) {
        const [place = '', file = '', ...deeper] = name.split('/');
        if (deeper.length === 0 && backupOfManifest(file) !== undefined)
          filesIn.set(place, (filesIn.get(place) ?? []).concat(file));
      }
      return placesWith(filesIn);
    });
  }

  /** All objects below the prefix. */
  async *#objects() {
    const prefix = this.#key('');
    const pages = paginateListObjectsV2({ client: this.#client }, { Bucket: this.#bucket, Prefix: prefix });
    for await (const { Contents = [] } of pages) {
      for (const { Key: key = '', Size: bytes = 0, LastModified: at } of Contents)
        yield { name: key.slice(prefix.length), bytes, at: at?.getTime() ?? this.#clock.now() };
    }
  }

  async readText(name: string): Promise<string | null> {
    return await this.#asking('read', async () => {
      try {
        const { Body } = await this.#client.send(
          new GetObjectCommand({ Bucket: this.#bucket, Key: this.#key(name) }),
        );
        return (await Body?.transformToString('utf8')) ?? '';
      } catch (error) {
        if (error instanceof Error && error.name === 'NoSuchKey') return null;
        throw error;
      }
    });
  }

  async fetch(name: string, directory: string, signal: AbortSignal): Promise<string> {
    const to = join(directory, 'fetched-backup');
    await this.#asking('read', async () => {
      const body = await this.#read(name, signal);
      try {
        await pipeline(body, (chunks: AsyncIterable<Uint8Array>) => write(chunks, to), { signal });
      } catch (error) {
        throw asFileError(error, to, 'written');
      }
    });
    return to;
  }

  async store(backup: LocalBackup, options: StoreOptions): Promise<void> {
    const { name, manifest, bytes, sha256 } = backup;
    const { signal, onBytes } = options;
    await this.#asking('written', async () => {
      await this.#upload(backup, options);
      const readBack = await digestOfStream(await this.#read(name, signal), {
        signal,
        onBytes: (read) => onBytes(bytes + read),
      });
      if (readBack.sha256 !== sha256) {
        // If it cannot be removed: without a manifest it is not a backup.
        await this.#delete(name).catch(() => undefined);
        throw readsBackOtherwise(this.pathOf(name));
      }
      await this.#put(manifestName(name), Buffer.from(manifest), signal);
    });
  }

  async remove(name: string): Promise<void> {
    await this.#asking('removed', async () => {
      await this.#delete(manifestName(name));
      await this.#delete(name);
    });
  }

  async sweep() {
    const files = await this.list();
    const names = new Set(files.map(({ name }) => name));
    const isAbandoned = (at: number): boolean => this.#clock.now() - at > ABANDONED_MS;
    for (const { name, at } of files) {
      if (backupOfManifest(name) !== undefined || names.has(manifestName(name)) || !isAbandoned(at)) continue;
      // Without the right to delete, it stays: without a manifest it is not a backup.
      await this.#delete(name).catch(() => undefined);
    }
    // Without the right to list and abort uploads, a rule of the bucket can end them.
    await this.#abortAbandoned(isAbandoned).catch(() => undefined);
    return files;
  }

  async #abortAbandoned(isAbandoned: (at: number) => boolean): Promise<void> {
    const prefix = this.#key('');
    const { Uploads = [] } = await this.#client.send(
      new ListMultipartUploadsCommand({ Bucket: this.#bucket, Prefix: prefix }),
    );
    for (const { Key = '', UploadId, Initiated } of Uploads) {
      const isOurs = parseBackupName(Key.slice(prefix.length)) !== undefined;
      if (isOurs && Initiated !== undefined && isAbandoned(Initiated.getTime()))
        await this.#client.send(new AbortMultipartUploadCommand({ Bucket: this.#bucket, Key, UploadId }));
    }
  }

  get #bucket(): string {
    return this.#config.bucket;
  }

  #key(name: string): string {
    const { prefix } = this.#config;
    return prefix === '' ? name : `${prefix}/${name}`;
  }

  async #read(name: string, signal: AbortSignal): Promise<Readable> {
    const { Body } = await this.#client.send(
      new GetObjectCommand({ Bucket: this.#bucket, Key: this.#key(name) }),
      { abortSignal: signal },
    );
    if (Body instanceof Readable) return Body;
    throw new TidemarkError('malformed', `${this.pathOf(name)}: the service answered without contents`);
  }

  async #upload({ name, path, bytes }: LocalBackup, { signal, onBytes }: StoreOptions): Promise<void> {
    const file = await opened(path);
    try {
      const partBytes = Math.max(PART_BYTES, Math.ceil(bytes / MOST_PARTS / MEBIBYTE) * MEBIBYTE);
      if (bytes <= partBytes) {
        const whole = Buffer.allocUnsafe(bytes);
        await fill(whole, file, path, 0);
        await this.#put(name, whole, signal);
        onBytes(bytes);
        return;
      }
      await this.#uploadParts(name, bytes, signal, async (send) => {
        // One buffer for all parts: a new one for each would stay in memory until the collector runs.
        const buffer = Buffer.allocUnsafe(partBytes);
        for (let start = 0; start < bytes; start += partBytes) {
          const part = buffer.subarray(0, Math.min(partBytes, bytes - start));
          await fill(part, file, path, start);
          await send(part);
          onBytes(Math.min(bytes, start + partBytes));
        }
      });
    } finally {
      await file.close();
    }
  }

  async #put(name: string, body: Buffer, signal: AbortSignal): Promise<void> {
    await this.#client.send(
      new PutObjectCommand({
        Bucket: this.#bucket,
        Key: this.#key(name),
        Body: body,
        ContentMD5: md5(body),
        ...this.#lock(),
      }),
      { abortSignal: signal },
    );
  }

  /** An upload in parts, each with its checksum. It is aborted if it fails, so that no part of it is kept and paid for. */
  async #uploadParts(
    name: string,
    bytes: number,
    signal: AbortSignal,
    work: (send: (part: Buffer) => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const target = { Bucket: this.#bucket, Key: this.#key(name) };
    const { UploadId } = await this.#client.send(
      new CreateMultipartUploadCommand({ ...target, ...this.#lock() }),
      { abortSignal: signal },
    );
    const parts: { PartNumber: number; ETag: string | undefined }[] = [];
    try {
      await work(async (part) => {
        const PartNumber = parts.length + 1;
        const { ETag } = await this.#client.send(
          new UploadPartCommand({ ...target, UploadId, PartNumber, Body: part, ContentMD5: md5(part) }),
          { abortSignal: signal },
        );
        parts.push({ PartNumber, ETag });
      });
      const complete = new CompleteMultipartUploadCommand({
        ...target,
        UploadId,
        MultipartUpload: { Parts: parts },
      });
      try {
        await this.#patient.send(complete, { abortSignal: signal });
      } catch (error) {
        // If the answer was lost, the upload may be complete, and a second attempt finds no such upload.
        if (signal.aborted || (await this.#bytesOf(name, signal).catch(() => null)) !== bytes) throw error;
      }
    } catch (error) {
      // Errors of the abort are ignored: the next backup, or a rule of the bucket, ends the upload too. If the service
      // did not answer, no further request is sent.
      if (!(error instanceof Error && error.name === 'TimeoutError'))
        await this.#client
          .send(new AbortMultipartUploadCommand({ ...target, UploadId }))
          .catch(() => undefined);
      throw error;
    }
  }

  async #bytesOf(name: string, signal: AbortSignal): Promise<number | null> {
    const { ContentLength = null } = await this.#client.send(
      new HeadObjectCommand({ Bucket: this.#bucket, Key: this.#key(name) }),
      { abortSignal: signal },
    );
    return ContentLength;
  }

  /** Until this time nobody may remove or replace the object, not even with this machine's key. */
  #lock() {
    const { objectLock } = this.#config;
    if (objectLock === null) return {};
    return {
      ObjectLockMode: objectLock.mode === 'compliance' ? ('COMPLIANCE' as const) : ('GOVERNANCE' as const),
      ObjectLockRetainUntilDate: new Date(this.#clock.now() + objectLock.days * DAY_MS),
    };
  }

  async #delete(name: string): Promise<void> {
    await this.#client.send(new DeleteObjectCommand({ Bucket: this.#bucket, Key: this.#key(name) }));
  }

  /** Does work with the service. @throws TidemarkError that names the address */
  async #asking<T>(operation: 'listed' | 'read' | 'written' | 'removed', work: () => Promise<T>): Promise<T> {
    try {
      await this.#client.config.region();
    } catch (error) {
      throw new TidemarkError('config_invalid', `${this.address}: the region is not known`, {
        hint: 'set AWS_REGION, or add ?region=… to the address',
        cause: error,
      });
    }
    try {
      return await work();
    } catch (error) {
      throw asTargetError(error, this.address, operation);
    }
  }
}

function md5(bytes: Buffer): string {
  return createHash('md5').update(bytes).digest('base64');
}

async function opened(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r');
  } catch (error) {
    throw asFileError(error, path, 'read');
  }
}

/** Writes a response to `to`, a new file of mode 0600. */
async function write(chunks: AsyncIterable<Uint8Array>, to: string): Promise<void> {
  const file = await open(to, 'wx', 0o600);
  try {
    for await (const chunk of chunks) {
      await file.writeFile(chunk);
      release(chunk);
    }
  } finally {
    await file.close();
  }
}

/** Fills the buffer from the file, from position `start`. */
async function fill(buffer: Buffer, file: FileHandle, path: string, start: number): Promise<void> {
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, start + filled);
    if (bytesRead === 0) throw readsBackOtherwise(path);
    filled += bytesRead;
  }
}

/** An error of the SDK as a `TidemarkError`. Its messages may quote requests, so only its codes are used. */
function asTargetError(thrown: unknown, address: string, operation: string): unknown {
  if (thrown instanceof TidemarkError || !(thrown instanceof Error)) return thrown;
  const what = `${operation === 'removed' ? 'an old backup in ' : ''}${address} could not be ${operation}`;
  const status = statusOf(thrown);
  const error = (
    code: ConstructorParameters<typeof TidemarkError>[0],
    why: string,
    hint: string,
    isRetryable = false,
  ): TidemarkError =>
    new TidemarkError(code, `${what}: ${why}`, { hint, isRetryable, cause: nameOf(thrown) });
  if (thrown.name === 'AbortError') return new TidemarkError('interrupted', `${what}: interrupted`);
  if (thrown.name === 'CredentialsProviderError')
    return error(
      'config_invalid',
      'there are no credentials',
      'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile in ~/.aws/credentials, or a web identity',
    );
  if (thrown.name === 'NoSuchBucket')
    return error('file_system', 'there is no such bucket', 'check the bucket in the address, or create it');
  if (thrown.name === 'NoSuchKey')
    return error('file_system', 'there is no such object', 'see `tidemark backup list`');
  if (status === 401 || status === 403)
    return error(
      'rejected',
      `access denied (${nameOf(thrown)})`,
      'check the credentials and what their policy allows: docs/backup.md lists the permissions',
    );
  if (status === 507 || /Quota|Insufficient/i.test(thrown.name))
    return error('disk_full', 'the storage is full', 'free space there, or raise its quota');
  if (status !== undefined && status >= 500)
    return error('server_error', `the service answered ${status}`, 'try again later', true);
  if (status !== undefined && status >= 300)
    return error(
      'rejected',
      `the service answered ${status} (${nameOf(thrown)})`,
      'check endpoint, region and bucket',
    );
  return error(
    'unreachable',
    whyUnanswered(thrown),
    'check the endpoint and the network, then try again',
    true,
  );
}

/** The SDK reports a broken connection and a timeout under one name: they differ only in the system code. */
function whyUnanswered(error: Error): string {
  const code = systemCodeOf(error);
  if (code === 'ECONNRESET' || code === 'EPIPE') return `the connection was broken off (${code})`;
  return error.name === 'TimeoutError' ? 'no answer in time' : `no answer (${code ?? nameOf(error)})`;
}

/** The name of the error, if it looks like one: it must not contain anything else, such as a token of the request. */
function nameOf({ name }: Error): string {
  return /^\w{1,60}$/.test(name) ? name : 'an unknown error';
}

function statusOf(error: Error): number | undefined {
  if (!('$metadata' in error)) return undefined;
  const { httpStatusCode } = error.$metadata as { readonly httpStatusCode?: number };
  return httpStatusCode;
}
