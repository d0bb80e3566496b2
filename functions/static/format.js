"use strict";

/** Numbers, times and durations in words. */
const Format = (() => {
  const LOCALE = "en-GB";
  const whole = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 0 });
  const short = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 1 });
  const hourMinute = new Intl.DateTimeFormat(LOCALE, { hour: "2-digit", minute: "2-digit" });
  const clockTime = new Intl.DateTimeFormat(LOCALE, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const day = new Intl.DateTimeFormat(LOCALE, { day: "numeric", month: "short" });
  const full = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "long" });

  const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));
  const rate = (value) => (value >= 10 ? whole : short).format(value);
  const count = (value, one, many) => `${number(value)} ${value === 1 ? one : many}`;
  const messages = (value) => count(value, "message", "messages");

  /** The moment as people say it: the time of day, and the date when that is not today. */
  function moment(iso, now = Date.now()) {
    if (!iso) return "";
    const at = new Date(iso);
    const today = at.toDateString() === new Date(now).toDateString();
    return today ? hourMinute.format(at) : `${day.format(at)}, ${hourMinute.format(at)}`;
  }

  /** Two units at most: 45 s, 3 min, 1 h 20 min, 2 d 4 h. */
  function duration(seconds) {
    const s = Math.max(0, Math.round(seconds));
    if (s < 90) return `${s} s`;
    const min = Math.round(s / 60);
    if (min < 60) return `${min} min`;
    const h = Math.floor(min / 60);
    if (h < 24) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
    const d = Math.floor(h / 24);
    return h % 24 ? `${d} d ${h % 24} h` : `${d} d`;
  }

  const since = (iso, now = Date.now()) => duration((now - Date.parse(iso)) / 1000);
  const exact = (iso) => (iso ? full.format(new Date(iso)) : "");
  const clock = (time) => clockTime.format(new Date(time));

  /** "PT1M30S" as "1 min 30 s"; anything else as it is. */
  function isoDuration(text) {
    const found = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?$/.exec(String(text));
    if (!found) return String(text);
    const parts = [["d", found[1]], ["h", found[2]], ["min", found[3]], ["s", found[4]]].filter((part) => Number(part[1]));
    return parts.map(([unit, value]) => `${Number(value)} ${unit}`).join(" ") || "0 s";
  }

  return { number, rate, count, messages, moment, duration, since, exact, clock, isoDuration };
})();
