// The leaderboard page: everything is drawn from the embedded data; text from submissions is only set as text.
(() => {
  "use strict";
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const BY_ID = new Map(DATA.entries.map((entry) => [entry.id, entry]));
  const main = document.querySelector("main");
  const SVG = "http://www.w3.org/2000/svg";
  const OVERALL = { id: "overall", title: "Overall", question: "Who does well on every track? The mean of an entry's ranks over the tracks; lower is better.", headline: "mean", headline_label: "mean rank", metrics: [] };
  const TRACKS = [OVERALL, ...DATA.tracks];
  const FILTERS = ["family", "backend", "gpu", "access"];
  const state = { track: OVERALL.id, family: "", backend: "", gpu: "", access: "", search: "", sort: null };

  // ---- small builders -------------------------------------------------------------------------------------------
  function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }
  function svg(tag, attributes = {}, ...children) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }
  const cost = (value) => (value === null || value === undefined ? "—" : value === 0 ? "0" : Number(value.toPrecision(2)).toString());
  const show = (value, decimals = 3) => (value === null || value === undefined ? "—" : Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(decimals));

  // ---- scores and ranks -----------------------------------------------------------------------------------------
  // A slice key joins the chosen facets in a fixed order; the builder stored one score set per key.
  function sliceKey() {
    const parts = ["family", "backend", "gpu"].filter((facet) => state[facet] && DATA.facets[facet].length > 1).map((facet) => `${facet}=${state[facet]}`);
    return parts.length ? parts.join("&") : "all";
  }
  const COLUMN = new Map(DATA.columns.map((name, i) => [name, i]));
  function score(entry, track, metric, key) {
    const set = entry.scores[key];
    const found = set && set[COLUMN.get(`${track}.${metric}`)];
    return found && found.length ? { value: found[0], low: found[1], high: found[2], ceiling: found[3], decimals: DATA.metrics[metric].decimals } : null;
  }
  function signed(metric, value) { return DATA.metrics[metric].better === "high" ? value : -value; }

  // Rank from values; the range counts who is surely better and who may be (intervals that overlap are ties).
  function rankings(entries, track, metric, key) {
    const rows = entries.map((entry) => ({ entry, score: score(entry, track, metric, key) }));
    const scored = rows.filter((row) => row.score && row.score.value !== null);
    const ends = (row) => {
      const low = row.score.low ?? row.score.value, high = row.score.high ?? row.score.value;
      const pair = [signed(metric, low), signed(metric, high)];
      return [Math.min(...pair), Math.max(...pair)];
    };
    const spans = scored.map((row) => ends(row));
    const lows = spans.map((span) => span[0]).sort((a, b) => a - b);
    const highs = spans.map((span) => span[1]).sort((a, b) => a - b);
    const above = (sorted, limit) => { let lo = 0, hi = sorted.length; while (lo < hi) { const mid = (lo + hi) >> 1; if (sorted[mid] > limit) hi = mid; else lo = mid + 1; } return sorted.length - lo; };
    const ordered = scored.map((row, i) => ({ ...row, span: spans[i] })).sort((a, b) => signed(metric, b.score.value) - signed(metric, a.score.value));
    let previous = null;
    ordered.forEach((row, i) => {
      const tied = previous && previous.score.value === row.score.value;
      row.rank = tied ? previous.rank : i + 1;
      row.best = 1 + above(lows, row.span[1]);
      row.worst = Math.max(row.best, above(highs, row.span[0]) + 1 - (row.span[1] > row.span[0] ? 1 : 0));
      previous = row;
    });
    return new Map(ordered.map((row) => [row.entry.id, row]));
  }
  function visibleEntries() {
    return DATA.entries.filter((entry) => !state.access || (state.access === "open") === entry.open);
  }
  // Unfiltered, places come from the bootstrap; there are none for a filter, so its ranges come from intervals.
  function places(track, entries, key) {
    if (key === "all" && !state.access) {
      const stored = track === OVERALL ? DATA.overall : DATA.track_ranks[track.id];
      return new Map(stored.map((place) => [place.id, { rank: place.rank, best: place.rank_low, worst: place.rank_high, figure: place.figure }]));
    }
    return track === OVERALL ? overallPlaces(entries, key) : rankings(entries, track.id, track.headline, key);
  }
  // A track that has no rank for an entry counts as last, as it does where the places are built.
  function overallPlaces(entries, key) {
    const tables = DATA.tracks.map((track) => rankings(entries, track.id, track.headline, key)).filter((table) => table.size);
    const mean = (entry, part) => tables.reduce((sum, table) => sum + (table.get(entry.id)?.[part] ?? entries.length), 0) / tables.length;
    const rows = tables.length ? entries.map((entry) => ({ id: entry.id, figure: mean(entry, "rank"), low: mean(entry, "best"), high: mean(entry, "worst") })) : [];
    return new Map(rows.map((row) => [row.id, {
      figure: row.figure, rank: 1 + rows.filter((other) => other.figure < row.figure).length,
      best: 1 + rows.filter((other) => other.high < row.low).length, worst: rows.filter((other) => other.low <= row.high).length,
    }]));
  }

  // ---- charts ---------------------------------------------------------------------------------------------------
  const FRAME = { width: 340, height: 240, left: 54, right: 20, top: 10, bottom: 36 };
  function frame(xLabel, yLabel, yMax, xMax = 1, xTicks = null, yTicks = null) {
    const x = (v) => FRAME.left + (v / xMax) * (FRAME.width - FRAME.left - FRAME.right);
    const y = (v) => FRAME.height - FRAME.bottom - (Math.min(v, yMax) / yMax) * (FRAME.height - FRAME.top - FRAME.bottom);
    const chart = svg("svg", { class: "chart", viewBox: `0 0 ${FRAME.width} ${FRAME.height}`, role: "img" });
    for (let i = 0; i <= 4; i++) {
      const vy = (yMax * i) / 4, vx = (xMax * i) / 4;
      chart.append(svg("line", { class: "grid", x1: x(0), x2: x(xMax), y1: y(vy), y2: y(vy) }));
      chart.append(text(x(0) - 6, y(vy) + 4, yTicks ? yTicks(vy) : Number(vy.toPrecision(2)).toString(), "end"));
      chart.append(text(x(vx), FRAME.height - FRAME.bottom + 16, xTicks ? xTicks(vx) : Number(vx.toPrecision(2)).toString(), "middle"));
    }
    chart.append(text(x(xMax / 2), FRAME.height - 4, xLabel, "middle"));
    const side = text(11, y(yMax / 2), yLabel, "middle");
    side.setAttribute("transform", `rotate(-90 11 ${y(yMax / 2)})`);
    chart.append(side);
    return { chart, x, y };
  }
  function text(x, y, content, anchor) {
    const node = svg("text", { x, y, "text-anchor": anchor });
    node.textContent = content;
    return node;
  }
  function lineChart(entries, curve, xLabel, yLabel, options = {}) {
    const lists = entries.map((entry) => (entry.curves && entry.curves[curve]) || []);
    if (lists.every((points) => points.length === 0)) return el("p", {}, "No data for this curve.");
    const yMax = options.yMax || Math.max(0.05, ...lists.flat().map((point) => point[1])) * 1.05;
    // Budgets are told apart by their ratio: two decades, from 1 % to all.
    const { chart, x: place, y } = options.decades ? frame(xLabel, yLabel, yMax, 2, (v) => `${Number((10 ** v).toPrecision(1))} %`) : frame(xLabel, yLabel, yMax);
    const x = (v) => place(options.decades ? Math.log10(v) + 2 : v);
    chart.setAttribute("aria-label", `${yLabel} against ${xLabel}`);
    if (options.diagonal) chart.append(svg("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
    lists.forEach((points, i) => {
      const style = i === 0 ? "one" : "two";
      const path = points.map((point, j) => `${j ? "L" : "M"}${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`).join("");
      chart.append(svg("path", { class: style, d: path }));
      if (options.dots) for (const point of points) chart.append(svg("circle", { class: `dot-${style}`, cx: x(point[0]), cy: y(point[1]), r: 3 }));
    });
    return chart;
  }
  function costChart(entry) {
    const track = DATA.tracks[0];
    const points = DATA.entries.map((other) => ({ other, cost: other.cost.seconds_per_1000, score: score(other, track.id, track.headline, "all") }))
      .filter((point) => point.cost > 0 && point.score && point.score.value !== null);
    if (points.length < 2) return el("p", {}, "Not enough entries state their cost.");
    const logs = points.map((point) => Math.log10(point.cost));
    const low = Math.floor(Math.min(...logs)), span = Math.max(1, Math.ceil(Math.max(...logs)) - low);
    const floor = Math.min(0, ...points.map((point) => point.score.value));
    const yMax = Math.max(0.05, ...points.map((point) => point.score.value - floor)) * 1.1;
    const { chart, x, y } = frame("seconds per 1,000 forecasts (log)", track.headline_label, yMax, span, (v) => Number((10 ** (v + low)).toPrecision(2)).toString(), (v) => Number((v + floor).toPrecision(2)).toString());
    chart.setAttribute("aria-label", "cost against quality");
    for (const point of points) {
      const dot = svg("circle", { class: point.other === entry ? "dot-one" : "dot-other", cx: x(Math.log10(point.cost) - low), cy: y(point.score.value - floor), r: point.other === entry ? 6 : 4 });
      const title = svg("title");
      title.textContent = point.other.name;
      dot.append(title);
      chart.append(dot);
    }
    return chart;
  }
  function intervalBar(s, scale) {
    const place = (v) => 2 + 96 * Math.min(1, Math.max(0, (v - scale.low) / (scale.high - scale.low || 1)));
    const [low, high, at] = [s.low ?? s.value, s.high ?? s.value, s.value].map((v) => place(v).toFixed(1));
    return svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("path", { class: "track", d: "M2,5H98" }), svg("path", { class: "span", d: `M${low},4H${high}V6H${low}ZM${at - 1.2},0h2.4v10h-2.4Z` }));
  }

  // ---- views ----------------------------------------------------------------------------------------------------
  function tableView() {
    const holder = el("div", { class: "scroll" });
    const question = el("p", { class: "lead" });
    const count = el("p", { class: "lead", role: "status", "aria-live": "polite" });
    const tabs = TRACKS.map((track) => el("button", { type: "button", "data-track": track.id, on: { click: () => { state.sort = null; change({ track: track.id }); } } }, track.title));
    const choice = (facet, label, values) => el("label", {}, label,
      el("select", { "data-facet": facet, disabled: values.length < 2, on: { change: (event) => change({ [facet]: event.target.value }) } },
        el("option", { value: "" }, values.length === 1 ? values[0] : "all"),
        ...(values.length > 1 ? values : []).map((value) => el("option", { value, selected: state[facet] === value }, value))));
    const search = el("input", { type: "search", value: state.search, placeholder: "name, author, kind", on: { input: (event) => change({ search: event.target.value }, true) } });
    const controls = el("div", { class: "controls" },
      choice("family", "Family", DATA.facets.family), choice("backend", "Backend", DATA.facets.backend), choice("gpu", "GPU", DATA.facets.gpu),
      choice("access", "Weights", ["open", "closed"]), el("label", {}, "Search", search));
    const draw = () => {
      const track = TRACKS.find((candidate) => candidate.id === state.track);
      tabs.forEach((tab) => tab.setAttribute("aria-pressed", String(tab.dataset.track === track.id)));
      question.textContent = track.question;
      drawTable(track, holder, count, change);
    };
    // In place: the control that was used keeps its focus. Typing and sorting make no history entries.
    function change(changes, quiet = false) {
      Object.assign(state, changes);
      history[quiet ? "replaceState" : "pushState"](null, "", tableHash());
      draw();
    }
    main.replaceChildren(el("h1", {}, "Leaderboard"), question, el("div", { class: "tabs", role: "group", "aria-label": "Track" }, ...tabs), controls, count, holder, footer());
    draw();
  }
  function columns(track, ranks, key, entries) {
    const base = [
      { id: "name", title: "Surrogate", value: (entry) => entry.name.toLowerCase(), text: true },
      { id: "rank", title: track === OVERALL ? "Overall rank" : "Rank", value: (entry) => ranks.get(entry.id)?.rank ?? null },
    ];
    const metrics = track.metrics.map((metric) => ({
      id: metric, title: `${DATA.metrics[metric].label}\u00a0${DATA.metrics[metric].better === "high" ? "↑" : "↓"}`, better: DATA.metrics[metric].better, meaning: DATA.metrics[metric].meaning,
      value: (entry) => score(entry, track.id, metric, key)?.value ?? null,
    }));
    if (track === OVERALL) {
      metrics.push({ id: "mean", title: "Mean rank ↓", value: (entry) => ranks.get(entry.id)?.figure ?? null });
      for (const one of DATA.tracks) {
        const table = markTies(places(one, entries, key));
        metrics.push({ id: `${one.id}_rank`, title: one.title, table, value: (entry) => table.get(entry.id)?.rank ?? null });
      }
    }
    return [...base, ...metrics, { id: "cost", title: "s / 1,000\u00a0↓", value: (entry) => entry.cost.seconds_per_1000 }];
  }
  function ordered(entries, column, down) {
    return [...entries].sort((a, b) => {
      const one = column.value(a), two = column.value(b);
      if (one === two) return a.name < b.name ? -1 : 1;
      if (one === null || one === undefined) return 1;
      if (two === null || two === undefined) return -1;
      return (one < two ? -1 : 1) * (down ? -1 : 1);
    });
  }
  // Equal figures share a rank, marked with an equals sign.
  function markTies(table) {
    const counts = new Map();
    for (const place of table.values()) counts.set(place.rank, (counts.get(place.rank) || 0) + 1);
    for (const place of table.values()) place.tied = counts.get(place.rank) > 1;
    return table;
  }
  // Rows are built once for a track and filter; sorting and searching only move them.
  function drawTable(track, holder, count, change) {
    const key = sliceKey();
    const entries = visibleEntries();
    const wanted = `${track.id} ${key} ${state.access}`;
    if (holder.dataset.shows !== wanted) {
      const ranks = markTies(places(track, entries, key));
      const all = columns(track, ranks, key, entries);
      const scores = track === OVERALL ? [] : entries.map((entry) => score(entry, track.id, track.headline, key)).filter((s) => s && s.value !== null);
      const scale = { low: Math.min(...scores.map((s) => s.low ?? s.value)), high: Math.max(...scores.map((s) => s.high ?? s.value)) };
      holder.parts = { all, rows: new Map(entries.map((entry) => [entry.id, row(entry, track, key, ranks, scale, all)])), head: all.map((column) => heading(column, change)), body: el("tbody") };
      holder.dataset.shows = wanted;
      holder.replaceChildren(el("table", {}, el("caption", { class: "unseen" }, `${track.title}, ${key === "all" ? "all test queries" : key}`), el("thead", {}, el("tr", {}, ...holder.parts.head)), holder.parts.body));
    }
    const { all, rows, head, body } = holder.parts;
    const column = all.find((candidate) => candidate.id === state.sort?.id) || all[1];
    const down = state.sort ? state.sort.down : false;
    head.forEach((cell) => cell.setAttribute("aria-sort", cell.dataset.column === column.id ? (down ? "descending" : "ascending") : "none"));
    const needle = state.search.trim().toLowerCase();
    const shown = ordered(entries.filter((entry) => !needle || searchable(entry).includes(needle)), column, down);
    fill(body, shown.map((entry) => rows.get(entry.id)));
    const ranges = key === "all" && !state.access ? "In parentheses: the rank's 95 % interval from the bootstrap; = marks a tie." : "In parentheses: the ranks whose intervals overlap; = marks a tie.";
    count.textContent = `${shown.length} of ${DATA.entries.length} entries · ${key === "all" ? "all test queries" : key.replaceAll("&", ", ")} · ${track === OVERALL ? "" : `The bar is the 95 % interval of ${track.headline_label}. `}${ranges}`;
  }
  // Draw what fits on a screen at once, and the rest when the browser is idle.
  const AT_ONCE = 40;
  const later = window.requestIdleCallback || ((work) => setTimeout(work, 50));
  let filling = 0;
  function fill(body, rows) {
    const turn = ++filling;
    body.replaceChildren(...rows.slice(0, AT_ONCE));
    if (rows.length > AT_ONCE) later(() => { if (turn === filling) body.append(...rows.slice(AT_ONCE)); });
  }
  function heading(column, change) {
    const turn = (event) => {
      const now = event.target.closest("th").getAttribute("aria-sort");
      change({ sort: { id: column.id, down: now === "none" ? column.better === "high" : now === "ascending" } }, true);
    };
    return el("th", { scope: "col", class: column.text ? null : "num", "data-column": column.id }, el("button", { type: "button", title: column.meaning, on: { click: turn } }, column.title));
  }
  const searchable = (entry) => [entry.name, ...entry.authors, entry.organisation || "", entry.kind].join(" ").toLowerCase();
  function rankCell(place) {
    return el("td", { class: "num" }, place ? `${place.tied ? "=" : ""}${place.rank}` : "—", place && place.worst > place.best ? el("span", { class: "range" }, ` (${place.best}–${place.worst})`) : null);
  }
  function row(entry, track, key, ranks, scale, all) {
    const cells = track === OVERALL
      ? all.slice(2, -1).map((column) => (column.table ? rankCell(column.table.get(entry.id)) : el("td", { class: "num" }, show(column.value(entry)))))
      : track.metrics.map((metric) => {
        const s = score(entry, track.id, metric, key);
        return el("td", { class: "num" }, ...scoreText(s), s && s.value !== null && metric === track.headline ? intervalBar(s, scale) : null);
      });
    return el("tr", { "data-entry": entry.id },
      el("td", {}, el("a", { href: `#/entry/${encodeURIComponent(entry.id)}` }, entry.name), el("span", { class: "badge kind" }, entry.kind.replace("_", " ")), entry.flags.length ? el("span", { class: "badge flag", title: entry.flags.join("; ") }, `${entry.flags.length} flag${entry.flags.length > 1 ? "s" : ""}`) : null),
      rankCell(ranks.get(entry.id)), ...cells, el("td", { class: "num" }, cost(entry.cost.seconds_per_1000)));
  }
  function scoreText(s) {
    if (!s || s.value === null) return ["—"];
    return [show(s.value, s.decimals), s.low !== null && s.low !== undefined ? el("span", { class: "range interval" }, ` [${show(s.low, s.decimals)}, ${show(s.high, s.decimals)}]`) : null];
  }
  function charts(entries) {
    return el("div", { class: "cards" },
      el("div", { class: "card" }, el("h3", {}, "Reliability"), lineChart(entries, "reliability", "stated probability", "share correct", { diagonal: true, dots: true, yMax: 1 }), el("p", {}, "On the dashed line, stated confidence equals accuracy.")),
      el("div", { class: "card" }, el("h3", {}, "Risk against coverage"), lineChart(entries, "risk_coverage", "share answered", "share wrong"), el("p", {}, "Lower is better: answer the surest queries first and measure the rest.")),
      el("div", { class: "card" }, el("h3", {}, "Regret against budget"), lineChart(entries, "regret", "share of the pool measured (log)", "regret", { decades: true, dots: true }), el("p", {}, "How much slower the best kernel found is than the pool's best.")),
      entries.length === 1 ? el("div", { class: "card" }, el("h3", {}, "Cost against quality"), costChart(entries[0]), el("p", {}, "Each dot is an entry; this one is highlighted.")) : null);
  }
  function scoreTable(entries, key = "all") {
    const rows = DATA.tracks.flatMap((track) => track.metrics.map((metric) => ({ track, metric })));
    return el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Track"), el("th", { scope: "col" }, "Metric"), ...entries.map((entry) => el("th", { scope: "col", class: "num" }, entry.name)), el("th", { scope: "col", class: "num" }, "Ceiling"))),
      el("tbody", {}, ...rows.map(({ track, metric }) => {
        const found = entries.map((entry) => score(entry, track.id, metric, key));
        const ceiling = found.find((s) => s && s.ceiling !== null && s.ceiling !== undefined);
        return el("tr", {}, el("td", {}, track.title), el("td", {}, DATA.metrics[metric].label),
          ...found.map((s) => el("td", { class: "num" }, ...scoreText(s))),
          el("td", { class: "num" }, ceiling ? show(ceiling.ceiling, ceiling.decimals) : "—"));
      }))));
  }
  // One entry: every track's headline. Two: the first track's, side by side.
  function sliceTable(entries) {
    const keys = [...new Set(entries.flatMap((entry) => Object.keys(entry.scores)))].filter((key) => key !== "all" && !key.includes("&")).sort();
    const shown = entries.length === 1 ? DATA.tracks.map((track) => ({ entry: entries[0], track, title: `${track.title}: ${track.headline_label}` })) : entries.map((entry) => ({ entry, track: DATA.tracks[0], title: entry.name }));
    return el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Slice"), ...shown.map(({ title }) => el("th", { scope: "col", class: "num" }, title)))),
      el("tbody", {}, ...keys.map((key) => el("tr", {}, el("td", {}, key), ...shown.map(({ entry, track }) => el("td", { class: "num" }, ...scoreText(score(entry, track.id, track.headline, key)))))))));
  }
  function facts(entry) {
    const pairs = [["Version", entry.version], ["Authors", entry.authors.join(", ")], ["Organisation", entry.organisation], ["Licence", entry.license], ["Looks at", entry.inputs],
      ["Weights", entry.open ? "open" : "closed"], ["Hardware", entry.hardware], ["Training data", entry.training_data], ["Contamination", entry.contamination],
      ["Cost", `${cost(entry.cost.seconds_per_1000)} s${entry.cost.tokens_per_1000 === null ? "" : ` and ${cost(entry.cost.tokens_per_1000)} tokens`} per 1,000 forecasts`], ["Answered", `${cost(100 * entry.answered_share)} % of queries`], ["Submitted", entry.created_at]];
    return el("dl", { class: "facts" }, ...pairs.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
      ...entry.links.flatMap((link) => [el("dt", {}, "Link"), el("dd", {}, el("a", { href: link, rel: "noopener noreferrer nofollow" }, link))]));
  }
  function entryView(id) {
    const entry = BY_ID.get(id);
    if (!entry) return missing(`No entry is called ${id}.`);
    const overall = DATA.overall.find((candidate) => candidate.id === id);
    main.replaceChildren(el("h1", {}, entry.name, el("span", { class: "badge" }, entry.kind.replace("_", " "))),
      el("p", { class: "lead" }, overall ? `Overall rank ${overall.rank} (95 % interval ${overall.rank_low}–${overall.rank_high}) of ${DATA.overall.length}.` : ""),
      ...entry.flags.map((flag) => el("p", {}, el("span", { class: "badge flag" }, "flag"), ` ${flag}`)),
      facts(entry), compareForm(entry), el("h2", {}, "Curves"), charts([entry]), el("h2", {}, "Scores with 95 % intervals"), scoreTable([entry]),
      el("h2", {}, "Headlines by slice"), sliceTable([entry]), el("p", {}, el("a", { href: `data/${entry.id}.json`, download: true }, "Download every number of this entry (JSON)")), footer());
  }
  function compareForm(entry) {
    const others = DATA.entries.filter((other) => other !== entry);
    if (!others.length) return null;
    const pick = el("select", { "data-compare": true }, ...others.map((other) => el("option", { value: other.id }, other.name)));
    return el("div", { class: "controls" }, el("label", {}, "Compare with", pick),
      el("button", { type: "button", class: "primary", on: { click: () => { location.hash = `#/compare/${encodeURIComponent(entry.id)}/${encodeURIComponent(pick.value)}`; } } }, "Compare"));
  }
  function compareView(one, two) {
    const entries = [BY_ID.get(one), BY_ID.get(two)];
    if (!entries[0] || !entries[1]) return missing("One of the two entries does not exist.");
    main.replaceChildren(el("h1", {}, `${entries[0].name} and ${entries[1].name}`), comparePicker(entries),
      el("p", { class: "legend" }, el("span", { class: "k1" }, entries[0].name), el("span", { class: "k2" }, entries[1].name)),
      charts(entries), el("h2", {}, "Scores"), scoreTable(entries), el("h2", {}, `${DATA.tracks[0].headline_label} by slice`), sliceTable(entries), footer());
  }
  function comparePicker(entries) {
    const picks = entries.map((chosen, i) => el("select", { "aria-label": `Entry ${i + 1}` }, ...DATA.overall.map((place) => el("option", { value: place.id, selected: place.id === chosen.id }, BY_ID.get(place.id).name))));
    const open = () => { location.hash = `#/compare/${picks.map((pick) => encodeURIComponent(pick.value)).join("/")}`; };
    return el("div", { class: "controls" }, ...picks, el("button", { type: "button", class: "primary", on: { click: open } }, "Compare"));
  }
  function compareIndex() {
    if (DATA.overall.length < 2) return missing("Comparison needs two entries.");
    compareView(DATA.overall[0].id, DATA.overall[1].id);
  }
  function template(id) {
    main.replaceChildren(document.getElementById(id).content.cloneNode(true), footer());
  }
  function missing(message) {
    main.replaceChildren(el("h1", {}, "Not found"), el("p", {}, message), el("p", {}, el("a", { href: "#/" }, "Back to the table")));
  }
  function footer() {
    return el("footer", {}, `kbench ${DATA.version} · dataset ${DATA.dataset.fingerprint.slice(0, 12)} · seed ${DATA.seed} · `, el("a", { href: "data/leaderboard.json", download: true }, "all numbers as JSON"));
  }

  // ---- routing: the hash is the deep link -----------------------------------------------------------------------
  function tableHash() {
    const query = new URLSearchParams(["track", ...FILTERS].filter((name) => state[name]).map((name) => [name, state[name]]));
    if (state.search) query.set("q", state.search);
    if (state.sort) query.set("sort", `${state.sort.down ? "-" : ""}${state.sort.id}`);
    return `#/?${query}`;
  }
  function readHash(query) {
    const given = new URLSearchParams(query || "");
    for (const name of FILTERS) state[name] = given.get(name) || "";
    for (const facet of ["family", "backend", "gpu"]) if (!DATA.facets[facet].includes(state[facet])) state[facet] = "";
    state.track = TRACKS.some((track) => track.id === given.get("track")) ? given.get("track") : OVERALL.id;
    state.search = given.get("q") || "";
    const sort = given.get("sort");
    state.sort = sort ? { id: sort.replace(/^-/, ""), down: sort.startsWith("-") } : null;
  }
  function route() {
    const [path, query] = location.hash.replace(/^#/, "").split("?");
    const parts = path.split("/").filter(Boolean).map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
    document.querySelectorAll("header nav a").forEach((link) => link.removeAttribute("aria-current"));
    const active = document.querySelector(`header nav a[data-page="${["compare", "dataset", "submit"].includes(parts[0]) ? parts[0] : "table"}"]`);
    if (active) active.setAttribute("aria-current", "page");
    if (parts[0] === "entry") entryView(parts[1]);
    else if (parts[0] === "compare") parts.length === 3 ? compareView(parts[1], parts[2]) : compareIndex();
    else if (parts[0] === "dataset" || parts[0] === "submit") template(parts[0]);
    else { readHash(query); tableView(); }
  }
  function theme(next) {
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("kbench-theme", next); } catch { /* storage is off: the choice lasts for this page */ }
  }
  let stored = null;
  try { stored = localStorage.getItem("kbench-theme"); } catch { stored = null; }
  if (stored === "dark" || stored === "light") theme(stored);
  document.getElementById("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    theme(dark ? "light" : "dark");
  });
  window.addEventListener("hashchange", () => { route(); window.scrollTo(0, 0); });
  route();
})();
