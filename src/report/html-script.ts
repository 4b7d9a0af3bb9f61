/** The script of the HTML pages. It stands in the page and is allowed there by its hash. */

/**
 * Filters the records on the page; without it everything is simply shown. `/` leads to the filter box, Escape clears it.
 * Unfolds every value for paper, and folds it again.
 */
export const PAGE_SCRIPT = `
'use strict';
(() => {
  const tools = document.querySelector('.tools');
  if (tools !== null) {
    const box = tools.querySelector('input[type=search]');
    const status = tools.querySelector('[role=status]');
    const nothing = document.querySelector('.nothing');
    const boxes = [...tools.querySelectorAll('input[type=checkbox]')];
    const records = [...document.querySelectorAll('.record')].map((element) => ({
      element, data: element.dataset, text: (element.dataset.kind + ' ' + element.textContent).toLowerCase(),
    }));
    const sections = [...document.querySelectorAll('section')].map((element) => {
      const count = element.querySelector('h2 .count');
      return { element, count, text: count?.textContent, all: element.querySelectorAll('.record').length };
    });
    const filter = () => {
      const words = box.value.toLowerCase().split(' ').filter(Boolean);
      const unwanted = boxes.filter((input) => !input.checked);
      let shown = 0;
      for (const { element, data, text } of records) {
        const fits = unwanted.every((input) => data[input.name] !== input.value) &&
          words.every((word) => text.includes(word));
        element.hidden = !fits;
        if (fits) shown += 1;
      }
      for (const { element, count, text, all } of sections) {
        const left = element.querySelectorAll('.record:not([hidden])').length;
        element.hidden = left === 0;
        if (count !== null) count.textContent = left === all ? text : left + ' of ' + all;
      }
      nothing.hidden = shown > 0;
      status.textContent = shown === records.length ? shown + ' shown' : shown + ' of ' + records.length + ' shown';
    };
    const clear = () => {
      box.value = '';
      for (const input of boxes) input.checked = true;
      filter();
    };
    tools.hidden = false;
    tools.addEventListener('input', filter);
    document.addEventListener('keydown', (event) => {
      if (event.key === '/' && event.target !== box && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        box.focus();
        box.select();
      } else if (event.key === 'Escape' && event.target === box) clear();
    });
    // A link of the summary must not lead to a record that the filter hides.
    addEventListener('hashchange', () => {
      const target = document.getElementById(location.hash.slice(1));
      if (target !== null && target.closest('[hidden]') !== null) {
        clear();
        target.scrollIntoView();
      }
    });
    filter();
  }
  // Of a long period the newest days count most.
  for (const charts of document.querySelectorAll('.charts')) charts.scrollLeft = charts.scrollWidth;
  let folded = [];
  addEventListener('beforeprint', () => {
    folded = [...document.querySelectorAll('details:not([open])')];
    for (const fold of folded) fold.open = true;
  });
  addEventListener('afterprint', () => {
    for (const fold of folded) fold.open = false;
  });
})();
`;
