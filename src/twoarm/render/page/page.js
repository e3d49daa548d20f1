// Draws the charts, and sorts a table by the column whose button was pressed.
const parts = JSON.parse(document.getElementById("charts").textContent);
const narrow = matchMedia("(max-width: 640px)").matches;
const config = { ...parts.config };
if (narrow) {
  config.axisY = { ...config.axisY, labelLimit: 130 };
  config.axis = { ...config.axis, tickCount: 4 };
}

// Less room for names: the axis shows shorter ones, a hint still has the whole label.
function fitted(spec) {
  const labels = spec.usermeta?.labels ?? [];
  if (!narrow || !labels.length) return spec;
  const [whole, short] = [0, 1].map((at) => JSON.stringify(labels.map((pair) => pair[at])));
  const labelExpr = `${short}[indexof(${whole}, datum.value)]`;
  for (const { encoding } of spec.layer) {
    if (encoding.y?.scale?.domain) encoding.y.axis = { ...encoding.y.axis, labelExpr };
  }
  return spec;
}

async function drawAll() {
  for (const [name, spec] of Object.entries(parts.charts)) {
    const place = document.getElementById(`chart-${name}`);
    // Vega gives its element a role of its own, which would hide the text of the place.
    const inner = document.createElement("div");
    inner.setAttribute("aria-hidden", "true");
    place.append(inner);
    try {
      // `ast` makes Vega interpret expressions, so that the page can forbid eval.
      await vegaEmbed(inner, fitted(spec), {
        mode: "vega-lite",
        ast: true,
        actions: false,
        renderer: "svg",
        defaultStyle: false,
        tooltip: { disableDefaultStyle: true },
        config,
      });
      place.dataset.drawn = "";
    } catch (error) {
      place.textContent = "This chart could not be drawn; the text and the tables say the same.";
      console.error(error);
    }
  }
  document.body.dataset.ready = String(Math.round(performance.now()));
}

function sortBy(button) {
  const head = button.closest("th");
  const table = head.closest("table");
  const column = head.cellIndex;
  const down = head.getAttribute("aria-sort") === "ascending";
  const body = table.tBodies[0];
  const key = (row) => row.cells[column].dataset.key;
  const compare = (a, b) => {
    const [left, right] = [key(a), key(b)];
    // What was not measured stays at the end, whichever way the others are sorted.
    if (left === undefined || right === undefined) {
      return (left === undefined) - (right === undefined);
    }
    const order = head.className === "number" ? left - right : left.localeCompare(right);
    return down ? -order : order;
  };
  const rows = [...body.rows].sort(compare);
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows);
}

for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => sortBy(button));
}
drawAll();
