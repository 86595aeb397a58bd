// Quasar names a slider at its outer element, but it is the knob within that takes the keyboard's focus: whoever listens
// to a page hears of that one only. So the knob gets the role, the name and the values, and the outer element none.
const TOLD = ['aria-label', 'aria-valuemin', 'aria-valuemax', 'aria-valuenow', 'aria-valuetext', 'aria-orientation'];

function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// What has been moved is not there any more until it changes.
function move(from, to, name) {
  if (!from.hasAttribute(name)) return;
  set(to, name, from.getAttribute(name));
  from.removeAttribute(name);
}

function tell() {
  for (const slider of document.querySelectorAll('.q-slider')) {
    const knob = slider.querySelector('[tabindex]');
    if (!knob) continue;
    for (const name of TOLD) move(slider, knob, name);
    set(knob, 'role', 'slider');
    set(slider, 'role', 'presentation');
  }
}

new MutationObserver(tell).observe(document, { subtree: true, childList: true, attributeFilter: TOLD });
