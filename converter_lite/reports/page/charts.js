"use strict";
// Charts: BokehJS figures made from the figures of one model. Each function draws into an element and returns a promise of
// the drawn view, whose remove() takes it away again.

const Charts = (() => {
  const plotting = Bokeh.Plotting;
  const MOST_NAMES = 40; // that fit under a chart
  const narrow = matchMedia("(max-width: 600px)"); // none fit
  const LONGEST_NAME = 22;

  // The colours of the style sheet, which are others in the dark.
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  function newFigure(options) {
    const figure = plotting.figure({
      sizing_mode: "stretch_width", background_fill_color: color("paper"), border_fill_color: color("paper"), outline_line_color: color("line"),
      min_border_right: 12, ...options,
    });
    figure.toolbar.logo = null;
    for (const axis of [...figure.below, ...figure.left]) {
      axis.axis_line_color = axis.major_tick_line_color = color("axis");
      axis.axis_label_text_color = axis.major_label_text_color = color("soft");
      axis.minor_tick_line_color = null;
      axis.axis_label_text_font_style = "normal";
      axis.major_label_text_font_size = "11px";
      axis.axis_label_text_font_size = "12px";
    }
    for (const grid of figure.center) grid.grid_line_color = color("grid");
    return figure;
  }

  // Numbers of the table under the chart, and the names of the layers where there is room for them.
  function nameLayers(figure, layers) {
    const axis = figure.below[0];
    if (layers.length > MOST_NAMES || narrow.matches) return;
    axis.ticker = new Bokeh.FixedTicker({ ticks: layers.map((layer) => layer.index) });
    axis.major_label_overrides = new Map(layers.map((layer) => [layer.index, `${shortened(layer.name)} ${layer.index}`]));
    axis.major_label_orientation = 0.9;
    axis.major_label_text_font_size = "10px";
    figure.height += 90;
  }

  const shortened = (name) => (name.length > LONGEST_NAME ? `…${name.slice(-LONGEST_NAME)}` : name);

  function pointed(figure, renderers, tooltips) {
    figure.add_tools(new Bokeh.HoverTool({ renderers, tooltips }));
  }

  function onChoice(figure, source, names, choose) {
    figure.add_tools(new Bokeh.TapTool());
    source.selected.change.connect(() => {
      const [index] = source.selected.indices;
      if (index !== undefined) choose(names[index]);
    });
  }

  // Errors of the layers in order. measure: "sqnr" (dB) or "loss" (1 - cosine, on a logarithmic axis).
  function errors(element, layers, measure, choose) {
    const isLoss = measure === "loss";
    const value = (errors) => {
      if (!errors) return NaN;
      if (!isLoss) return errors.sqnr === null ? NaN : errors.sqnr;
      return errors.cosine === null || errors.cosine >= 1 ? NaN : 1 - errors.cosine;
    };
    const source = new Bokeh.ColumnDataSource({ data: {
      x: layers.map((layer) => layer.index),
      name: layers.map((layer) => layer.name),
      type: layers.map((layer) => layer.op_type),
      local: layers.map((layer) => value(layer.local)),
      total: layers.map((layer) => value(layer.accumulated)),
    } });
    const figure = newFigure({
      height: 300, tools: "pan,box_zoom,reset,save", y_axis_type: isLoss ? "log" : "linear",
      x_axis_label: "layer, by its number in the table", y_axis_label: isLoss ? "1 − cosine" : "SQNR, dB",
    });
    figure.line({ field: "x" }, { field: "total" }, { source, line_color: color("total"), line_width: 1.5 });
    const size = layers.length > 150 ? 5 : 7;
    const total = figure.scatter({ field: "x" }, { field: "total" }, { source, size, color: color("total") });
    const local = figure.scatter({ field: "x" }, { field: "local" }, { source, size, color: color("local"), alpha: 0.85 });
    nameLayers(figure, layers);
    const format = isLoss ? "{0.00e}" : "{0.0}";
    const shown = [["layer", "@x @name"], ["operator", "@type"], ["alone", "@local" + format], ["accumulated", "@total" + format]];
    pointed(figure, [total, local], shown);
    onChoice(figure, source, layers.map((layer) => layer.name), choose);
    return plotting.show(figure, element);
  }

  // Size of constants before and after, one pair of bars per layer.
  function sizes(element, layers, unit, choose) {
    const digits = `0,0${unit.digits ? `.${"0".repeat(unit.digits)}` : ""}`;
    const source = new Bokeh.ColumnDataSource({ data: {
      x: layers.map((layer) => layer.index),
      name: layers.map((layer) => layer.name),
      before: layers.map((layer) => layer.bytes_before / unit.bytes),
      after: layers.map((layer) => layer.bytes_after / unit.bytes),
    } });
    const figure = newFigure({
      height: 300, tools: "pan,box_zoom,reset,save", x_axis_label: "layer, by its number in the table", y_axis_label: unit.name,
    });
    nameLayers(figure, layers);
    const before = figure.vbar({ field: "x" }, 0.8, { field: "before" }, 0, { source, color: color("float"), alpha: 0.55 });
    const after = figure.vbar({ field: "x" }, 0.8, { field: "after" }, 0, { source, color: color("local") });
    pointed(figure, [before, after], [["layer", "@x @name"], ["before", `@before{${digits}} ${unit.name}`], ["after", `@after{${digits}} ${unit.name}`]]);
    onChoice(figure, source, layers.map((layer) => layer.name), choose);
    return plotting.show(figure, element);
  }

  // What a histogram shows: its values, and the range of the grid where that is not much wider.
  function view(low, high, bounds) {
    const all = [Math.min(low, ...bounds), Math.max(high, ...bounds)];
    return all[1] - all[0] <= 2.5 * (high - low) ? all : [low, high];
  }

  // Float and quantized values of a tensor on one set of bins, with the range of its grid.
  function histogram(element, tensor) {
    const { width, first, origin, quantized } = tensor.bins;
    const left = origin.map((_, i) => (first + i) * width);
    const end = (first + origin.length) * width;
    const bounds = tensor.grid ? [tensor.grid.low, tensor.grid.high] : [];
    const [low, high] = view(left[0], end, bounds);
    const margin = (high - low) * 0.03;
    const floor = 0.6; // below one value, which a logarithmic axis needs
    const figure = newFigure({
      height: 170, tools: "", toolbar_location: null, y_axis_type: "log", y_axis_label: "values",
      x_range: [low - margin, high + margin],
      y_range: [floor, 1.6 * Math.max(1, ...origin, ...quantized)],
    });
    const right = left.map((edge) => edge + width);
    const bars = { left, right, bottom: floor, top: origin.map((n) => (n > 0 ? n : NaN)) };
    figure.quad({ ...bars, fill_color: color("float"), fill_alpha: 0.55, line_color: null });
    const x = [], y = [];
    quantized.forEach((n, i) => {
      x.push(left[i], right[i]);
      y.push(Math.max(n, floor), Math.max(n, floor));
    });
    figure.line({ x, y, line_color: color("local"), line_width: 1.4 });
    for (const bound of bounds) {
      const at = { location: bound, dimension: "height", line_color: color("total"), line_dash: [5, 3], line_width: 1.5 };
      figure.add_layout(new Bokeh.Span(at));
    }
    return plotting.show(figure, element);
  }

  return { errors, sizes, histogram };
})();
