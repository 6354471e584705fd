// The landing page, entries by date, and the pages that are templates.
function homeView() {
  const { scope, counts } = DATA.dataset;
  const devices = Object.keys(counts.gpu || {}).length ? Object.keys(counts.gpu) : scope.gpus;
  const gpus = devices.filter((name) => !/ of \d+ SMs\)$/.test(name)), cut = devices.length - gpus.length;
  const place = `${gpus.map((name) => device(name)).join(", ") || "a GPU"}${cut ? ` and ${cut} partition${cut > 1 ? "s" : ""} of it` : ""}`;
  const doors = [
    DATA.atlas && ["#/problems", "Problems", "What is computed, how fast it gets, and how the searches went."],
    DATA.atlas && ["#/kernels", "Kernels", "Filter, sort and search every kernel; read its source, its times and its ancestors."],
    ["#/compare", "Compare", "Two entries side by side, problem by problem, with paired differences."],
    ["#/submit", "Submit", "Forecast, check, open a pull request. Data only, never code."],
  ].filter(Boolean);
  page("kbench", el("div", { class: "hero" }, el("h1", {}, "How fast will this GPU kernel run, and how sure are you?"),
    el("p", { class: "lead" }, `${whole(counts.kernels ?? scope.kernels)} generated CUDA and Triton kernels of ${whole(counts.problems ?? scope.problems)} problems, measured on ${place}, and a benchmark for models that forecast their speed without running them.`)),
  standing(), records(),
  el("h2", {}, "Quality against cost"), costPicker(), el("div", { class: "doors" }, ...doors.map(([href, title, text]) => el("a", { class: "door", href }, el("strong", {}, title), el("span", {}, text)))),
  scopeNotes(), el("h2", {}, "Links and citation"), homeLinks());
}
// The first places overall, with what the figures mean beside them.
const FIRST_PLACES = 16;
function standing() {
  const ranked = DATA.places.overall.map((place) => ({ place, entry: BY_ID.get(place.id) })).filter(({ entry }) => entry && score(entry, OVERALL.id, OVERALL.headline, "all"));
  if (!ranked.length) return [el("h2", {}, "Leaderboard"), el("p", {}, "No entry yet. ", link("#/submit", "How to submit"))];
  const shown = ranked.slice(0, FIRST_PLACES);
  const overall = shown.map(({ entry }) => score(entry, OVERALL.id, OVERALL.headline, "all"));
  const range = { low: Math.min(0, ...overall.map((s) => s.low ?? s.value)), high: Math.max(...overall.map((s) => s.high ?? s.value)) };
  const heads = [el("th", { scope: "col" }, "Surrogate"), el("th", { scope: "col", class: "num" }, "Overall\u00a0↑", el("small", {}, OVERALL.scale)), ...DATA.tracks.map((track) => el("th", { scope: "col", class: "num wide", title: track.question }, `${track.title}\u00a0${arrow(track.id, track.headline)}`, el("small", {}, `${track.headline_label}: ${track.scale}`)))];
  const rows = shown.map(({ place, entry }, i) => el("tr", { "data-entry": entry.id },
    el("td", {}, el("span", { class: "rank" }, place.rank), " ", link(entryLink(entry.id), entry.name), badge(words(entry.kind), "kind"), entry.part === CORE ? badge("on core") : null),
    el("td", { class: "num" }, ...scoreText(overall[i]), intervalBar(overall[i], range)),
    ...DATA.tracks.map((track) => el("td", { class: "num wide" }, scoreText(score(entry, track.id, track.headline, "all"))[0]))));
  return el("section", {}, el("h2", {}, "Who forecasts best"),
    region("Ranking", el("table", {}, el("caption", { class: "unseen" }, "The first places overall"), el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))),
    el("p", { class: "note" }, "Overall: 0 is what the frequencies of the training data reach, 1 what a second measurement reaches. Brackets and bars: 95 % intervals over problems. ",
      ranked.some(({ entry }) => entry.part === CORE) ? "“On core”: it answered a fixed part of the questions; places compare entries on what both answered. " : "", link("#/leaderboard", `All ${DATA.entries.length} entries, with what each column means`)));
}
// What is new: the latest entries, and the problems whose best kernel was measured last.
function records() {
  const place = new Map(DATA.places.overall.map((one, i) => [one.id, i]));
  const latest = [...DATA.entries].sort((a, b) => b.created_at.localeCompare(a.created_at) || (place.get(a.id) ?? Infinity) - (place.get(b.id) ?? Infinity)).slice(0, 5);
  const entries = latest.map((entry) => el("li", {}, el("span", { class: "date" }, entry.created_at.slice(0, 10)), " ", link(entryLink(entry.id), entry.name), ` entered as ${words(entry.kind)}.`));
  const kernels = (DATA.records || []).map((one) => el("li", {}, el("span", { class: "date" }, one.date), " ", link(problemLink(one.problem_id), one.title), ": ",
    link(kernelLink(one.problem_id, one.kernel_id), none(one.speedup_best) ? `${times(one.speedup)} the speed of eager PyTorch` : `${times(one.speedup_best)} the speed of the best reference`), `, in ${language(one.backend)}.`));
  return el("section", {}, el("h2", {}, "What is new"), el("div", { class: "cards" },
    kernels.length ? el("div", { class: "card" }, el("h3", {}, "Latest best kernels"), el("ul", { class: "news" }, ...kernels)) : null,
    entries.length ? el("div", { class: "card" }, el("h3", {}, "Latest entries"), el("ul", { class: "news" }, ...entries), el("p", {}, link("#/history", "Entries by date"))) : null));
}
function costPicker() {
  const holder = el("div", { class: "card broad" });
  const size = innerWidth < 640 ? { ...FRAME, height: 300 } : { width: 1100, height: 400, left: 60, right: 24, top: 16, bottom: 44 };
  const draw = (track) => {
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.track === track.id)));
    holder.replaceChildren(costChart(track, null, size), el("p", {}, `${track.question} Bars are 95 % intervals; rings answered core alone; each dot opens its entry.`));
  };
  const buttons = DATA.tracks.map((track) => el("button", { type: "button", "data-track": track.id, on: { click: () => draw(track) } }, track.title));
  if (!DATA.tracks.length) return el("p", {}, "No entry yet.");
  draw(DATA.tracks[0]);
  return el("div", {}, el("div", { class: "tabs", role: "group", "aria-label": "Track of the chart" }, ...buttons), holder);
}
function scopeNotes() {
  const { scope, counts, private: hidden } = DATA.dataset;
  const part = counts.kernels ? ` of the dataset's ${whole(counts.kernels)} kernels and ${whole(counts.problems)} problems` : "";
  return el("section", { class: "scope-notes" }, el("h2", {}, "What the figures can and cannot tell"), el("ul", {},
    el("li", {}, `Entries answered ${whole(scope.queries)} queries about ${whole(scope.kernels)} candidate kernels of ${whole(scope.problems)} problems${part}: split ${scope.split}, on ${scope.gpus.join(", ")}. Nothing else was scored.`),
    el("li", {}, hidden ? "The labels of this split are private." : "The labels of this split are public. Whoever copies them can score well; entries better than a second measurement are flagged, blurred copies are not. Nothing here can prevent that."),
    el("li", {}, "A season is the remedy: its kernels are forecast before anyone has measured them, and measured only after entries are frozen. ", (DATA.dataset.seasons || []).length ? link("#/history", "Seasons so far") : null),
    el("li", {}, `Intervals resample problems. Ranks on slices with fewer than ${DATA.dataset.least_problems} problems are shown as undecided; every slice says how many it has.`),
    el("li", {}, "Nobody can prove what a language model has read. Each entry states its contamination itself.")));
}
function homeLinks() {
  const named = [...Object.entries(DATA.links), ["paper: GPU Forecasters (arXiv:2605.31464)", DATA.paper]];
  const copied = el("button", { type: "button", "data-copy": "bibtex", on: { click: () => { navigator.clipboard?.writeText(DATA.citation); copied.textContent = "Copied"; } } }, "Copy BibTeX");
  return el("div", {}, el("ul", {}, ...named.map(([name, href]) => el("li", {}, link(href, name, { rel: "noopener noreferrer" }))), el("li", {}, link("#/dataset", "dataset and tracks")), el("li", {}, link("#/submit", "how to submit"))),
    el("pre", { class: "wrap", tabindex: "0" }, DATA.citation), copied);
}
function historyView() {
  const track = DATA.tracks[0];
  const columns = [
    { id: "date", title: "Date", text: true, value: (entry) => entry.created_at.slice(0, 10) },
    { id: "name", title: "Surrogate", text: true, long: true, value: (entry) => entry.name, cell: (entry) => [link(entryLink(entry.id), entry.name), entry.part ? badge(`on ${PARTS.get(entry.part) ?? entry.part}`) : null] },
    { id: "version", title: "Version", text: true, wide: true, value: (entry) => entry.version },
    { id: "kind", title: "Kind", text: true, wide: true, value: (entry) => words(entry.kind) },
    ...DATA.tracks.map((one, i) => ({ id: `${one.id}.${one.headline}`, wide: i > 0, title: `${one.title}: ${one.headline_label}\u00a0${arrow(one.id, one.headline)}`, meaning: metricOf(one.id, one.headline).meaning, better: metricOf(one.id, one.headline).better,
      value: (entry) => score(entry, one.id, one.headline, entry.part || "all")?.value ?? null, cell: (entry) => scoreText(score(entry, one.id, one.headline, entry.part || "all"))[0] })),
  ];
  const dated = WHOLE.map((entry) => ({ entry, at: Date.parse(entry.created_at), value: track && score(entry, track.id, track.headline, "all")?.value })).filter((one) => one.at && !none(one.value)).sort((a, b) => a.at - b.at);
  page("Entries by date", el("h1", {}, "Entries by date"), el("p", { class: "lead" }, "When each entry says it was made, and what it scores on the queries that it answers: all, or the part beside its name."),
    track && new Set(dated.map((one) => one.at)).size > 1 ? el("div", { class: "card broad" }, el("h2", {}, `Best ${track.headline_label} so far`), bestSoFar(track, dated)) : null,
    sortTable("entries-by-date", "Entries by date", columns, DATA.entries, { id: "date", down: true }), seasons());
}
function seasons() {
  const found = DATA.dataset.seasons || [];
  const columns = [
    { id: "season", title: "Season", text: true, value: (one) => one.name }, { id: "opened", title: "Opened", text: true, wide: true, value: (one) => one.opened_at.slice(0, 10) },
    { id: "state", title: "State", text: true, value: (one) => (one.closed_at ? `closed ${one.closed_at.slice(0, 10)}` : "open: not measured yet") },
    { id: "gpu", title: "GPU", text: true, wide: true, value: (one) => device(one.gpu) }, { id: "kernels", title: "Kernels", wide: true, value: (one) => one.kernels }, { id: "queries", title: "Queries", wide: true, value: (one) => one.queries },
    { id: "entries", title: "Entries", value: (one) => one.entries.length, meaning: "Forecasts that are frozen" },
  ];
  const results = found.filter((one) => one.closed_at).map((one) => [el("h3", {}, `Results of ${one.name}`), sortTable(`season-${one.name}`, `Results of ${one.name}`, [{ id: "entry", title: "Entry", text: true, value: ([id]) => BY_ID.get(id)?.name ?? id, cell: ([id]) => (BY_ID.has(id) ? link(entryLink(id), BY_ID.get(id).name) : id) },
    ...DATA.tracks.map((track, i) => ({ id: track.id, wide: i > 0, title: `${track.title}: ${track.headline_label}\u00a0${arrow(track.id, track.headline)}`, meaning: metricOf(track.id, track.headline).meaning, value: ([, scores]) => scores[track.id], cell: ([, scores]) => show(scores[track.id]) }))],
  Object.entries(one.results), { id: DATA.tracks[0].id, down: true })]);
  return found.length ? [el("h2", {}, "Seasons"), el("p", { class: "lead" }, "Kernels that nobody had measured when the forecasts were made. Their labels cannot have been copied."), sortTable("seasons", "Seasons", columns, found, { id: "opened", down: true }), results] : null;
}
function bestSoFar(track, dated) {
  let best = null;
  const points = dated.map((one) => [one.at, best = best === null || signed(track.id, track.headline, one.value) > signed(track.id, track.headline, best) ? one.value : best]);
  const day = (at) => new Date(at).toISOString().slice(0, 10);
  return lineChart(`Best ${track.headline_label} by date`, [{ name: track.headline_label, points }], { label: "date", ticks: [points[0][0], points[points.length - 1][0]], format: day }, { label: track.headline_label, ticks: ticks(Math.min(...points.map((p) => p[1])), Math.max(...points.map((p) => p[1]))) }, { steps: true, dots: true, size: { width: 720, height: 260, left: 60, right: 40, top: 12, bottom: 40 } });
}
function template(id, title) {
  page(title, document.getElementById(id).content.cloneNode(true), id === "dataset" ? scopeNotes() : null);
  if (id === "submit") checkForm();
}
// A host that checks submissions, as the Space does, says so in this shard.
function checkForm() {
  const form = main.querySelector("[data-check]");
  shard("check").then((offered) => { form.hidden = !offered; }).catch(() => {});
  const input = form.querySelector("input"), outcome = form.querySelector("[role=status]");
  const report = ({ ok, errors }) => outcome.replaceChildren(el("p", {}, ok ? "This submission can be entered." : `${errors.length} problem(s):`), el("ul", {}, ...errors.map((one) => el("li", {}, [one.file, one.field, one.value, one.message].filter(Boolean).join(" · ")))));
  form.querySelector("button").addEventListener("click", async () => {
    const file = input.files[0];
    if (!file) { outcome.textContent = "Choose a .zip or .tar.gz first."; return; }
    outcome.textContent = "Checking …";
    report(await fetch(`check?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file }).then((found) => found.json()).catch((error) => ({ ok: false, errors: [{ message: `the check could not be made (${error.message})` }] })));
  });
}
