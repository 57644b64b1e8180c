// The address holds what is shown, so that a link (or a reload) shows the same.

/**
 * @typedef {object} Place
 * @property {string} page
 * @property {Record<string, string>} values
 */

/** @returns {Place} */
export function read() {
  const text = location.hash.replace(/^#\/?/, "");
  const [page, query] = text.split("?", 2);
  return { page: page || "overview", values: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

/**
 * @param {string} page
 * @param {Record<string, string | number | undefined | null>} values
 */
export function link(page, values = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return `#/${page}${text ? `?${text}` : ""}`;
}

/**
 * Note what is shown, without a new entry in the browser's history. The link to the page leads there again.
 * @param {string} page
 * @param {Record<string, string | number | undefined | null>} values
 */
export function note(page, values) {
  const wanted = link(page, values);
  if (location.hash !== wanted) history.replaceState(null, "", wanted);
  document.querySelector(`#rail a[data-page="${page}"]`)?.setAttribute("href", wanted);
}
