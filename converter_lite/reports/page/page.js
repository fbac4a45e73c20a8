"use strict";
// The page: chooses a model, fills charts and table, opens layers.

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const views = { errors: null, sizes: null };
  let model = null;

  Show.unit = data.unit;
  const table = new LayerTable(at("layers"), openLayer);
  table.onCount = (shown, all) => { at("count").textContent = `${shown} of ${all} layers`; };

  function choose(index) {
    model = data.models[index];
    model.layers.forEach((layer, i) => { layer.index = i + 1; });
    for (const section of document.querySelectorAll("[data-format]")) section.hidden = section.dataset.format !== String(index);
    for (const button of document.querySelectorAll("[data-choose]"))
      button.setAttribute("aria-pressed", String(button.dataset.choose === String(index)));
    model.byName = new Map(model.tensors.map((tensor) => [tensor.name, tensor]));
    table.show(model.layers);
    drawErrors();
    drawRanking();
    drawSizes();
  }

  function drawSizes() {
    const sized = model.layers.filter((layer) => layer.bytes_before || layer.bytes_after);
    draw("sizes", at("size-chart"), (element) => Charts.sizes(element, sized, data.unit, reveal));
  }

  async function draw(kind, element, make) {
    const before = views[kind];
    views[kind] = make(element);
    if (before) (await before).remove();
    await views[kind];
  }

  function drawErrors() {
    const measured = model.layers.filter((layer) => layer.local || layer.accumulated);
    const measure = at("measure").value;
    draw("errors", at("error-chart"), (element) => Charts.errors(element, measured, measure, reveal));
    const kind = model.real_samples ? "calibration" : "random";
    at("error-note").textContent = `Measured on ${model.samples} ${kind} samples. Layers that are part of the one before them ` +
      "(a Relu behind a convolution) and layers in float have no point, nor has a result that equals the float model's.";
  }

  function drawRanking() {
    const ranked = model.layers.filter((layer) => layer.share !== null).sort((a, b) => b.share - a.share);
    const notes = {
      fallback: "Share of the output's error that is due to each layer, as measured when layers were left in float to reach the goal.",
      local: "Share of each layer in the noise that all layers add to their own outputs. It does not say how much of that reaches the outputs of the model: " +
        "a goal (target_cosine, target_error) measures that, and so does converter_lite sensitivity.",
      none: "Nothing was measured.",
    };
    at("ranking-note").textContent = notes[model.ranked_by];
    const most = ranked.length ? Math.max(ranked[0].share, 1e-12) : 1;
    at("ranking-bars").replaceChildren(...ranked.slice(0, 15).flatMap((layer) => {
      const bar = make("div", { className: "bar" });
      bar.style.width = `${Math.max((100 * layer.share) / most, 0.5)}%`;
      return [make("div", { className: "name", textContent: layer.name }), make("div", { className: "number", textContent: Show.share(layer.share) }), bar];
    }));
    const hint = at("ranking-hint");
    hint.hidden = ranked.length === 0 || model.ranked_by !== "fallback"; // advice only from what was measured at the outputs
    const worst = ranked.slice(0, 3).map((layer) => (layer.name.includes(",") ? `'${layer.name}'` : layer.name));
    hint.replaceChildren("The three that cost most at the outputs, in float: ", make("code", { textContent: `skip_quant_node=${worst.join(",")}` }));
  }

  // Opens a layer of a chart in the table.
  function reveal(name) {
    if (!table.matches(table.rows.get(name).layer)) {
      at("filter").value = at("mode").value = "";
      table.filter("", "");
    }
    table.open(name);
    table.rows.get(name).row.scrollIntoView({ block: "start", behavior: "instant" });
  }

  function openLayer(layer, cell) {
    const drawn = [];
    const facts = [["operator", layer.op_type], ["mode", layer.mode]];
    if (layer.reason) facts.push(["in float because", layer.reason]);
    for (const [title, errors] of [["alone", layer.local], ["accumulated", layer.accumulated]])
      if (errors) facts.push([title, Show.errors(errors)]);
    if (layer.mode !== "float" && !layer.inputs.length && !layer.outputs.length)
      facts.push(["note", "part of the layer before it: that one is shown with the result of both"]);
    cell.append(list(facts, "facts"));
    const cards = make("div", { className: "tensors" });
    cell.append(cards);
    for (const [role, names] of [["reads", layer.inputs], ["gives", layer.outputs]])
      for (const name of names) drawn.push(tensorCard(cards, role, model.byName.get(name)));
    return () => { for (const view of drawn) if (view) view.then((it) => it.remove()); };
  }

  function tensorCard(cards, role, tensor) {
    const kind = tensor.is_weight ? "constant" : "activation";
    const card = make("div", { className: "tensor" }, make("h4", {}, `${role} ${kind} `, make("span", { className: "name", textContent: tensor.name })));
    card.append(list(tensorFacts(tensor), ""));
    cards.append(card);
    if (!tensor.bins || tensor.minimum === tensor.maximum) return null;
    const chart = make("div", { className: "histogram" });
    const keys = [["float", "float"], ["quantized", "local"], ...(tensor.grid ? [["range of the grid", "total"]] : [])];
    card.append(chart, make("div", { className: "legend" }, ...keys.map(([text, color]) => {
      const key = make("span", { className: "key", textContent: text });
      key.style.setProperty("--color", `var(--${color})`);
      return key;
    })));
    return Charts.histogram(chart, tensor);
  }

  function tensorFacts(tensor) {
    const facts = [["shape", tensor.shape.join(" × ") || "scalar"]];
    if (tensor.minimum !== null) {
      const low = Show.number(tensor.minimum);
      facts.push(["float values", tensor.minimum === tensor.maximum ? `all ${low}` : `${low} to ${Show.number(tensor.maximum)}`]);
    }
    const grid = tensor.grid;
    if (!grid) facts.push(["grid", "stays float"]);
    else {
      facts.push(["range", `${Show.number(grid.low)} to ${Show.number(grid.high)}${grid.scales > 1 ? ", widest channel" : ""}`]);
      const scale = grid.scales > 1 ? `${grid.scales} scales, ${Show.number(grid.least_scale)} to ${Show.number(grid.largest_scale)}` : `step ${Show.number(grid.least_scale)}`;
      facts.push(["grid", `${grid.bits} bits, ${scale}, zero point ${grid.zero_point}`]);
      if (grid.scales === 1) facts.push(["clipped", `${(100 * tensor.clipped).toFixed(3)} % of the values`]);
    }
    if (tensor.errors) facts.push(["error", Show.errors(tensor.errors)]);
    return facts;
  }

  function list(facts, className) {
    return make("dl", { className }, ...facts.flatMap(([term, text]) => [make("dt", { textContent: term }), make("dd", { textContent: text })]));
  }

  for (const button of document.querySelectorAll("[data-choose]"))
    button.addEventListener("click", () => choose(Number(button.dataset.choose)));
  for (const id of ["filter", "mode"]) at(id).addEventListener("input", () => table.filter(at("filter").value, at("mode").value));
  at("measure").addEventListener("input", drawErrors);
  for (const look of ["(prefers-color-scheme: dark)", "(max-width: 600px)"])
    matchMedia(look).addEventListener("change", () => {
      drawErrors();
      drawSizes();
      if (table.opened) table.open(table.opened.name);
    });
  choose(0);
  Promise.all(Object.values(views)).then(() => { document.documentElement.dataset.ready = "true"; });
})();
