/**
 * Carries out a Dockerfile without a container engine: each stage is a directory that stands for `/` in it. COPY copies
 * what `.dockerignore` leaves, RUN runs the real command with the stage's own directories put for absolute paths; `npm ci`
 * alone is checked and links what is installed. The base image is the Node that runs the tests. What a test starts of the result sees the machine's own `/usr` and `/lib`,
 * but of the project only what was copied.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  globSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  symlinkSync,
} from 'node:fs';
import { basename, join, posix } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { execForm, pairs, parseDockerfile, type Instruction, type Stage } from './dockerfile.ts';

export interface Image {
  /** The directory that stands for `/`. */
  readonly root: string;
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly workdir: string;
  readonly user: { readonly uid: number; readonly gid: number };
  readonly volumes: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly ports: readonly string[];
  readonly stopSignal: string;
  /** Program and arguments; null where there is none. */
  readonly health: readonly string[] | null;
}

export interface Build {
  readonly dockerfile: string;
  /** The checkout. */
  readonly context: string;
  readonly isIgnored: (path: string) => boolean;
  /** Where the stages' directories are made. */
  readonly scratch: string;
}

/** Only root can give files away and start programs as somebody else; for others all belongs to themselves. */
export const isRoot = process.getuid?.() === 0;

/** Builds every stage; the last one is the image. */
export function buildImage(build: Build): Image {
  const built = new Map<string, StageBuild>();
  let last: StageBuild | undefined;
  for (const stage of parseDockerfile(build.dockerfile)) {
    last = new StageBuild(build, built, stage);
    built.set(stage.name, last);
  }
  if (last === undefined) throw new Error('the Dockerfile has no stage');
  return last.image;
}

type Manifest = Readonly<Record<'dependencies' | 'devDependencies', Readonly<Record<string, string>>>>;

interface Lock {
  readonly packages: Readonly<Record<string, Partial<Manifest> & { readonly version?: string }>>;
}

/** With options that choose nothing of what is installed. */
const INSTALL = /^npm ci(?: --(?:ignore-scripts|no-audit|no-fund))*$/;

function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(path, 'utf8')) as T;
}

class StageBuild {
  readonly root: string;
  readonly #build: Build;
  readonly #built: ReadonlyMap<string, StageBuild>;
  readonly #env: Record<string, string> = {};
  readonly #volumes: string[] = [];
  readonly #arguments: Record<string, string> = {};
  readonly #labels: Record<string, string> = {};
  readonly #ports: string[] = [];
  #stopSignal = 'SIGTERM';
  #health: string[] | null = null;
  #workdir = '/';
  #user = { uid: 0, gid: 0 };
  #entrypoint: string[] = [];
  #command: string[] = [];

  constructor(build: Build, built: ReadonlyMap<string, StageBuild>, stage: Stage) {
    this.#build = build;
    this.#built = built;
    this.root = join(build.scratch, `stage-${stage.name}`);
    if (!/^node:24\b/.test(stage.base)) throw new Error(`no such base image here: ${stage.base}`);
    mkdirSync(join(this.root, 'usr/local/bin'), { recursive: true });
    copyFileSync(process.execPath, join(this.root, 'usr/local/bin/node'));
    for (const instruction of stage.instructions) this.#carryOut(instruction);
  }

  get image(): Image {
    return {
      root: this.root,
      entrypoint: this.#entrypoint,
      command: this.#command,
      env: this.#env,
      workdir: this.#workdir,
      user: this.#user,
      volumes: this.#volumes,
      labels: this.#labels,
      ports: this.#ports,
      stopSignal: this.#stopSignal,
      health: this.#health,
    };
  }

