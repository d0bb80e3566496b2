"use strict";

/** What changes the pair: asked about first, in words, then done with the admin key. */
const Actions = (() => {
  const { byId, say } = Elements;
  const { keys, act, Trouble } = Contact;
  const BY = "an operator, on the dashboard";
  const TOAST_MS = 8000;
  const encoded = (path) => path.split("/").map(encodeURIComponent).join("/");
  const mark = (word) => (path, reason) => act(`entities/${encoded(path)}/${word}${reason ? `?reason=${encodeURIComponent(reason)}` : ""}`, {});
  const change = (word) => (side, reason) => act(`pair/${side}/${word}`, { reason, by: BY });

  const WORDS = {
    healthy: {
      title: (path) => `Mark ${path} healthy?`,
      text: () => "Messages for it go to the primary again at once, on every instance. If it still fails, failover engages anew.",
      confirm: "Mark healthy", done: (path) => `${path} is marked healthy.`, run: mark("healthy"),
    },
    unavailable: {
      title: (path) => `Rehearse a failover of ${path}?`,
      text: (path, options) => `Messages for it go to the backlog until it answers a ping (every ${Format.isoDuration(options.ping_primary_interval)}) or is marked healthy; then the syphon brings them home. They may be overtaken by later ones.`,
      confirm: "Rehearse failover", done: (path) => `${path} fails over until it answers a ping.`, run: mark("unavailable"),
    },
    close: {
      title: (side) => `Close the ${side}?`,
      text: (side, options) => `Pings and draining stop. The other side has ${Format.isoDuration(options.partner_grace)} to close as well and is faulted if it does not; then sends are refused until the pair is opened again.`,
      confirm: "Close", danger: true, done: (side) => `The ${side} is closed.`, run: change("close"),
    },
    fault: {
      title: (side) => `Fault the ${side}?`,
      text: () => "Pings and draining stop, and the other side is faulted after it. Sends are refused until the pair is opened again.",
      confirm: "Fault", danger: true, needsReason: true, done: (side) => `The ${side} is faulted.`, run: change("fault"),
    },
    open: {
      title: () => "Open the pair again?",
      text: () => "Both sides are opened and paired again: sends are taken, and what waits is drained.",
      confirm: "Re-open pair", done: () => "The pair is open.", run: (_, reason) => act("pair/open", { reason, by: BY }),
    },
  };

  let current = null;
  let options = {};
  let afterwards = () => {};
  let toastTimer = null;

  function problem(text) {
    byId("ask-problem").hidden = !text;
    say(byId("ask-problem"), text);
  }

  function ask(word, target) {
    const words = WORDS[word];
    current = { words, target };
    say(byId("ask-title"), words.title(target));
    say(byId("ask-text"), words.text(target, options));
    say(byId("ask-confirm"), words.confirm);
    byId("ask-confirm").className = words.danger ? "danger" : "";
    byId("ask-reason").value = "";
    byId("ask-reason").required = Boolean(words.needsReason);
    say(byId("ask-reason-needed"), words.needsReason ? "needed, kept with the state" : "optional, kept with the state");
    askForKey(!keys.admin);
    problem("");
    busy(false);
    byId("ask").showModal();
    byId("ask-reason").focus();
  }

  /** A host that asks for no keys takes an empty one, so the field may stay empty. */
  function askForKey(isWanted) {
    byId("ask-key-row").hidden = !isWanted;
    byId("ask-key").value = "";
  }

  function busy(is) {
    byId("ask-confirm").disabled = is;
  }

  async function confirm(event) {
    event.preventDefault();
    const asked = current;
    const { words, target } = asked;
    const reason = byId("ask-reason").value.trim();
    if (words.needsReason && !reason) {
      problem("A fault needs a reason.");
      byId("ask-reason").focus();
      return;
    }
    if (!byId("ask-key-row").hidden) keys.keep(keys.function ?? "", byId("ask-key").value.trim());
    busy(true);
    try {
      await words.run(target, reason);
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      if (isStillAsked(asked)) refused(error);
      else toast(`${words.title(target)} Not done: ${error.message}`);
      return;
    } finally {
      if (isStillAsked(asked)) busy(false);
    }
    if (isStillAsked(asked)) byId("ask").close();
    toast(words.done(target));
    afterwards();
  }

  /** A question may be left while its answer is under way; what comes of it is told all the same. */
  const isStillAsked = (asked) => byId("ask").open && current === asked;

  function refused(trouble) {
    if (trouble.status !== 401 && trouble.status !== 403) {
      problem(`Not done: ${trouble.message}`);
      return;
    }
    problem("The admin key was refused: nothing was changed. Enter the admin (master) key of the function app.");
    askForKey(true);
    byId("ask-key").focus();
  }

  function toast(text) {
    say(byId("toast"), text);
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => say(byId("toast"), ""), TOAST_MS);
  }

  function start(refresh) {
    afterwards = refresh;
    byId("ask").querySelector("form").addEventListener("submit", confirm);
    byId("ask-cancel").addEventListener("click", () => byId("ask").close());
  }

  return { ask, start, learn: (known) => { options = known; } };
})();
