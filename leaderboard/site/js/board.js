// The leaderboard: ranks with intervals, filters that compute them again, and how many problems stand behind them.
const OVERALL = { id: "overall", title: "Overall", question: "Who does well on every track? The mean of the tracks' headlines, each on a scale from the prior (0) to a second measurement (1).", headline: "overall", headline_label: "Overall", scale: "0 the prior, 1 measured again", metrics: ["overall"], asks_about: "pairs" };
const TRACKS = [OVERALL, ...DATA.tracks];
const FACETS = ["family", "backend", "gpu"];
const FILTERS = [...FACETS, "access", "part"];
const CORE = "core", CORE_SHOTS = "core-8-shots";
const PARTS = new Map([[CORE, "core"], [CORE_SHOTS, "core, 8 shots"]]);
const state = { track: OVERALL.id, part: "", family: "", backend: "", gpu: "", access: "", search: "", sort: null };

// ---- scores and ranks ---------------------------------------------------------------------------------------------------
// A slice key joins the chosen facets in a fixed order; the builder stored one score set per key.
function sliceKey() {
  if (state.part) return state.part;
  const parts = FACETS.filter((facet) => state[facet] && DATA.facets[facet].length > 1).map((facet) => `${facet}=${state[facet]}`);
  return parts.length ? parts.join("&") : "all";
}
const sliceName = (key) => (key === "all" ? "all test queries" : key === CORE ? "core, a fixed part for models that cost money" : key === CORE_SHOTS ? "core, where a query names up to eight measured kernels of its problem" : words(key).replaceAll("&", ", ").replaceAll("=", " "));
const COLUMN = new Map(DATA.columns.map((name, i) => [name, i]));
const metricOf = (track, metric) => DATA.metrics[`${track}.${metric}`];
const arrow = (track, metric) => (metricOf(track, metric).better === "high" ? "↑" : "↓");
const signed = (track, metric, value) => (metricOf(track, metric).better === "high" ? value : -value);
function score(entry, track, metric, key) {
  const set = entry.scores[key] ?? (key === "all" && entry.part === CORE ? entry.scores[CORE] : undefined);
  const found = set && set[COLUMN.get(`${track}.${metric}`)];
  return found && found.length ? { value: found[0], low: found[1], high: found[2], ceiling: found[3], decimals: metricOf(track, metric).decimals } : null;
}
// Rows and problems behind a track's figures in a slice.
const sizeOf = (track, key) => DATA.dataset.slices[key]?.[track.asks_about] || [0, 0];
const decided = (track, key) => sizeOf(track, key)[1] >= DATA.dataset.least_problems;

// Rank from values; the range counts who is surely better and who may be (intervals that overlap are ties).
function rankings(entries, track, key) {
  if (!decided(track, key)) return new Map();
  const metric = track.headline;
  const scored = entries.map((entry) => ({ entry, score: score(entry, track.id, metric, key) })).filter((row) => row.score && !none(row.score.value));
  const spans = scored.map(({ score: s }) => {
    const pair = [signed(track.id, metric, s.low ?? s.value), signed(track.id, metric, s.high ?? s.value)];
    return [Math.min(...pair), Math.max(...pair)];
  });
  const lows = spans.map((span) => span[0]).sort((a, b) => a - b);
  const highs = spans.map((span) => span[1]).sort((a, b) => a - b);
  const above = (sorted, limit) => { let lo = 0, hi = sorted.length; while (lo < hi) { const mid = (lo + hi) >> 1; if (sorted[mid] > limit) hi = mid; else lo = mid + 1; } return sorted.length - lo; };
  const ordered = scored.map((row, i) => ({ ...row, span: spans[i] })).sort((a, b) => signed(track.id, metric, b.score.value) - signed(track.id, metric, a.score.value));
  let previous = null;
  ordered.forEach((row, i) => {
    row.rank = previous && previous.score.value === row.score.value ? previous.rank : i + 1;
    row.best = 1 + above(lows, row.span[1]);
    row.worst = Math.max(row.best, above(highs, row.span[0]) + 1 - (row.span[1] > row.span[0] ? 1 : 0));
    previous = row;
  });
  return new Map(ordered.map((row) => [row.entry.id, row]));
}
// An entry on core alone stands among those on all queries too, with its figures on core.
const shownHere = (entry) => (entry.part ? entry.part === state.part || (entry.part === CORE && sliceKey() === "all") : state.part !== CORE_SHOTS);
const visibleEntries = () => DATA.entries.filter((entry) => shownHere(entry) && (!state.access || (state.access === "open") === entry.open));
// Unfiltered, places come from paired differences; there are none for a filter, so its ranges come from intervals.
function places(track, entries, key) {
  if (key === "all" && !state.access && decided(track, key)) return new Map(DATA.places[track.id].map((place) => [place.id, { rank: place.rank, best: place.rank_low, worst: place.rank_high }]));
  return rankings(entries.filter((entry) => entry.scores[key]), track, key);
}
// Equal figures share a rank, marked with an equals sign.
function markTies(table) {
  const counts = new Map();
  for (const place of table.values()) counts.set(place.rank, (counts.get(place.rank) || 0) + 1);
  for (const place of table.values()) place.tied = counts.get(place.rank) > 1;
  return table;
}

