// Chapter 3: an allreduce, as mgpu_helpers.collectives counts it.

// An arrow that leaves a row at the right, and arrives at another row a little lower.
Moving.arrow = (x, from, to, reach, style) => {
  const start = from - 5,
    end = to + 5;
  const path = `M${x} ${start}C${x + reach} ${start} ${x + reach} ${end} ${x + 6} ${end}`;
  const head = `M${x} ${end}l9 -4.5v9z`;
  const mover = Moving.make("circle", { r: 5, class: "moving-mover", style: `offset-path: path("${path}")` });
  return [
    Moving.make("path", { d: path, class: style }),
    Moving.make("path", { d: head, class: "moving-head" }),
    mover,
  ];
};

Moving.kinds.allreduce = ({ title, runs }) => {
  const counts = Object.keys(runs);
  const steps = ({ devices }) => runs[devices].messages.at(-1)[0];
  const sentIn = ({ devices }, step) => runs[devices].messages.filter((message) => message[0] === step);
  const start = (k, cells) => [...Array(k)].map((_, i) => [...Array(cells)].map((_, c) => (i + 1) * (c + 1)));
  // The numbers on each device after a round: what was sent is added, or takes the place of what was there.
  const after = (choice, step) => {
    const { cells } = runs[choice.devices];
    let rows = start(Number(choice.devices), cells);
    for (let done = 1; done <= step; done++) {
      const before = rows.map((row) => [...row]);
      for (const [, source, target, first, size, add] of sentIn(choice, done)) {
        for (let c = first; c < first + size; c++)
          rows[target][c] = (add ? rows[target][c] : 0) + before[source][c];
      }
    }
    return rows;
  };
  const draw = (choice, step, width) => {
    const { box, text, of } = Moving;
    const k = Number(choice.devices),
      { cells } = runs[k];
    const narrow = width < 480,
      left = narrow ? 34 : 72,
      pitch = k > 5 ? 36 : 40,
      high = 26,
      top = 24;
    const gutter = Math.min(44 + 10 * k, 0.2 * width);
    const cell = Math.min(140, (width - left - gutter) / cells),
      right = left + cells * cell;
    const svg = Moving.canvas(
      width,
      top + k * pitch,
      `${title}: ${k} devices after round ${step} of ${steps(choice)}`,
    );
    const rows = after(choice, step),
      came = new Set();
    for (const [, , target, first, size] of sentIn(choice, step))
      for (let c = 0; c < size; c++) came.add(`${target} ${first + c}`);
    for (let c = 0; c < cells; c++) svg.append(text(left + (c + 0.5) * cell, 13, c, "moving-small"));
    svg.append(text(0, 13, "slice", "moving-small", "start"));
    rows.forEach((row, i) => {
      const y = top + i * pitch;
      svg.append(text(0, y + 18, narrow ? i : `device ${i}`, "moving-name" + of(i), "start"));
      row.forEach((value, c) => {
        const whole = ((k * (k + 1)) / 2) * (c + 1),
          own = (i + 1) * (c + 1);
        const look = value === whole ? "moving-done" : value === own ? "moving-own" : "moving-part";
        const mark = came.has(`${i} ${c}`) ? " moving-new" : "";
        svg.append(box(left + c * cell + 1.5, y + 1.5, cell - 3, high - 3, look + of(i) + mark));
        svg.append(text(left + (c + 0.5) * cell, y + 17.5, value, `${look}-text`));
      });
    });
    for (const [, source, target, , , add] of sentIn(choice, step)) {
      const [from, to] = [source, target].map((i) => top + i * pitch + high / 2);
      const reach = 14 + (Math.abs(source - target) / k) * (gutter - 8) * 1.3;
      svg.append(
        ...Moving.arrow(
          right + 4,
          from,
          to,
          Math.min(reach, (gutter - 8) * 1.33),
          add ? "moving-arrow" : "moving-arrow moving-kept",
        ),
      );
    }
    return svg;
  };
  const share = (size, cells) => {
    if (size === cells) return "the whole array";
    return size === 1 ? "one slice" : `${size} slices`;
  };
  const say = (choice, step) => {
    const { cells } = runs[choice.devices];
    if (!step) return "Before: each device has numbers of its own.";
    const sent = sentIn(choice, step);
    const each = sent.map(([, source, target, first, size]) => {
      const slices = size > 1 ? `slices ${first}–${first + size - 1}` : `slice ${first}`;
      return `${source} to ${target}${size < cells ? ` (${slices})` : ""}`;
    });
    const verb = sent.every((message) => message[5])
      ? "added"
      : sent.some((message) => message[5])
        ? "added or kept"
        : "kept";
    const number = sent.length === 1 ? "One message" : `${sent.length} messages`;
    const end = step === steps(choice) ? " All devices have the sum." : "";
    return `Round ${step} of ${steps(choice)}. ${number} of ${share(sent[0][4], cells)}, ${verb}: ${each.join(", ")}.${end}`;
  };
  const note = ({ devices }) => {
    const { cells, messages } = runs[devices],
      ports = {};
    for (const [, source, target, , size] of messages) {
      for (const port of [`out ${source}`, `in ${target}`]) ports[port] = (ports[port] || 0) + size;
    }
    const busiest = Math.max(...Object.values(ports)) / cells;
    const arrays = `${Number(busiest.toFixed(2))} ${busiest === 1 ? "array" : "arrays"}`;
    const all = `${messages.length} messages in ${steps({ devices })} rounds; the busiest port carries ${arrays} in one direction.`;
    return `${all} Solid arrow: the receiver adds what comes; dashed: it keeps it. Full colour: the finished sum.`;
  };
  const choices = [{ name: "devices", label: "Devices", values: counts }];
  return { title, choices, start: { devices: "4" }, steps, draw, say, note };
};
