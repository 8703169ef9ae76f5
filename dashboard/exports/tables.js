// Sorts a table by a click on the head of a column, or by Enter on it; the third time it is as it came. A field above
// a table of many rows leaves those that have every word of its text; of these the first are seen until a button below
// is pressed. No sign "less than" may stand before a letter or a slash, as in pictures.js.
(() => {
  if (window.pyrometerTables) return;
  window.pyrometerTables = true;

  const TABLES = ".py-scroll > table.py-table";
  const HEADS = `${TABLES} > thead th`;
  const [LEAST_SORTED, MOST_UNFILTERED] = [3, 12];
  // Rows that are seen at first, on a wide screen and on a phone.
  const [FIRST_WIDE, FIRST_NARROW] = [25, 8];
  const narrow = matchMedia("(max-width: 640px)");
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

  const rowsOf = (table) => {
    const rows = [...table.tBodies[0].rows];
    rows.forEach((row, place) => (row.dataset.place ??= place));
    return rows.sort((a, b) => a.dataset.place - b.dataset.place);
  };
  const isAble = (head) => {
    const rows = [...head.closest("table").tBodies[0].rows];
    const wide = head.parentElement.cells.length;
    return head.textContent.trim() !== "" && rows.length >= LEAST_SORTED && rows.every((row) => row.cells.length === wide);
  };

  const byColumn = (place, numeric, down) => (a, b) => {
    const [x, y] = [a, b].map((row) => (numeric ? number : words)(row.cells[place]));
    // What has no number stays last, whichever way.
    if (x === null || y === null) return (x === null) - (y === null);
    const order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
    return down ? -order : order;
  };

  // A row that begins with empty cells goes on with those above, and shows them where it stands apart.
  const name = (rows, apart) => {
    let above;
    for (const row of rows) {
      const end = [...row.cells].findIndex((cell) => cell.dataset.again === undefined && cell.hasChildNodes());
      if (end === 0) above = row;
      for (const cell of above ? [...row.cells].slice(0, Math.max(end, 0)) : []) {
        cell.dataset.again = "";
        cell.replaceChildren(...(apart ? above.cells[cell.cellIndex].cloneNode(true).childNodes : []));
      }
    }
  };

  const keyOf = (table) => `${location.pathname} ${table.parentElement.getAttribute("aria-label")}`;

  // Tables whose rows a reader wants to see all, also when Streamlit shows them anew.
  const whole = new Set();
  const first = (table) => {
    // What scrolls by itself is no longer for its rows, and runs have pages of their own.
    if (whole.has(keyOf(table)) || table.closest(".py-tall")) return Infinity;
    if (narrow.matches) return FIRST_NARROW;
    return table.closest(".py-pick") ? Infinity : FIRST_WIDE;
  };
  const fold = (table, fitting) => {
    const most = first(table);
    fitting.forEach((row, place) => row.classList.toggle("py-rest", place >= most));
    const button = table.parentElement.nextElementSibling;
    if (!button?.matches(".py-whole")) return;
    button.hidden = fitting.length <= most;
    button.textContent = `Show all ${fitting.length} rows`;
  };

  const fieldOf = (table) => {
    const before = table.parentElement.previousElementSibling;
    return before?.matches(".py-filter") ? before : null;
  };

  const arrange = (table) => {
    const rows = rowsOf(table);
    const head = table.querySelector("th[aria-sort]");
    const field = fieldOf(table);
    const sought = field?.querySelector("input").value.toLowerCase().match(/\S+/g) ?? [];
    name(rows, head !== null || sought.length > 0);
    for (const row of rows) {
      const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
      row.classList.toggle("py-out", !sought.every((word) => text.includes(word)));
    }
    const fitting = () => rows.filter((row) => !row.classList.contains("py-out"));
    if (field) field.querySelector("output").textContent = `${sought.length ? `${fitting().length} of ` : ""}${rows.length} rows`;
    if (head) {
      const numeric = head.classList.contains("py-number");
      rows.sort(byColumn(head.cellIndex, numeric, head.getAttribute("aria-sort") === "descending"));
    }
    table.tBodies[0].append(...rows);
    fold(table, fitting());
  };

  const sort = (head) => {
    // Of numbers the largest is looked for.
    const ways = ["ascending", "descending"];
    if (head.classList.contains("py-number")) ways.reverse();
    const next = ways[ways.indexOf(head.getAttribute("aria-sort")) + 1];
    [...head.parentElement.cells].forEach((each) => each.removeAttribute("aria-sort"));
    if (next) head.setAttribute("aria-sort", next);
    arrange(head.closest("table"));
  };

  // What was typed stays when Streamlit shows the table anew.
  const typed = new Map();
  const addField = (table) => {
    const made = (kind, properties) => Object.assign(document.createElement(kind), properties);
    const label = table.parentElement.getAttribute("aria-label");
    const key = keyOf(table);
    const input = made("input", { type: "search", ariaLabel: `Filter ${label}`, value: typed.get(key) ?? "" });
    input.addEventListener("input", () => {
      typed.set(key, input.value);
      arrange(table);
    });
    // The table may be part of a form.
    input.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
    const field = made("div", { className: "py-filter" });
    const named = made("label", { textContent: "Filter " });
    named.append(input);
    field.append(named, made("output"));
    table.parentElement.before(field);
    const rest = made("button", { type: "button", className: "py-save py-whole" });
    rest.addEventListener("click", () => {
      whole.add(key);
      arrange(table);
      // The button is gone: the focus stays with the table.
      table.parentElement.focus({ preventScroll: true });
    });
    table.parentElement.after(rest);
    arrange(table);
  };

  const pressed = (event) => {
    const head = event.target.closest?.(HEADS);
    if (!head || !isAble(head)) return;
    if (event.type === "keydown" && event.key !== "Enter") return;
    sort(head);
  };
  document.addEventListener("click", pressed);
  document.addEventListener("keydown", pressed);

  narrow.addEventListener("change", () => [...document.querySelectorAll(TABLES)].filter(fieldOf).forEach(arrange));

  const look = () => {
    for (const head of document.querySelectorAll(`${HEADS}:not([tabindex])`)) {
      if (isAble(head)) head.tabIndex = 0;
    }
    for (const table of document.querySelectorAll(TABLES)) {
      if (table.tBodies[0].rows.length > MOST_UNFILTERED && !fieldOf(table)) addField(table);
    }
  };
  look();
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
})();
