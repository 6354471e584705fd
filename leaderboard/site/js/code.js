// Source text: highlighting for Python with CUDA C++ inside its strings, and line differences.
const KEYWORDS = new Set(("and as assert async await break class continue def del elif else except finally for from global if import in is lambda None nonlocal not or pass raise return True False try while with yield " +
  "auto bool char const constexpr do double enum extern float half inline int long namespace operator private public restrict short signed sizeof static struct switch template this typedef typename union unsigned using void volatile").split(" "));
const KNOWN = /^(tl|torch|triton|__\w+__|__\w+|threadIdx|blockIdx|blockDim|gridDim|atomic\w+|CudaModule|u?int\d*(_t)?|float\d|half\d?|uint4|int4)$/;
const TOKEN = /(#\s*(?:pragma|define|include|if|ifdef|ifndef|endif|else|undef)\b[^\n]*|#[^\n]*|\/\/[^\n]*|\/\*[\s\S]*?\*\/)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(\b\d[\w.]*)|([A-Za-z_]\w*)|(@\w+)/g;
// Triple-quoted strings are left open: in these files they hold CUDA, which is code to read.
function highlighted(source) {
  const parts = document.createDocumentFragment();
  let last = 0;
  for (const found of source.matchAll(TOKEN)) {
    const [text, comment, string, number, name, decorator] = found;
    const kind = comment ? (/^#\s*(pragma|define|include|if|endif|else|undef)/.test(comment) ? "hl-pre" : "hl-comment") : string ? "hl-string" : number ? "hl-number" : decorator ? "hl-pre" : KEYWORDS.has(name) ? "hl-keyword" : KNOWN.test(name) ? "hl-known" : "";
    if (!kind) continue;
    parts.append(source.slice(last, found.index), el("span", { class: kind }, text));
    last = found.index + text.length;
  }
  parts.append(source.slice(last));
  return parts;
}
function codeBlock(source, label) {
  const copy = el("button", { type: "button", class: "copy", on: { click: () => { navigator.clipboard?.writeText(source); copy.textContent = "Copied"; } } }, "Copy");
  return el("div", { class: "code" }, copy, el("pre", { tabindex: "0", role: "region", "aria-label": label }, el("code", {}, highlighted(source))));
}
// The shortest edit between two lists of lines (Myers), as [kind, line]: " " kept, "-" removed, "+" added.
function lineDiff(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  let start = 0, endA = a.length, endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA--; endB--; }
  const n = endA - start, m = endB - start, trace = [];
  let reach = new Map([[1, 0]]);
  search: for (let d = 0; d <= n + m; d++) {
    trace.push(new Map(reach));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1)) ? reach.get(k + 1) : reach.get(k - 1) + 1;
      while (x < n && x - k < m && a[start + x] === b[start + x - k]) x++;
      reach.set(k, x);
      if (x >= n && x - k >= m) break search;
    }
  }
  const middle = [];
  let x = n, y = m;
  for (let d = trace.length - 1; d >= 0 && (x > 0 || y > 0); d--) {
    const seen = trace[d], k = x - y;
    const from = k === -d || (k !== d && (seen.get(k - 1) ?? -1) < (seen.get(k + 1) ?? -1)) ? k + 1 : k - 1;
    const px = d ? seen.get(from) : 0, py = d ? px - from : 0;
    while (x > px && y > py && x > 0 && y > 0) middle.push([" ", a[start + --x]]), y--;
    if (d && x > px) middle.push(["-", a[start + --x]]);
    else if (d && y > py) middle.push(["+", b[start + --y]]);
  }
  return [...a.slice(0, start).map((line) => [" ", line]), ...middle.reverse(), ...a.slice(endA).map((line) => [" ", line])];
}
const CONTEXT = 2;
function diffBlock(before, after, label) {
  const lines = lineDiff(before, after);
  const near = lines.map((_, i) => lines.slice(Math.max(0, i - CONTEXT), i + CONTEXT + 1).some(([kind]) => kind !== " "));
  const code = el("code");
  let hidden = 0;
  const flush = () => { if (hidden) code.append(el("span", { class: "skip" }, `⋯ ${hidden} equal line${hidden > 1 ? "s" : ""}\n`)); hidden = 0; };
  lines.forEach(([kind, line], i) => {
    if (!near[i]) { hidden++; return; }
    flush();
    code.append(el("span", { class: kind === "+" ? "add" : kind === "-" ? "del" : "same" }, `${kind} ${line}\n`));
  });
  flush();
  return el("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": label }, code);
}
