// Where the keyboard is must survive what the page does by itself. A row that is moved or made anew, as a list is sorted,
// loses the focus on its way and gets it back; if what had it is gone, the nearest thing around it that is still there
// gets it.
// Else it would fall to the page's beginning, and whoever has no mouse would have to come all the way back.
{
  let last = null;
  let around = [];

  const take = (one) => {
    if (!one?.isConnected) return false;
    if (one !== last && !one.hasAttribute('tabindex')) one.setAttribute('tabindex', '-1');
    one.focus({ preventScroll: true });
    return document.activeElement === one;
  };

  // The same thing made anew: it has the same title.
  const again = () => {
    const found = around.find((one) => one.isConnected)?.querySelectorAll(`${last.tagName}[title]`) ?? [];
    return [...found].find((one) => one.title === last.title);
  };

  document.addEventListener('focusin', (event) => {
    last = event.target;
    around = [];
    for (let one = last.parentElement; one; one = one.parentElement) {
      if (one.matches('[tabindex], section, main')) around.push(one);
    }
  });

  // Later: if it was moved or removed, the changes are told before that. Otherwise somebody left it on purpose.
  document.addEventListener('focusout', (event) => setTimeout(() => {
    if (last === event.target && document.activeElement !== last) last = null;
  }));

  new MutationObserver((changes) => {
    if (!last || (document.activeElement && document.activeElement !== document.body)) return;
    const gone = changes.some((one) => [...one.removedNodes].some((node) => node.contains(last)));
    if (gone) [last, again(), ...around].some(take);
  }).observe(document, { subtree: true, childList: true });
}
