// Two entries: paired differences with intervals and verdicts, and where one beats the other.
async function compareView(one, two) {
  const entries = [BY_ID.get(one), BY_ID.get(two)];
  if (!entries[0] || !entries[1]) return missing("One of the two entries does not exist.");
  if (entries.some((entry) => entry.part && entry.part !== CORE)) return missing("Entries that saw measured kernels are ranked on the leaderboard alone.");
  const title = `${entries[0].name} against ${entries[1].name}`;
  await loading(title, async () => {
    await Promise.all([withScores("slices"), problemTitles(), ...entries.map(entryData)]);
    return () => page(title, el("h1", {}, title), comparePicker(entries), legend(entries.map((entry) => entry.name)),
      verdictLine(entries), el("h2", {}, "Paired differences"),
      el("p", { class: "lead" }, `${entries[0].name} minus ${entries[1].name}. Both are scored in the same bootstrap draws, so the interval is that of the difference, from all ${whole(DATA.resamples)} draws for headlines, and ${whole(DATA.page_resamples)} for other metrics, which keeps this page small; kbench evaluate --compare takes all. The verdict is undecided where the interval contains zero. The better value is bold.`),
      differenceTable(entries), entries.every((entry) => entry.problems) ? [el("h2", {}, "Where one beats the other"), problemDifferences(entries)] : null,
      el("h2", {}, "Curves"), entryCharts(entries));
  });
}
function compareIndex() {
  if (DATA.places.overall.length < 2) return missing("Comparison needs two entries.");
  return compareView(DATA.places.overall[0].id, DATA.places.overall[1].id);
}
function comparePicker(entries) {
  const picks = entries.map((chosen, i) => el("select", { "aria-label": `Entry ${i + 1}` }, ...DATA.places.overall.map((place) => option(place.id, BY_ID.get(place.id).name, chosen.id))));
  const open = () => { location.hash = `#/compare/${picks.map((pick) => encodeURIComponent(pick.value)).join("/")}`; };
  return el("div", { class: "controls" }, ...picks, el("button", { type: "button", class: "primary", on: { click: open } }, "Compare"));
}
// The difference of a metric with its 95 % interval over paired draws, and what it says; on core where one entry has no more.
function difference(entries, track, metric) {
  const part = entries.some((entry) => entry.part) ? CORE : "all";
  const [one, two] = entries.map((entry) => score(entry, track.id, metric, part));
  if (!one || !two || none(one.value) || none(two.value)) return null;
  const key = metric === track.headline ? track.id : `${track.id}.${metric}`;
  const [a, b] = entries.map((entry) => (part === CORE ? entry.core_draws : entry.draws)[key] || []);
  const draws = a.slice(0, b.length).map((value, i) => value - b[i]).sort((x, y) => x - y);
  const at = (share) => { const place = share * (draws.length - 1), low = Math.floor(place); return draws[low] + (place - low) * ((draws[low + 1] ?? draws[low]) - draws[low]); };
  const [low, high] = draws.length > 1 ? [at((1 - DATA.level) / 2), at((1 + DATA.level) / 2)] : [null, null];
  const value = one.value - two.value;
  const unsure = none(low) || (low <= 0 && high >= 0) || !decided(track, part);
  return { track, metric, one, two, value, low, high, verdict: unsure ? "undecided" : signed(track.id, metric, value) > 0 ? "better" : "worse", ahead: signed(track.id, metric, value) };
}
const differences = (entries) => TRACKS.flatMap((track) => track.metrics.map((metric) => difference(entries, track, metric))).filter(Boolean);
function verdictLine(entries) {
  const found = differences(entries).filter((row) => row.metric === row.track.headline);
  const named = (verdict) => found.filter((row) => row.verdict === verdict).map((row) => row.track.title.toLowerCase());
  const parts = [["better", "better on"], ["worse", "worse on"], ["undecided", "undecided on"]].map(([verdict, text]) => [named(verdict), text]).filter(([names]) => names.length).map(([names, text]) => `${text} ${names.join(", ")}`);
  return el("p", { class: "verdict", "data-verdict": true }, `Against ${entries[1].name}, by the headline of each track, ${entries[0].name} is ${parts.join("; ")}.`);
}
const VERDICTS = { better: "good", worse: "bad", undecided: "" };
function differenceTable(entries) {
  const text = (s, ahead) => (ahead ? el("strong", {}, show(s.value, s.decimals)) : show(s.value, s.decimals));
  const columns = [
    { id: "track", title: "Track", text: true, wide: true, value: (row) => row.track.title },
    { id: "metric", title: "Metric", text: true, long: true, value: (row) => row.metric, cell: (row) => el("span", { title: metricOf(row.track.id, row.metric).meaning }, `${metricOf(row.track.id, row.metric).label} ${arrow(row.track.id, row.metric)}`, row.metric === row.track.headline ? badge("headline") : null) },
    { id: entries[0].id, title: entries[0].name, wide: true, value: (row) => row.one.value, cell: (row) => text(row.one, row.ahead > 0) },
    { id: entries[1].id, title: entries[1].name, wide: true, value: (row) => row.two.value, cell: (row) => text(row.two, row.ahead < 0) },
    { id: "difference", title: "Difference", value: (row) => row.value, cell: (row) => signedText(row.value, row.one.decimals) },
    { id: "interval", title: "95 % interval", wide: true, value: (row) => row.low, cell: (row) => (none(row.low) ? "—" : `${signedText(row.low, row.one.decimals)} … ${signedText(row.high, row.one.decimals)}`) },
    { id: "verdict", title: "Verdict", text: true, value: (row) => row.verdict, cell: (row) => badge(row.verdict, VERDICTS[row.verdict]) },
  ];
  const order = differences(entries).map((row, i) => ({ ...row, i }));
  return sortTable(`${entries[0].id}-against-${entries[1].id}`, "Paired differences", [{ id: "order", title: "#", wide: true, value: (row) => row.i + 1 }, ...columns], order, { id: "order", down: false });
}
function problemDifferences(entries) {
  const second = new Map(entries[1].problems.map((row) => [row[0], row]));
  const at = 3 + entries[0].problem_metrics.indexOf("skill");
  const rows = entries[0].problems.filter((row) => second.has(row[0]) && !none(row[at]) && !none(second.get(row[0])[at]))
    .map((row) => ({ problem: row[0], pairs: row[1], one: row[at], two: second.get(row[0])[at] })).map((row) => ({ ...row, ahead: row.one - row.two }));
  const wins = rows.filter((row) => row.ahead > 0).length;
  const text = (value, ahead) => (ahead ? el("strong", {}, show(value)) : show(value));
  const columns = [
    { id: "problem", title: "Problem", text: true, long: true, value: (row) => problemTitle(row.problem), cell: (row) => problemCell(row.problem) },
    { id: "pairs", title: "Pairs", wide: true, value: (row) => row.pairs },
    { id: entries[0].id, title: `${entries[0].name} skill`, value: (row) => row.one, cell: (row) => text(row.one, row.ahead > 0) },
    { id: entries[1].id, title: `${entries[1].name} skill`, value: (row) => row.two, cell: (row) => text(row.two, row.ahead < 0) },
    { id: "difference", title: "Difference", value: (row) => row.ahead, cell: (row) => el("span", { class: row.ahead > 0 ? "gain" : "loss" }, signedText(row.ahead)) },
  ];
  return [el("p", { class: "lead" }, `Skill of the forecast, problem by problem: ${entries[0].name} is ahead on ${wins} of ${rows.length}, ${entries[1].name} on ${rows.filter((row) => row.ahead < 0).length}.`),
    sortTable(`${entries[0].id}-against-${entries[1].id}-problems`, "Skill by problem", columns, rows, { id: "difference", down: true })];
}
