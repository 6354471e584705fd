// Charts: plain SVG, round ticks, one frame for all.
const FRAME = { width: 360, height: 250, left: 60, right: 24, top: 12, bottom: 40 };

// Round values that cover a range: 1, 2 or 5 times a power of ten apart.
function ticks(low, high, count = 5) {
  const raw = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) * power;
  const found = [];
  // Multiples, not sums: a sum of steps misses zero by a rounding error.
  for (let number = Math.floor(low / step + 1e-9); number * step < high + step * 0.999 || found.length < 2; number += 1) found.push(Number((number * step).toPrecision(12)));
  return found;
}
function decades(low, high) {
  const first = Math.floor(Math.log10(low) + 1e-9), last = Math.max(first + 1, Math.ceil(Math.log10(high) - 1e-9));
  const every = Math.ceil((last - first) / 6);
  return Array.from({ length: Math.ceil((last - first) / every) + 1 }, (_, i) => 10 ** (first + i * every));
}
// Halves and doubles around one: what people read speedups in.
function octaves(low, high) {
  const first = Math.floor(Math.log2(low) + 1e-9), last = Math.max(first + 1, Math.ceil(Math.log2(high) - 1e-9));
  const every = Math.ceil((last - first) / 7);
  const from = Math.floor(first / every) * every;
  const found = [];
  for (let power = from; power < last + every; power += every) found.push(2 ** power);
  return found;
}
const short = (value) => (value < 0 ? `−${short(-value)}` : value >= 1e4 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(0).replace("e+", "e") : Number(value.toPrecision(3)).toString());
const octave = (value) => (value < 1 ? `1/${Math.round(1 / value)}×` : `${whole(value)}×`);
function chartText(x, y, content, anchor, attributes = {}) {
  const node = svg("text", { x, y, "text-anchor": anchor, ...attributes });
  node.textContent = content;
  return node;
}
function hint(node, content) {
  const title = svg("title");
  title.textContent = content;
  node.append(title);
  return node;
}
// An axis is {label, ticks, log?, format?}; its ticks are its range.
function frame(label, xAxis, yAxis, size = FRAME) {
  const place = (axis, from, to) => {
    const read = axis.log ? Math.log : (value) => value;
    const low = read(axis.ticks[0]), high = read(axis.ticks[axis.ticks.length - 1]);
    return (value) => from + (to - from) * Math.min(1, Math.max(0, (read(value) - low) / (high - low || 1)));
  };
  const x = place(xAxis, size.left, size.width - size.right), y = place(yAxis, size.height - size.bottom, size.top);
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": label });
  for (const value of yAxis.ticks) {
    chart.append(svg("line", { class: "grid", x1: size.left, x2: size.width - size.right, y1: y(value), y2: y(value) }));
    chart.append(chartText(size.left - 6, y(value) + 4, (yAxis.format || short)(value), "end"));
  }
  for (const value of xAxis.ticks) chart.append(chartText(x(value), size.height - size.bottom + 16, (xAxis.format || short)(value), "middle"));
  chart.append(chartText((size.left + size.width - size.right) / 2, size.height - 6, xAxis.label, "middle"));
  const middle = (size.top + size.height - size.bottom) / 2;
  chart.append(chartText(11, middle, yAxis.label, "middle", { transform: `rotate(-90 11 ${middle})` }));
  return { chart, x, y };
}
const path = (points, x, y) => points.map((point, i) => `${i ? "L" : "M"}${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`).join("");
const steps = (points, x, y) => points.map((point, i) => (i ? `H${x(point[0]).toFixed(1)}V${y(point[1]).toFixed(1)}` : `M${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`)).join("");

