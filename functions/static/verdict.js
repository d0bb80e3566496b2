"use strict";

/** What the answer of GET /api/pair means for people: one sentence, its tone, and what else they should know. */
const Verdict = (() => {
  const { messages, count, moment, duration, number } = Format;
  /** Of an entity, by its availability. */
  const STATES = {
    unavailable: { tone: "bad", word: "Unavailable", rank: 0 },
    draining: { tone: "info", word: "Returning", rank: 1 },
    suspect: { tone: "warn", word: "Suspect", rank: 2 },
    available: { tone: "ok", word: "Available", rank: 4 },
  };
  const FACTORIES = {
    open: { tone: "ok", word: "Open" },
    closed: { tone: "warn", word: "Closed" },
    faulted: { tone: "bad", word: "Faulted" },
  };
  const PARTLY = { tone: "warn", word: "Partly", rank: 3 };
  const UNKNOWN = { tone: "warn", word: "Unknown", rank: 3 };

  const stateOf = (availability) => STATES[availability] ?? UNKNOWN;
  const factoryOf = (state) => FACTORIES[state] ?? UNKNOWN;

  /** Entities that take messages but have keys which do not. */
  const keysOut = (entity) => (entity.keys ?? []).filter((key) => key.availability !== "available");

  const entityState = (entity) => (entity.availability === "available" && keysOut(entity).length ? PARTLY : stateOf(entity.availability));

  const earliest = (items) => items.map((item) => item.since).filter(Boolean).sort()[0] ?? null;
  const sinceText = (items) => (earliest(items) ? ` since ${moment(earliest(items))}` : "");
  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

  /** In words. The slowest queue decides; of one that does not move yet nobody can tell, so it takes that long at least. */
  function timeLeft({ waiting, drain, queues }) {
    if (!waiting || !(drain.rate > 0) || drain.seconds_left === null) return null;
    const isPartial = queues.some((queue) => queue.active && !(queue.rate > 0));
    return `${isPartial ? "at least" : "about"} ${duration(drain.seconds_left)}`;
  }

  function summary(status) {
    const { entities, factories, backlog } = status;
    const of = (availability) => entities.filter((entity) => entity.availability === availability);
    const known = backlog.queues.filter((queue) => queue.active !== null);
    return {
      unavailable: of("unavailable"),
      suspect: of("suspect"),
      available: of("available"),
      partly: entities.filter((entity) => entity.availability === "available" && keysOut(entity).length),
      shut: Object.entries(factories).filter(([, factory]) => factory.state !== "open"),
      out: backlog.queues.filter((queue) => !queue.in_rotation),
      silent: backlog.queues.filter((queue) => queue.problem),
      waiting: backlog.waiting,
      dead: known.reduce((sum, queue) => sum + (queue.dead_lettered ?? 0), 0),
      oldest: backlog.queues.map((queue) => queue.oldest).filter(Boolean).sort()[0] ?? null,
      rate: backlog.drain.rate,
      timeLeft: timeLeft(backlog),
    };
  }

  /** How the backlog goes on, to end a sentence with. */
  function backlogText(s) {
    if (s.waiting === null) return "how many messages wait cannot be told";
    if (!s.waiting) return "nothing waiting";
    return `${messages(s.waiting)} waiting${s.timeLeft ? `, draining will take ${s.timeLeft}` : ""}`;
  }

  function shutSentence(s) {
    const one = s.shut.length === 1;
    const who = one ? capital(s.shut[0][0]) : "Pair";
    const word = s.shut.some(([, factory]) => factory.state === "faulted") ? "faulted" : "closed";
    const what = one ? "pings and draining stop, its partner is to follow" : "sends are refused until it is opened again";
    const waiting = s.waiting ? `; ${messages(s.waiting)} waiting` : "";
    return `${who} ${word}${sinceText(s.shut.map(([, factory]) => factory))}: ${what}${waiting}`;
  }

  function unavailableSentence(s, total) {
    const all = s.unavailable.length === total;
    const who = all ? "Primary unavailable" : `${number(s.unavailable.length)} of ${count(total, "entity", "entities")} unavailable`;
    return `${who}${sinceText(s.unavailable)}: ${backlogText(s)}`;
  }

  function drainingSentence(s, options) {
    if (s.rate > 0) return `Draining: ${messages(s.waiting)} waiting${s.timeLeft ? `, ${s.timeLeft} left` : ""}`;
    if (!options.enable_syphon) return `${capital(messages(s.waiting))} waiting, and this app hosts no syphon to move them`;
    return `${capital(messages(s.waiting))} waiting for the syphon to move them`;
  }

  function suspectSentence(s) {
    const who = s.suspect.length === 1 ? s.suspect[0].path : count(s.suspect.length, "entity", "entities");
    return `${who} suspect${sinceText(s.suspect)}: failover engages unless a send succeeds`;
  }

  function partlySentence(s) {
    const keys = s.partly.reduce((sum, entity) => sum + keysOut(entity).length, 0);
    const where = s.partly.length === 1 ? s.partly[0].path : count(s.partly.length, "entity", "entities");
    return `${count(keys, "key", "keys")} of ${where} diverted: ${backlogText(s)}`;
  }

  function wellSentence(entities) {
    if (!entities.length) return "All is well: nothing was sent through this pair yet";
    return `All is well: ${count(entities.length, "entity", "entities")} on the primary, nothing waiting`;
  }

  function main(status, s) {
    if (s.shut.length) return { kind: "shut", tone: "bad", text: shutSentence(s) };
    if (s.unavailable.length) return { kind: "unavailable", tone: "bad", text: unavailableSentence(s, status.entities.length) };
    if (s.partly.length) return { kind: "partly", tone: "warn", text: partlySentence(s) };
    if (s.waiting) return { kind: "draining", tone: s.rate > 0 || status.options.enable_syphon ? "info" : "warn", text: drainingSentence(s, status.options) };
    if (s.suspect.length) return { kind: "suspect", tone: "warn", text: suspectSentence(s) };
    if (s.waiting === null) return { kind: "silent", tone: "warn", text: "The backlog cannot be looked at; messages go to the primary" };
    return { kind: "well", tone: s.out.length || s.dead || s.silent.length ? "warn" : "ok", text: wellSentence(status.entities) };
  }

  /** `kind` changes when people should be told aloud; `text` may change with every answer. */
  function judge(status) {
    const s = summary(status);
    const found = main(status, s);
    const more = [];
    if (found.kind !== "suspect" && s.suspect.length) more.push(`${count(s.suspect.length, "entity", "entities")} suspect`);
    if (s.dead) more.push(`${messages(s.dead)} dead-lettered`);
    if (s.out.length) more.push(`${count(s.out.length, "backlog queue", "backlog queues")} out of rotation`);
    if (s.silent.length) more.push(`${count(s.silent.length, "backlog queue does", "backlog queues do")} not answer`);
    if (found.kind === "unavailable") more.push(`pinged every ${Format.isoDuration(status.options.ping_primary_interval)}, draining begins when a ping is answered`);
    if (found.kind === "shut") more.push(...s.shut.filter(([, factory]) => factory.reason).map(([side, factory]) => `${side}: ${factory.reason}`));
    return { ...found, text: `${found.text}.`, more: capital(more.join(" · ")), summary: s };
  }

  return { judge, stateOf, entityState, factoryOf, keysOut };
})();
