// One entry: who made it, how far to trust it, problem by problem, and where it missed most.
async function entryView(id) {
  const entry = BY_ID.get(id);
  if (!entry) return missing(`No entry is called ${id}.`);
  await loading(entry.name, async () => {
    await Promise.all([entryData(entry), problemTitles(), entry.part ? withScores("slices") : null]);
    return () => drawEntry(entry);
  });
}
// The parts of an entry that the first view does without.
async function entryData(entry) {
  if (!entry.curves) Object.assign(entry, await shard(`entry/${entry.id}`));
  return entry;
}
// What problems are called, where the site has pages of them.
const TITLES = new Map();
async function problemTitles() {
  if (DATA.atlas && !TITLES.size) for (const one of await shard("problems")) TITLES.set(one.id, one.title);
}
function drawEntry(entry) {
  const overall = DATA.places.overall.find((candidate) => candidate.id === entry.id);
  page(entry.name, el("h1", {}, entry.name, badge(words(entry.kind))),
    el("p", { class: "lead" }, overall ? `Overall rank ${overall.rank} (95 % interval ${overall.rank_low}–${overall.rank_high}) of ${DATA.places.overall.length}. ` : "", ...(entry.part ? partText(entry, overall) : [])),
    ...entry.flags.map((flag) => el("p", {}, badge("flag", "flag"), ` ${flag}`)),
    compareForm(entry), entryFacts(entry), el("h2", {}, "Scores with 95 % intervals"), scoreTable([entry], entry.part || "all"),
    el("h2", {}, "Curves"), entryCharts([entry]),
    entry.misses ? [el("h2", { id: "misses" }, "Worst misses"), el("p", { class: "lead" }, "The pairs whose forecast was furthest from the measured bin, by RPS. A certain miss over all eight bins costs 1."), missTable(entry)] : null,
    entry.problems ? [el("h2", {}, "Problem by problem"), problemScores(entry)] : null,
    entry.part ? null : [el("h2", {}, "Headlines by slice"), sliceTable([entry])],
    el("p", {}, link(`data/${entry.id}.json`, "Download every number of this entry (JSON)", { download: true })));
}
// Which part of the queries an entry answers, and its place among all that have figures there.
function partText(entry, overall) {
  const title = PARTS.get(entry.part) ?? entry.part;
  const among = DATA.entries.filter((other) => (entry.part === CORE || other.part === entry.part) && other.scores[entry.part]);
  const place = overall ? null : rankings(among, OVERALL, entry.part).get(entry.id);
  return [`Answers ${title} alone, a fixed part of the queries${place ? `, with overall rank ${place.rank} of ${among.length} there` : ""}: `, link(`#/leaderboard?part=${encodeURIComponent(entry.part)}`, `the ranking on ${title}`), "."];
}
function entryFacts(entry) {
  const pairs = [["Version", entry.version], ["Authors", entry.authors.join(", ")], ["Organisation", entry.organisation], ["Licence", entry.license], ["Looks at", entry.inputs],
    ["Weights", entry.open ? "open" : "closed"], ["Hardware", entry.hardware], ["Training data", entry.training_data], ["Contamination", entry.contamination],
    ["Cost", none(entry.cost.seconds_per_1000) ? "not stated" : `${cost(entry.cost.seconds_per_1000)} s${none(entry.cost.tokens_per_1000) ? "" : ` and ${cost(entry.cost.tokens_per_1000)} tokens`} per 1,000 forecasts`], ["Answered", `${cost(100 * entry.answered_share)} % of queries`], ["Submitted", entry.created_at]];
  return facts([...pairs, ...entry.links.map((href) => ["Link", link(href, href, { rel: "noopener noreferrer nofollow" })])]);
}
const card = (title, chart, text) => el("div", { class: "card" }, el("h3", {}, title), chart, el("p", {}, text));
function entryCharts(entries) {
  const curve = (name) => entries.map((entry) => ({ name: entry.name, points: entry.curves[name] || [] }));
  const most = (lists, least = 0.05) => Math.max(least, ...lists.flatMap((list) => list.points.map((point) => point[1])));
  const share = (value) => `${Number((100 * value).toPrecision(2))} %`;
  const reliability = entries.map((entry) => ({ name: entry.name, points: entry.reliability || entry.curves.reliability || [] }));
  const risk = curve("risk_coverage"), regret = curve("regret");
  const unit = { ticks: ticks(0, 1), format: share };
  return el("div", { class: "cards" },
    card("Reliability", lineChart("Share correct against stated probability", reliability, { ...unit, label: "stated probability" }, { ...unit, label: "share correct" }, { diagonal: true, dots: true }), `On the dashed line, stated confidence equals accuracy.${entries.some((entry) => entry.reliability) ? " Bars are 95 % intervals." : ""}`),
    card("Risk against coverage", lineChart("Share wrong against share answered", risk, { ...unit, label: "share answered" }, { label: "share wrong", ticks: ticks(0, most(risk)), format: share }), "Lower is better: answer the surest queries first and measure the rest."),
    card("Regret against budget", lineChart("Regret against share of the pool measured", regret, { label: "share of the pool measured (log)", ticks: decades(0.01, 1), log: true, format: share }, { label: "regret", ticks: ticks(0, most(regret)), format: share }, { dots: true }), "How much slower the best kernel found is than the pool's best."),
    entries.length === 1 && !entries[0].part && DATA.tracks.length ? card("Cost against quality", costChart(DATA.tracks[0], entries[0]), "Each dot is an entry; this one is highlighted.") : null,
    entries.length === 1 && entries[0].reliability ? reliabilityTable(entries[0]) : null);
}
function reliabilityTable(entry) {
  return el("details", { class: "card" }, el("summary", {}, "Reliability in numbers"), region("Reliability in numbers", el("table", {}, el("thead", {}, el("tr", {}, ...["Stated", "Correct", "95 % interval", "Forecasts"].map((title) => el("th", { scope: "col", class: "num" }, title)))),
    el("tbody", {}, ...entry.reliability.map(([said, right, low, high, count]) => el("tr", {}, ...[percent(said), percent(right), `${percent(low)} – ${percent(high)}`, whole(count)].map((text) => el("td", { class: "num" }, text))))))));
}
const binLabel = (number) => DATA.dataset.bins.find((row) => row.bin === number)?.label ?? String(number);
const kernelCell = (problem, id) => (id ? (DATA.atlas ? link(kernelLink(problem, id), id, { class: "mono" }) : el("span", { class: "mono" }, id)) : "PyTorch");
const problemTitle = (id) => TITLES.get(id) ?? words(id);
const problemCell = (id) => (DATA.atlas ? link(problemLink(id), problemTitle(id)) : problemTitle(id));
function missTable(entry) {
  const columns = [
    { id: "problem", title: "Problem", text: true, long: true, value: (row) => problemTitle(row.problem), cell: (row) => problemCell(row.problem) },
    { id: "candidate", title: "Kernel", text: true, wide: true, value: (row) => row.candidate, cell: (row) => kernelCell(row.problem, row.candidate) },
    { id: "anchor", title: "Against", text: true, wide: true, value: (row) => row.anchor, cell: (row) => kernelCell(row.problem, row.anchor) },
    { id: "said", title: "Forecast", value: (row) => row.said, cell: (row) => el("span", { class: "said" }, `${binLabel(row.said)} (${percent(row.sure)})`), meaning: "The most probable bin and its probability" },
    { id: "speedup", title: "Measured", value: (row) => row.speedup, cell: (row) => times(row.speedup), meaning: "Measured speedup" },
    { id: "given", title: "P(truth)", wide: true, value: (row) => row.given, cell: (row) => percent(row.given), meaning: "Probability that the entry gave to the measured bin" },
    { id: "rps", title: "RPS ↓", wide: true, value: (row) => row.rps, cell: (row) => show(row.rps), better: "low", meaning: "Ranked probability score of this forecast" },
  ];
  return sortTable(`${entry.id}-misses`, `Worst misses of ${entry.name}`, columns, entry.misses, { id: "rps", down: true });
}
const PROBLEM_TRACK = { skill: "forecast", level_skill: "forecast", accuracy: "forecast", spearman: "rank" };
const problemMetric = (name) => metricOf(PROBLEM_TRACK[name] || "rank", name) || { label: words(name), better: "high", meaning: "", decimals: 3 };
function problemScores(entry) {
  const columns = [
    { id: "problem", title: "Problem", text: true, long: true, value: (row) => problemTitle(row[0]), cell: (row) => problemCell(row[0]) },
    { id: "pairs", title: "Pairs", wide: true, value: (row) => row[1] }, { id: "kernels", title: "Pool", wide: true, value: (row) => row[2], meaning: "Correct kernels of the pool" },
    ...entry.problem_metrics.map((name, i) => { const metric = problemMetric(name); return { id: name, wide: !["skill", "spearman"].includes(name), title: `${metric.label}\u00a0${metric.better === "high" ? "↑" : "↓"}`, better: metric.better, meaning: metric.meaning, value: (row) => row[3 + i], cell: (row) => show(row[3 + i], metric.decimals) }; }),
  ];
  return sortTable(`${entry.id}-problems`, `${entry.name} by problem`, columns, entry.problems, { id: "skill", down: true });
}
function scoreTable(entries, key = "all") {
  const rows = DATA.tracks.flatMap((track) => track.metrics.map((metric) => ({ track, metric })));
  return region("Scores", el("table", {},
    el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "wide" }, "Track"), el("th", { scope: "col" }, "Metric"), ...entries.map((entry) => el("th", { scope: "col", class: "num" }, entry.name)), el("th", { scope: "col", class: "num wide", title: "What a second measurement of the same kernels would score" }, "Ceiling"))),
    el("tbody", {}, ...rows.map(({ track, metric }) => {
      const found = entries.map((entry) => score(entry, track.id, metric, key));
      if (found.every((s) => !s || none(s.value))) return null;
      const ceiling = found.find((s) => s && !none(s.ceiling));
      return el("tr", {}, el("td", { class: "wide" }, track.title), el("td", { class: "long", title: metricOf(track.id, metric).meaning }, `${metricOf(track.id, metric).label} ${arrow(track.id, metric)} `, el("code", { class: "note wide" }, metric)),
        ...found.map((s) => el("td", { class: "num" }, ...scoreText(s))), el("td", { class: "num wide" }, ceiling ? show(ceiling.ceiling, ceiling.decimals) : "—"));
    }).filter(Boolean))));
}
function sliceTable([entry]) {
  const keys = Object.keys(entry.scores).filter((key) => key !== "all" && !key.includes("&")).sort();
  const head = DATA.tracks.map((track, i) => el("th", { scope: "col", class: i ? "num wide" : "num" }, `${track.title}: ${track.headline_label}`));
  return region("Headlines by slice", el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Slice"), el("th", { scope: "col", class: "num" }, "Problems"), ...head)),
    el("tbody", {}, ...keys.map((key) => el("tr", {}, el("td", { class: "long" }, words(key).replace("=", " ")), el("td", { class: "num" }, whole(DATA.dataset.slices[key]?.pairs[1])), ...DATA.tracks.map((track, i) => el("td", { class: i ? "num wide" : "num" }, ...scoreText(score(entry, track.id, track.headline, key)))))))));
}
function compareForm(entry) {
  const others = WHOLE.filter((other) => other !== entry);
  if (!others.length || entry.part) return null;
  // The next better entry is what there is to reach; the best one looks back at the second.
  const order = DATA.places.overall.map((place) => place.id).filter((id) => !BY_ID.get(id).part), at = order.indexOf(entry.id);
  const next = at > 0 ? order[at - 1] : order[1];
  const pick = el("select", { "data-compare": true }, ...others.map((other) => option(other.id, other.name, next)));
  return el("div", { class: "controls" }, el("label", {}, "Compare with", pick),
    el("button", { type: "button", class: "primary", on: { click: () => { location.hash = `#/compare/${encodeURIComponent(entry.id)}/${encodeURIComponent(pick.value)}`; } } }, "Compare"));
}
