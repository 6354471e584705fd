// Routing: the part of the address after # is the deep link.
const ROUTES = {
  "": () => homeView(),
  leaderboard: (parts, query) => { readBoardHash(query); boardView(); },
  entry: (parts) => entryView(parts[1]),
  compare: (parts) => (parts.length === 3 ? compareView(parts[1], parts[2]) : compareIndex()),
  history: () => historyView(),
  problems: () => (DATA.atlas ? problemsView() : missing("This site was built without the corpus.")),
  problem: (parts) => problemView(parts[1]),
  kernels: (parts, query) => browseView(query),
  kernel: (parts) => (parts.length > 2 ? kernelView(parts[1], parts[2]) : findKernel(parts[1])),
  dataset: () => template("dataset", "Dataset"),
  submit: () => template("submit", "How to submit"),
};
const SECTIONS = { entry: "leaderboard", history: "leaderboard", problem: "problems", kernel: "kernels" };
function route() {
  turn++;
  main.removeAttribute("aria-busy");
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const name = parts[0] || (query ? "leaderboard" : "");
  document.querySelectorAll("header nav a").forEach((anchor) => anchor.removeAttribute("aria-current"));
  document.querySelector(`header nav a[data-page="${SECTIONS[name] || (Object.hasOwn(ROUTES, name) ? name : "")}"]`)?.setAttribute("aria-current", "page");
  if (Object.hasOwn(ROUTES, name)) ROUTES[name](parts, query);
  else missing(`This site has no page ${location.hash}.`);
}
document.getElementById("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme(dark ? "light" : "dark");
});
if (!DATA.atlas) document.querySelectorAll("header nav a[data-atlas]").forEach((anchor) => anchor.remove());
// The new view is where a keyboard goes on from.
window.addEventListener("hashchange", () => { route(); window.scrollTo(0, 0); main.focus({ preventScroll: true }); });
route();
