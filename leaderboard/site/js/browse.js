// The kernel browser: columns in typed arrays, so that filters over tens of thousands of rows take milliseconds.
const BROWSED = [["problem_id", "Problem"], ["family", "Family"], ["backend", "Backend"], ["gpu", "GPU"], ["search_method", "Found by"], ["proposer", "Proposer"], ["model", "Model"], ["status", "Status"]];
const NUMBERS = [
  ["speedup_best", "Over best reference", times, "Over the best of eager PyTorch, torch.compile and the vendor's library, geometric mean over workloads; those below 10 µs are left out"],
  ["speedup", "Over eager", times, "Over eager PyTorch on the same GPU, geometric mean over workloads"], ["ahead", "Over library", times, "The time of the vendor's library over the kernel's; only where the library computes the whole problem"],
  ["runtime_us", "Runtime", micro, "Geometric mean over workloads"], ["roofline", "Of roofline", percent, "The roofline over the measured time, geometric mean over workloads that are not launch-bound"],
  ["registers", "Registers", whole, "Per thread"], ["spill_bytes", "Spills (B)", whole, "Bytes of registers spilled to memory, per thread"],
];
const QUERY_NAMES = { problem_id: "problem", search_method: "method" };
const queryName = (name) => QUERY_NAMES[name] || name;
const PAGE_ROWS = 50;
const COMPILED = "torch.compile";
let browser = null;

