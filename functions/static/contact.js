"use strict";

/** Talking to the app: keys, requests with an end, problems in words, and asking again and again. */
const Contact = (() => {
  const FUNCTION_KEY = "pair.function-key";
  const ADMIN_KEY = "pair.admin-key";
  const REQUEST_MS_MAX = 20_000;
  const DETAIL_LENGTH_MAX = 400;
  /** The page is at .../dashboard; the other functions are its neighbours, whatever the host's route prefix. */
  const BASE = location.pathname.replace(/\/dashboard\/?$/, "");

  const keys = {
    get function() { return sessionStorage.getItem(FUNCTION_KEY); },
    get admin() { return sessionStorage.getItem(ADMIN_KEY) || ""; },
    get given() { return sessionStorage.getItem(FUNCTION_KEY) !== null; },
    keep(functionKey, adminKey) {
      sessionStorage.setItem(FUNCTION_KEY, functionKey);
      sessionStorage.setItem(ADMIN_KEY, adminKey);
    },
    forget() {
      sessionStorage.removeItem(FUNCTION_KEY);
      sessionStorage.removeItem(ADMIN_KEY);
    },
  };

  /** An answer that is not what was asked for, in words for people. `status` 0: there was no answer. */
  class Trouble extends Error {
    constructor(status, message) {
      super(message);
      this.status = status;
    }
  }

  async function problemOf(answer) {
    try {
      const told = await answer.json();
      const text = [told.detail ?? told.title, told.action].filter((part) => typeof part === "string").join(" ");
      if (text) return text.slice(0, DETAIL_LENGTH_MAX);
    } catch {
      // Not every answer is a problem document: the host's own are empty or plain.
    }
    return `The app answered ${answer.status} ${answer.statusText}`.trim() + ".";
  }

  async function ask(method, path, { key, body } = {}) {
    const headers = key ? { "x-functions-key": key } : {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const init = { method, headers, cache: "no-store", credentials: "same-origin", redirect: "error", signal: AbortSignal.timeout(REQUEST_MS_MAX) };
    if (body !== undefined) init.body = JSON.stringify(body);
    let answer;
    try {
      answer = await fetch(`${BASE}/${path}`, init);
    } catch (error) {
      throw new Trouble(0, error.name === "TimeoutError" ? `no answer within ${REQUEST_MS_MAX / 1000} s` : "the app cannot be reached");
    }
    if (!answer.ok) throw new Trouble(answer.status, await problemOf(answer));
    try {
      return await answer.json();
    } catch {
      throw new Trouble(answer.status, "what the app answered cannot be read");
    }
  }

  const look = (path) => ask("GET", path, { key: keys.function || keys.admin });
  const act = (path, body) => ask("POST", path, { key: keys.admin, body });

  /** Calls `once` now and then, one call at a time; `pause` gives the wait after it in ms, or null to stop. */
  class Poll {
    constructor(once, pause) {
      this.once = once;
      this.pause = pause;
      this.timer = null;
      this.busy = false;
      this.again = false;
    }

    async now() {
      clearTimeout(this.timer);
      this.timer = null;
      if (this.busy) {
        this.again = true;
        return;
      }
      this.busy = true;
      do {
        this.again = false;
        await this.once();
      } while (this.again);
      this.busy = false;
      const wait = this.pause();
      if (wait !== null) this.timer = setTimeout(() => this.now(), wait);
    }

    stop() {
      clearTimeout(this.timer);
      this.timer = null;
    }
  }

  return { keys, look, act, Trouble, Poll };
})();
