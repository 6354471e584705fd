// Problems: the list, and a page for each with what is computed, how fast it gets and how the searches went.
async function problemsView() {
  await loading("Problems", async () => {
    const found = await shard("problems");
    const asked = new Set(DATA.asked);
    return () => drawProblems(found, asked);
  });
}
function drawProblems(found, asked) {
  const families = [...new Set(found.map((row) => row.family))].sort();
  const columns = [
    { id: "problem", title: "Problem", text: true, long: true, value: (row) => row.title.toLowerCase(), cell: (row) => [link(problemLink(row.id), row.title), asked.has(row.id) ? badge("scored") : null] },
    { id: "ahead", title: "Best over best reference", value: (row) => row.best_ahead, cell: (row) => (row.best_id && !none(row.best_ahead) ? link(kernelLink(row.id, row.best_id), times(row.best_ahead)) : "—"), meaning: "The time of the best reference (eager PyTorch, torch.compile or the vendor's library) over the best kernel's; workloads below 10 µs are left out" },
    { id: "best", title: "Best over eager", value: (row) => row.best, cell: (row) => (row.best_id ? link(kernelLink(row.id, row.best_id), times(row.best)) : "—"), meaning: "Of correct kernels, over eager PyTorch; opens the kernel" },
    { id: "roofline", title: "Of roofline", value: (row) => row.roofline, cell: (row) => percent(row.roofline), meaning: "The roofline over the best kernel's time, geometric mean over workloads that are not launch-bound" },
    { id: "backend", title: "In", text: true, wide: true, value: (row) => row.best_backend, cell: (row) => (row.best_backend ? language(row.best_backend) : "—"), meaning: "The language of the best kernel" },
    { id: "kernels", title: "Kernels", wide: true, value: (row) => row.kernels, cell: (row) => whole(row.kernels) },
    { id: "correct", title: "Correct", wide: true, value: (row) => row.correct, cell: (row) => percent(row.correct), meaning: "Share of kernels that compile, run and answer correctly" },
    { id: "median", title: "Median over eager", wide: true, value: (row) => row.median, cell: (row) => times(row.median), meaning: "Of correct kernels, over eager PyTorch" },
    { id: "family", title: "Family", text: true, wide: true, value: (row) => row.family, cell: (row) => words(row.family) },
  ];
  const holder = el("div");
  const family = el("select", { "data-facet": "family", on: { change: () => draw() } }, option("", "all"), ...families.map((name) => option(name, words(name))));
  const search = el("input", { type: "search", placeholder: "name", on: { input: () => draw() } });
  function draw() {
    const needle = search.value.trim().toLowerCase();
    const rows = found.filter((row) => (!family.value || row.family === family.value) && (!needle || `${row.id} ${row.title} ${row.family}`.toLowerCase().includes(needle)));
    holder.replaceChildren(el("p", { class: "note", role: "status" }, `${rows.length} of ${found.length} problems`), sortTable("problems", "Problems", columns, rows, { id: "problem", down: false }));
  }
  page("Problems", el("h1", {}, "Problems"), el("p", { class: "lead" }, `Operations with a PyTorch reference, and how fast generated kernels compute them${DATA.main_gpu ? ` on ${DATA.main_gpu}` : ""}. ${DATA.asked.length ? `Entries are scored on ${DATA.asked.length} of them.` : ""}`),
    el("div", { class: "controls" }, el("label", {}, "Family", family), el("label", {}, "Search", search)), holder);
  draw();
}
// A problem's shard with its kernels as objects, made once.
async function problemData(id) {
  const data = await shard(`problem/${id}`);
  if (!data.rows) {
    data.rows = rowsOf(data.columns, data.kernels).map((row, i) => ({ ...row, source: data.sources[row.source], measured: rowsOf(data.workload_columns, data.measured[i]), problem: id }));
    const byId = new Map(data.rows.flatMap((row) => [[row.kernel_id, row], [`${row.kernel_id} ${row.gpu}`, row]]));
    // The parent as it was measured on the same GPU; elsewhere it still has a source to compare with, but no gain.
    data.parent = (row) => (row.parent_id ? byId.get(`${row.parent_id} ${row.gpu}`) ?? byId.get(row.parent_id) : undefined);
  }
  return data;
}
const unknownProblem = (id) => missing(`No problem is called ${id}.`);
async function problemView(id) {
  if (!DATA.atlas || !/^[a-z][a-z0-9_]*$/.test(id || "")) return unknownProblem(id);
  await loading(words(id), async () => {
    const listed = await shard("problems");
    if (!listed.some((row) => row.id === id)) return () => unknownProblem(id);
    const data = await problemData(id);
    return () => drawProblem(data);
  });
}
function drawProblem(data) {
  const { problem } = data;
  const isCorrect = (row) => row.status === "ok" && row.speedup;
  const correct = data.rows.filter(isCorrect);
  // A kernel has a row for each GPU: single figures are of one, and of kernels that failed before they reached any.
  const rows = data.rows.filter((row) => [DATA.main_gpu, null].includes(row.gpu));
  const best = rows.filter(isCorrect).sort((a, b) => (a.runtime_us ?? 1e99) - (b.runtime_us ?? 1e99) || b.speedup - a.speedup);
  const first = best[0];
  page(problem.title, el("h1", {}, problem.title, badge(words(problem.family)), DATA.asked.includes(problem.problem_id) ? badge("scored") : null), el("p", { class: "lead" }, problem.description || ""),
    workloadTable(problem),
    tiles([[whole(new Set(data.rows.map((row) => row.kernel_id)).size), "kernels"], [percent(rows.length ? best.length / rows.length : null), "correct"], none(first?.speedup_best) ? [times(first?.speedup), "best, over eager PyTorch"] : [times(first.speedup_best), "best, over the best reference"], [percent(first?.roofline), "of the roofline"]]),
    first ? [el("h2", {}, "The best kernel against the references"), champion(data, first), referenceTable(data, first)] : null,
    el("h2", {}, "Best kernels"), bestTable(problem, best.slice(0, 10)),
    el("h2", {}, "How the searches went"), trajectories(rows),
    el("h2", {}, "All speedups"), el("div", { class: "card broad" }, histogram("Distribution of speedups by backend and GPU", speedupGroups(correct, data.baselines))),
    el("h2", {}, "Reference"), problem.reference_source ? codeBlock(problem.reference_source, "Reference source") : el("p", {}, "No reference source is known."),
    facts([["Problem id", problem.problem_id], ["Also known as", (problem.aliases || []).join(", ")], ["Data types", (problem.dtypes || []).join(", ")], ["Roofline unit", problem.compute_unit], ["Tolerance", none(problem.atol) ? null : `atol ${problem.atol}, rtol ${problem.rtol}: ${problem.tolerance_reason || ""}`]]),
    el("p", {}, link(`#/kernels?problem=${problem.problem_id}`, "Browse all kernels of this problem")));
}
function champion(data, row) {
  const at = kernelLink(row.problem, row.kernel_id);
  return el("p", { class: "answer" }, "Best: ", link(at, row.kernel_id.slice(0, 12), { class: "mono" }), `, ${language(row.backend)}, ${times(row.speedup)} the speed of eager PyTorch on ${row.gpu} (95 % interval ${times(row.speedup_low)}–${times(row.speedup_high)}), ${Object.entries(data.baselines[row.gpu] || {}).map(([name, speed]) => `${times(row.speedup / speed)} ${name}, `).join("")}found by ${words(row.search_method)} at step ${row.step}. `, link(at, "See why"), ".");
}
// Its time on each workload beside what PyTorch, its compiler and the vendor's library take.
const REFERENCES = [["reference_us", "Eager PyTorch"], ["compiled_us", "torch.compile"], ["vendor_us", "Vendor"]];
function referenceTable(data, row) {
  const references = new Map(data.references.filter((one) => one.gpu === row.gpu).map((one) => [one.workload, one]));
  const shown = REFERENCES.filter(([column]) => [...references.values()].some((one) => one[column]));
  const best = (name) => Math.min(...REFERENCES.map(([column]) => references.get(name)?.[column]).filter(Boolean));
  const ahead = (one) => (one.runtime_us && isFinite(best(one.workload)) ? best(one.workload) / one.runtime_us : null);
  const columns = [
    { id: "workload", title: "Workload", text: true, value: (one) => one.workload },
    ...shown.map(([column, title]) => ({ id: column, title, wide: shown.length > 1, better: "low", value: (one) => references.get(one.workload)?.[column] ?? null, cell: (one) => micro(references.get(one.workload)?.[column]) })),
    { id: "runtime_us", title: "Best kernel", better: "low", value: (one) => one.runtime_us, cell: (one) => micro(one.runtime_us) },
    { id: "ahead", title: shown.length > 1 ? "Over best reference" : `Over ${shown[0]?.[1] ?? "reference"}`, value: ahead, cell: (one) => times(ahead(one)), meaning: "The least of the references' times over the kernel's" },
    { id: "roofline_us", title: "Roofline", wide: true, better: "low", value: (one) => one.roofline_us, cell: (one) => micro(one.roofline_us), meaning: "All inputs and outputs at the measured copy bandwidth, or the arithmetic at measured rates" },
  ];
  return sortTable(`${row.problem}-references`, "Against the references", columns, row.measured, { id: "workload", down: false });
}
// Kernels of one backend on one GPU, and how fast PyTorch's compiler and the vendor's library are on it.
function speedupGroups(correct, baselines) {
  const groups = new Map();
  const gpus = new Set(correct.map((row) => row.gpu));
  for (const row of correct) {
    const note = gpus.size > 1 ? device(row.gpu).replace(/^.*\((.*)\)$/, "$1") : "", name = `${row.backend} ${note}`;
    if (!groups.has(name)) groups.set(name, { name: language(row.backend), gpu: row.gpu, note, style: row.backend === "cuda" ? "one" : "two", values: [], marks: Object.entries(baselines[row.gpu] || {}).map(([text, at]) => ({ name: text, at })) });
    groups.get(name).values.push(row.speedup);
  }
  const isMain = ({ gpu }) => Number(gpu === DATA.main_gpu);
  return [...groups.values()].sort((a, b) => a.name.localeCompare(b.name) || isMain(b) - isMain(a) || b.note.localeCompare(a.note, "en", { numeric: true }));
}
function bestTable(problem, rows) {
  const columns = [
    { id: "kernel_id", title: "Kernel", text: true, value: (row) => row.kernel_id, cell: (row) => link(kernelLink(problem.problem_id, row.kernel_id), row.kernel_id.slice(0, 12), { class: "mono" }) },
    { id: "backend", title: "In", text: true, wide: true, value: (row) => row.backend, cell: (row) => language(row.backend) },
    { id: "runtime_us", title: "Runtime", better: "low", value: (row) => row.runtime_us, cell: (row) => [micro(row.runtime_us), el("span", { class: "range" }, ` [${micro(row.runtime_low_us)}, ${micro(row.runtime_high_us)}]`)], meaning: "Geometric mean over workloads; two kernels are compared by it, because a speedup also holds the noise of its reference" },
    ...(rows.every((row) => none(row.speedup_best)) ? [] : [{ id: "speedup_best", title: "Over best reference", value: (row) => row.speedup_best, cell: (row) => times(row.speedup_best), meaning: "Geometric mean over workloads; those below 10 µs are left out" }]),
    { id: "speedup", title: "Over eager", wide: rows.some((row) => !none(row.speedup_best)), value: (row) => row.speedup, cell: (row) => [times(row.speedup), el("span", { class: "range" }, ` [${times(row.speedup_low)}, ${times(row.speedup_high)}]`)] },
    { id: "roofline", title: "Of roofline", wide: true, value: (row) => row.roofline, cell: (row) => percent(row.roofline), meaning: "The roofline over the measured time, geometric mean over workloads that are not launch-bound" },
    { id: "registers", title: "Registers", wide: true, value: (row) => row.registers }, { id: "spill_bytes", title: "Spills (B)", wide: true, value: (row) => row.spill_bytes },
    { id: "search_method", title: "Found by", text: true, wide: true, value: (row) => row.search_method, cell: (row) => words(row.search_method) },
    { id: "proposer", title: "Written by", text: true, wide: true, value: (row) => row.model || row.proposer },
  ];
  return sortTable(`${problem.problem_id}-best`, "Best kernels", columns, rows, rows.some((row) => row.runtime_us) ? { id: "runtime_us", down: false } : { id: "speedup", down: true }, "No correct kernel yet.");
}
// For each method the best speedup that any of its runs had reached after so many kernels.
function trajectories(measured) {
  const runs = new Map();
  for (const row of measured) runs.set(row.run_id, [...(runs.get(row.run_id) || []), row]);
  const methods = new Map();
  for (const rows of runs.values()) {
    let best = 0;
    const reached = [...rows].sort((a, b) => a.step - b.step).map((row) => (best = row.status === "ok" && row.speedup > best ? row.speedup : best));
    if (best) methods.set(rows[0].search_method, [...(methods.get(rows[0].search_method) || []), reached]);
  }
  if (!methods.size) return el("p", {}, "No run found a correct kernel.");
  const lists = [...methods].sort().map(([name, of]) => ({ name: `${words(name)} (${of.length} run${of.length > 1 ? "s" : ""})`, points: envelope(of) }));
  const all = lists.flatMap((list) => list.points);
  const size = { width: innerWidth < 640 ? 380 : 1100, height: innerWidth < 640 ? 280 : 320, left: 60, right: 16, top: 12, bottom: 40 };
  const chart = lineChart("Best speedup so far by kernels measured", lists, { label: "kernels measured in a run", ticks: ticks(1, Math.max(2, ...all.map((p) => p[0]))) }, { label: "best speedup so far (log)", ticks: octaves(Math.min(...all.map((p) => p[1])), Math.max(...all.map((p) => p[1]))), log: true, format: octave }, { steps: true, size });
  return el("div", { class: "card broad" }, legend(lists.map((list) => list.name)), chart, el("p", {}, "The best of a method's runs after so many kernels each, over eager PyTorch."));
}
function envelope(runs) {
  const points = [];
  for (let i = 0; i < Math.max(...runs.map((run) => run.length)); i++) {
    const best = Math.max(...runs.map((run) => run[Math.min(i, run.length - 1)]));
    if (best) points.push([i + 1, best]);
  }
  return points;
}
const SHAPES = ["Workload", "Inputs", "Outputs", "Work", "Least traffic"];
function workloadTable(problem) {
  if (!problem.workloads.length) return el("p", {}, "This corpus does not describe the workloads.");
  return region("Workloads", el("table", { class: "stacked" }, el("caption", { class: "unseen" }, "Workloads"), el("thead", {}, el("tr", {}, ...SHAPES.map((title) => el("th", { scope: "col" }, title)))),
    el("tbody", {}, ...problem.workloads.map((workload) => el("tr", {}, ...[workload.name, workload.inputs.join("; "), workload.outputs.join("; "), scale(workload.flops, "FLOP"), scale(workload.min_bytes, "B")].map((text, i) => el("td", { class: i === 1 || i === 2 ? "mono wrap" : null, "data-head": SHAPES[i] }, text)))))));
}
