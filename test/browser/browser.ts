/** A real browser for tests of pages: Chromium from this machine, headless, with nothing of its own on the network. */
import { existsSync } from 'node:fs';
import { chromium, type Browser } from 'playwright-core';

/** Chromium's path: `CHROMIUM`, else where distributions put it; undefined where there is none. */
export const CHROMIUM: string | undefined = [
  process.env['CHROMIUM'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => path !== undefined && existsSync(path));

export async function launch(): Promise<Browser> {
  return await chromium.launch({
    executablePath: CHROMIUM ?? '',
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}
