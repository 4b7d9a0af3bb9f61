/** Contrast as WCAG 2.2 computes it (1.4.3), over all text that a page shows. */
import type { Page } from 'playwright-core';

/** Every shown text of less than `least` to 1 against what lies behind it, with the ratio. */
export async function poorTexts(page: Page, least: number): Promise<unknown> {
  return await page.evaluate(`(${IN_PAGE})(${least})`);
}

/** Runs inside the page: as text, since the types of a browser are not those of our program. */
const IN_PAGE = `(least) => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const known = new Map();
  const parse = (text) => {
    const color = known.get(text) ?? painted(text);
    known.set(text, color);
    return color;
  };
  const painted = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r = 0, g = 0, b = 0, a = 0] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const luminance = ([r, g, b]) => {
    const [x = 0, y = 0, z = 0] = [r, g, b].map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const page = parse(
    getComputedStyle(document.documentElement).colorScheme.includes('dark') ? '#121212' : '#ffffff',
  );
  const grounds = new Map();
  const groundOf = (element) => {
    if (element === null) return page;
    const ground = grounds.get(element);
    if (ground !== undefined) return ground;
    const own = parse(getComputedStyle(element).backgroundColor);
    const found = own[3] === 1 ? own : groundOf(element.parentElement);
    grounds.set(element, found);
    return found;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement;
    const text = node.textContent?.trim() ?? '';
    if (element === null || text === '' || element.closest('script, style, svg') !== null) continue;
    if (!element.checkVisibility({ contentVisibilityAuto: false })) continue;
    const ground = groundOf(element);
    const color = parse(getComputedStyle(element).color);
    const [light, dark] = [luminance(color), luminance(ground)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < least)
      found.push({ text: text.slice(0, 40), color: String(color), ground: String(ground), ratio });
  }
  return found;
}`;
