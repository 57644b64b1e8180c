// The stretch of time that is shown.

const SHORTEST_NS = 20;

export class View {
  /**
   * @param {number} low first thing there is, ns
   * @param {number} high last thing there is, ns
   * @param {() => void} changed
   */
  constructor(low, high, changed) {
    this.low = low;
    this.high = high;
    this.begin = low;
    this.end = high;
    this.width = 1000;
    /** @type {() => void} */
    this.changed = () => {};
    this.all();
    this.changed = changed;
  }

  get span() {
    return this.end - this.begin;
  }

  /** ns of one CSS pixel */
  get pixel() {
    return this.span / this.width;
  }

  /** @param {number} time */
  x(time) {
    return (time - this.begin) / this.pixel;
  }

  /** @param {number} x */
  time(x) {
    return this.begin + x * this.pixel;
  }

  /**
   * @param {number} begin
   * @param {number} end
   */
  set(begin, end) {
    const whole = this.high - this.low;
    const span = Math.min(Math.max(end - begin, SHORTEST_NS), whole * 1.1 + SHORTEST_NS);
    const middle = (begin + end) / 2;
    const edge = Math.max(whole * 0.05, span * 0.4);
    const first = Math.min(Math.max(middle - span / 2, this.low - edge), this.high + edge - span);
    if (first === this.begin && first + span === this.end) return;
    this.begin = first;
    this.end = first + span;
    this.changed();
  }

  /**
   * @param {number} factor under 1 shows less time
   * @param {number} [around] the time that keeps its place
   */
  zoom(factor, around = (this.begin + this.end) / 2) {
    const whole = (this.high - this.low) * 1.1 + SHORTEST_NS;
    const span = Math.min(Math.max(this.span * factor, SHORTEST_NS), whole);
    const share = (around - this.begin) / this.span;
    this.set(around - share * span, around + (1 - share) * span);
  }

  /** @param {number} share of what is shown */
  pan(share) {
    this.set(this.begin + this.span * share, this.end + this.span * share);
  }

  all() {
    const edge = (this.high - this.low) * 0.01;
    this.set(this.low - edge, this.high + edge);
  }

  /**
   * Show an interval with some room around it.
   * @param {number} begin
   * @param {number} end
   * @param {number} share of the width that it takes
   */
  show(begin, end, share) {
    const span = Math.max(end - begin, SHORTEST_NS * share) / share;
    const middle = (begin + end) / 2;
    this.set(middle - span / 2, middle + span / 2);
  }
}
