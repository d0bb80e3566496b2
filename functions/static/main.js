"use strict";

/** Puts the page together: keys first, then two polls, and always how old the picture is. */
(() => {
  const { byId, say, mark, icon } = Elements;
  const { keys, look, Trouble, Poll } = Contact;
  /** Each answer has the app ask every backlog queue for its depth: the more there are, the longer the pause. */
  const PAUSE_MS = { busy: 2000, calm: 4000, hidden: 30_000, eachQueue: 100 };
  /** Without a new answer for so long, the page says that its picture is old. */
  const STALE_MS = 15_000;
  const TICK_MS = 1000;

  const state = { status: null, verdict: null, sends: null, at: null, trouble: null, locked: true, refused: false };

  const charts = {
    sends: new Charts.Chart({ title: "Accepted sends", unit: "/s", note: "as counted by the instances that answered", series: [{ label: "primary", style: "s-primary" }, { label: "backlog", style: "s-backlog" }] }),
    depth: new Charts.Chart({ title: "Waiting in the backlog", unit: "", note: "of the whole pair", series: [{ label: "messages", style: "s-depth" }] }),
    drain: new Charts.Chart({ title: "Drain rate", unit: "/s", note: "of the whole pair", series: [{ label: "delivered", style: "s-drain" }] }),
  };

  // -- keys

  function askForKeys(problem = "") {
    state.locked = true;
    state.refused = Boolean(problem);
    byId("function-key").value = keys.function ?? "";
    byId("admin-key").value = keys.admin;
    byId("keys-problem").hidden = !problem;
    say(byId("keys-problem"), problem);
    if (!byId("keys").open) byId("keys").showModal();
    byId("function-key").focus();
    showContact();
  }

  function useKeys(event) {
    event.preventDefault();
    keys.keep(byId("function-key").value.trim(), byId("admin-key").value.trim());
    byId("keys").close();
    begin();
  }

  function begin() {
    state.locked = state.refused = false;
    state.trouble = null;
    pairPoll.now();
    eventsPoll.now();
    showContact();
  }

  function forgetKeys() {
    keys.forget();
    location.reload();
  }

  function closedWithoutKeys() {
    if (!state.locked) return;
    if (keys.given && state.status && !state.refused) begin();
    else if (!state.status) Sides.headline({ kind: "locked", tone: "idle", text: "Give a function key to see the pair.", more: "“Keys”, at the top, asks for it." });
  }

  // -- answers

  async function lookAtPair() {
    try {
      const status = await look("pair");
      state.verdict = Verdict.judge(status);
      state.status = status;
      state.at = Date.now();
      state.trouble = null;
      const { waiting, rate } = state.verdict.summary;
      charts.depth.add(state.at, [waiting]);
      charts.drain.add(state.at, [rate]);
      Actions.learn(status.options);
      render();
    } catch (error) {
      notAnswered(error);
    }
  }

  async function lookAtEvents() {
    try {
      const answer = await look(Events.query());
      const now = Date.now();
      state.sends = Events.take(answer, now);
      if (state.sends) charts.sends.add(now, [state.sends.primary, state.sends.backlog]);
      if (state.status) render();
    } catch (error) {
      notAnswered(error);
    }
  }

  function notAnswered(error) {
    if (!(error instanceof Trouble)) console.error(error);
    if (error.status === 401 || error.status === 403) {
      if (!state.locked) askForKeys("The function key was refused. Enter a function key, host key or the admin key of this function app.");
      return;
    }
    const text = error instanceof Trouble ? error.message : "what the app answered cannot be shown";
    state.trouble = { text, since: state.trouble?.since ?? Date.now() };
    showContact();
  }

  const pause = () => {
    if (state.locked) return null;
    if (document.hidden) return PAUSE_MS.hidden;
    const pause = state.trouble || state.verdict?.tone !== "ok" ? PAUSE_MS.busy : PAUSE_MS.calm;
    return Math.max(pause, (state.status?.backlog.queues.length ?? 0) * PAUSE_MS.eachQueue);
  };
  const pairPoll = new Poll(lookAtPair, pause);
  const eventsPoll = new Poll(lookAtEvents, () => (pause() === null ? null : Math.min(pause(), document.hidden ? PAUSE_MS.hidden : PAUSE_MS.busy)));

  // -- the page

  function render() {
    byId("content").hidden = false;
    Sides.render(state.status, state.verdict, state.sends);
    Tables.render(state.status);
    showContact();
  }

  /** Live, stale, lost, or waiting for a key; an old picture is never shown as if it were new. */
  function showContact() {
    const age = state.at === null ? null : Date.now() - state.at;
    const ageText = age === null ? "" : `, updated ${Format.duration(age / 1000)} ago`;
    const isStale = age !== null && age > STALE_MS;
    const [tone, text] = state.locked ? ["idle", "Waiting for a key"]
      : state.trouble ? ["bad", "Contact lost"]
      : isStale && !document.hidden ? ["warn", `No new answer${ageText}`]
      : age === null ? ["idle", "Connecting"] : ["ok", `Live${ageText}`];
    mark(byId("contact"), "data-tone", tone);
    say(byId("contact-text"), text);
    const isOld = state.at !== null && (state.refused || (!state.locked && (state.trouble !== null || isStale)));
    document.body.classList.toggle("old", isOld);
    const lost = state.trouble && !state.locked ? `Contact lost at ${Format.clock(state.trouble.since)}: ${state.trouble.text.replace(/\.$/, "")}. Trying again.${isOld ? ` What is shown is from ${Format.clock(state.at)}.` : ""}` : "";
    byId("lost").hidden = !lost;
    say(byId("lost"), lost);
  }

  byId("charts").append(charts.sends.element, charts.depth.element, charts.drain.element);
  byId("headline-icon").append(icon("idle"));
  byId("keys").querySelector("form").addEventListener("submit", useKeys);
  byId("keys").addEventListener("close", closedWithoutKeys);
  byId("forget-keys").addEventListener("click", forgetKeys);
  byId("open-keys").addEventListener("click", () => askForKeys());
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || state.locked) return;
    pairPoll.now();
    eventsPoll.now();
  });
  Actions.start(() => {
    pairPoll.now();
    eventsPoll.now();
  });
  setInterval(showContact, TICK_MS);
  if (keys.given) begin();
  else askForKeys();
})();
