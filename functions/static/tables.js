"use strict";

/** The tables of entities and backlog queues: those in trouble first, the rest folded away when there are many. */
const Tables = (() => {
  const { byId, make, say, mark, explain, badge, keyed } = Elements;
  const { number, moment, exact, since, duration, rate } = Format;
  /** Rows drawn at a time; more on request. */
  const ROWS_STEP = 50;
  /** Up to so many in all, the healthy ones are shown without asking. */
  const FOLD_ABOVE = 12;
  const KEYS_SHOWN_MAX = 20;

  /** What one table shows: its filter, whether it is unfolded, and how many rows. */
  class Shown {
    constructor(name, one, many, redraw) {
      Object.assign(this, { name, one, many, redraw, unfolded: false, limit: ROWS_STEP });
      this.filter = byId(`${name}-filter`);
      this.filter.addEventListener("input", () => {
        this.limit = ROWS_STEP;
        redraw();
      });
      this.fold = make("button", { type: "button", class: "quiet", on: { click: () => this.toggle() } });
      this.next = make("button", { type: "button", class: "quiet", on: { click: () => this.grow() } });
      this.none = make("p", { class: "empty" });
      byId(`${name}-more`).append(this.none, this.next, this.fold);
    }

    toggle() {
      this.unfolded = !this.unfolded;
      this.limit = ROWS_STEP;
      this.redraw();
    }

    grow() {
      this.limit += ROWS_STEP;
      this.redraw();
    }

    /** The rows to draw of all items, and what is said below them. */
    choose(items, isQuiet, textOf) {
      const words = this.filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const found = words.length ? items.filter((item) => words.every((word) => textOf(item).includes(word))) : items;
      const folds = !words.length && items.length > FOLD_ABOVE;
      const quiet = folds ? found.filter(isQuiet).length : 0;
      const open = folds && !this.unfolded ? found.filter((item) => !isQuiet(item)) : found;
      const rows = open.slice(0, this.limit);
      this.fold.hidden = !quiet;
      say(this.fold, this.unfolded ? `Hide the ${number(quiet)} healthy ${this.many}` : `Show the ${number(quiet)} healthy ${quiet === 1 ? this.one : this.many}`);
      mark(this.fold, "aria-expanded", String(this.unfolded));
      this.next.hidden = open.length <= rows.length;
      say(this.next, `Show ${number(Math.min(ROWS_STEP, open.length - rows.length))} more of ${number(open.length)}`);
      say(this.none, words.length && !found.length ? `No ${this.one} matches the filter.` : items.length ? "" : `No ${this.one} yet.`);
      this.none.hidden = !this.none.textContent;
      this.filter.hidden = items.length <= FOLD_ABOVE && !words.length;
      byId(this.name).hidden = !rows.length;
      return rows;
    }
  }

  const cell = (label, attributes, ...children) => make("td", { role: "cell", "data-label": label, ...attributes }, ...children);

  // -- entities

  function entityRow({ path }) {
    const state = badge("idle", "");
    const reason = make("p", { class: "reason" });
    const keys = make("details", { class: "watched" }, make("summary"), make("ul"));
    const when = make("span");
    const rehearse = make("button", { type: "button", class: "quiet", text: "Rehearse failover…", "aria-label": `Rehearse failover… of ${path}`, on: { click: () => Actions.ask("unavailable", path) } });
    const heal = make("button", { type: "button", class: "quiet", text: "Mark healthy…", "aria-label": `Mark healthy… ${path}`, on: { click: () => Actions.ask("healthy", path) } });
    const row = make("tr", { role: "row" }, cell("State", {}, state), cell("Entity", { class: "name" }, make("p", { class: "path", text: path }), reason, keys), cell("Since", { class: "when" }, when), cell("Actions", { class: "acts" }, heal, rehearse));
    row.update = (entity) => {
      const found = Verdict.entityState(entity);
      state.update(found.tone, found.word);
      explain(reason, entity.reason ?? "");
      say(when, entity.since ? `${moment(entity.since)} (${since(entity.since)})` : "");
      mark(when, "title", exact(entity.since) || null);
      heal.hidden = entity.availability === "available";
      rehearse.hidden = !["available", "suspect"].includes(entity.availability);
      watched(keys, entity);
    };
    return row;
  }

  function watched(details, entity) {
    details.hidden = !entity.watched_keys;
    if (details.hidden) return;
    const listed = entity.keys.slice(0, KEYS_SHOWN_MAX);
    const more = entity.watched_keys - listed.length;
    say(details.firstChild, `${Format.count(entity.watched_keys, "watched key", "watched keys")}${more ? `, ${number(listed.length)} shown` : ""}`);
    keyed(details.lastChild, listed, (key) => key.key, (key) => {
      const state = badge("idle", "");
      const text = make("span", { class: "reason" });
      const item = make("li", {}, state, make("code", { text: key.key }), text);
      item.update = (now) => {
        const found = Verdict.stateOf(now.availability);
        state.update(found.tone, found.word);
        explain(text, [now.since && `since ${moment(now.since)}`, now.reason].filter(Boolean).join(" · "));
      };
      return item;
    });
  }

  const entityText = (entity) => `${entity.path} ${Verdict.entityState(entity).word} ${entity.availability} ${entity.reason ?? ""}`.toLowerCase();
  const entityIsQuiet = (entity) => entity.availability === "available" && !Verdict.keysOut(entity).length;
  const entityRank = (entity) => Verdict.entityState(entity).rank;

  function entities(shown, items) {
    const sorted = [...items].sort((a, b) => entityRank(a) - entityRank(b) || a.path.localeCompare(b.path, "en", { numeric: true }));
    const counts = new Map();
    for (const item of items) {
      const { word } = Verdict.entityState(item);
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    say(byId("entities-count"), [...counts].map(([word, count]) => `${number(count)} ${word.toLowerCase()}`).join(" · "));
    keyed(byId("entities").tBodies[0], shown.choose(sorted, entityIsQuiet, entityText), (entity) => entity.path, entityRow);
  }

  // -- backlog queues

  const queueName = (path) => path.slice(path.lastIndexOf("/") + 1);

  function queueRow({ path }) {
    const state = badge("idle", "");
    const reason = make("p", { class: "reason" });
    const waiting = make("span");
    const bar = make("meter", { min: "0", "aria-hidden": "true" });
    const texts = ["oldest", "drain", "dead"].map(() => make("span"));
    const [oldest, drain, dead] = texts;
    const row = make("tr", { role: "row" }, cell("Queue", { class: "name" }, make("span", { class: "path", text: queueName(path), title: path })), cell("Rotation", {}, state, reason),
      cell("Waiting", { class: "number" }, waiting, bar), cell("Oldest", { class: "number" }, oldest), cell("Drain", { class: "number" }, drain), cell("Dead letters", { class: "number" }, dead));
    row.update = (queue) => {
      const tone = !queue.in_rotation ? "bad" : queue.problem ? "warn" : "ok";
      state.update(tone, queue.in_rotation ? (queue.problem ? "No answer" : "In rotation") : "Out");
      explain(reason, [queue.out_since && `since ${moment(queue.out_since)}`, queue.out_reason, queue.problem].filter(Boolean).join(" · "));
      say(waiting, queue.scheduled ? `${number(queue.active)} + ${number(queue.scheduled)} scheduled` : number(queue.active));
      bar.hidden = !queue.active;
      mark(bar, "max", String(Math.max(queue.deepest, 1)));
      mark(bar, "value", String(queue.active ?? 0));
      say(oldest, queue.oldest ? since(queue.oldest) : "–");
      mark(oldest, "title", exact(queue.oldest) || null);
      say(drain, queue.rate > 0 ? `${rate(queue.rate)}/s${queue.active && queue.seconds_left !== null ? `, ${duration(queue.seconds_left)} left` : ""}` : "–");
      say(dead, number(queue.dead_lettered));
      mark(dead, "class", queue.dead_lettered ? "alarm" : null);
    };
    return row;
  }

  const queueIsQuiet = (queue) => queue.in_rotation && !queue.problem && !queue.active && !queue.dead_lettered;
  const queueText = (queue) => `${queueName(queue.path)} ${queue.in_rotation ? "in rotation" : "out"} ${queue.active ? "waiting" : "empty"} ${queue.dead_lettered ? "dead letters" : ""} ${queue.out_reason ?? ""} ${queue.problem ?? ""}`.toLowerCase();

  function queues(shown, items) {
    const deepest = Math.max(0, ...items.map((queue) => queue.active ?? 0));
    const numeric = (a, b) => queueName(a.path).localeCompare(queueName(b.path), "en", { numeric: true });
    const rank = (queue) => (queueIsQuiet(queue) ? 1 : 0);
    const sorted = items.map((queue) => ({ ...queue, deepest })).sort((a, b) => rank(a) - rank(b) || numeric(a, b));
    const out = items.filter((queue) => !queue.in_rotation).length;
    const prefix = items.length ? items[0].path.slice(0, items[0].path.lastIndexOf("/") + 1) : "";
    say(byId("queues-count"), `${number(items.length - out)} in rotation${out ? ` · ${number(out)} out` : ""}${prefix ? ` · ${prefix}…` : ""}`);
    keyed(byId("queues").tBodies[0], shown.choose(sorted, queueIsQuiet, queueText), (queue) => queue.path, queueRow);
  }

  let last = null;
  let shown = null;

  function render(status) {
    last = status ?? last;
    shown ??= { entities: new Shown("entities", "entity", "entities", () => render()), queues: new Shown("queues", "queue", "queues", () => render()) };
    entities(shown.entities, last.entities);
    queues(shown.queues, last.backlog.queues);
  }

  return { render };
})();
