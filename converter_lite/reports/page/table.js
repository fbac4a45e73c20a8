"use strict";
// The table of layers: sorts by a column, filters, and opens a layer under its row. Text is only ever set as text, since names come
// from a model file and may contain anything.

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const Show = {
  number: (value) => {
    if (value === null || value === undefined) return "–";
    const isSmall = value !== 0 && Math.abs(value) < 1e-3;
    return isSmall ? value.toExponential(2) : Number(value.toPrecision(4)).toString();
  },
  cosine: (errors) => (!errors || errors.cosine === null ? "–" : errors.cosine.toFixed(6)),
  decibels: (errors) => (!errors ? "–" : errors.sqnr === null ? "equal" : errors.sqnr.toFixed(1)),
  errors: (errors) => {
    if (errors.sqnr === null) return "equals the float model";
    return `cosine ${Show.cosine(errors)}, SQNR ${Show.decibels(errors)} dB, largest ${Show.number(errors.max_error)}`;
  },
  share: (share) => (share === null ? "–" : (100 * share).toFixed(1) + " %"),
  unit: { name: "bytes", bytes: 1, digits: 0 }, // the page sets its own
  size: (count) => {
    const { bytes, digits } = Show.unit;
    return count ? (count / bytes).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }) : "–";
  },
};

class LayerTable {
  static columns = [
    ["#", (layer) => layer.index, (layer) => String(layer.index)],
    ["layer", (layer) => layer.name],
    ["operator", (layer) => layer.op_type],
    ["mode", (layer) => layer.mode],
    ["bits", (layer) => layer.bits, (layer) => (layer.bits === null ? "–" : String(layer.bits))],
    ["cosine alone", (layer) => layer.local && layer.local.cosine, (layer) => Show.cosine(layer.local)],
    ["dB alone", (layer) => decibels(layer.local), (layer) => Show.decibels(layer.local)],
    ["cosine", (layer) => layer.accumulated && layer.accumulated.cosine, (layer) => Show.cosine(layer.accumulated)],
    ["dB", (layer) => decibels(layer.accumulated), (layer) => Show.decibels(layer.accumulated)],
    ["share", (layer) => layer.share, (layer) => Show.share(layer.share)],
    ["before", (layer) => layer.bytes_before, (layer) => Show.size(layer.bytes_before)],
    ["after", (layer) => layer.bytes_after, (layer) => Show.size(layer.bytes_after)],
  ];

  // element: the <table>; openLayer(layer, cell) fills the cell under an open row and returns a function that closes it.
  constructor(element, openLayer) {
    this.head = element.tHead.rows[0];
    this.body = element.tBodies[0];
    this.openLayer = openLayer;
    this.sorted = { column: 0, direction: 1 };
    this.words = "";
    this.mode = "";
    LayerTable.columns.forEach(([title, , show], column) => {
      const isSize = title === "before" || title === "after";
      const button = make("button", { type: "button", textContent: isSize ? `${Show.unit.name} ${title}` : title });
      button.addEventListener("click", () => this.sortBy(column));
      this.head.append(make("th", { scope: "col", className: show ? "number" : "" }, button));
    });
  }

  show(layers) {
    this.close();
    this.rows = new Map(layers.map((layer) => [layer.name, { layer, row: this.newRow(layer) }]));
    this.update();
  }

  newRow(layer) {
    const row = make("tr", { className: layer.mode === "float" ? "float" : "" });
    LayerTable.columns.forEach(([title, value, show]) => {
      const cell = make("td", { className: show ? "number" : "" });
      if (title === "layer") {
        const button = make("button", { type: "button", className: "name", textContent: layer.name });
        button.setAttribute("aria-expanded", "false");
        button.addEventListener("click", () => this.toggle(layer.name));
        cell.append(button);
      } else {
        cell.textContent = show ? show(layer) : value(layer);
      }
      row.append(cell);
    });
    return row;
  }

  sortBy(column) {
    const again = this.sorted.column === column;
    this.sorted = { column, direction: again ? -this.sorted.direction : 1 };
    this.update();
  }

  filter(words, mode) {
    this.words = words.trim().toLowerCase();
    this.mode = mode;
    this.update();
  }

  matches(layer) {
    if (this.mode === "quantized" ? layer.mode === "float" : this.mode && layer.mode !== this.mode) return false;
    return !this.words || [layer.name, layer.op_type, layer.reason].some((text) => text.toLowerCase().includes(this.words));
  }

  update() {
    const { column, direction } = this.sorted;
    const value = LayerTable.columns[column][1];
    [...this.head.cells].forEach((cell, i) =>
      cell.setAttribute("aria-sort", i !== column ? "none" : direction > 0 ? "ascending" : "descending"));
    const shown = [...this.rows.values()].filter(({ layer }) => this.matches(layer));
    shown.sort((a, b) => compare(value(a.layer), value(b.layer), direction) || a.layer.index - b.layer.index);
    const rows = shown.flatMap(({ layer, row }) => (this.opened && this.opened.name === layer.name ? [row, this.opened.row] : [row]));
    if (this.opened && !rows.includes(this.opened.row)) this.close();
    this.body.replaceChildren(...rows);
    this.count = shown.length;
    if (this.onCount) this.onCount(shown.length, this.rows.size);
  }

  toggle(name) {
    const isOpen = this.opened && this.opened.name === name;
    this.close();
    if (!isOpen) this.open(name);
  }

  open(name) {
    this.close();
    const { layer, row } = this.rows.get(name);
    const cell = make("td", { colSpan: LayerTable.columns.length });
    const detail = make("tr", { className: "detail" }, cell);
    row.after(detail);
    row.querySelector("button").setAttribute("aria-expanded", "true");
    this.opened = { name, row: detail, close: this.openLayer(layer, cell) };
  }

  close() {
    if (!this.opened) return;
    const { name, row, close } = this.opened;
    this.opened = null;
    close();
    row.remove();
    const known = this.rows.get(name);
    if (known) known.row.querySelector("button").setAttribute("aria-expanded", "false");
  }
}

// Layers without a value come last in both directions.
function compare(a, b, direction) {
  const missing = (value) => value === null || value === undefined;
  if (missing(a) || missing(b)) return Number(missing(a)) - Number(missing(b));
  if (a === b) return 0;
  return direction * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
}

function decibels(errors) {
  return errors ? (errors.sqnr === null ? Infinity : errors.sqnr) : null;
}
