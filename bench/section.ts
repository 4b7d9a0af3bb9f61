/** What the bench's sections share: how they are given their sizes and how they tell a figure. */
import { fileURLToPath } from 'node:url';

export interface BenchContext {
  /** Records of the usual comparison. */
  readonly records: number;
  /** Records of the large mirror. */
  readonly large: number;
  readonly rounds: number;
  /** A directory of the section's own; it goes when the section is over. */
  readonly scratch: string;
  /** One line on what is being measured. */
  readonly note: (text: string) => void;
}

/** One line of the table. */
export interface Line {
  readonly name: string;
  /** What was measured, with its unit. */
  readonly figure: string;
  /** Against what the bound compares it; empty where the bound is absolute. */
  readonly ratio?: string;
  readonly bound: string;
  readonly isMet: boolean;
  /** Shown beside its bound, but no reason to fail. */
  readonly isReported?: boolean;
}

/** A section lives in `bench/NAME.ts` and measures the built product. */
export type Section = (context: BenchContext) => Promise<readonly Line[]>;

/** The built program. */
export const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));

export function here(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}

/** A figure that may be at most `most`. */
export function atMost(
  name: string,
  value: number,
  most: number,
  show: (value: number) => string,
  ratio?: string,
): Line {
  return {
    name,
    figure: show(value),
    ...(ratio === undefined ? {} : { ratio }),
    bound: `≤ ${show(most)}`,
    isMet: value <= most,
  };
}

/** A ratio that may be at most `most`; `figure` is the absolute value beside it. */
export function atMostTimes(
  name: string,
  figure: string,
  ratio: number,
  most: number,
  against: string,
): Line {
  return {
    name,
    figure,
    ratio: `${ratio.toFixed(2)} × ${against}`,
    bound: `≤ ${most} ×`,
    isMet: ratio <= most,
  };
}

export function milliseconds(value: number): string {
  return value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${value.toFixed(0)} ms`;
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

export function byteCount(bytes: number): string {
  return `${bytes.toLocaleString('en')} B`;
}
