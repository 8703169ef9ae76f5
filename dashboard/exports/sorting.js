// Sorts a table by a click on the head of a column, or by Enter on it; the third time it is as it came. No sign "less
// than" may stand before a letter or a slash, as in pictures.js.
(() => {
  if (window.pyrometerSorting) return;
  window.pyrometerSorting = true;

  const HEADS = "table.py-table thead th";
  const LEAST_ROWS = 3;
  const UNITS = {
    ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400,
    B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
  };
  const NUMBERS = /([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*(ns|µs|ms|min|s|h|d|KiB|MiB|GiB|TiB|B)?(?![A-Za-z])/g;
  // These are followed by the rest of the same number: 1 h 30 min.
  const LONG = ["d", "h", "min"];
  const MOMENT = /\d{4}-\d\d-\d\d(?: \d\d:\d\d)?/;

  const number = (cell) => {
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = cell.textContent.replaceAll(",", "").replaceAll("\u2212", "-");
    const parts = [...text.matchAll(NUMBERS)];
    const end = parts.findIndex((part) => !LONG.includes(part[2]));
    const own = end === -1 ? parts : parts.slice(0, end + 1);
    return own.length ? own.reduce((sum, part) => sum + Number(part[1]) * (UNITS[part[2]] ?? 1), 0) : null;
  };

  const words = (cell) => cell.textContent.match(MOMENT)?.[0] ?? cell.textContent.trim();

  const rowsOf = (head) => [...head.closest("table").tBodies[0].rows];
  const isAble = (head) => {
    const rows = rowsOf(head);
    const wide = head.parentElement.cells.length;
    return head.textContent.trim() !== "" && rows.length >= LEAST_ROWS && rows.every((row) => row.cells.length === wide);
  };

  const byColumn = (place, numeric, down) => (a, b) => {
    const [x, y] = [a, b].map((row) => (numeric ? number : words)(row.cells[place]));
    // What has no number stays last, whichever way.
    if (x === null || y === null) return (x === null) - (y === null);
    const order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
    return down ? -order : order;
  };

  const sort = (head) => {
    const rows = rowsOf(head);
    rows.forEach((row, place) => (row.dataset.place ??= place));
    const numeric = head.classList.contains("py-number");
    // Of numbers the largest is looked for.
    const ways = numeric ? ["descending", "ascending"] : ["ascending", "descending"];
    const next = ways[ways.indexOf(head.getAttribute("aria-sort")) + 1];
    [...head.parentElement.cells].forEach((each) => each.removeAttribute("aria-sort"));
    if (next) head.setAttribute("aria-sort", next);
    const asItCame = (a, b) => a.dataset.place - b.dataset.place;
    rows.sort(next ? byColumn(head.cellIndex, numeric, next === "descending") : asItCame);
    head.closest("table").tBodies[0].append(...rows);
  };

  const pressed = (event) => {
    const head = event.target.closest?.(HEADS);
    if (!head || !isAble(head)) return;
    if (event.type === "keydown" && event.key !== "Enter") return;
    sort(head);
  };
  document.addEventListener("click", pressed);
  document.addEventListener("keydown", pressed);

  const look = () => {
    for (const head of document.querySelectorAll(`${HEADS}:not([tabindex])`)) {
      if (isAble(head)) head.tabIndex = 0;
    }
  };
  look();
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
})();
