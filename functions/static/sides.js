"use strict";

/** The headline, the two sides with their factories, the figures, warnings and options. */
const Sides = (() => {
  const { byId, make, icon, say, mark, badge, keyed } = Elements;
  const { number, moment, exact, since, rate } = Format;
  const LABELS = { primary: "Primary", secondary: "Secondary" };
  const OPTIONS = {
    backlog_queue_count: "Backlog queues",
    enable_syphon: "Syphon in this app",
    divert_while_suspect: "Divert while suspect",
    failover_interval: "Failover interval",
    ping_primary_interval: "Ping interval",
    primary_attempt_timeout: "Attempt on the primary",
    send_deadline: "Send deadline",
    partner_grace: "Partner grace",
    state_refresh: "State refresh",
  };
  /** A reader is told again of the same kind of trouble after so long, not with every new number. */
  const SPOKEN_AGAIN_MS = 30_000;
  let spoken = { kind: null, at: 0 };

  function headline(verdict) {
    const box = byId("headline");
    if (box.dataset.tone !== verdict.tone || !byId("headline-icon").firstChild) byId("headline-icon").replaceChildren(icon(verdict.tone));
    mark(box, "data-tone", verdict.tone);
    mark(box, "data-kind", verdict.kind);
    say(byId("headline-text"), verdict.text);
    say(byId("headline-more"), verdict.more);
    document.title = `${{ ok: "✓", info: "◆", warn: "▲", bad: "■" }[verdict.tone] ?? "–"} ${verdict.text}`;
    const now = Date.now();
    if (verdict.kind !== spoken.kind || (verdict.kind !== "well" && now - spoken.at > SPOKEN_AGAIN_MS)) {
      spoken = { kind: verdict.kind, at: now };
      say(byId("announcer"), verdict.text);
    }
  }

  function makeSide(side) {
    const name = make("h2", { id: `side-${side}-name` });
    const state = badge("idle", "");
    const facts = make("p", { class: "side-facts" });
    const why = make("p", { class: "side-why" });
    const action = (word) => make("button", { type: "button", class: "quiet", text: word === "close" ? "Close…" : "Fault…", "aria-label": `${word === "close" ? "Close…" : "Fault…"} the ${side}`, on: { click: () => Actions.ask(word, side) } });
    const reopen = make("button", { type: "button", text: "Re-open pair…", on: { click: () => Actions.ask("open", null) } });
    const close = action("close");
    const fault = action("fault");
    byId(`side-${side}`).append(
      make("div", { class: "side-head" }, make("p", { class: "side-label", text: LABELS[side] }), state),
      name, facts, why, make("div", { class: "side-actions" }, reopen, close, fault),
    );
    return { name, state, facts, why, close, fault, reopen };
  }

  let parts = null;

  function update(side, status, text) {
    parts ??= { primary: makeSide("primary"), secondary: makeSide("secondary") };
    const part = parts[side];
    const factory = status.factories[side];
    const state = Verdict.factoryOf(factory.state);
    say(part.name, status.pair[side]);
    part.state.update(state.tone, `Factory ${state.word.toLowerCase()}`);
    say(part.facts, text);
    const told = factory.state === "open" ? "" : [factory.reason, factory.by && `by ${factory.by}`, factory.since && `since ${moment(factory.since)}`].filter(Boolean).join(" · ");
    say(part.why, told);
    mark(part.why, "title", factory.since ? exact(factory.since) : null);
    part.close.hidden = part.fault.hidden = factory.state !== "open";
    part.reopen.hidden = factory.state === "open";
  }

  function sides(status, s) {
    const total = status.entities.length;
    const primary = s.unavailable.length
      ? `${number(s.unavailable.length)} of ${Format.count(total, "entity", "entities")} unavailable`
      : total ? `${Format.count(total, "entity takes", "entities take")} messages` : "no entity was sent to yet";
    const inRotation = status.backlog.queues.length - s.out.length;
    const waiting = s.waiting === null ? "" : s.waiting ? `, ${number(s.waiting)} waiting` : ", empty";
    update("primary", status, primary);
    update("secondary", status, `${number(inRotation)} of ${Format.count(status.backlog.queues.length, "backlog queue", "backlog queues")} in rotation${waiting}`);
    mark(byId("side-primary"), "data-tone", s.unavailable.length || status.factories.primary.state !== "open" ? "bad" : s.suspect.length ? "warn" : "ok");
    mark(byId("side-secondary"), "data-tone", status.factories.secondary.state !== "open" ? "bad" : s.out.length || s.dead ? "warn" : s.waiting ? "info" : "ok");
    mark(byId("flow-out"), "class", s.unavailable.length || s.partly.length ? "on" : "");
    mark(byId("flow-back"), "class", s.rate > 0 && s.waiting ? "on" : "");
    say(byId("names"), `${status.pair.primary} with ${status.pair.secondary}`);
  }

  function figures(s, sends) {
    const perSecond = (value) => (value === null ? "–" : `${rate(value)}/s`);
    const items = [
      { label: "To the primary", value: perSecond(sends?.primary ?? null) },
      { label: "To the backlog", value: perSecond(sends?.backlog ?? null), tone: sends?.backlog > 0 ? "warn" : null },
      { label: "Waiting", value: number(s.waiting), tone: s.waiting ? "bad" : null },
      { label: "Oldest message", value: s.oldest ? since(s.oldest) : "–", title: exact(s.oldest) },
      { label: "Drain rate", value: s.rate > 0 ? `${rate(s.rate)}/s` : "–", tone: s.rate > 0 ? "info" : null },
      { label: "Time left", value: s.timeLeft ?? "–" },
      { label: "Dead letters", value: number(s.dead), tone: s.dead ? "bad" : null },
    ];
    keyed(byId("figures"), items, (item) => item.label, () => {
      const label = make("dt");
      const value = make("dd");
      const element = make("div", { class: "figure" }, label, value);
      element.update = (item) => {
        say(label, item.label);
        say(value, item.value);
        mark(element, "data-tone", item.tone ?? null);
        mark(element, "title", item.title || null);
      };
      return element;
    });
  }

  function lines(id, texts) {
    keyed(byId(id), texts, (text) => text, (text) => {
      const element = make("li", {}, icon("warn"), make("span", { text }));
      element.update = () => {};
      return element;
    });
  }

  function options(values) {
    const told = (value) => (value === true ? "on" : value === false ? "off" : typeof value === "number" ? number(value) : Format.isoDuration(value));
    const items = Object.entries(values).map(([name, value]) => ({ label: OPTIONS[name] ?? name, value: told(value) }));
    keyed(byId("options"), items, (item) => item.label, (item) => {
      const value = make("dd");
      const element = make("div", {}, make("dt", { text: item.label }), value);
      element.update = (now) => say(value, now.value);
      return element;
    });
  }

  function render(status, verdict, sends) {
    headline(verdict);
    sides(status, verdict.summary);
    figures(verdict.summary, sends);
    lines("warnings", status.warnings);
    options(status.options);
  }

  return { render, headline };
})();
