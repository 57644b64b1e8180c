// Elements made in code: text from a trace only ever becomes a text node, and shows what it holds.

// What cannot be seen, or turns the text around it: controls (but for tabs and line ends, which excerpts
// of programs have), marks of direction, and characters without a width.
const UNSEEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0]/g;

/**
 * A text with everything unseen as the escape a program would write it with.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(UNSEEN, (one) => {
    const code = one.charCodeAt(0).toString(16);
    return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
  });
}

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Make an element. Properties starting with `on` are listeners, `class` is the class, `data-*` and
 * `aria-*` (and every name with a dash) are attributes, the rest are properties of the element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any> | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "style") Object.assign(element.style, value);
    else if (name.includes("-") || ["role", "for", "colspan", "scope", "list"].includes(name))
      element.setAttribute(name, visible(String(value)));
    else if (name === "title") element.title = visible(String(value));
    else /** @type {any} */ (element)[name] = value;
  }
  append(element, children);
  return element;
}

/**
 * @param {Element | DocumentFragment} parent
 * @param {(Child | Child[])[]} children
 */
export function append(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : visible(String(child)));
  }
}

/**
 * Put new children in place of the old ones.
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/**
 * @param {string} selector
 * @param {ParentNode} [inside]
 * @returns {HTMLElement}
 */
export function one(selector, inside = document) {
  const found = inside.querySelector(selector);
  if (!(found instanceof HTMLElement)) throw new Error(`the page has no ${selector}`);
  return found;
}

/**
 * Call at most once a frame.
 * @param {() => void} call
 */
export function framed(call) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      call();
    });
  };
}

/**
 * Call once things have been quiet for a while.
 * @param {() => void} call
 * @param {number} ms
 */
export function settled(call, ms) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = window.setTimeout(call, ms);
  };
}

/**
 * Text that is cut for want of room is told when it is pointed at.
 * @param {Event} event
 */
export function tellCut(event) {
  const element = event.target instanceof Element ? event.target.closest("td, li, span, p, dt, h2, a") : null;
  if (!(element instanceof HTMLElement) || element.title || element.closest("[title]")) return;
  if (element.scrollWidth > element.clientWidth && getComputedStyle(element).textOverflow === "ellipsis")
    element.title = element.textContent ?? "";
}

/** @param {unknown} error */
export function failure(error) {
  const said = error instanceof Error ? error.message : String(error);
  return h(
    "div",
    { class: "failed", role: "alert" },
    h("h1", null, "This cannot be shown"),
    h("p", null, said),
  );
}
