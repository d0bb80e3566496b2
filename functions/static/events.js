"use strict";

/** The last events of the instances that answered, and how fast they accept messages. */
const Events = (() => {
  const { byId, make, icon, say, mark, keyed, explain } = Elements;
  const { count, messages, clock, exact, duration } = Format;
  const EVENTS_MAX = 100;
  const INSTANCES_MAX = 50;
  /** An instance that did not answer for so long is not counted any more: it may be gone. */
  const INSTANCE_MS_MAX = 60_000;
  /** By the sender's error; the caller was told the same. */
  const REFUSALS = {
    PrimaryFailed: "the primary failed and failover was not engaged",
    BacklogExhausted: "no backlog queue takes messages",
    MessageTooLarge: "too large",
    Rejected: "not valid",
    EntityNotFound: "no such entity",
    Misconfigured: "credentials were refused",
    Overloaded: "too many were waiting",
    PairClosed: "the pair is closed",
    PairFaulted: "the pair is faulted",
  };

  const many = (event, one) => (event.times === 1 ? one : `${one}, ${count(event.times, "time", "times")}`);

  /** Tone and sentence of each kind of event. */
  const WORDS = {
    "send.accepted": (e) => (e.backlog_queue ? ["info", `${messages(e.times)} for ${e.path} accepted by the backlog${e.possible_duplicate ? ", perhaps by the primary as well" : ""}`] : ["warn", `${messages(e.times)} for ${e.path} accepted, perhaps twice`]),
    "send.refused": (e) => ["warn", `${messages(e.times)} for ${e.path} refused: ${REFUSALS[e.reason] ?? e.reason}`],
    "failure.counted": (e) => ["warn", many(e, `Sending to ${e.path} failed (${e.failure})`), e.detail],
    "availability.changed": (e) => [Verdict.stateOf(e.after).tone, `${e.path} is ${e.after}`, e.reason],
    "rotation.changed": (e) => (e.in_rotation ? ["ok", `Backlog queue ${e.queue} is back in rotation`] : ["bad", `Backlog queue ${e.queue} left the rotation`, e.reason]),
    "state-storage.changed": (e) => (e.reachable ? ["ok", "Shared state can be reached again"] : ["bad", "Shared state cannot be reached", e.reason]),
    "credentials.refused": (e) => ["bad", many(e, `The ${e.side} refused the app's credentials for ${e.path}`), e.detail],
    "entity.pinged": (e) => (e.succeeded ? ["ok", `${e.path} answers pings`] : ["warn", many(e, `${e.path} did not answer a ping`), e.detail]),
    "syphon.forwarded": (e) => ["info", `${messages(e.times)} delivered to ${e.path}`, `The last waited ${duration(e.waited_seconds)}`],
    "syphon.in-doubt": (e) => ["warn", `${messages(e.times)} for ${e.path} may have arrived, and will be sent again (${e.failure})`],
    "syphon.set-aside": (e) => ["info", `Messages for ${e.path} wait aside, so that others can pass`],
    "syphon.dead-lettered": (e) => ["bad", `${messages(e.times)} dead-lettered in ${e.backlog_queue}: ${e.reason}`, e.description],
    "syphon.destination-rested": (e) => ["warn", many(e, `The syphon leaves ${e.path} alone for a while (${e.failure})`), e.detail],
    "factory.changed": (e) => [Verdict.factoryOf(e.after).tone, `${e.side.charAt(0).toUpperCase() + e.side.slice(1)} ${e.after === "open" ? "opened" : e.after}, by ${e.by}`, e.reason],
  };

  const notes = new Map();
  const instances = new Map();

  function tell(event) {
    const [tone, text, more] = (WORDS[event.event] ?? ((e) => ["idle", e.event]))(event);
    return { tone, text, more: more ?? "" };
  }

  function row() {
    const time = make("time");
    const text = make("p");
    const more = make("p", { class: "reason" });
    let shape = icon("idle");
    const item = make("li", {}, time, shape, make("div", {}, text, more));
    item.update = (event) => {
      const told = tell(event);
      if (item.dataset.tone !== told.tone) {
        const next = icon(told.tone);
        shape.replaceWith(next);
        shape = next;
        item.dataset.tone = told.tone;
      }
      say(time, clock(event.at));
      mark(time, "datetime", event.at);
      mark(time, "title", event.times > 1 ? `from ${exact(event.first_at)} to ${exact(event.at)}` : exact(event.at));
      say(text, told.text);
      explain(more, told.more);
    };
    return item;
  }

  /** What to ask for next. */
  const query = () => (instances.size ? `events?after=${[...instances.values()].map((instance) => instance.after).join(",")}` : "events");

  /** Takes an answer in; messages a second by route over all instances that answered of late, or null at first. */
  function take(answer, now) {
    const before = instances.get(answer.instance);
    const known = { after: answer.after, at: now, accepted: answer.accepted, rates: null };
    if (before && now > before.at) {
      const perSecond = (route) => Math.max(0, answer.accepted[route] - before.accepted[route]) / ((now - before.at) / 1000);
      known.rates = { primary: perSecond("primary"), backlog: perSecond("backlog") };
    }
    instances.delete(answer.instance);
    instances.set(answer.instance, known);
    for (const [name, instance] of instances) if (instances.size > INSTANCES_MAX || now - instance.at > INSTANCE_MS_MAX) instances.delete(name);
    for (const event of answer.events) notes.set(`${answer.instance}:${event.id}`, { ...event, key: `${answer.instance}:${event.id}` });
    render();
    return rates();
  }

  function rates() {
    const known = [...instances.values()].map((instance) => instance.rates).filter(Boolean);
    if (!known.length) return null;
    return { primary: known.reduce((sum, one) => sum + one.primary, 0), backlog: known.reduce((sum, one) => sum + one.backlog, 0) };
  }

  function render() {
    const newest = [...notes.values()].sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : b.number - a.number));
    for (const old of newest.splice(EVENTS_MAX)) notes.delete(old.key);
    keyed(byId("events"), newest, (event) => event.key, row);
    byId("events-none").hidden = newest.length > 0;
    const who = count(instances.size, "instance", "instances");
    say(byId("seen-by"), `Accepted sends and events are those of the ${who} of the app that answered this page of late, since ${instances.size === 1 ? "it" : "they"} started; other instances, and those that ping and drain, keep their own. All else is shared by the pair. Charts begin when the page is opened.`);
  }

  return { query, take };
})();
