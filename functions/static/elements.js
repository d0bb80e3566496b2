"use strict";

/** Making and updating elements. Text is only ever set as text: what comes from outside can never become markup. */
const Elements = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  /** State is told by shape and word as well as by colour. */
  const SHAPES = {
    ok: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Zm3 4.2L7.1 9.6 5 7.6",
    info: "M8 1.2 14.8 8 8 14.8 1.2 8Z",
    warn: "M8 1.8 15 14H1Zm0 4.7v3.4m0 2v.1",
    bad: "M2 2h12v12H2Zm3.2 3.2 5.6 5.6m0-5.6-5.6 5.6",
    idle: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2Z",
  };

  const byId = (id) => document.getElementById(id);

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") element.textContent = value;
      else if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  function draw(tag, attributes = {}, ...children) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const icon = (tone) => draw("svg", { viewBox: "0 0 16 16", class: "icon", "data-shape": tone, "aria-hidden": "true" }, draw("path", { d: SHAPES[tone] }));

  /** Touches the page only where something changed, so that selections and readers are left in peace. */
  function say(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function mark(element, name, value) {
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }

  /** A reason may be long, and the SDK says everything twice: what it says first is shown, the rest when pointed at. */
  function explain(element, text) {
    say(element, text.split(/ Error condition: /)[0]);
    mark(element, "title", text || null);
  }

  function badge(tone, word) {
    const text = make("span", { text: word });
    const element = make("span", { class: "badge", "data-tone": tone }, icon(tone), text);
    element.update = (newTone, newWord) => {
      if (element.dataset.tone !== newTone) {
        element.dataset.tone = newTone;
        element.firstChild.replaceWith(icon(newTone));
      }
      say(text, newWord);
    };
    return element;
  }

  /** One element for each item, kept from one update to the next, so that focus stays where it is. */
  function keyed(container, items, keyOf, create) {
    const known = container.keyed ?? (container.keyed = new Map());
    const wanted = new Set();
    let next = container.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      wanted.add(key);
      let element = known.get(key);
      if (!element) known.set(key, (element = create(item)));
      element.update(item);
      if (element === next) next = next.nextElementSibling;
      else container.insertBefore(element, next);
    }
    for (const [key, element] of known) {
      if (wanted.has(key)) continue;
      element.remove();
      known.delete(key);
    }
  }

  return { byId, make, draw, icon, say, mark, explain, badge, keyed };
})();
