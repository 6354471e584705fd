// What every view uses: builders of elements, figures as text, shards, tables, downloads.
// Text that came with a submission or a kernel is only ever set as text.
const main = document.querySelector("main");
main.setAttribute("aria-busy", "true");
// The visitor's choice of theme, before anything is drawn.
function theme(next) {
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("kbench-theme", next); } catch { /* storage is off: the choice lasts for this page */ }
}
let stored = null;
try { stored = localStorage.getItem("kbench-theme"); } catch { stored = null; }
if (stored === "dark" || stored === "light") theme(stored);
const DATA = await unpacked(document.getElementById("data").textContent);
const BY_ID = new Map(DATA.entries.map((entry) => [entry.id, entry]));
// Entries that answer the whole split; the others answer a part of it alone.
const WHOLE = DATA.entries.filter((entry) => !entry.part);
const SVG = "http://www.w3.org/2000/svg";

const present = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...present(children));
  return node;
}
function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
const link = (href, text, attributes = {}) => el("a", { href, ...attributes }, text);
const entryLink = (id) => `#/entry/${encodeURIComponent(id)}`;
const problemLink = (id) => `#/problem/${id}`;
const kernelLink = (problem, id) => `#/kernel/${problem}/${id.slice(0, 12)}`;
const none = (value) => value === null || value === undefined;

// ---- figures as text ------------------------------------------------------------------------------------------------
const cost = (value) => (none(value) ? "—" : value === 0 ? "0" : Number(value.toPrecision(2)).toString());
const show = (value, decimals = 3) => (none(value) ? "—" : value.toFixed(Math.abs(value) >= 100 ? 0 : decimals).replace(/^-(0\.?0*)$/, "$1").replace("-", "−"));
const whole = (value) => (none(value) ? "—" : value.toLocaleString("en-US"));
const times = (value) => (none(value) ? "—" : `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)}×`);
const percent = (value) => (none(value) ? "—" : `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`);
const micro = (value) => (none(value) ? "—" : value >= 1000 ? `${(value / 1000).toPrecision(3)} ms` : `${value.toPrecision(3)} µs`);
const signedText = (value, decimals = 3) => (none(value) ? "—" : `${value > 0 ? "+" : value < 0 ? "−" : ""}${show(Math.abs(value), decimals)}`);
const words = (text) => String(text).replaceAll("_", " ");
const LANGUAGES = { cuda: "CUDA", triton: "Triton" };
const language = (backend) => LANGUAGES[backend] ?? backend;
const device = (gpu) => String(gpu).replace("NVIDIA ", "");
const scale = (value, unit) => {
  const steps = ["", "k", "M", "G", "T", "P"];
  const step = value > 0 ? Math.min(steps.length - 1, Math.floor(Math.log10(value) / 3)) : 0;
  return `${Number((value / 1000 ** step).toPrecision(3))} ${steps[step]}${unit}`;
};

// ---- shards: a script beside the page hands over its data ---------------------------------------------------------------
const shards = new Map();
const arriving = new Map();
window.kbench = (name, packed) => arriving.get(name)?.(packed);
async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}
function shard(name) {
  if (!shards.has(name)) {
    shards.set(name, new Promise((done, failed) => {
      arriving.set(name, (packed) => done(unpacked(packed)));
      const script = el("script", { src: `data/${name}.js`, on: { error: () => { shards.delete(name); failed(new Error(`data/${name}.js cannot be loaded`)); } } });
      document.head.append(script);
    }));
  }
  return shards.get(name);
}
// Rows of a shard's table as objects.
const rowsOf = (columns, rows) => rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));