  #carryOut(instruction: Instruction): void {
    switch (instruction.name) {
      case 'ARG':
        Object.assign(this.#arguments, Object.fromEntries(pairs(instruction)));
        break;
      case 'LABEL':
        for (const [name, value] of pairs(instruction)) this.#labels[name] = this.#expanded(value);
        break;
      case 'EXPOSE':
        this.#ports.push(...instruction.text.split(/\s+/));
        break;
      case 'STOPSIGNAL':
        this.#stopSignal = instruction.text;
        break;
      case 'HEALTHCHECK':
        this.#health = execForm({ ...instruction, text: instruction.text.replace(/^CMD\s+/, '') });
        break;
      case 'ENV':
        Object.assign(this.#env, Object.fromEntries(pairs(instruction)));
        break;
      case 'WORKDIR':
        this.#workdir = posix.resolve(this.#workdir, instruction.text);
        mkdirSync(join(this.root, this.#workdir), { recursive: true });
        break;
      case 'COPY':
        this.#copy(instruction);
        break;
      case 'RUN':
        this.#run(instruction.text);
        break;
      case 'USER':
        this.#user = userOf(instruction.text);
        break;
      case 'VOLUME':
        this.#volumes.push(...instruction.text.split(/\s+/));
        break;
      case 'ENTRYPOINT':
        this.#entrypoint = execForm(instruction);
        break;
      case 'CMD':
        this.#command = execForm(instruction);
        break;
      default:
        throw new Error(`this test does not know the instruction ${instruction.name}`);
    }
  }

  #expanded(value: string): string {
    return value.replaceAll(/\$\{(\w+)\}/g, (_all, name: string) => {
      const found = this.#arguments[name];
      if (found === undefined) throw new Error(`no ARG ${name}`);
      return found;
    });
  }

  #copy({ flags, text }: Instruction): void {
    const unknown = Object.keys(flags).find((flag) => flag !== 'from');
    if (unknown !== undefined) throw new Error(`this test does not know COPY --${unknown}`);
    const words = text.split(/\s+/);
    const target = words.pop() ?? '';
    const from = flags['from'];
    const source = from === undefined ? null : this.#built.get(from);
    if (source === undefined) throw new Error(`COPY --from names no stage: ${from}`);
    const base = source === null ? this.#build.context : source.root;
    const paths = words.flatMap((word) => globSync(word.replace(/^\//, ''), { cwd: base }));
    const kept =
      source === null ? paths.filter((path) => !this.#build.isIgnored(posix.normalize(path))) : paths;
    if (kept.length < words.length) throw new Error(`COPY ${text}: not found`);
    const place = join(this.root, posix.resolve(this.#workdir, target));
    const isDirectory = target.endsWith('/') || kept.length > 1;
    for (const path of kept) {
      const found = join(base, path);
      const isFile = lstatSync(found).isFile();
      cpSync(found, isFile && isDirectory ? join(place, basename(path)) : place, {
        recursive: true,
        filter: (each) =>
          source !== null || !this.#build.isIgnored(posix.relative(posix.resolve(base), posix.resolve(each))),
      });
    }
  }

  /**
   * What `npm ci` installs is what the tests run with: those packages are linked. Checked is what it would refuse, or leave
   * out: a lock file that does not fit, and a stage for production, which has no bundler.
   */
  #install(): void {
    const directory = join(this.root, this.#workdir);
    const { packages } = readJson<Lock>(join(directory, 'package-lock.json'));
    const manifest = readJson<Manifest>(join(directory, 'package.json'));
    for (const of of ['dependencies', 'devDependencies'] as const)
      if (!isDeepStrictEqual(packages['']?.[of], manifest[of]))
        throw new Error(`npm ci would refuse the lock file: its ${of} are not those of package.json`);
    if (this.#env['NODE_ENV'] !== undefined) throw new Error('npm ci would leave out what the build needs');
    const modules = join(this.#build.context, 'node_modules');
    const installed = readJson<Lock>(join(modules, '.package-lock.json')).packages;
    for (const [path, { version }] of Object.entries(installed))
      if (packages[path]?.version !== version)
        throw new Error(`${path} is installed as ${version}, and not as the lock file says: run npm ci`);
    symlinkSync(modules, join(directory, 'node_modules'));
  }

  #run(text: string): void {
    if (INSTALL.test(text)) {
      this.#install();
      return;
    }
    const owned = isRoot ? text : text.replaceAll(/ -[og] \S+/g, '');
    const command = owned.replaceAll(/(?<=\s)\/(?=\w)/g, `${this.root}/`);
    try {
      execFileSync('/bin/sh', ['-ec', command], {
        cwd: join(this.root, this.#workdir),
        env: {
          HOME: process.env['HOME'],
          // The base image's Node comes first, as it does there; npm is the machine's.
          PATH: `${join(this.root, 'usr/local/bin')}:${process.env['PATH']}`,
          // The same packages from npm's cache, where it has them.
          npm_config_prefer_offline: 'true',
          ...this.#env,
        },
        stdio: 'pipe',
      });
    } catch (error) {
      const { stdout, stderr } = error as { stdout?: Buffer; stderr?: Buffer };
      throw new Error(`RUN ${text} failed:\n${stdout?.toString() ?? ''}${stderr?.toString() ?? ''}`, {
        cause: error,
      });
    }
  }
}

function userOf(text: string): { uid: number; gid: number } {
  const [uid, gid] = text.split(':').map(Number);
  if (uid === undefined || Number.isNaN(uid)) throw new Error(`USER ${text} is not a number`);
  return { uid, gid: gid ?? uid };
}

/** Takes every right to write, as a container with a read-only root file system has none; the volumes stay as they are. */
export function makeReadOnly(image: Image): void {
  const visit = (path: string): void => {
    if (image.volumes.some((volume) => join(image.root, volume) === path)) return;
    const status = lstatSync(path);
    if (status.isSymbolicLink()) return;
    if (status.isDirectory()) for (const entry of readdirSync(path)) visit(join(path, entry));
    chmodSync(path, status.mode & 0o555);
    if (isRoot) chownSync(path, 0, 0);
  };
  visit(image.root);
}
