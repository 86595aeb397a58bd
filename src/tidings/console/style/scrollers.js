// A table that is wider than its card scrolls within it: without a mouse only if the keyboard can get there.
{
  const reach = (scroller) => {
    if (scroller.scrollWidth > scroller.clientWidth) scroller.setAttribute('tabindex', '0');
    else if (document.activeElement !== scroller) scroller.removeAttribute('tabindex');
  };
  const sizes = new ResizeObserver((changes) => {
    for (const one of changes) reach(one.target.closest('.q-table__middle'));
  });
  const known = new WeakSet();

  new MutationObserver(() => {
    for (const table of document.querySelectorAll('.q-table__middle > table')) {
      if (known.has(table)) continue;
      known.add(table);
      const scroller = table.parentElement;
      scroller.setAttribute('role', 'group');
      scroller.setAttribute('aria-label', scroller.closest('[aria-label]').getAttribute('aria-label'));
      sizes.observe(scroller);
      sizes.observe(table);
    }
  }).observe(document, { subtree: true, childList: true });
}