function indexed(table) {
  const texts = Object.fromEntries(Object.entries(table.texts).map(([name, { words: names, codes }]) => [name, { names, codes: Uint16Array.from(codes) }]));
  const figures = Object.fromEntries(Object.entries(table.figures).map(([name, values]) => [name, Float64Array.from(values, (value) => value ?? NaN)]));
  const found = limits(table, texts);
  if (found.vendor) figures.ahead = figures.speedup.map((value, i) => value / found.vendor[i]);
  return { count: table.id.length, ids: table.id, texts, figures, limits: found, titles: table.titles || {} };
}
// For each thing to beat, the speedup that beats it in each row; NaN where it was not timed.
function limits(table, texts) {
  const { problem_id: problems, gpu: gpus } = texts;
  const names = [...new Set(Object.values(table.baselines).flatMap(Object.values).flatMap(Object.keys))].sort();
  const libraries = names.filter((name) => name !== COMPILED);
  // cuBLASLt is part of cuBLAS: of names that begin alike the shortest stands for all.
  const heads = libraries.filter((name) => !libraries.some((other) => other !== name && name.startsWith(other)));
  const at = (i, counts) => Object.entries(table.baselines[problems.names[problems.codes[i]]]?.[gpus?.names[gpus.codes[i]]] || {}).find(([name]) => counts(name))?.[1] ?? NaN;
  const column = (counts) => Float64Array.from(table.id, (_, i) => at(i, counts));
  return { ...(names.includes(COMPILED) ? { [COMPILED]: column((name) => name === COMPILED) } : {}), ...(libraries.length ? { vendor: column((name) => name !== COMPILED) } : {}), ...Object.fromEntries(heads.map((head) => [head, column((name) => name.startsWith(head))])) };
}
// Which rows hold a word that contains the needle, anywhere in their source.
function holding(index, count, needle) {
  const marked = new Uint8Array(count);
  for (const word of Object.keys(index)) {
    if (!word.includes(needle)) continue;
    let at = 0;
    const runs = index[word];
    for (let i = 0; i < runs.length; i += 2) { marked.fill(1, at += runs[i], at += runs[i + 1]); }
  }
  return marked;
}
// Of each problem the row of the shortest runtime or, where none is known, of the largest speedup.
function bestOfEach(store, rows) {
  const { codes } = store.texts.problem_id, { runtime_us: runtime, speedup } = store.figures;
  const best = new Map();
  const value = (values, row, missing) => (values && !Number.isNaN(values[row]) ? values[row] : missing);
  const faster = (a, b) => value(runtime, a, 1e99) - value(runtime, b, 1e99) || value(speedup, b, -1) - value(speedup, a, -1);
  for (const row of rows) {
    const held = best.get(codes[row]);
    if (held === undefined || faster(row, held) < 0) best.set(codes[row], row);
  }
  return Uint32Array.from(best.values());
}
// Rows that pass every filter, in the wanted order. `choice` is {texts: {name: word}, least, needles, each, sort, down}.
function browsed(store, index, choice) {
  let rows = new Uint32Array(store.count);
  let kept = 0;
  const wanted = Object.entries(choice.texts).map(([name, word]) => [store.texts[name].codes, store.texts[name].names.indexOf(word)]);
  const speedup = store.figures.speedup;
  const limit = store.limits[choice.least], least = limit ? 0 : Number(choice.least);
  for (let i = 0; i < store.count; i++) {
    if (wanted.every(([codes, code]) => codes[i] === code) && (!choice.least || speedup[i] > (limit ? limit[i] : least))) rows[kept++] = i;
  }
  rows = rows.subarray(0, kept);
  for (const needle of choice.needles) {
    const named = Object.values(store.texts).map(({ names, codes }) => ({ codes, hit: names.map((name) => name !== null && name.toLowerCase().includes(needle)) }));
    // A single letter is in nearly every source.
    const inSource = index && needle.length > 1 ? holding(index, store.count, needle) : null;
    rows = rows.filter((row) => (inSource && inSource[row]) || store.ids[row].startsWith(needle) || named.some(({ codes, hit }) => hit[codes[row]]));
  }
  if (choice.each) rows = bestOfEach(store, rows);
  const turn = choice.down ? -1 : 1;
  if (store.figures[choice.sort]) {
    const values = store.figures[choice.sort];
    const missingLast = choice.down ? -Infinity : Infinity;
    const key = (row) => (Number.isNaN(values[row]) ? missingLast : values[row]);
    return rows.sort((a, b) => turn * (key(a) - key(b)) || a - b);
  }
  const { names, codes } = store.texts[choice.sort] || store.texts.problem_id;
  const order = names.map((name, i) => [name ?? "", i]).sort().reduce((found, [, i], rank) => { found[i] = rank; return found; }, []);
  return rows.sort((a, b) => turn * (order[codes[a]] - order[codes[b]]) || a - b);
}
const shownAs = (store, name, value) => (name === "problem_id" ? store.titles[value] ?? words(value) : name === "backend" ? language(value) : name === "gpu" ? device(value) : words(value));
async function browseView(query) {
  if (!DATA.atlas) return missing("This site was built without the corpus.");
  await loading("Kernels", async () => {
    const store = browser ?? (browser = indexed(await shard("kernels")));
    return () => drawBrowser(store, new URLSearchParams(query || ""));
  });
}
function drawBrowser(store, given) {
  const facets = BROWSED.filter(([name]) => store.texts[name] && store.texts[name].names.length > 1);
  const usual = store.figures.speedup_best?.some((value) => !Number.isNaN(value)) ? "speedup_best" : "speedup";
  const sort = given.get("sort") || `-${usual}`;
  const shown = { from: 0, rows: new Uint32Array() };
  const sorting = { id: sort.replace(/^-/, ""), down: sort.startsWith("-") };
  const picks = new Map(facets.map(([name]) => {
    const { names } = store.texts[name];
    const chosen = given.get(queryName(name)) || "";
    return [name, el("select", { "data-facet": name, on: { change: () => draw() } }, option("", "all", chosen), ...names.filter((value) => value !== null).map((value) => [shownAs(store, name, value), value]).sort().map(([text, value]) => option(value, text, chosen)))];
  }));
  const search = el("input", { type: "search", value: given.get("q") || "", placeholder: "words in the source, id, problem", on: { input: () => draw() } });
  const least = el("select", { "data-facet": "least", on: { change: () => draw() } }, ...[["", "any"], ["1", "faster than eager PyTorch"], ...Object.keys(store.limits).map((name) => [name, `faster than ${name === "vendor" ? "the vendor's library" : name}`]), ["2", "over 2×"], ["4", "over 4×"], ["10", "over 10×"]].map(([value, text]) => option(value, text, given.get("faster") || "")));
  // The list opens on one kernel of each problem; whoever filters or searches sees all that match, unless they chose.
  let chosenEach = given.has("each");
  const each = el("input", { type: "checkbox", checked: given.get("each") === "1", on: { change: () => { chosenEach = true; draw(); } } });
  const status = el("p", { class: "note", role: "status", "aria-live": "polite" });
  const body = el("tbody"), pager = el("div", { class: "pager" });
  let index = null;
  const told = BROWSED.filter(([name]) => ["backend", "gpu", "search_method", "proposer", "status"].includes(name) && store.texts[name] && (name !== "gpu" || store.texts.gpu.names.length > 1));
  const figures = NUMBERS.filter(([name]) => store.figures[name]);
  const columns = [["problem_id", "Problem and kernel"], ...figures.slice(0, -2), ...told, ...figures.slice(-2)];
  const onPhones = new Set(["problem_id", usual, "speedup", "runtime_us"]), isWide = (name) => !onPhones.has(name);
  const heads = columns.map(([id, title, format, meaning]) => el("th", { scope: "col", class: columnClass({ text: !format, wide: isWide(id) }), "data-column": id }, el("button", { type: "button", title: meaning, on: { click: () => { sorting.down = sorting.id === id ? !sorting.down : !!format && id !== "runtime_us"; sorting.id = id; draw(); } } }, title)));
  const text = (name, row) => store.texts[name].names[store.texts[name].codes[row]];
  const figure = (name, row) => (Number.isNaN(store.figures[name][row]) ? null : store.figures[name][row]);
  const named = (row) => { const id = text("problem_id", row); return el("td", { class: "long" }, link(problemLink(id), shownAs(store, "problem_id", id)), el("br"), link(kernelLink(id, store.ids[row]), store.ids[row], { class: "mono" })); };
  const choice = () => ({ texts: Object.fromEntries([...picks].filter(([, pick]) => pick.value).map(([name, pick]) => [name, pick.value])), least: least.value, needles: search.value.trim().toLowerCase().split(/\s+/).filter(Boolean), each: each.checked, sort: sorting.id, down: sorting.down });
  function draw() {
    if (!chosenEach) each.checked = !least.value && !search.value.trim() && ![...picks.values()].some((pick) => pick.value);
    const wanted = choice();
    const started = performance.now();
    shown.rows = browsed(store, index, wanted);
    shown.from = 0;
    drawRows();
    main.dataset.filterMs = (performance.now() - started).toFixed(1);
    const chosen = new URLSearchParams([...Object.entries(wanted.texts).map(([name, value]) => [queryName(name), value]), ...(least.value ? [["faster", least.value]] : []), ...(search.value.trim() ? [["q", search.value.trim()]] : []), ...(chosenEach ? [["each", each.checked ? "1" : "0"]] : []), ...(sorting.id !== usual || !sorting.down ? [["sort", `${sorting.down ? "-" : ""}${sorting.id}`]] : [])]);
    history.replaceState(null, "", `#/kernels${chosen.size ? `?${chosen}` : ""}`);
    if (wanted.needles.length && !index) shard("words").then((found) => { index = found; if (search.isConnected) draw(); });
  }
  // A kernel has a row for each GPU it was measured on.
  const noun = new Set(store.ids).size < store.count ? "rows" : "kernels";
  function drawRows() {
    heads.forEach((head) => head.setAttribute("aria-sort", head.dataset.column === sorting.id ? (sorting.down ? "descending" : "ascending") : "none"));
    const part = [...shown.rows.subarray(shown.from, shown.from + PAGE_ROWS)];
    body.replaceChildren(...part.map((row) => el("tr", {}, ...columns.map(([name, , format]) => (format ? el("td", { class: columnClass({ wide: isWide(name) }) }, format(figure(name, row))) : name === "problem_id" ? named(row) : el("td", { class: "wide" }, shownAs(store, name, text(name, row) ?? "—")))))));
    status.textContent = `${whole(shown.rows.length)} of ${whole(store.count)} ${noun}${shown.rows.length ? ` · ${whole(shown.from + 1)}–${whole(Math.min(shown.rows.length, shown.from + PAGE_ROWS))} shown` : ""}${search.value.trim() && !index ? " · searching the sources …" : ""}`;
    const step = (by, label) => el("button", { type: "button", disabled: shown.from + by < 0 || shown.from + by >= shown.rows.length, on: { click: () => { shown.from += by; drawRows(); } } }, label);
    pager.replaceChildren(step(-PAGE_ROWS, "‹ Previous"), step(PAGE_ROWS, "Next ›"));
  }
  const table = () => ({ columns: ["kernel_id", ...Object.keys(store.texts), ...Object.keys(store.figures)], rows: [...shown.rows].map((row) => [store.ids[row], ...Object.keys(store.texts).map((name) => text(name, row)), ...Object.keys(store.figures).map((name) => figure(name, row))]) });
  page("Kernels", el("h1", {}, "Kernels"), el("p", { class: "lead" }, "Every kernel of the dataset. The search looks at ids, problems, methods and every word of the sources: try wgmma, cp async, float4 or tl dot."),
    el("div", { class: "controls" }, el("label", { class: "broad" }, "Search", search), ...facets.map(([name, title]) => el("label", {}, title, picks.get(name))), el("label", {}, "Speedup", least), el("label", { class: "tick" }, "Best of each problem", each)),
    status, region("Kernels", el("table", {}, el("caption", { class: "unseen" }, "Kernels"), el("thead", {}, el("tr", {}, ...heads)), body)), pager, downloads("kernels", table),
    el("p", { class: "note" }, `Speedup is over eager PyTorch on the same GPU, geometric mean over workloads. ${store.limits.vendor ? "References run in the problem's data type with TF32 off; a kernel may use any precision that its problem's tolerance allows. " : ""}`, link("data/kernels.parquet", "All kernels with every column but the source (Parquet)", { download: true })));
  draw();
}