// ---- pages ------------------------------------------------------------------------------------------------------------
let turn = 0;
function page(title, ...children) {
  document.title = title === "kbench" ? "kbench: how fast will this GPU kernel run?" : `${title} · kbench`;
  main.replaceChildren(...present(children), footer());
}
// A view that needs shards says so while they load; one that the visitor has left since draws nothing.
async function loading(title, work) {
  const mine = ++turn;
  main.setAttribute("aria-busy", "true");
  if (!main.childElementCount || main.dataset.title !== title) page(title, el("h1", {}, title), el("p", { class: "lead", role: "status" }, "Loading …"));
  try {
    const draw = await work();
    if (mine === turn) draw();
  } catch (error) {
    if (mine === turn) missing(`This part of the site could not be loaded (${error.message}).`);
  }
  if (mine === turn) main.removeAttribute("aria-busy");
}
function missing(message) {
  page("Not found", el("h1", {}, "Not found"), el("p", {}, message), el("p", {}, link("#/", "Start"), " · ", link("#/leaderboard", "Leaderboard"), DATA.atlas ? [" · ", link("#/problems", "Problems"), " · ", link("#/kernels", "Kernels")] : null));
}
function footer() {
  return el("footer", {}, `kbench ${DATA.version} · dataset ${DATA.dataset.fingerprint.slice(0, 12)} · seed ${DATA.seed} · `, link("data/leaderboard.json", "all scores as JSON", { download: true }), DATA.atlas ? [" · ", link("data/kernels.parquet", "all kernels as Parquet", { download: true })] : null);
}
const badge = (text, kind = "") => el("span", { class: `badge ${kind}` }, text);
const facts = (pairs) => el("dl", { class: "facts" }, ...pairs.filter(([, value]) => !none(value) && value !== "").flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
const tiles = (pairs) => el("div", { class: "tiles" }, ...pairs.map(([value, name]) => el("div", { class: "tile" }, el("strong", {}, value), el("span", {}, name))));
const region = (label, ...children) => el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...children);
const option = (value, text, chosen) => el("option", { value, selected: value === chosen }, text);

// ---- tables that sort, and that can be taken away ------------------------------------------------------------------------
function save(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const anchor = el("a", { href: address, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
// A spreadsheet computes texts that begin like a formula: an apostrophe makes them texts.
const harmless = (value) => (typeof value === "string" && /^[\s]*[=+\-@]|^[\t\r]/.test(value) && !isFinite(value) ? `'${value}` : String(value));
function csv(columns, rows) {
  const cell = (value) => (none(value) ? "" : /[",\n\r]/.test(value) ? `"${harmless(value).replaceAll('"', '""')}"` : harmless(value));
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
// `content` answers {columns, rows} of plain values when a button is pressed.
function downloads(name, content) {
  const json = () => { const { columns, rows } = content(); return JSON.stringify(rows.map((row) => Object.fromEntries(columns.map((column, i) => [column, row[i]]))), null, 1); };
  return el("p", { class: "downloads" }, "Download this table: ",
    el("button", { type: "button", "data-save": "csv", on: { click: () => { const { columns, rows } = content(); save(`${name}.csv`, "text/csv", csv(columns, rows)); } } }, "CSV"),
    el("button", { type: "button", "data-save": "json", on: { click: () => save(`${name}.json`, "application/json", json()) } }, "JSON"));
}
// columns: {id, title, value(row), cell(row)?, text?, long?, wide?, better?, meaning?}. Missing values always come last;
// wide columns are left out on phones.
const columnClass = (column) => [column.long ? "long" : column.text ? "" : "num", column.wide ? "wide" : ""].filter(Boolean).join(" ") || null;
function sortTable(name, label, columns, rows, start, empty = "Nothing to show.") {
  let sort = start;
  const body = el("tbody");
  const heads = columns.map((column) => el("th", { scope: "col", class: columnClass({ ...column, long: false }), "data-column": column.id },
    el("button", { type: "button", title: column.meaning, on: { click: () => { sort = { id: column.id, down: sort.id === column.id ? !sort.down : !column.text && column.better !== "low" }; draw(); } } }, column.title)));
  const ordered = () => {
    const value = columns.find((column) => column.id === sort.id).value;
    return [...rows].sort((a, b) => {
      const one = value(a), two = value(b);
      if (none(one) || none(two)) return none(one) - none(two);
      return (one < two ? -1 : one > two ? 1 : 0) * (sort.down ? -1 : 1);
    });
  };
  function draw() {
    heads.forEach((head) => head.setAttribute("aria-sort", head.dataset.column === sort.id ? (sort.down ? "descending" : "ascending") : "none"));
    body.replaceChildren(...ordered().map((row) => el("tr", {}, ...columns.map((column) => el("td", { class: columnClass(column) }, column.cell ? column.cell(row) : column.value(row) ?? "—")))));
  }
  draw();
  if (!rows.length) return el("p", { class: "lead" }, empty);
  return el("div", {}, region(label, el("table", {}, el("caption", { class: "unseen" }, label), el("thead", {}, el("tr", {}, ...heads)), body)),
    downloads(name, () => ({ columns: columns.map((column) => column.id), rows: ordered().map((row) => columns.map((column) => column.value(row))) })));
}
