"use strict";

/** Live charts of what this page has seen since it was opened: bounded, drawn by hand as SVG. */
const Charts = (() => {
  const { make, draw, say } = Elements;
  const POINTS_MAX = 600;
  const WINDOW_MIN_MS = 60_000;
  const WINDOW_MAX_MS = 15 * 60_000;
  /** Points further apart than that are not joined: nothing is known of what was between them. */
  const GAP_MS = 40_000;
  const HEIGHT = 128;
  const EDGE = { top: 10, right: 8, bottom: 20, left: 40 };

  /** The smallest round number that is not below the value. */
  function roundUp(value) {
    if (value <= 4) return 4;
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
  }

  const axisNumber = (value) => (value >= 10_000 ? `${Format.number(value / 1000)}k` : Format.rate(value));

  class Chart {
    /** `series`: name, label and class of each line. */
    constructor({ title, unit, note, series }) {
      this.title = title;
      this.unit = unit;
      this.series = series;
      this.points = [];
      this.pointer = null;
      this.svg = draw("svg", { class: "plot", role: "img", height: HEIGHT, "aria-label": `${title}: nothing known yet` });
      this.legend = make("p", { class: "legend" });
      this.values = series.map(({ label, style }) => {
        const value = make("b");
        this.legend.append(make("span", { class: `key ${style}` }, make("i", { "aria-hidden": "true" }), `${label} `, value));
        return value;
      });
      this.note = make("p", { class: "chart-note", text: note });
      this.element = make("figure", { class: "card chart" }, make("figcaption", {}, make("h3", { text: title }), this.legend), this.svg, this.note);
      this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
      this.svg.addEventListener("pointerleave", () => this.point(null));
      new ResizeObserver(() => this.render()).observe(this.svg);
    }

    /** `values` is one number for each series, or null where it is not known. */
    add(time, values) {
      this.points.push({ time, values });
      const oldest = time - WINDOW_MAX_MS;
      while (this.points.length > POINTS_MAX || (this.points.length > 1 && this.points[1].time < oldest)) this.points.shift();
      this.render();
    }

    point(x) {
      this.pointer = x;
      this.render();
    }

    render() {
      const width = Math.round(this.svg.clientWidth);
      if (!width || !this.points.length) return;
      const end = this.points.at(-1).time;
      const span = Math.min(WINDOW_MAX_MS, Math.max(WINDOW_MIN_MS, end - this.points[0].time));
      const top = roundUp(Math.max(...this.points.flatMap((point) => point.values.map((value) => value ?? 0))));
      const x = (time) => EDGE.left + ((time - end + span) / span) * (width - EDGE.left - EDGE.right);
      const y = (value) => HEIGHT - EDGE.bottom - (value / top) * (HEIGHT - EDGE.top - EDGE.bottom);
      const shown = this.pointer === null ? null : this.nearest(x);
      this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
      this.svg.replaceChildren(
        ...this.grid(width, y, top),
        ...this.times(width, span, end),
        ...this.series.flatMap((series, index) => this.line(series, index, x, y)),
        ...(shown ? this.cross(x(shown.time)) : []),
      );
      this.tell(shown ?? this.points.at(-1), shown !== null);
    }

    grid(width, y, top) {
      return [0, top / 2, top].flatMap((value) => [
        draw("line", { class: value ? "grid" : "axis", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
        draw("text", { class: "tick", x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end" }, axisNumber(value)),
      ]);
    }

    times(width, span, end) {
      return [
        draw("text", { class: "tick", x: EDGE.left, y: HEIGHT - 5 }, `${Format.duration(span / 1000)} ago`),
        draw("text", { class: "tick", x: width - EDGE.right, y: HEIGHT - 5, "text-anchor": "end" }, Format.clock(end)),
      ];
    }

    line({ style }, index, x, y) {
      const runs = [];
      let last = null;
      for (const { time, values } of this.points) {
        const value = values[index];
        if (value !== null && value !== undefined) {
          if (last === null || time - last > GAP_MS) runs.push([]);
          runs.at(-1).push([x(time).toFixed(1), y(value).toFixed(1)]);
        }
        last = value === null ? null : time;
      }
      return runs.flatMap((run) => {
        const path = `M${run.map((point) => point.join(" ")).join("L")}`;
        const floor = y(0).toFixed(1);
        return [
          draw("path", { class: `area ${style}`, d: `${path}L${run.at(-1)[0]} ${floor}L${run[0][0]} ${floor}Z` }),
          draw("path", { class: `line ${style}`, d: run.length > 1 ? path : `${path}h0.1` }),
        ];
      });
    }

    cross(x) {
      return [draw("line", { class: "cross", x1: x, x2: x, y1: EDGE.top, y2: HEIGHT - EDGE.bottom })];
    }

    nearest(x) {
      const distance = (point) => Math.abs(x(point.time) - this.pointer);
      return this.points.reduce((best, point) => (distance(point) < distance(best) ? point : best));
    }

    tell(point, isPast) {
      const texts = point.values.map((value) => (value === null || value === undefined ? "–" : Format.rate(value) + this.unit));
      texts.forEach((text, index) => say(this.values[index], text));
      this.legend.dataset.at = isPast ? `at ${Format.clock(point.time)}` : "";
      this.svg.setAttribute("aria-label", `${this.title}, now: ${this.series.map(({ label }, index) => `${label} ${texts[index]}`).join(", ")}`);
    }
  }

  return { Chart };
})();