const SERIES = ["one", "two", "three", "four", "five", "six"];
// lists: [{name, points: [x, y, low?, high?, count?]}]
function lineChart(label, lists, xAxis, yAxis, options = {}) {
  if (lists.every((list) => list.points.length === 0)) return el("p", {}, "No data for this curve.");
  const { chart, x, y } = frame(label, xAxis, yAxis, options.size);
  if (options.diagonal) chart.append(svg("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
  if (options.level) chart.append(svg("line", { class: "ideal", x1: x(xAxis.ticks[0]), x2: x(xAxis.ticks[xAxis.ticks.length - 1]), y1: y(options.level), y2: y(options.level) }));
  lists.forEach(({ name, points }, i) => {
    const style = SERIES[i % SERIES.length];
    chart.append(hint(svg("path", { class: style, d: (options.steps ? steps : path)(points, x, y) }), name));
    for (const [px, py, low, high, count] of points) {
      if (!none(low)) chart.append(svg("line", { class: style, x1: x(px), x2: x(px), y1: y(low), y2: y(high) }));
      if (options.dots) chart.append(hint(svg("circle", { class: `dot-${style}`, cx: x(px), cy: y(py), r: 3 }), `${name}: ${short(px)}, ${short(py)}${count ? `, ${whole(count)} forecasts` : ""}`));
    }
  });
  return chart;
}
const legend = (names) => el("p", { class: "legend" }, ...names.map((name, i) => el("span", { class: `key-${SERIES[i % SERIES.length]}` }, name)));
// Quality against cost; every dot leads to its entry. Entries that state no cost stand in a strip of their own.
const STRIP = 120;
function costChart(track, chosen = null, size = FRAME) {
  const points = DATA.entries.filter((entry) => !entry.part || entry.part === CORE).map((entry) => ({ entry, cost: entry.cost.seconds_per_1000 || null, score: score(entry, track.id, track.headline, "all") }))
    .filter((point) => point.score && !none(point.score.value));
  const costs = points.map((point) => point.cost).filter((value) => value > 0);
  if (points.length < 2 || !costs.length) return el("p", {}, "Not enough entries state their cost.");
  const values = points.flatMap((point) => [point.score.low ?? point.score.value, point.score.high ?? point.score.value]);
  const label = `${track.headline_label} against seconds per 1,000 forecasts`;
  const unstated = costs.length < points.length;
  const room = unstated ? { ...size, right: size.right + STRIP } : size;
  const { chart, x, y } = frame(label, { label: "seconds per 1,000 forecasts (log)", ticks: decades(Math.min(...costs), Math.max(...costs)), log: true }, { label: `${track.headline_label} ${arrow(track.id, track.headline)}`, ticks: ticks(Math.min(...values), Math.max(...values), size.height > 280 ? 8 : 5) }, room);
  chart.setAttribute("role", "group");
  const border = size.width - size.right - STRIP + 12, beside = (border + size.width) / 2;
  if (unstated) chart.append(svg("line", { class: "ideal", x1: border, x2: border, y1: size.top, y2: size.height - size.bottom }), chartText(beside, size.height - size.bottom + 16, "not stated", "middle"));
  const left = (point) => (point.cost ? x(point.cost) : beside);
  // Names lie beside, above or below their dots, on neither a dot nor another name; one without room is left to its hint.
  const taken = points.map((point) => [left(point) - 5, y(point.score.value) - 5, 10, 10]);
  const free = ([from, top, width, height]) => from > size.left && from + width <= size.width && top > 0 && !taken.some((other) => from < other[0] + other[2] && other[0] < from + width && top < other[1] + other[3] && other[1] < top + height);
  for (const point of points) {
    const { entry, score: s } = point, style = !chosen || chosen === entry ? "one" : "other";
    const at = [left(point), y(s.value)];
    if (!none(s.low)) chart.append(svg("line", { class: `range-${style}`, x1: at[0], x2: at[0], y1: y(s.low), y2: y(s.high) }));
    const dot = svg("a", { href: entryLink(entry.id), "aria-label": entry.name }, hint(svg("circle", { class: `${entry.part ? "ring" : "dot"}-${style}`, cx: at[0], cy: at[1], r: 5 }), `${entry.name}: ${show(s.value, s.decimals)}${entry.part ? ", on core" : ""}`));
    chart.append(dot);
    const wide = 6.2 * entry.name.length;
    const place = [["start", 8, 0, 4], ["end", -8, -wide, 4], ["middle", 0, -wide / 2, -10], ["middle", 0, -wide / 2, 18]].slice(point.cost ? 0 : 2).find(([, right, shift, down]) => free([at[0] + right + shift, at[1] + down - 11, wide, 13]));
    if (place) {
      const [anchor, right, shift, down] = place;
      taken.push([at[0] + right + shift, at[1] + down - 11, wide, 13]);
      chart.append(chartText(at[0] + right, at[1] + down, entry.name, anchor, { class: "name" }));
    }
  }
  return chart;
}
function intervalBar(s, scale) {
  const place = (v) => 2 + 96 * Math.min(1, Math.max(0, (v - scale.low) / (scale.high - scale.low || 1)));
  const [low, high, at] = [s.low ?? s.value, s.high ?? s.value, s.value].map((v) => place(v).toFixed(1));
  return svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "track", d: "M2,5H98" }), svg("path", { class: "span", d: `M${low},4H${high}V6H${low}ZM${at - 1.2},0h2.4v10h-2.4Z` }));
}
// groups: [{name, note, values, marks: [{name, at}]}]. One row of bars per group on a log axis of speedups; 1 is eager PyTorch.
function histogram(label, groups) {
  const all = groups.flatMap((group) => [...group.values, ...group.marks.map((mark) => mark.at)]);
  if (!all.length) return el("p", {}, "No correct kernel yet.");
  const axis = octaves(Math.min(1, ...all), Math.max(1, ...all));
  const narrow = innerWidth < 640;
  const width = narrow ? 380 : 1100, row = 78, left = 112, right = 16, top = 22, bars = narrow ? 24 : 48;
  const low = Math.log2(axis[0]), high = Math.log2(axis[axis.length - 1]);
  const x = (value) => left + ((Math.log2(value) - low) / (high - low)) * (width - left - right);
  const bottom = top + groups.length * row, height = bottom + 40;
  const chart = svg("svg", { class: "chart wide", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const counted = groups.map(({ values }) => {
    const counts = new Array(bars).fill(0);
    for (const value of values) counts[Math.min(bars - 1, Math.max(0, Math.floor((bars * (Math.log2(value) - low)) / (high - low))))] += 1;
    return counts;
  });
  // One scale for all rows, so that bars of different rows compare.
  const most = Math.max(...counted.flat()), step = (width - left - right) / bars;
  groups.forEach(({ name, note, values, marks, style }, i) => {
    const base = top + (i + 1) * row - 8, counts = counted[i];
    chart.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: base, y2: base }));
    chart.append(chartText(left - 8, base - (note ? 32 : 18), name, "end", { class: "name" }), chartText(left - 8, base - 18, note, "end"), chartText(left - 8, base - 4, `${whole(values.length)} correct`, "end"));
    counts.forEach((count, j) => {
      const tall = ((row - 34) * count) / most;
      if (count) chart.append(hint(svg("rect", { class: `fill-${style}`, x: left + j * step + 0.5, y: base - tall, width: step - 1, height: tall }), `${whole(count)} kernels`));
    });
    marks.forEach((mark, j) => {
      chart.append(svg("line", { class: "mark", x1: x(mark.at), x2: x(mark.at), y1: base - row + 30 - 11 * j, y2: base }));
      const right = x(mark.at) > width - 100;
      chart.append(chartText(x(mark.at) + (right ? -3 : 3), base - row + 38 - 11 * j, mark.name, right ? "end" : "start", { class: "name" }));
    });
  });
  for (const value of axis) chart.append(chartText(x(value), bottom + 12, octave(value), "middle"));
  chart.append(svg("line", { class: "mark", x1: x(1), x2: x(1), y1: top - 6, y2: bottom - 4 }), chartText(x(1), top - 10, "eager PyTorch", "middle"));
  chart.append(chartText((left + width - right) / 2, height - 6, "speedup over eager PyTorch (log)", "middle"));
  return chart;
}
