// What a page does in the browser besides what Streamlit does. No sign "less than" may stand before a letter or a slash:
// the page's sanitizer would drop the script.
(() => {
  if (window.pyrometer) return;
  window.pyrometer = true;

  // Shows a page once it is whole: what is made by a program that comes late would push all that stands below it. It is
  // shown after a while in any case, by the style sheet where this script is late itself; what the style sheet has shown
  // it hides again where Streamlit makes the container anew. Streamlit says that a script has ended before the last of
  // what it made is there: a page is whole once nothing changes any more, and text has its font.
  {
    const UNCHANGED_MS = 60;
    const LATE_MS = 1500;
    const all = (selector) => [...document.querySelectorAll(selector)];
    const whole = () =>
      document.querySelector('[data-testid="stApp"][data-test-script-state="notRunning"]') &&
      !document.querySelector('[data-testid="stSkeleton"]') &&
      all('[data-testid="stVegaLiteChart"]').every(
        // What is folded may be drawn only once it is opened.
        (chart) => chart.querySelector("svg.marks") || chart.closest("details:not([open])"),
      );
    const show = () => {
      document.documentElement.classList.add("py-shown");
      seen.disconnect();
    };
    const showIfWhole = async () => {
      await document.fonts.ready;
      if (whole()) show();
    };
    let soon;
    const look = () => {
      clearTimeout(soon);
      if (whole()) soon = setTimeout(showIfWhole, UNCHANGED_MS);
    };
    const seen = new MutationObserver(look);
    seen.observe(document.body, { childList: true, subtree: true, attributeFilter: ["data-test-script-state"] });
    look();
    setTimeout(show, LATE_MS);
  }

  // Saves a chart as it stands in the page. Streamlit draws charts as SVG and offers PNG only; both are made here
  // from the same drawing, with the page's background and font in the file, so that it looks alike everywhere.
  {
    const SVG = "http://www.w3.org/2000/svg";
    const XLINK = "http://www.w3.org/1999/xlink";
    const FONT = "app/static/inter-latin-wght-normal.woff2";
    const MARGIN = 16;
    const SHARPNESS = 2;
    let font;

    const asDataUrl = (blob) =>
      new Promise((done, failed) => {
        const reader = new FileReader();
        reader.onload = () => done(reader.result);
        reader.onerror = () => failed(reader.error);
        reader.readAsDataURL(blob);
      });

    // Asked for once; a chart without its font is still a chart.
    const fontFace = () => {
      font ??= fetch(new URL(FONT, document.baseURI))
        .then((answer) => answer.blob())
        .then(asDataUrl)
        .then((url) => `@font-face { font-family: Inter; font-weight: 100 900; src: url("${url}"); }`)
        .catch(() => "");
      return font;
    };

    const chartBefore = (button) => {
      let place = button.closest('[data-testid="stElementContainer"]');
      while (place) {
        const chart = place.querySelector('[data-testid="stVegaLiteChart"] svg.marks');
        if (chart) return chart;
        place = place.previousElementSibling;
      }
      return null;
    };

    const child = (name, attributes, text = "") => {
      const made = document.createElementNS(SVG, name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      made.textContent = text;
      return made;
    };

    // The legends that stand between a chart and its heading: what each key is called, and its colour.
    const legendBefore = (chart) => {
      const found = [];
      let place = chart.closest('[data-testid="stElementContainer"]')?.previousElementSibling;
      while (place && !place.querySelector("h1, h2, svg.marks")) {
        const entries = [...place.querySelectorAll(".py-legend li")].map((entry) => {
          const key = entry.querySelector(".py-key, .py-dash");
          const style = getComputedStyle(key ?? entry);
          const colour = key?.matches(".py-key") ? style.backgroundColor : style.color;
          return { words: entry.innerText.replace(/\s+/g, " ").trim(), colour };
        });
        found.unshift(...entries);
        place = place.previousElementSibling;
      }
      return found;
    };

    const ruler = document.createElement("canvas").getContext("2d");
    const clip = (words, font, width) => {
      ruler.font = font;
      if (width >= ruler.measureText(words).width) return words;
      let kept = words;
      while (kept && ruler.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
      return `${kept}…`;
    };

    // Lines of text from `top` on, one below the other, each cut where the picture ends.
    const textBlock = (lines, top, width) => {
      const made = child("g", {});
      let y = top;
      for (const { words, size, weight = 400, colour, height } of lines) {
        y += height;
        const text = clip(words, `${weight} ${size}px Inter, sans-serif`, width);
        const look = { "font-family": "Inter, sans-serif", "font-size": size, "font-weight": weight, fill: colour };
        made.append(child("text", { x: 0, y, ...look }, text));
      }
      return { made, height: y - top };
    };

    const drawing = async (chart, { about, title, subtitle }) => {
      const shown = chart.getBoundingClientRect();
      const page = getComputedStyle(document.querySelector('[data-testid="stApp"]'));
      const head = [
        { words: title || document.title, size: 16, weight: 600, colour: page.color, height: 20 },
        ...(subtitle ? [{ words: subtitle, size: 12, colour: page.color, height: 18 }] : []),
        ...legendBefore(chart).map((entry) => ({ ...entry, size: 12, weight: 600, height: 18 })),
      ];
      const { made: above, height: top } = textBlock(head, 0, shown.width);
      const address = document.querySelector(".py-pinned a")?.href ?? location.href;
      const foot = [{ words: address, size: 10, colour: page.color, height: 16 }];
      const { made: below, height: bottom } = textBlock(foot, shown.height, shown.width);
      const [over, under] = [top + MARGIN / 2, bottom];
      const [width, height] = [shown.width + 2 * MARGIN, shown.height + over + under + 2 * MARGIN];
      const copy = chart.cloneNode(true);
      copy.setAttribute("width", width);
      copy.setAttribute("height", height);
      copy.setAttribute("viewBox", `${-MARGIN} ${-MARGIN - over} ${width} ${height}`);
      for (const link of copy.querySelectorAll("a")) {
        const target = link.getAttribute("href") ?? link.getAttributeNS(XLINK, "href");
        if (target) link.setAttributeNS(XLINK, "xlink:href", new URL(target, document.baseURI).href);
      }
      above.setAttribute("transform", `translate(0, ${-over})`);
      copy.prepend(
        child("title", {}, about),
        child("style", {}, await fontFace()),
        child("rect", { x: -MARGIN, y: -MARGIN - over, width, height, fill: page.backgroundColor }),
      );
      copy.append(above, below);
      return { width, height, text: new XMLSerializer().serializeToString(copy) };
    };

    const painted = async ({ width, height, text }) => {
      const image = new Image(width, height);
      image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
      await image.decode();
      const canvas = document.createElement("canvas");
      canvas.width = Math.round(width * SHARPNESS);
      canvas.height = Math.round(height * SHARPNESS);
      const pen = canvas.getContext("2d");
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      return new Promise((done) => canvas.toBlob(done, "image/png"));
    };

    const download = (blob, name) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    };

    document.addEventListener("click", async (event) => {
      const button = event.target.closest?.("button[data-format]");
      const chart = button && chartBefore(button);
      if (!chart) return;
      const { format, name } = button.dataset;
      const made = await drawing(chart, button.dataset);
      const blob = format === "png" ? await painted(made) : new Blob([made.text], { type: "image/svg+xml" });
      download(blob, `${name}.${format}`);
    });
  }

  // Copies what is typed.
  {
    const SHOWN_MS = 2000;

    // Browsers keep the clipboard from pages that came unencrypted, but for this machine's own.
    const bySelection = (code) => {
      getSelection().selectAllChildren(code);
      return document.execCommand("copy");
    };

    const copied = (code) =>
      navigator.clipboard
        ? navigator.clipboard.writeText(code.textContent).then(() => true, () => bySelection(code))
        : Promise.resolve(bySelection(code));

    // The menu of a section stands before its table, and what it opens stands elsewhere. Rows filtered out are left out;
    // those that wait for "Show all" are copied as they would be seen.
    let menu;
    const cells = (row) => [...row.cells].map((cell) => cell.innerText.trim().replace(/\s+/g, " ")).join("\t");
    const rowsBelow = (place) => {
      const tables = [...document.querySelectorAll("table.py-table, table.py-matrix")];
      const table = tables.find((each) => place.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING);
      if (!table) return "";
      const hidden = [...table.rows].filter((row) => row.matches(".py-rest"));
      hidden.forEach((row) => row.classList.remove("py-rest"));
      const text = [...table.rows].filter((row) => !row.matches(".py-out")).map(cells).join("\n");
      hidden.forEach((row) => row.classList.add("py-rest"));
      return text;
    };
    const copyTable = async (button) => {
      const code = document.createElement("pre");
      code.textContent = menu ? rowsBelow(menu) : "";
      button.after(code);
      const done = code.textContent !== "" && (await copied(code));
      code.remove();
      button.textContent = done ? "Copied" : "No table here";
      setTimeout(() => (button.textContent = "Copy table"), SHOWN_MS);
    };

    document.addEventListener("click", async (event) => {
      menu = event.target.closest?.('[class*="st-key-menu-"]') ?? menu;
      const table = event.target.closest?.("button.py-copy-table");
      if (table) await copyTable(table);
      const button = event.target.closest?.("button.py-copy");
      const code = button?.parentElement.querySelector("pre");
      if (!code) return;
      button.textContent = (await copied(code)) ? "Copied" : "Press Ctrl+C";
      setTimeout(() => (button.textContent = "Copy"), SHOWN_MS);
    });
  }

  // Keeps what a reader chose of hardware, metric, workload and range in a cookie of this browser, and writes into
  // the address what a page took from there.
  {
    const YEAR_S = 365 * 24 * 3600;

    const written = (bar) => {
      const here = new URL(location.href);
      // While another page loads, this one's bar still stands.
      if (here.pathname !== bar.dataset.path || (here.searchParams.get("view") ?? "") !== bar.dataset.view) return;
      const query = new URLSearchParams(bar.dataset.added);
      const open = [...query].filter(([name]) => !here.searchParams.has(name));
      if (!open.length) return;
      open.forEach(([name, value]) => here.searchParams.append(name, value));
      history.replaceState(history.state, "", here);
    };

    const kept = (bar) => {
      const cookie = `pyrometer_context=${bar.dataset.context}`;
      document.cookie = `${cookie}; Path=/; SameSite=Lax; Max-Age=${YEAR_S}`;
    };

    const look = () => {
      const bar = document.querySelector("p[data-context]");
      if (!bar || bar.dataset.seen === location.href + bar.dataset.context) return;
      kept(bar);
      written(bar);
      bar.dataset.seen = location.href + bar.dataset.context;
    };

    new MutationObserver(look).observe(document.body, { childList: true, subtree: true, attributeFilter: ["data-context", "data-added"] });
  }

  // Sorts a table by a click on the head of a column, or by Enter on it; the third time it is as it came. A field
  // above a table of many rows leaves those that have every word of its text; of these the first are seen until a
  // button below is pressed.
  {
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
      const where = table.closest("[data-paged]") ? " on this page" : "";
      const many = `${sought.length ? `${fitting().length} of ` : ""}${rows.length} rows${where}`;
      if (field) field.querySelector("output").textContent = many;
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
  }

  // Comes back to where a reader was on a page. Streamlit scrolls an element, whose place no browser keeps.
  {
    const [AGAIN_MS, LONGEST_MS, HELD_MS] = [100, 10_000, 1500];
    const MOVES = ["wheel", "touchmove", "pointerdown", "keydown"];
    const main = () => document.querySelector('[data-testid="stMain"]');
    const key = () => `pyrometer_scroll ${location.pathname}${location.search}`;

    addEventListener("pagehide", () => {
      // Browsers that keep nothing for a site refuse even to be asked.
      try {
        sessionStorage.setItem(key(), main()?.scrollTop ?? 0);
      } catch {}
    });

    const place = () => {
      const [loaded] = performance.getEntriesByType("navigation");
      try {
        return loaded?.type === "navigate" ? 0 : Number(sessionStorage.getItem(key()));
      } catch {
        return 0;
      }
    };

    // The page fills up by and by, also above what is seen; a reader who moves meanwhile goes where they want.
    const wanted = place();
    let [moved, end] = [false, performance.now() + LONGEST_MS];
    MOVES.forEach((kind) => addEventListener(kind, () => (moved = true), { once: true, passive: true }));
    const step = () => {
      if (moved || performance.now() > end) return;
      const shown = main();
      if (shown) shown.scrollTop = wanted;
      if (shown && shown.scrollTop > wanted - 1) end = Math.min(end, performance.now() + HELD_MS);
      setTimeout(step, AGAIN_MS);
    };
    if (wanted > 0) step();
  }
})();
