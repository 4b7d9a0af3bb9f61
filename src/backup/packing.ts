/** Packs the SQLite file into the file of a backup, and unpacks it: compressed, optionally encrypted, and streamed. */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { type Readable, type TransformOptions, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress, createZstdDecompress, type ZstdOptions } from 'node:zlib';
import { TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { BACKUP_DAMAGED_HINT, REFETCH_HINT } from '../core/hints.ts';
import type { Secret } from '../core/secret.ts';
import { AGE_MAGIC, decryption, encryption, type Stage } from './encryption.ts';

interface Digest {
  readonly bytes: number;
  /** Hex. */
  readonly sha256: string;
}

export interface Digests {
  /** Of the SQLite file. */
  readonly plain: Digest;
  /** Of the backup's file. */
  readonly packed: Digest;
}

interface PackOptions {
  readonly onBytes?: (bytes: number) => void;
  readonly signal?: AbortSignal;
}

/** Small, because chunks stay in memory until the collector runs, and it counts only their objects, not their bytes. */
const CHUNK_BYTES = 32 * 1024;
const ZSTD_MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/**
 * The checksum detects a damaged file even without its manifest. With the high-water mark, each chunk is compressed
 * before the next one, or the end, is written: if the end arrives together with the last chunk, Node's compressor adds
 * an empty frame, and a cut in that frame would not be detected.
 */
const COMPRESSION: ZstdOptions & TransformOptions = {
  params: { [constants.ZSTD_c_checksumFlag]: 1 },
  writableHighWaterMark: 1,
};

/**
 * Packs the file `from` into `to`, a new file of mode 0600 that is flushed to disk when this resolves.
 * @throws TidemarkError about `from` or `to`, or what the pipeline throws; then `to` may exist in part
 */
export async function pack(
  from: string,
  to: string,
  { recipients, ...options }: PackOptions & { readonly recipients: readonly string[] },
): Promise<Digests> {
  const plain = new Tap(options.onBytes);
  const packed = new Tap();
  const compress = createZstdCompress(COMPRESSION);
  const encrypt: Stage = recipients.length === 0 ? (source) => source : await encryption(recipients);
  try {
    await pipeline(
      fileBytes(from),
      plain.stage,
      compress,
      encrypt,
      packed.stage,
      newFile(to),
      signalOf(options),
    );
  } catch (error) {
    throw asFileError(error, to, 'written');
  }
  return { plain: plain.digest(), packed: packed.digest() };
}

interface UnpackOptions extends PackOptions {
  readonly identities: readonly Secret[];
  readonly mostBytes?: number;
  /** The name of the backup in errors, if `from` is a file that the user does not know. */
  readonly subject?: string;
}

/**
 * Unpacks the backup `from` into `to`, a new file of mode 0600; if `to` is null, only reads it. Never unpacks more than
 * `mostBytes`, since a small file may unpack to more than any disk can hold.
 * @throws TidemarkError `mirror_corrupt` for a damaged backup, `usage` without a fitting identity or for a file that is
 * not a backup, or about `to`, which then may exist in part
 */
export async function unpack(
  from: string,
  to: string | null,
  { identities, mostBytes = Infinity, subject = from, ...options }: UnpackOptions,
): Promise<Digests> {
  const format = await formatOf(from);
  if (format === null) {
    throw new TidemarkError(
      'usage',
      `${subject} is not a backup: it is neither compressed nor encrypted as backups are`,
      { hint: '`tidemark backup list` lists the backups' },
    );
  }
  if (format === 'age' && identities.length === 0) {
    throw new TidemarkError('usage', `${subject} is encrypted`, {
      hint: 'give the file of an age identity that it was encrypted for with --identity',
    });
  }
  const plain = new Tap((bytes) => {
    if (bytes > mostBytes) throw tooLarge(subject, mostBytes);
  });
  const packed = new Tap(options.onBytes);
  const decrypt: Stage = format === 'age' ? await decryption(identities, subject) : (source) => source;
  try {
    await pipeline(
      fileBytes(from),
      packed.stage,
      decrypt,
      createZstdDecompress(),
      plain.stage,
      to === null ? nowhere() : newFile(to),
      signalOf(options),
    );
  } catch (error) {
    throw isOfZlib(error) ? damaged(subject, error) : asFileError(error, to ?? from, 'written');
  }
  return { plain: plain.digest(), packed: packed.digest() };
}

/** The digest of a backup's file on disk. */
export async function digestOf(path: string, options: PackOptions = {}): Promise<Digest> {
  try {
    return await digestOfStream(createReadStream(path, { highWaterMark: CHUNK_BYTES }), options);
  } catch (error) {
    throw asFileError(error, path, 'read');
  }
}

/** The digest of a response. @throws what reading it throws */
export async function digestOfStream(source: Readable, options: PackOptions = {}): Promise<Digest> {
  const tap = new Tap(options.onBytes);
  const released = async (chunks: AsyncIterable<Uint8Array>): Promise<void> => {
    for await (const chunk of chunks) release(chunk);
  };
  await pipeline(source, tap.stage, released, signalOf(options));
  return tap.digest();
}

/**
 * Frees a chunk of a response that is no longer needed, if it does not share its memory. The collector sees only a
 * small object, and would let 64 MB of chunks gather before it runs.
 */
export function release(chunk: Uint8Array): void {
  const { buffer, byteLength } = chunk;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** The format by the first bytes, whatever the name of the file; null if it is not that of a backup. */
export async function formatOf(path: string): Promise<'age' | 'zstd' | null> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, 'r');
    const { buffer, bytesRead } = await file.read(Buffer.alloc(AGE_MAGIC.length), 0, AGE_MAGIC.length, 0);
    const start = buffer.subarray(0, bytesRead);
    if (start.toString('latin1') === AGE_MAGIC) return 'age';
    return start.subarray(0, ZSTD_MAGIC.length).equals(ZSTD_MAGIC) ? 'zstd' : null;
  } catch (error) {
    throw asFileError(error, path, 'read');
  } finally {
    await file?.close();
  }
}

