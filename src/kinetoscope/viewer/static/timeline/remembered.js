// How a person arranged the rows of a trace, kept in this browser for the next time it is opened.

const PLACE = "kinetoscope.rows";
const MOST = 30;

/** @param {string} label the trace, as the top of the page names it */
export function remembered(label) {
  /** @returns {Record<string, Record<string, string>>} the latest last */
  function all() {
    try {
      return JSON.parse(localStorage.getItem(PLACE) ?? "{}") ?? {};
    } catch {
      return {}; // a browser that keeps nothing, or something else is written there
    }
  }
  return {
    recall: () => all()[label] ?? {},
    /** @param {Record<string, string>} values those of the rows; without any, there is nothing to keep */
    keep(values) {
      const { [label]: before, ...others } = all();
      const chosen = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
      if (JSON.stringify(before ?? {}) === JSON.stringify(chosen)) return;
      const kept = Object.entries(others).slice(1 - MOST);
      if (Object.keys(chosen).length) kept.push([label, chosen]);
      try {
        localStorage.setItem(PLACE, JSON.stringify(Object.fromEntries(kept)));
      } catch {
        // full, or switched off: it lasts as long as the page
      }
    },
  };
}
