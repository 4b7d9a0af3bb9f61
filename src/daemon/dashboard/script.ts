/** The script of the dashboard: it keeps the page as new as the mirror. Without it the page is as it was when it was asked for. */

/**
 * Asks for the same page every so often while it is seen, and makes the one into the other node by node: what did not
 * move stays, with focus, scroll position, selection and whatever the reader unfolded.
 */
export const DASHBOARD_SCRIPT = `
'use strict';
(() => {
  const EVERY_MS = 10_000;
  const main = document.querySelector('main[data-live]');
  const lost = document.querySelector('#lost');
  if (main === null || lost === null) return;
  const later = window.setTimeout.bind(window);
  let waiting = 0;
  let underWay = false;
  const KEPT = { DETAILS: ['open'], INPUT: ['value'], OPTION: ['selected'] };
  const attributes = (from, to) => {
    const kept = KEPT[from.nodeName] || [];
    for (const { name } of [...from.attributes]) if (!to.hasAttribute(name) && !kept.includes(name)) from.removeAttribute(name);
    for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value && !kept.includes(name)) from.setAttribute(name, value);
  };
  const become = (from, to) => {
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || from.id !== to.id) {
      from.replaceWith(to.cloneNode(true));
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    if (from.isEqualNode(to)) return;
    attributes(from, to);
    const [old, young] = [[...from.childNodes], [...to.childNodes]];
    young.forEach((child, index) => {
      if (old[index] === undefined) from.append(child.cloneNode(true));
      else become(old[index], child);
    });
    for (const child of old.slice(young.length)) child.remove();
  };
  const update = async () => {
    if (underWay || document.hidden) return;
    underWay = true;
    try {
      const answer = await fetch(location.href, { headers: { 'X-Tidemark-Fragment': '1', Accept: 'text/html' }, redirect: 'manual' });
      if (answer.type === 'opaqueredirect' || answer.status === 401) {
        location.reload();
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      const young = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('main');
      if (young === null) throw new Error('no page');
      become(main, young);
      if (main.dataset.title && document.title !== main.dataset.title) document.title = main.dataset.title;
      lost.hidden = true;
      lost.textContent = '';
    } catch {
      lost.hidden = false;
      lost.textContent = 'The daemon does not answer: what is shown here is getting old.';
    } finally {
      underWay = false;
      clearTimeout(waiting);
      waiting = later(update, EVERY_MS);
    }
  };
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) void update();
  });
  waiting = later(update, EVERY_MS);
})();
`;
