// Names come from the cluster and may be hostile: they are always inserted as isolated text, and invisible
// characters are spelled out.
import { html } from "../vendor/lit-html.js";

const UNSEEN = /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u3164\uffa0]/gu;

/** A name with control characters, direction marks and the like written as \u{...}. */
export const visible = (text) =>
  String(text).replace(UNSEEN, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);

/** A name as an isolated element, whose direction does not affect its surroundings. */
export const named = (text) => html`<bdi title=${visible(text)}>${visible(text)}</bdi>`;

const GIB = 1024;
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const aligned = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const tenth = (number) => tenths.format(number);
export const count = (number) => whole.format(number);

/** MiB in readable units. */
export function memory(mib) {
  if (mib === null || mib === undefined) return "unknown";
  if (mib >= 100 * GIB * GIB) return `${whole.format(mib / GIB / GIB)} TiB`;
  if (mib >= GIB * GIB) return `${tenths.format(mib / GIB / GIB)} TiB`;
  return mib >= 100 * GIB ? `${whole.format(mib / GIB)} GiB` : `${mib ? aligned.format(mib / GIB) : 0} GiB`;
}

/** A sum's unaccounted memory: a lower bound if some GPUs do not report it, unknown if none does. */
export function unaccountedText(sum) {
  if (!sum.reporting) return memory(null);
  return `${sum.reporting < sum.measured ? "≥ " : ""}${memory(sum.unaccounted)}`;
}

/** A sum's free memory: an upper bound if pods hold unknown GPUs. */
export const freeText = (sum) => `${sum.unattributed ? "≤ " : ""}${memory(sum.free)}`;

/** What the device plugin does not offer, in GPUs. */
export const withheldText = ({ withheld }) => {
  const gpus = Math.round(10 * withheld) / 10;
  return `${gpus === 1 ? "1 GPU" : `${tenths.format(gpus)} GPUs`} not offered by the device plugin`;
};

export const bytes = (number) =>
  number >= 1e6 ? `${tenths.format(number / 1e6)} MB` : `${whole.format(number / 1e3)} kB`;

export const percent = (part) => `${whole.format(100 * part)} %`;

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

// All times are in the zone of the browser.
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const date = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short" });
const minute = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const offset = new Intl.DateTimeFormat("en", { timeZoneName: "shortOffset" });
const UTC_TIMES = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;

/** The zone at a time, such as UTC+1: summer has another one. */
export const zone = (seconds = Date.now() / 1000) =>
  offset.formatToParts(seconds * 1000).find((part) => part.type === "timeZoneName").value.replace(/^GMT([+-]0)?/, "UTC");
/** The time of a day, with the day if it is not today: year, month, day. */
export function atSecond(seconds) {
  const day = date.format(seconds * 1000);
  return `${day === date.format(Date.now()) ? "" : `${day} `}${clock.format(seconds * 1000)}`;
}
/** With the day and the zone. */
export const atDay = (seconds) => `${date.format(seconds * 1000)} ${clock.format(seconds * 1000)} ${zone(seconds)}`;
export const atMinute = (seconds) => minute.format(seconds * 1000);
/** A sentence of the server with its times, which are UTC, in the zone of the browser. */
export const localTimes = (text) => text.replace(UTC_TIMES, (time) => atDay(Date.parse(time) / 1000));

/** A past time as an age, in the largest useful unit. */
export function ago(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}
