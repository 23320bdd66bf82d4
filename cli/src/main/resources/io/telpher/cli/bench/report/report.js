"use strict";
(() => {
  const lines = JSON.parse(document.getElementById("data").textContent);
  const rows = lines.filter((line) => line.system && !line.wrong);
  const root = document.getElementById("charts");
  const own = rows.filter((row) => row.system === "telpher");
  const unique = (list) => [...new Set(list)];
  const paths = unique(own.map((row) => row.path));
  const ops = unique(own.map((row) => row.op));
  const PERCENTILES = { p50: "us_p50", p99: "us_p99", "p99.9": "us_p999" };
  const DASHES = [[], [8, 4], [2, 4], [12, 4, 2, 4]];
  const chosen = { op: ops[0], percentile: "p50" };
  let charts = [];

  const median = (values) => {
    const v = values.filter((x) => x !== null && x !== undefined && x > 0).sort((a, b) => a - b);
    const m = v.length >> 1;
    return v.length === 0 ? null : v.length % 2 ? v[m] : (v[m - 1] + v[m]) / 2;
  };
  const size = (bytes) => {
    if (bytes === null || bytes === undefined) return "";
    let unit = 0;
    while (bytes >= 1024 && bytes % 1024 === 0) { bytes /= 1024; unit++; }
    return bytes + " " + ["B", "KiB", "MiB", "GiB"][unit];
  };
  const figure = (value) => (value === null || value === undefined ? "" : String(Number(value.toPrecision(4))));
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const make = (tag, text, parent) => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };

  // Whether a peer's row belongs beside an operation of ours, which may be another one than the
  // peer's: the ratios tell. Where it has none, in a run that ended early, the operations' names have to do.
  const ratios = lines.filter((line) => line.ratio);
  const beside = (row, transport, op) => {
    const own = ratios.filter((line) => line.ratio === "telpher/" + row.system);
    return row.transport === transport && (own.length === 0
      ? row.op === op
      : own.some((line) => line.tool === row.tool && line.peer_op === row.op && line.op === op && line.transport === transport));
  };

  // What a chart of a path shows: ours over this path, the peers' over its transport.
  const systems = (path, op) => {
    const transport = own.find((row) => row.path === path).transport;
    const all = rows.filter((row) => (row.system === "telpher"
      ? row.op === op && row.path === path
      : beside(row, transport, op)));
    const groups = new Map();
    for (const row of all) {
      const label = row.system === "telpher" ? "Telpher" : row.system + " " + row.tool;
      if (!groups.has(label)) groups.set(label, []);
      groups.get(label).push(row);
    }
    return groups;
  };

  const styles = (labels) => {
    const names = unique(labels.map((label) => label.split(" ")[0]).filter((name) => name !== "Telpher"));
    const seen = {};
    return labels.map((label) => {
      const name = label.split(" ")[0];
      if (name === "Telpher") return { stroke: colour("--telpher"), width: 3 };
      seen[name] = (seen[name] ?? -1) + 1;
      return { stroke: colour("--c" + (names.indexOf(name) % 6)), width: 1.5, dash: DASHES[seen[name] % 4] };
    });
  };

  const chart = (box, title, unit, groups, value) => {
    make("h3", title, box);
    const series = [...groups].map(([label, list]) => {
      const found = new Map();
      for (const bytes of unique(list.map((row) => row.bytes))) {
        const y = median(list.filter((row) => row.bytes === bytes).map(value));
        if (y !== null) found.set(bytes, y);
      }
      return { label, found };
    }).filter((s) => s.found.size > 0);
    if (series.length === 0) {
      make("p", "not measured", box);
      return;
    }
    const sizes = unique(series.flatMap((s) => [...s.found.keys()])).sort((a, b) => a - b);
    const looks = styles(series.map((s) => s.label));
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1 } };
    const thin = (u) => {
      const step = Math.ceil(sizes.length / Math.max(2, Math.floor(u.width / 75)));
      return sizes.filter((s, i) => i % step === 0);
    };
    const plot = new uPlot({
      width: Math.max(300, box.clientWidth),
      height: 300,
      scales: {
        x: { time: false, distr: 3, log: 2, range: (u, low, high) => [low / 1.4, high * 1.4] },
        y: { distr: 3, log: 10 },
      },
      axes: [
        { ...axis, splits: thin, filter: (u, splits) => splits, values: (u, splits) => splits.map(size) },
        { ...axis, size: 64, values: (u, splits) => splits.map((v) => (v === null ? "" : figure(v))) },
      ],
      series: [
        { label: "size", value: (u, v) => size(v) },
        ...series.map((s, i) => ({ ...looks[i], label: s.label, spanGaps: true, points: { show: true, size: 6 },
          value: (u, v) => (v === null || v === undefined ? "" : figure(v) + " " + unit) })),
      ],
    }, [sizes, ...series.map((s) => sizes.map((bytes) => s.found.get(bytes) ?? null))], box);
    charts.push({ plot, box });
  };

  const draw = () => {
    charts.forEach(({ plot }) => plot.destroy());
    charts = [];
    const place = document.getElementById("paths");
    place.replaceChildren();
    for (const path of paths) {
      const groups = systems(path, chosen.op);
      if (groups.size === 0) continue;
      const depths = [...groups.values()].flat().map((row) => row.depth);
      const deepest = Math.max(...depths);
      make("h2", "path " + path, place);
      const pair = make("div", "", place);
      pair.className = "pair";
      // Both before either is drawn: alone in its row a box would be twice as wide.
      const boxes = [make("div", "", pair), make("div", "", pair)];
      chart(boxes[0], "GB/s, " + deepest + " in flight", "GB/s", groups,
        (row) => (row.depth === deepest ? row.GBps : null));
      chart(boxes[1], "microseconds, one at a time, " + chosen.percentile, "us", groups,
        (row) => (row.depth === 1 ? row[PERCENTILES[chosen.percentile]] : null));
    }
  };

  const choice = (parent, name, options) => {
    const set = make("fieldset", "", parent);
    make("legend", name, set);
    for (const option of options) {
      const label = make("label", "", set);
      const input = make("input", "", label);
      Object.assign(input, { type: "radio", name, value: option, checked: chosen[name] === option });
      input.addEventListener("change", () => { chosen[name] = option; draw(); });
      label.append(" " + option);
    }
  };

  if (own.length === 0) {
    make("p", "Nothing was measured that has a size; the tables below have the other figures.", root);
    return;
  }
  const choices = make("div", "", root);
  choices.className = "choices";
  choice(choices, "op", ops);
  choice(choices, "percentile", Object.keys(PERCENTILES));
  make("div", "", root).id = "paths";
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => charts.forEach(({ plot, box }) =>
      plot.setSize({ width: Math.max(300, box.clientWidth), height: 300 })), 100);
  });
})();