/** The bytes of a file. Errors name this file, not the one to which the pipeline writes. */
async function* fileBytes(path: string): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES }))
      yield chunk as Uint8Array;
  } catch (error) {
    throw asFileError(error, path, 'read');
  }
}

function tooLarge(path: string, mostBytes: number): TidemarkError {
  return new TidemarkError(
    'mirror_corrupt',
    `${path} unpacks to more than ${mostBytes} bytes, and no more are expected of it: it was not unpacked further`,
    { hint: 'take another backup (`tidemark backup list`), or fetch this one again with its manifest' },
  );
}

/** The error about a backup that is not what was written. */
export function damaged(path: string, cause?: unknown): TidemarkError {
  return new TidemarkError('mirror_corrupt', `${path} is damaged: it is not what was written`, {
    hint: REFETCH_HINT,
    cause,
  });
}

/** The error about a new backup that does not read back as it was written: the target is at fault, not the mirror. */
export function readsBackOtherwise(path: string): TidemarkError {
  return new TidemarkError(
    'backup_damaged',
    `${path} does not read back as it was written: it was not stored`,
    { hint: BACKUP_DAMAGED_HINT },
  );
}

/** Counts and hashes the bytes that pass. */
class Tap {
  readonly #hash = createHash('sha256');
  readonly #onBytes: (bytes: number) => void;
  #bytes = 0;

  constructor(onBytes: (bytes: number) => void = () => undefined) {
    this.#onBytes = onBytes;
  }

  readonly stage = async function* (
    this: Tap,
    source: AsyncIterable<Uint8Array>,
  ): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      this.#hash.update(chunk);
      this.#bytes += chunk.length;
      this.#onBytes(this.#bytes);
      yield chunk;
    }
  }.bind(this);

  digest(): Digest {
    return { bytes: this.#bytes, sha256: this.#hash.digest('hex') };
  }
}

function newFile(path: string): Writable {
  return createWriteStream(path, { flags: 'wx', mode: 0o600, flush: true });
}

function nowhere(): Writable {
  return new Writable({ write: (_chunk, _encoding, done) => done() });
}

function signalOf({ signal }: PackOptions): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

/** Errors of zlib have codes such as `ZSTD_error_checksum_wrong` and `Z_BUF_ERROR`. */
function isOfZlib(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^(ZSTD|Z)_/.test(String(error.code));
}
