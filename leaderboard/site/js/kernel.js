// One kernel: its source, how it came to be, how it was measured, and what every entry said about it.
async function kernelView(problem, prefix) {
  if (!DATA.atlas || !/^[a-z][a-z0-9_]*$/.test(problem || "")) return missing(`No kernel is called ${prefix ?? problem}.`);
  await loading(`Kernel ${prefix}`, async () => {
    const listed = await shard("problems");
    if (!listed.some((row) => row.id === problem)) return () => unknownProblem(problem);
    const data = await problemData(problem);
    const row = /^[0-9a-f]{4,32}$/.test(prefix || "") ? data.rows.find((one) => one.kernel_id.startsWith(prefix)) : null;
    if (!row) return () => missing(`Problem ${problem} has no kernel whose id begins with ${prefix}.`);
    const forecasts = DATA.asked.includes(problem) ? await shard(`forecasts/${problem}`) : null;
    // The main GPU comes first, then where it did best.
    const measured = data.rows.filter((one) => one.kernel_id === row.kernel_id).sort((a, b) => (b.gpu === DATA.main_gpu) - (a.gpu === DATA.main_gpu) || (b.speedup ?? 0) - (a.speedup ?? 0));
    return () => drawKernel(data, measured, forecasts);
  });
}
// A prefix alone: the table of all kernels knows the problem.
async function findKernel(prefix) {
  if (!DATA.atlas || !/^[0-9a-f]{4,32}$/.test(prefix || "")) return missing(`No kernel is called ${prefix}.`);
  await loading(`Kernel ${prefix}`, async () => {
    const table = await shard("kernels");
    const at = table.id.findIndex((id) => id.startsWith(prefix.slice(0, 12)));
    if (at < 0) return () => missing(`No kernel's id begins with ${prefix}.`);
    const { words: names, codes } = table.texts.problem_id;
    return () => { location.replace(kernelLink(names[codes[at]], prefix)); };
  });
}
function ancestors(data, row) {
  const chain = [row];
  for (let parent = data.parent(row); parent && !chain.includes(parent); parent = data.parent(parent)) chain.unshift(parent);
  return chain;
}
function drawKernel(data, rows, forecasts) {
  const row = rows[0], id = row.problem, chain = ancestors(data, row);
  const children = data.rows.filter((one) => one.parent_id === row.kernel_id && one.gpu === row.gpu);
  page(`${data.problem.title}, kernel ${row.kernel_id.slice(0, 12)}`, el("p", { class: "crumbs" }, link("#/problems", "Problems"), " › ", link(problemLink(id), data.problem.title), " › ", "kernel"),
    el("h1", {}, `${data.problem.title} `, el("span", { class: "mono" }, row.kernel_id.slice(0, 12)), badge(language(row.backend)), badge(words(row.status), row.status === "ok" ? "good" : "bad")),
    el("p", { class: "lead" }, `${row.status === "ok" ? `${times(row.speedup)} the speed of eager PyTorch on ${row.gpu}` : `Failed: ${words(row.status)}`}, written by ${row.model || row.proposer}, found by ${words(row.search_method)} at step ${row.step}.`),
    takeAway(row), tiles([none(row.speedup_best) ? null : [times(row.speedup_best), "over the best reference"], [times(row.speedup), "over eager PyTorch"], [micro(row.runtime_us), "mean runtime"], [percent(row.roofline), "of the roofline"], [whole(row.registers), "registers"], [none(row.spill_bytes) ? "—" : `${whole(row.spill_bytes)} B`, "spilled"], [none(row.shared_bytes) ? "—" : `${whole(row.shared_bytes)} B`, "shared memory"]].filter(Boolean)),
    row.error ? [el("h2", {}, "Error"), el("pre", { class: "wrap", tabindex: "0" }, row.error)] : null,
    row.status === "ok" ? [el("h2", {}, "Compared with the others"), peers(data, row)] : null,
    el("h2", {}, "How it came to be"), lineage(data, chain, children), el("h2", {}, "Times"), ...rows.map(measuredTable),
    forecasts ? [el("h2", {}, "What entries forecast"), forecastTable(data, row, forecasts)] : null,
    el("h2", {}, "Source"), codeBlock(row.source, "Kernel source"),
    facts([["Kernel id", row.kernel_id], ["Run", row.run_id], ["Split in the dataset", row.split], ["Compile time", none(row.compile_ms) ? null : `${whole(Math.round(row.compile_ms))} ms`], ["Origin", row.origin], ["Licence", row.license]]));
}
// The file, and the command that measures it.
function takeAway(row) {
  const file = `${row.kernel_id.slice(0, 12)}.py`;
  return el("div", { class: "take" }, el("button", { type: "button", class: "primary", on: { click: () => save(file, "text/x-python", row.source) } }, "Download"),
    el("div", { class: "code" }, el("pre", { class: "wrap", tabindex: "0" }, `kbench measure ${file} --problem ${row.problem}`)), el("p", { class: "note" }, "A machine wrote this program: kbench runs it in a sandbox; elsewhere use one of your own."));
}
// What sets a kernel apart from the other correct kernels of its problem, backend and GPU.
function peers(data, row) {
  const others = data.rows.filter((one) => one !== row && one.status === "ok" && one.backend === row.backend && one.gpu === row.gpu);
  const middle = (name) => { const values = others.map((one) => one[name]).filter((value) => !none(value)).sort((a, b) => a - b); return values.length ? values[Math.floor(values.length / 2)] : null; };
  const bytes = (value) => (none(value) ? "—" : `${whole(value)} B`);
  const lines = [["speedup", "Speedup", times], ["roofline", "Of roofline", percent], ["runtime_us", "Runtime", micro], ["registers", "Registers", whole], ["spill_bytes", "Spilled", bytes], ["shared_bytes", "Shared memory", bytes]];
  const faster = others.filter((one) => pace(one, row) > 1).length;
  return el("div", {}, el("p", { class: "lead" }, `Place ${faster + 1} of ${others.length + 1} correct ${language(row.backend)} kernels of this problem on ${row.gpu}.${Object.entries(data.baselines[row.gpu] || {}).map(([name, at]) => ` ${times(row.speedup / at)} the speed of ${name}.`).join("")}`),
    others.length ? region("Compared with the others", el("table", {}, el("thead", {}, el("tr", {}, ...["Figure", "This kernel", "Median of the others"].map((title, i) => el("th", { scope: "col", class: i ? "num" : null }, title)))),
      el("tbody", {}, ...lines.map(([name, title, format]) => el("tr", {}, el("th", { scope: "row" }, title), el("td", { class: "num" }, format(row[name])), el("td", { class: "num" }, format(middle(name)))))))) : null);
}
// How many times as fast one kernel is as another, by their own times: speedups also hold the noise of their references.
const pace = (one, other) => (one.runtime_us && other.runtime_us ? other.runtime_us / one.runtime_us : one.speedup / other.speedup);
const gain = (parent, child) => (parent.gpu === child.gpu && parent.speedup && child.speedup ? pace(child, parent) : null);
function gainText(ratio) {
  if (none(ratio)) return el("span", { class: "note" }, "no comparison");
  return el("span", { class: ratio >= 1 ? "gain" : "loss" }, ratio >= 1 ? `${times(ratio)} faster` : `${times(1 / ratio)} slower`);
}
// What was changed, by whoever wrote it; the dataset keeps its first 300 letters.
const editText = ({ edit }) => (edit ? `: ${edit}${edit.length < 300 ? "" : "…"}` : "");
function lineage(data, chain, children) {
  const first = chain[0];
  const items = [el("li", {}, link(kernelLink(first.problem, first.kernel_id), first.kernel_id.slice(0, 12), { class: "mono" }), ` started the line: ${times(first.speedup)}, step ${first.step} of ${words(first.search_method)}.`)];
  for (let i = 1; i < chain.length; i++) {
    const [parent, child] = [chain[i - 1], chain[i]];
    items.push(el("li", {}, link(kernelLink(child.problem, child.kernel_id), child.kernel_id.slice(0, 12), { class: "mono" }), ` step ${child.step}: ${times(child.speedup)}, `, gainText(gain(parent, child)), ` than its parent${editText(child)}`,
      el("details", { open: i === chain.length - 1 }, el("summary", {}, "Difference from its parent"), diffBlock(parent.source, child.source, `Difference of ${child.kernel_id.slice(0, 12)} from its parent`))));
  }
  const next = [...children].sort((a, b) => (gain(chain.at(-1), b) ?? 0) - (gain(chain.at(-1), a) ?? 0));
  return el("div", {}, chain.length === 1 ? el("p", {}, "It has no parent: it was proposed from scratch.") : null, chain.length > 1 ? el("ol", { class: "lineage" }, ...items) : null,
    next.length ? el("details", {}, el("summary", {}, `${next.length} kernel${next.length > 1 ? "s" : ""} made from it`), el("ul", {}, ...next.slice(0, 30).map((child) => el("li", {}, link(kernelLink(child.problem, child.kernel_id), child.kernel_id.slice(0, 12), { class: "mono" }), ` ${words(child.status)}, `, gainText(gain(data.parent(child), child)), editText(child))))) : null);
}
function measuredTable(row) {
  const interval = (low, high, format) => (none(low) ? null : el("span", { class: "range" }, ` [${format(low)}, ${format(high)}]`));
  const columns = [
    { id: "workload", title: "Workload", text: true, value: (one) => one.workload }, { id: "status", title: "Status", text: true, wide: true, value: (one) => one.status, cell: (one) => words(one.status) },
    { id: "runtime_us", title: "Runtime", better: "low", value: (one) => one.runtime_us, cell: (one) => [micro(one.runtime_us), interval(one.runtime_low_us, one.runtime_high_us, micro)] },
    { id: "speedup", title: "Speedup", value: (one) => one.speedup, cell: (one) => [times(one.speedup), interval(one.speedup_low, one.speedup_high, times)] },
    { id: "roofline_us", title: "Roofline", wide: true, value: (one) => one.roofline_us, cell: (one) => micro(one.roofline_us), meaning: "All inputs and outputs at the measured copy bandwidth, or the arithmetic at measured rates" },
    { id: "share", title: "Of roofline", wide: true, value: (one) => (one.roofline_us && one.runtime_us ? one.roofline_us / one.runtime_us : null), cell: (one) => percent(one.roofline_us && one.runtime_us ? one.roofline_us / one.runtime_us : null) },
    { id: "max_abs_error", title: "Largest error", wide: true, better: "low", value: (one) => one.max_abs_error, cell: (one) => (none(one.max_abs_error) ? "—" : one.max_abs_error === 0 ? "0" : one.max_abs_error.toExponential(1)) },
  ];
  const launched = row.measured.filter((one) => one.launches?.length);
  const counted = row.measured.filter((one) => one.counted);
  return el("div", {}, el("h3", {}, row.gpu), counted.length ? el("details", {}, el("summary", {}, "What the hardware counted"), el("ul", {}, ...counted.map((one) => el("li", {}, `${one.workload}: ${one.counted}`)))) : null, launched.length ? el("details", {}, el("summary", {}, "What it launches"), el("ul", {}, ...launched.map((one) => el("li", {}, `${one.workload}: `, el("span", { class: "mono" }, one.launches.join("; ")))))) : null, sortTable(`${row.kernel_id.slice(0, 12)}-times`, `Times on ${row.gpu}`, columns, row.measured, { id: "workload", down: false }, "No measurement of single workloads is recorded."));
}
function forecastTable(data, row, forecasts) {
  const short = row.kernel_id.slice(0, 12);
  const asked = rowsOf(forecasts.columns, forecasts.pairs).map((pair, i) => ({ ...pair, i })).filter((pair) => pair.candidate === short);
  if (!asked.length) return el("p", { class: "note" }, "No entry was asked about this kernel.");
  return el("div", {}, ...asked.map((pair) => el("div", {}, el("h3", {}, "Against ", pair.anchor ? link(kernelLink(row.problem, pair.anchor), pair.anchor, { class: "mono" }) : "PyTorch", `: measured ${times(pair.speedup)}, bin ${binLabel(pair.bin)}`),
    region(`Forecasts against ${pair.anchor || "PyTorch"}`, el("table", { class: "heat" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Entry"), ...DATA.dataset.bins.map((bin) => el("th", { scope: "col", class: "num" }, bin.label, bin.bin === pair.bin ? " ✓" : "")))),
      el("tbody", {}, ...Object.entries(forecasts.forecasts).map(([id, given]) => el("tr", {}, el("td", {}, link(entryLink(id), BY_ID.get(id)?.name ?? id)), ...given[pair.i].map((share, j) => el("td", { class: `num heat-${Math.min(4, Math.floor(share / 200))}${j + 1 === pair.bin ? " truth" : ""}` }, percent(share / 1000)))))))))));
}