// ---- the view -----------------------------------------------------------------------------------------------------------
// The page itself holds headlines over all queries; the other metrics are one shard, and the slices another.
async function withScores(name) {
  const found = await shard(name);
  for (const entry of DATA.entries) entry.scores = { ...entry.scores, ...found[entry.id] };
}
function boardView() {
  const holder = region("Ranking");
  const question = el("p", { class: "lead" });
  const count = el("p", { class: "note", role: "status", "aria-live": "polite" });
  const reading = el("p", { class: "note" });
  const meanings = el("details", { class: "meanings" });
  const tabs = TRACKS.map((track) => el("button", { type: "button", "data-track": track.id, on: { click: () => { state.sort = null; change({ track: track.id }); } } }, track.title));
  const choice = (facet, label, values) => el("label", {}, label,
    el("select", { "data-facet": facet, disabled: values.length < 2, on: { change: (event) => (facet === "access" ? change({ access: event.target.value }) : leaveCore({ [facet]: event.target.value })) } },
      el("option", { value: "" }, values.length === 1 ? values[0] : "all"),
      ...(values.length > 1 ? values : []).map((value) => option(value, words(value), state[facet]))));
  const search = el("input", { type: "search", value: state.search, placeholder: "name, author, kind", on: { input: (event) => change({ search: event.target.value }, true) } });
  // Core is not cut further: choosing it clears the facets, and choosing a facet leaves it.
  const leaveCore = (chosen) => { parts.value = ""; change({ ...chosen, part: "" }); };
  const enterPart = (part) => { for (const pick of controls.querySelectorAll("select")) if (FACETS.includes(pick.dataset.facet)) pick.value = ""; change({ part, family: "", backend: "", gpu: "" }); };
  const parts = el("select", { "data-facet": "part", on: { change: (event) => enterPart(event.target.value) } }, el("option", { value: "" }, "all"), ...[...PARTS].filter(([part]) => DATA.dataset.slices[part]).map(([part, title]) => option(part, title, state.part)));
  const controls = el("div", { class: "controls" }, DATA.dataset.slices[CORE] ? el("label", {}, "Queries", parts) : null,
    choice("family", "Family", DATA.facets.family), choice("backend", "Backend", DATA.facets.backend), choice("gpu", "GPU", DATA.facets.gpu),
    choice("access", "Weights", ["open", "closed"]), el("label", {}, "Search", search));
  const draw = async () => {
    const track = TRACKS.find((candidate) => candidate.id === state.track);
    tabs.forEach((tab) => tab.setAttribute("aria-pressed", String(tab.dataset.track === track.id)));
    question.textContent = track.question;
    if (track !== OVERALL || sliceKey() !== "all") {
      main.setAttribute("aria-busy", "true");
      try { await withScores(sliceKey() === "all" ? "scores" : "slices"); } catch (error) { return missing(`The scores could not be loaded (${error.message}).`); } finally { main.removeAttribute("aria-busy"); }
    }
    if (track.id !== state.track || !holder.isConnected) return;
    drawMeanings(track, meanings);
    drawTable(track, holder, count, change);
    reading.textContent = readingText(track);
  };
  // In place: the control that was used keeps its focus. Typing and sorting make no history entries.
  function change(changes, quiet = false) {
    Object.assign(state, changes);
    history[quiet ? "replaceState" : "pushState"](null, "", boardHash());
    draw();
  }
  page("Leaderboard", el("h1", {}, "Leaderboard"), question, scopeLine(), el("div", { class: "tabs", role: "group", "aria-label": "Track" }, ...tabs), controls, count, holder, reading, downloads("leaderboard", () => holder.parts.table()), meanings,
    el("p", {}, link("#/compare", "Compare two entries"), " · ", link("#/history", "Entries by date"), " · ", link("#/submit", "Submit your own")));
  draw();
}
const scopeLine = () => {
  const { scope } = DATA.dataset;
  return el("p", { class: "scope" }, `Scored on ${whole(scope.queries)} queries about ${whole(scope.kernels)} candidate kernels of ${whole(scope.problems)} problems on ${scope.gpus.map((gpu) => gpu.replace("NVIDIA ", "")).join(", ")}. `,
    DATA.dataset.private ? "The labels are private. " : "The labels are public and could be copied. ", link("#/dataset", "What these figures can and cannot tell"));
};
function drawMeanings(track, holder) {
  // The overall table has the headline of every track too.
  const metrics = [...track.metrics.map((metric) => [track.id, metric]), ...(track === OVERALL ? DATA.tracks.map((one) => [one.id, one.headline]) : [])];
  holder.replaceChildren(el("summary", {}, "What the columns mean"), facts(metrics.map(([of, metric]) => [[`${metricOf(of, metric).label} ${arrow(of, metric)} `, el("code", {}, metric)], metricOf(of, metric).meaning])));
}
function boardColumns(track, ranks, key) {
  const base = [
    { id: "name", title: "Surrogate", value: (entry) => entry.name.toLowerCase(), text: true },
    { id: "place", title: "Place", meaning: "Place among the entries shown, with its 95 % interval", value: (entry) => ranks.get(entry.id)?.rank ?? null },
  ];
  const metrics = track.metrics.map((metric) => ({
    id: metric, wide: metric !== track.headline, scale: metric === track.headline ? track.scale : null, title: `${metricOf(track.id, metric).label}\u00a0${arrow(track.id, metric)}`, better: metricOf(track.id, metric).better, meaning: metricOf(track.id, metric).meaning,
    value: (entry) => score(entry, track.id, metric, key)?.value ?? null,
  }));
  if (track === OVERALL) {
    for (const one of DATA.tracks) metrics.push({ id: one.id, wide: true, scale: `${one.headline_label}: ${one.scale}`, title: `${one.title}\u00a0${arrow(one.id, one.headline)}`, better: metricOf(one.id, one.headline).better, meaning: one.question, value: (entry) => score(entry, one.id, one.headline, key)?.value ?? null });
  }
  return [...base, ...metrics, { id: "cost", wide: true, title: "Seconds per 1,000", meaning: "Seconds per 1,000 forecasts", value: (entry) => entry.cost.seconds_per_1000 }];
}
function ordered(entries, column, down) {
  return [...entries].sort((a, b) => {
    const one = column.value(a), two = column.value(b);
    if (one === two) return a.name < b.name ? -1 : 1;
    if (none(one)) return 1;
    if (none(two)) return -1;
    return (one < two ? -1 : 1) * (down ? -1 : 1);
  });
}
// Rows are built once for a track and filter; sorting and searching only move them.
function drawTable(track, holder, count, change) {
  const key = sliceKey();
  const entries = visibleEntries();
  const wanted = `${track.id} ${key} ${state.access}`;
  if (holder.dataset.shows !== wanted) {
    const ranks = markTies(places(track, entries, key));
    const all = boardColumns(track, ranks, key);
    const scores = entries.map((entry) => score(entry, track.id, track.headline, key)).filter((s) => s && !none(s.value));
    const range = { low: Math.min(...scores.map((s) => s.low ?? s.value)), high: Math.max(...scores.map((s) => s.high ?? s.value)) };
    holder.parts = { all, rows: new Map(entries.map((entry) => [entry.id, boardRow(entry, track, key, ranks, range)])), head: all.map((column) => heading(column, change)), body: el("tbody") };
    holder.dataset.shows = wanted;
    holder.setAttribute("aria-label", `${track.title} ranking`);
    holder.replaceChildren(el("table", {}, el("caption", { class: "unseen" }, `${track.title}, ${sliceName(key)}`), el("thead", {}, el("tr", {}, ...holder.parts.head)), holder.parts.body));
  }
  const { all, rows, head, body } = holder.parts;
  const column = all.find((candidate) => candidate.id === state.sort?.id) || all[1];
  const down = state.sort ? state.sort.down : false;
  head.forEach((cell) => cell.setAttribute("aria-sort", cell.dataset.column === column.id ? (down ? "descending" : "ascending") : "none"));
  const needle = state.search.trim().toLowerCase();
  const shown = ordered(entries.filter((entry) => !needle || searchable(entry).includes(needle)), column, down);
  const lines = shown.map((entry) => rows.get(entry.id));
  const probe = key === "all" && !state.access && !needle && [all[1].id, track.headline].includes(column.id) ? DATA.probes[track.id] : null;
  if (probe) {
    const above = (entry) => { const s = score(entry, track.id, track.headline, key); return !none(s?.value) && signed(track.id, track.headline, s.value) > signed(track.id, track.headline, probe.value); };
    const best = column.id === all[1].id ? !down : down === (metricOf(track.id, track.headline).better === "high");
    const at = shown.findIndex((entry) => above(entry) !== best);
    lines.splice(at < 0 ? lines.length : at, 0, probeRow(track, probe, all));
  }
  fill(body, lines);
  holder.parts.table = () => ({ columns: all.map((one) => one.id), rows: shown.map((entry) => all.map((one) => (one.id === "name" ? entry.name : one.value(entry)))) });
  const onCore = state.part ? 0 : shown.filter((entry) => entry.part).length;
  const elsewhere = state.part ? 0 : DATA.entries.filter((entry) => entry.part === CORE_SHOTS).length;
  count.textContent = `${shown.length} of ${DATA.entries.length} entries${onCore ? `, ${onCore} of them on core alone` : ""}${elsewhere ? `; ${elsewhere} saw measured kernels and are under Queries: ${PARTS.get(CORE_SHOTS)}` : ""} · ${sliceText(track, key)}`;
}
// How to read the table, and how much it tells apart.
function readingText(track) {
  const key = sliceKey();
  return [`The bar is the 95 % interval of ${track.headline_label}.`, rangeText(key), ...(key === "all" ? [powerText(track), probeText(track)] : [])].filter(Boolean).join(" ");
}
// What the track tells apart among all entries, and what needs no understanding of a kernel.
function powerText(track) {
  const { pairs, decided: told, least_difference: least } = DATA.power[track.id];
  return pairs ? `${told} of ${pairs} pairs of entries are decided; two entries must differ by ${show(least)} for four of five samples of problems to decide.` : "";
}
function probeText(track) {
  const found = DATA.probes[track.id];
  if (!found) return "";
  const mark = found.reached ? " No headline: a probe that understands nothing comes as far as the best entry, within its interval." : "";
  return `Strongest probe (${found.probe}): ${show(found.value)} [${show(found.low)}, ${show(found.high)}].${mark}`;
}
function sliceText(track, key) {
  const asked = track === OVERALL ? [["pairs", DATA.dataset.slices[key]?.pairs], ["pool kernels", DATA.dataset.slices[key]?.pools]] : [[track.asks_about === "pairs" ? "pairs" : "pool kernels", sizeOf(track, key)]];
  const few = track === OVERALL ? DATA.tracks.filter((one) => !decided(one, key)) : decided(track, key) ? [] : [track];
  const undecided = few.length ? `; undecided: fewer than ${DATA.dataset.least_problems} problems` : "";
  return `${sliceName(key)}: ${asked.map(([name, size]) => `${whole(size?.[0] ?? 0)} ${name} of ${whole(size?.[1] ?? 0)} problem${size?.[1] === 1 ? "" : "s"}`).join(", ")}${undecided}`;
}
const rangeText = (key) => (key === "all" && !state.access ? "In parentheses: the ranks that paired differences leave open; = marks a tie." : "In parentheses: the ranks whose intervals overlap; = marks a tie.");
// Draw what fits on a screen at once, and the rest when the browser is idle.
const AT_ONCE = 40;
const later = window.requestIdleCallback || ((work) => setTimeout(work, 50));
let filling = 0;
function fill(body, rows) {
  const mine = ++filling;
  body.replaceChildren(...rows.slice(0, AT_ONCE));
  if (rows.length > AT_ONCE) later(() => { if (mine === filling) body.append(...rows.slice(AT_ONCE)); });
}
function heading(column, change) {
  const sort = (event) => {
    const now = event.target.closest("th").getAttribute("aria-sort");
    change({ sort: { id: column.id, down: now === "none" ? column.better === "high" : now === "ascending" } }, true);
  };
  return el("th", { scope: "col", class: columnClass(column), "data-column": column.id }, el("button", { type: "button", title: column.meaning, on: { click: sort } }, column.title), column.scale ? el("small", {}, column.scale) : null);
}
const searchable = (entry) => [entry.name, ...entry.authors, entry.organisation || "", entry.kind].join(" ").toLowerCase();
function rankCell(place, ranked = true) {
  if (!ranked) return el("td", { class: "num" }, el("span", { class: "range", title: `Fewer than ${DATA.dataset.least_problems} problems` }, "undecided"));
  return el("td", { class: "num" }, place ? `${place.tied ? "=" : ""}${place.rank}` : "—", place && place.worst > place.best ? el("span", { class: "range" }, ` (${place.best}–${place.worst})`) : null);
}
function boardRow(entry, track, key, ranks, range) {
  const figures = [...track.metrics.map((metric) => [track, metric]), ...(track === OVERALL ? DATA.tracks.map((one) => [one, one.headline]) : [])];
  const cells = figures.map(([of, metric]) => {
    const s = score(entry, of.id, metric, key);
    return el("td", { class: of === track && metric === track.headline ? "num" : "num wide" }, ...scoreText(s), s && !none(s.value) && of === track && metric === track.headline ? intervalBar(s, range) : null);
  });
  return el("tr", { "data-entry": entry.id },
    el("td", {}, link(entryLink(entry.id), entry.name), badge(words(entry.kind), "kind"), entry.part === CORE && key === "all" ? badge("on core") : null, entry.flags.length ? el("span", { class: "badge flag", title: entry.flags.join("; ") }, `${entry.flags.length} flag${entry.flags.length > 1 ? "s" : ""}`) : null),
    rankCell(ranks.get(entry.id), ranks.size > 0), ...cells, el("td", { class: "num wide" }, cost(entry.cost.seconds_per_1000)));
}
// The strongest probe has no place: entries below it show no understanding.
function probeRow(track, probe, columns) {
  const figure = { ...probe, decimals: metricOf(track.id, track.headline).decimals };
  return el("tr", { class: "probe", title: "Sees layout, names or author alone, or no source at all" }, ...columns.map((column) => (column.id === "name" ? el("td", {}, `probe: ${probe.probe}`) : el("td", { class: columnClass(column) }, ...(column.id === track.headline ? scoreText(figure) : [])))));
}
function scoreText(s) {
  if (!s || none(s.value)) return ["—"];
  return [show(s.value, s.decimals), none(s.low) ? null : el("span", { class: "range interval" }, ` [${show(s.low, s.decimals)}, ${show(s.high, s.decimals)}]`)];
}
function boardHash() {
  const query = new URLSearchParams(["track", ...FILTERS].filter((name) => state[name]).map((name) => [name, state[name]]));
  if (state.search) query.set("q", state.search);
  if (state.sort) query.set("sort", `${state.sort.down ? "-" : ""}${state.sort.id}`);
  return `#/leaderboard?${query}`;
}
function readBoardHash(query) {
  const given = new URLSearchParams(query || "");
  for (const name of FILTERS) state[name] = given.get(name) || "";
  if (!PARTS.has(state.part) || !DATA.dataset.slices[state.part]) state.part = "";
  for (const facet of FACETS) if (state.part || !DATA.facets[facet].includes(state[facet])) state[facet] = "";
  state.track = TRACKS.some((track) => track.id === given.get("track")) ? given.get("track") : OVERALL.id;
  state.search = given.get("q") || "";
  const sort = given.get("sort");
  state.sort = sort ? { id: sort.replace(/^-/, ""), down: sort.startsWith("-") } : null;
}
