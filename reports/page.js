// A click on a heading sorts its table. Without this script the tables are in order of weight.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const headings = [...table.tHead.rows[0].cells];
  const value = (row, place) => {
    const cell = row.cells[place];
    const number = Number(cell.dataset.value ?? cell.textContent.replace(/,/g, ""));
    return Number.isNaN(number) ? null : number;
  };
  headings.forEach((heading, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const numeric = heading.classList.contains("py-number");
      const compare = (a, b) => {
        if (!numeric) return a.cells[place].textContent.localeCompare(b.cells[place].textContent) * (down ? -1 : 1);
        const [x, y] = [value(a, place), value(b, place)];
        // What has no number stays last, whichever way.
        if (x === null || y === null) return (x === null) - (y === null);
        return down ? y - x : x - y;
      };
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
    });
  });
}
