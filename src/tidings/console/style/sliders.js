// Quasar names a slider at its outer element, but it is the knob within that takes the keyboard's focus: whoever listens
// to a page hears of that one only. So the knob gets the role, the name and the values, and the outer element none.
const TOLD = ['aria-label', 'aria-valuemin', 'aria-valuemax', 'aria-valuenow', 'aria-valuetext', 'aria-orientation'];

function set(element, name, value) {
  if (value !== null && element.getAttribute(name) !== value) element.setAttribute(name, value);
}

function tell() {
  for (const slider of document.querySelectorAll('.q-slider')) {
    const knob = slider.querySelector('[tabindex]');
    if (!knob) continue;
    for (const name of TOLD) set(knob, name, slider.getAttribute(name));
    set(knob, 'role', 'slider');
    set(slider, 'role', 'presentation');
  }
}

new MutationObserver(tell).observe(document, { subtree: true, childList: true, attributeFilter: TOLD });
