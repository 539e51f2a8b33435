// Time to accuracy: adds compute and transfer times for the selected speeds. The page has the numbers of every run
// until each target as JSON; its texts become text nodes, never HTML.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("times").textContent);
  const at = (id) => document.getElementById(id);
  const body = at("times-body");
  if (!body || !data.targets.length) return;
  const BITS = 8 / 1e6; // megabits of a byte
  const PARTS = ["compute", "uplink", "downlink"];

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  const duration = (seconds) => {
    if (seconds >= 5400) return `${(seconds / 3600).toFixed(1)} h`;
    if (seconds >= 90) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
    return `${seconds.toFixed(seconds < 9.95 ? 2 : 1)} s`;
  };

  const speed = (megabits) => `${megabits >= 100 ? Math.round(megabits) : Number(megabits.toPrecision(2))} Mb/s`;

  // The needs of a run for the target, as means of the seeds that reach it: compute seconds, megabits up and down.
  const needs = (run) => {
    const step = Number(at("target").value);
    const there = run.seeds.filter((seed) => step < seed.rounds.length);
    if (!there.length) return null;
    const share = { measured: 1, shared: 1 / run.clients, none: 0 }[at("compute").value];
    const of = (key) => mean(there.map((seed) => seed[key][step]));
    return {
      compute: share * of("seconds"),
      up: BITS * of("up"),
      down: BITS * of("down"),
      rounds: of("rounds"),
      some: there.length < run.seeds.length ? `, ${there.length} of ${run.seeds.length} seeds` : "",
    };
  };

  const timed = (need, up, down) => {
    const parts = [need.compute, need.up / up, need.down / down];
    return { parts, total: parts[0] + parts[1] + parts[2] };
  };

  const faster = (ratio) => `${ratio < 1.095 ? ratio.toFixed(2) : ratio < 99.5 ? ratio.toFixed(1) : Math.round(ratio)} times as fast`;

  // The uplink speed up to which a run is faster than the one it is compared with, at this downlink speed.
  const range = (need, base, down) => {
    const slower = need.compute - base.compute + (need.down - base.down) / down; // seconds lost otherwise
    const saved = base.up - need.up; // megabits
    if (slower < 0 && saved >= 0) return "pays at any uplink speed";
    if (slower >= 0 && saved <= 0) return "pays at no uplink speed";
    return `pays ${saved > 0 ? "below" : "above"} ${speed(saved / slower)} up`;
  };

  const element = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };

  const bar = (parts, longest) => {
    const node = element("div", "bar");
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", PARTS.map((name, i) => `${name} ${duration(parts[i])}`).join(", "));
    parts.forEach((part, i) => {
      const piece = node.appendChild(element("span", `part${i}`));
      piece.style.width = `${(100 * part) / longest}%`;
    });
    return node;
  };

  // How the run's time compares with that of the uncompressed run.
  const compare = (run, position, all) => {
    const { need, time } = all[position];
    const base = run.against === null ? null : all[run.against];
    if (!need) return { state: "not reached", words: "–" };
    if (!base) return { state: "alone", words: "no uncompressed run" };
    if (run.against === position) return { state: "base", words: "is uncompressed" };
    if (!base.need) return { state: "first", words: "it does not get there" };
    if (time.total >= base.time.total) return { state: "does not pay", words: "does not pay here" };
    return { state: "pays", words: faster(base.time.total / time.total) };
  };

  const line = (run, position, all, compared, longest, down) => {
    const { need, time } = all[position];
    const { state, words } = compared[position];
    const row = element("tr");
    const cell = (className, text) => row.appendChild(element("td", className, text));
    const head = row.appendChild(element("th", "text", run.label));
    head.scope = "row";
    const bars = cell("text");
    if (need) {
      bars.append(bar(time.parts, longest));
      cell("number", duration(time.total));
      time.parts.forEach((part, i) => cell("number", i || run.timed ? duration(part) : "not timed"));
      cell("number", need.rounds.toFixed(need.rounds % 1 ? 1 : 0) + need.some);
    } else {
      ["not reached", "–", "–", "–", "–"].forEach((text) => cell("number", text));
    }
    cell("number", run.startup === null ? "–" : duration(run.startup));
    const verdict = cell({ pays: "text pays", "does not pay": "text pays no" }[state] || "text", words);
    if (state === "pays" || state === "does not pay") {
      verdict.append(element("small", "", range(need, all[run.against].need, down)));
    }
    return row;
  };

  const sentence = (all, compared, words) => {
    const labels = (state) => data.runs.filter((_, i) => compared[i].state === state).map((run) => run.label);
    const reached = data.runs.map((_, i) => i).filter((i) => all[i].need);
    const reach = `To reach ${words.target} with ${words.up} up and ${words.down} down`;
    if (!reached.length) return `${reach}: no run gets there.`;
    const first = reached.reduce((best, i) => (all[i].time.total < all[best].time.total ? i : best));
    const run = data.runs[first];
    const gain = compared[first].state === "pays" ? `, ${compared[first].words} as ${data.runs[run.against].label}` : "";
    const rest = [
      ["Does not pay here", labels("does not pay")],
      ["Does not get there", labels("not reached")],
    ];
    const said = rest.flatMap(([what, names]) => (names.length ? [` ${what}: ${names.join("; ")}.`] : []));
    return `${reach}, the fastest is ${run.label}${gain}.${said.join("")}`;
  };

  const update = () => {
    const [up, down] = [data.speeds[at("up").value], data.speeds[at("down").value]];
    const target = data.targets[at("target").value];
    const words = { up: speed(up), down: speed(down), target: target.toFixed(Math.max(2, String(target).length - 2)) };
    Object.entries(words).forEach(([id, text]) => {
      at(`${id}-value`).textContent = text;
      at(id).setAttribute("aria-valuetext", text);
    });
    const all = data.runs.map((run) => {
      const need = needs(run);
      return { need, time: need && timed(need, up, down) };
    });
    const compared = data.runs.map((run, position) => compare(run, position, all));
    const longest = Math.max(...all.map(({ time }) => (time ? time.total : 0)));
    body.replaceChildren(...data.runs.map((run, i) => line(run, i, all, compared, longest, down)));
    at("verdict").textContent = sentence(all, compared, words);
  };

  at("no-script").remove();
  at("target").max = data.targets.length - 1;
  at("target").value = data.target;
  ["up", "down", "target", "compute"].forEach((id) => at(id).addEventListener("input", update));
  update();
})();
