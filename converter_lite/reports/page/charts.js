"use strict";
// Charts: BokehJS figures made from the figures of one model. Each function draws into an element and returns a promise of
// the drawn view, whose remove() takes it away again.

const Charts = (() => {
  const COLORS = { float: "#9aa7b4", local: "#2c7fb8", total: "#c8502b", ink: "#1c2733" };
  const plotting = Bokeh.Plotting;

  function newFigure(options) {
    const figure = plotting.figure({
      sizing_mode: "stretch_width", background_fill_color: "#ffffff", min_border_right: 12, ...options,
    });
    figure.toolbar.logo = null;
    for (const axis of [...figure.below, ...figure.left]) {
      axis.axis_line_color = axis.major_tick_line_color = "#8a96a3";
      axis.minor_tick_line_color = null;
      axis.axis_label_text_font_style = "normal";
      axis.major_label_text_font_size = "11px";
      axis.axis_label_text_font_size = "12px";
    }
    for (const grid of figure.center) grid.grid_line_color = "#e8ecef";
    return figure;
  }

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
      x: layers.map((_, i) => i),
      name: layers.map((layer) => layer.name),
      type: layers.map((layer) => layer.op_type),
      local: layers.map((layer) => value(layer.local)),
      total: layers.map((layer) => value(layer.accumulated)),
    } });
    const figure = newFigure({
      height: 300, tools: "pan,box_zoom,reset,save", y_axis_type: isLoss ? "log" : "linear",
      x_axis_label: "quantized layer", y_axis_label: isLoss ? "1 − cosine" : "SQNR, dB",
    });
    figure.line({ field: "x" }, { field: "total" }, { source, line_color: COLORS.total, line_width: 1.5 });
    const size = layers.length > 150 ? 5 : 7;
    const total = figure.scatter({ field: "x" }, { field: "total" }, { source, size, color: COLORS.total });
    const local = figure.scatter({ field: "x" }, { field: "local" }, { source, size, color: COLORS.local, alpha: 0.85 });
    const format = isLoss ? "{0.00e}" : "{0.0}";
    const shown = [["layer", "@name"], ["operator", "@type"], ["alone", "@local" + format], ["accumulated", "@total" + format]];
    pointed(figure, [total, local], shown);
    onChoice(figure, source, layers.map((layer) => layer.name), choose);
    return plotting.show(figure, element);
  }

  // Bytes of constants before and after, one pair of bars per layer.
  function sizes(element, layers, choose) {
    const source = new Bokeh.ColumnDataSource({ data: {
      x: layers.map((_, i) => i),
      name: layers.map((layer) => layer.name),
      before: layers.map((layer) => layer.bytes_before),
      after: layers.map((layer) => layer.bytes_after),
    } });
    const figure = newFigure({
      height: 300, tools: "pan,box_zoom,reset,save", x_axis_label: "layer with constants", y_axis_label: "bytes",
    });
    figure.left[0].formatter = new Bokeh.NumeralTickFormatter({ format: "0.[0] b" });
    const before = figure.vbar({ field: "x" }, 0.8, { field: "before" }, 0, { source, color: COLORS.float, alpha: 0.55 });
    const after = figure.vbar({ field: "x" }, 0.8, { field: "after" }, 0, { source, color: COLORS.local });
    pointed(figure, [before, after], [["layer", "@name"], ["before", "@before{0,0} bytes"], ["after", "@after{0,0} bytes"]]);
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
    figure.quad({ ...bars, fill_color: COLORS.float, fill_alpha: 0.55, line_color: null });
    const x = [], y = [];
    quantized.forEach((n, i) => {
      x.push(left[i], right[i]);
      y.push(Math.max(n, floor), Math.max(n, floor));
    });
    figure.line({ x, y, line_color: COLORS.local, line_width: 1.4 });
    for (const bound of bounds) {
      const at = { location: bound, dimension: "height", line_color: COLORS.total, line_dash: [5, 3], line_width: 1.5 };
      figure.add_layout(new Bokeh.Span(at));
    }
    return plotting.show(figure, element);
  }

  return { errors, sizes, histogram };
})();
