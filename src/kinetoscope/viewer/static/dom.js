// Elements made in code: text from a trace only ever becomes a text node.

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
      element.setAttribute(name, String(value));
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
    parent.append(child instanceof Node ? child : String(child));
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
