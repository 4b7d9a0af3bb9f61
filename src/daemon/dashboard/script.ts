/**
 * The script of the dashboard. While a page is visible, it is loaded again every `data-live` seconds, and its content is updated node by
 * node: what did not change stays, with focus, scroll position, selection and unfolded parts. An element with an id is recognized by it,
 * wherever it moves. The script waits while a form is being filled in, except for a filter (`data-filter`), which it sends meanwhile.
 * Without it, a page stays as it was loaded, and boxes that select all (`data-all`) are hidden. `/` leads to the text box of the filter,
 * Escape clears it.
 */
export const DASHBOARD_SCRIPT = `
'use strict';
(() => {
  const TYPED_MS = 150;
  // The server writes UTC, which stays as the title.
  const inZone = (text, length) => {
    const at = new Date(text);
    const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString();
    const zone = new Intl.DateTimeFormat('en', { timeZoneName: 'short' }).formatToParts(at).find(({ type }) => type === 'timeZoneName');
    return local.slice(0, length).replace('T', ' ') + ' ' + zone.value;
  };
  const localize = (root) => {
    for (const time of root.querySelectorAll('time[data-clock]'))
      time.textContent = inZone(time.dateTime, Number(time.dataset.clock));
    // An option is text only.
    for (const option of root.querySelectorAll('option'))
      option.textContent = option.textContent.replace(/(\\d{4}-\\d\\d-\\d\\d) (\\d\\d:\\d\\d) UTC/, (_, day, minute) => inZone(day + 'T' + minute + 'Z', 16));
  };
  localize(document);
  const offerAll = (root) => {
    for (const label of root.querySelectorAll('label[data-all]')) label.hidden = false;
  };
  offerAll(document);
  document.addEventListener('change', ({ target }) => {
    const all = target.form?.querySelector('label[data-all] > input');
    if (!all) return;
    const boxes = [...target.form.elements].filter(({ name }) => name === 'record');
    if (target === all) for (const box of boxes) box.checked = all.checked;
    else all.checked = boxes.length > 0 && boxes.every(({ checked }) => checked);
  });
  const main = document.querySelector('main[data-live]');
  const lost = document.querySelector('#lost');
  if (main === null || lost === null) return;
  // Below which the daemon is seen, and the place of this page there: reached past a proxy, it may have no such path.
  const home = document.querySelector('a.brand').pathname;
  const isBelow = (location.pathname + '/').startsWith(home);
  const path = isBelow ? location.pathname.slice(home.length - 1) || '/' : location.pathname;
  const later = window.setTimeout.bind(window);
  const everyMs = () => 1_000 * Number(main.dataset.live);
  let waiting = 0;
  let underWay = false;
  let isAskedAgain = false;
  const KEPT = { DETAILS: ['open'], INPUT: ['value'], OPTION: ['selected'] };
  const attributes = (from, to) => {
    // What is sent for a box or with a form is the server's; what a person typed is not.
    const kept = ['hidden', 'checkbox'].includes(from.type) ? [] : KEPT[from.nodeName] || [];
    const isKept = (name) => kept.includes(name);
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !isKept(name)) from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (from.getAttribute(name) !== value && !isKept(name)) from.setAttribute(name, value);
    }
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
    const byId = new Map([...from.children].filter(({ id }) => id !== '').map((child) => [child.id, child]));
    const isLeft = new Set(byId.values());
    let at = from.firstChild;
    for (const child of to.childNodes) {
      const same = child.id ? byId.get(child.id) : undefined;
      if (same !== undefined) {
        isLeft.delete(same);
        if (same === at) at = at.nextSibling;
        else from.insertBefore(same, at);
        become(same, child);
        continue;
      }
      // One with an id is only ever turned into itself.
      while (at !== null && isLeft.has(at)) at = at.nextSibling;
      if (at === null || child.id) from.insertBefore(child.cloneNode(true), at);
      else {
        const next = at.nextSibling;
        become(at, child);
        at = next;
      }
    }
    while (at !== null) {
      const next = at.nextSibling;
      if (!isLeft.has(at)) at.remove();
      at = next;
    }
    for (const gone of isLeft) if (!isInUse(gone)) gone.remove();
  };
  // Selected for something, or being filled in.
  const isInUse = (element) =>
    element.matches('details.act[open]') || element.querySelector('details.act[open], input:checked:not(.chip > input)') !== null;
  const update = async (isAsked = false) => {
    // The answer to a form cannot be loaded again.
    if (document.hidden || path.startsWith('/actions/')) return;
    if (underWay) {
      isAskedAgain ||= isAsked;
      return;
    }
    if (!isAsked && isInUse(main)) {
      clearTimeout(waiting);
      waiting = later(update, everyMs());
      return;
    }
    underWay = true;
    isAskedAgain = false;
    let status = 0;
    try {
      const headers = { 'X-Tidemark-Fragment': '1', Accept: 'text/html' };
      const answer = await fetch(location.href, { headers, redirect: 'manual' });
      status = answer.status;
      if (answer.type === 'opaqueredirect' || answer.status === 401) {
        location.reload();
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      const young = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('main');
      if (young === null) throw new Error('no page');
      localize(young);
      offerAll(young);
      become(main, young);
      if (main.dataset.title && document.title !== main.dataset.title) document.title = main.dataset.title;
      lost.hidden = true;
      lost.textContent = '';
    } catch {
      // No connection or no page: said on the page, and tried again.
      lost.hidden = false;
      const what = status < 400 ? 'does not answer' : 'answers with an error (' + status + ')';
      lost.textContent = 'The daemon ' + what + ': what is shown here is getting old.';
    } finally {
      underWay = false;
      clearTimeout(waiting);
      waiting = later(update, everyMs());
      if (isAskedAgain) void update(true);
    }
  };
  const filter = (form) => {
    const entries = [...new FormData(form)].filter(([, value]) => value !== '');
    const query = new URLSearchParams(entries).toString();
    const address = form.getAttribute('action') + (query === '' ? '' : '?' + query);
    if (address === location.pathname + location.search) return;
    history.replaceState(null, '', address);
    void update(true);
  };
  let typing = 0;
  document.addEventListener('input', ({ target }) => {
    const form = target.form;
    if (!form || form.dataset.filter === undefined) return;
    clearTimeout(typing);
    typing = later(() => filter(form), target.type === 'search' ? TYPED_MS : 0);
  });
  document.addEventListener('submit', (event) => {
    if (event.target.dataset.filter === undefined) return;
    event.preventDefault();
    clearTimeout(typing);
    filter(event.target);
  });
  document.addEventListener('keydown', (event) => {
    const box = main.querySelector('form[data-filter] input[type=search]');
    if (box === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName) && event.target.type !== 'checkbox';
    if (event.key === '/' && !isTyping) {
      event.preventDefault();
      box.focus();
      box.select();
    } else if (event.key === 'Escape' && event.target.form === box.form) {
      box.value = '';
      for (const chip of box.form.querySelectorAll('.chip input')) chip.checked = false;
      for (const select of box.form.querySelectorAll('select')) select.selectedIndex = 0;
      filter(box.form);
    }
  });
  // While a job runs its numbers come as events; another job, or another kind, needs another page.
  const shape = ({ running, queued }) =>
    JSON.stringify([
      running.map(({ job, progress }) => [job, progress && [progress.is_publishing, progress.kinds.map(({ kind, pending }) => [kind, pending === 0])]]),
      queued.length,
    ]);
  let shown = null;
  const of = new URLSearchParams(location.search).get('source');
  const isOfPage = ({ source }) => of === null || source === of;
  const number = new Intl.NumberFormat('en-US');
  const follow = () => {
    const events = new EventSource(home + 'api/v1/events');
    events.addEventListener('activity', ({ data }) => {
      const all = JSON.parse(data);
      const activity = { running: all.running.filter(isOfPage), queued: all.queued.filter(isOfPage) };
      const young = shape(activity);
      const isOther = shown !== null && shown !== young;
      shown = young;
      if (isOther) void update();
      for (const { job, progress } of activity.running) {
        if (progress === null) continue;
        const counts = [['records', progress.records], ['pages', progress.pages], ['requests', progress.requests], ...progress.kinds.map(({ kind, records }) => [kind, records])];
        for (const [of, value] of counts) {
          const place = main.querySelector('[data-count="' + job + '/' + of + '"]');
          if (place !== null) place.textContent = number.format(value);
        }
        const wait = main.querySelector('[data-wait="' + job + '"]');
        if (wait !== null)
          wait.textContent = progress.waiting_until === null ? '' : '; no requests until ' + inZone(progress.waiting_until, 19) + ' (rate limit)';
        for (const { kind, records, expected, pending } of progress.kinds) {
          const bar = main.querySelector('[data-bar="' + job + '/' + kind + '"]');
          if (bar === null || expected === null || pending === 0) continue;
          bar.setAttribute('max', String(Math.max(expected, 1)));
          bar.setAttribute('value', String(Math.min(records, expected)));
        }
      }
    });
    // A hidden page holds no stream.
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) return;
      events.close();
      document.addEventListener('visibilitychange', follow, { once: true });
    }, { once: true });
  };
  // The page of all sources is only loaded again: their jobs follow each other too quickly.
  if (path === '/' && main.querySelector('#filter') === null) follow();
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) void update();
  });
  waiting = later(update, everyMs());
})();
`;
