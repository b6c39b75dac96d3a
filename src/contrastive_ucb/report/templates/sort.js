for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], heads = table.tHead.rows[table.tHead.rows.length - 1].cells;
  if (body.rows.length < 2) continue;
  for (const [column, head] of [...heads].entries()) {
    const text = row => {
      const cell = row.cells[column], found = cell.dataset.value ?? cell.textContent.trim();
      return found === "\u2013" ? "" : found;
    };
    const number = word => parseFloat(word.replaceAll(",", ""));
    const order = (a, b, sign) => {
      const [x, y] = [text(a), text(b)], [v, w] = [number(x), number(y)];
      if (!x || !y) return !x - !y;
      if (isNaN(v) !== isNaN(w)) return isNaN(v) - isNaN(w);
      return sign * (isNaN(v) ? x.localeCompare(y, "en", { numeric: true }) : v - w);
    };
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => {
      const rows = [...body.rows], before = head.getAttribute("aria-sort");
      const rising = before ? before === "descending" : rows.every(row => isNaN(number(text(row))));
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      body.append(...rows.sort((a, b) => order(a, b, rising ? 1 : -1)));
    });
    head.append(button);
  }
}
