// Copies what is typed. No sign "less than" may stand before a letter or a slash, as in pictures.js.
(() => {
  if (window.pyrometerCopying) return;
  window.pyrometerCopying = true;

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
})();
