// Chapter 8's explorers: the formulas of mgpu_helpers.scaling (curves, collectives.costs, bill), and what they draw.
const Explorer = {
  // Seconds of a ring over k devices: 2(k-1) messages of a k-th each.
  ring: (devices, bytes, { latency, bandwidth }) =>
    2 * (devices - 1) * (latency + bytes / devices / bandwidth),

  // One step with the batch on each device: the allreduce hides behind the backward pass.
  step(choice, batch, devices, { work, flops, valueBytes }) {
    const forward = (batch * work * choice.parameters) / flops;
    const backward = 2 * forward;
    const communication = Explorer.ring(devices, valueBytes * choice.parameters, choice);
    const exposed = Math.max(0, communication - backward);
    return { forward, backward, communication, exposed, seconds: forward + backward + exposed };
  },

  // Speed-ups: with so many examples on each device, and with as many in all as the chosen devices have.
  scaling(choice, constants) {
    const { devices, batch } = choice,
      whole = batch * devices;
    const seconds = (examples, k) => Explorer.step(choice, examples, k, constants).seconds;
    const counts = [];
    for (let k = 1; k <= constants.most; k *= 2) counts.push(k);
    const weak = counts.map((k) => [k, (k * seconds(batch, 1)) / seconds(batch, k)]);
    const shared = counts.filter((k) => k <= whole);
    const strong = shared.map((k) => [k, seconds(whole, 1) / seconds(Math.ceil(whole / k), k)]);
    const speedup = (devices * seconds(batch, 1)) / seconds(batch, devices);
    return { weak, strong, speedup, ...Explorer.step(choice, batch, devices, constants) };
  },

  // Hours of GPUs: for the tokens, for those that a larger batch needs more, and for failures.
  bill({ parameters, tokens, gpus, mfu, critical, price }, { peak, betweenFailures }) {
    const hours = (number) => (6 * parameters * number) / (mfu * peak) / 3600;
    const training = hours(tokens),
      needed = hours(tokens * (1 + (16384 * gpus) / critical));
    const save = 1 / 60,
      restart = 1 / 6,
      between = betweenFailures / gpus;
    const every = Math.sqrt(2 * save * between);
    const lost = save / every + (every / 2 + restart) / between;
    const total = needed * (1 + lost);
    return {
      training,
      larger: needed - training,
      failures: total - needed,
      total,
      days: total / gpus / 24,
      money: total * price,
    };
  },
};

{
  const { make, text, box } = Moving;

  // As display.quantity and display.percent write them.
  const three = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
  const quantity = (value, unit) => {
    const power = value ? Math.min(Math.max(Math.floor(Math.log10(Math.abs(value)) / 3), -2), 4) : 0;
    return `${three(value / 1000 ** power)} ${["µ", "m", "", "k", "M", "G", "T"][power + 2]}${unit}`.trim();
  };
  const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.095 ? 1 : 0)}%`;

  const count = (value) => {
    const names = Object.entries({ trillion: 1e12, billion: 1e9, million: 1e6 });
    const [name, size] = names.find(([, size]) => value >= size) ?? ["", 1];
    return `${three(value / size)} ${name}`.trim();
  };
  const writes = { count, share: percent, money: (value) => value.toFixed(2) };
  const write = (value, unit) =>
    writes[unit]?.(value) ?? (unit ? quantity(value, unit) : value.toLocaleString("en"));

  // Two curves by devices, whose number doubles from tick to tick, and the chosen point.
  const panel = (svg, left, top, width, height, title, curves, chosen, most, y) => {
    const x = (k) => left + 46 + (Math.log2(k) / Math.log2(most)) * (width - 68);
    const across = ([k, value]) => `${x(k)} ${top + 28 + (1 - y.place(value)) * (height - 66)}`;
    svg.append(text(left, top + 13, title, "moving-bold", "start"));
    for (const [value, words] of y.ticks) {
      const at = top + 28 + (1 - y.place(value)) * (height - 66);
      svg.append(make("path", { d: `M${left + 46} ${at}H${left + width - 22}`, class: "moving-grid" }));
      svg.append(text(left + 40, at + 4, words, "moving-small", "end"));
    }
    for (let k = 1; k <= most; k *= 8)
      svg.append(text(x(k), top + height - 20, k.toLocaleString("en"), "moving-small"));
    svg.append(text((x(1) + x(most)) / 2, top + height - 4, "devices", "moving-small"));
    svg.append(
      make("path", {
        d: `M${across([1, y.ideal(1)])}L${across([most, y.ideal(most)])}`,
        class: "moving-ideal",
      }),
    );
    curves.forEach((curve, i) =>
      svg.append(make("path", { d: `M${curve.map(across).join("L")}`, class: `moving-curve${i}` })),
    );
    const [cx, cy] = across(chosen).split(" ");
    svg.append(make("circle", { cx, cy, r: 5.5, class: "moving-dot" }));
  };

  const bars = (svg, y, width, total, parts) => {
    for (const [row, from, size, look, words] of parts) {
      const left = 72 + (from / total) * (width - 74),
        wide = (size / total) * (width - 74);
      svg.append(box(left, y + 30 * row, wide, 24, look));
      if (wide > 7.2 * words.length)
        svg.append(text(left + wide / 2, y + 30 * row + 16.5, words, `${look}-text`));
    }
  };

  const drawScaling = (found, choice, { most }, width) => {
    const wide = width > 540,
      size = wide ? width / 2 : width,
      height = 230,
      below = wide ? height : 2 * height;
    const svg = Moving.canvas(width, below + 84, "Speed-up and efficiency by devices, and one step");
    const { weak, strong, speedup, forward, backward, communication, exposed, seconds } = found;
    const least = Math.log2(Math.min(0.7, ...[...weak, ...strong].map(([, value]) => value)));
    const logarithm = (value) => (Math.log2(value) - least) / (Math.log2(most) - least);
    const faster = {
      place: logarithm,
      ideal: (k) => k,
      ticks: [1, 8, 64, 512, 4096].map((k) => [k, k.toLocaleString("en")]),
    };
    panel(
      svg,
      0,
      0,
      size,
      height,
      "Speed-up over one device",
      [weak, strong],
      [choice.devices, speedup],
      most,
      faster,
    );
    const shares = [weak, strong].map((curve) => curve.map(([k, value]) => [k, value / k]));
    const share = {
      place: (value) => value,
      ideal: () => 1,
      ticks: [0, 0.5, 1].map((part) => [part, percent(part)]),
    };
    const at = wide ? [size, 0] : [0, height];
    panel(
      svg,
      ...at,
      size,
      height,
      "Efficiency: speed-up per device",
      shares,
      [choice.devices, speedup / choice.devices],
      most,
      share,
    );
    const hidden = communication - exposed,
      end = seconds - exposed;
    svg.append(text(0, below + 41, "compute", "", "start"), text(0, below + 71, "allreduce", "", "start"));
    svg.append(text(0, below + 13, `One step: ${quantity(seconds, "s")}`, "moving-bold", "start"));
    bars(svg, below + 24, width, seconds, [
      [0, 0, forward, "moving-part", "forward"],
      [0, forward, backward, "moving-done", "backward"],
      [1, end - hidden, hidden, "moving-hidden", "hidden"],
      [1, end, exposed, "moving-open", "not hidden"],
    ]);
    return svg;
  };

  const sayScaling = ({ speedup, communication, exposed, seconds }, { devices, batch }) => {
    const many = devices.toLocaleString("en"),
      step = `a step takes ${quantity(seconds, "s")}`;
    const sent = `its allreduce ${quantity(communication, "s")}, of which ${quantity(exposed, "s")} are not hidden`;
    const curves = `${batch.toLocaleString("en")} on each (solid), ${(batch * devices).toLocaleString("en")} in all (dotted), ideal (dashed)`;
    const faster = `${many} devices are ${three(speedup)} times as fast as one, ${percent(speedup / devices)} efficiency`;
    return `${devices > 1 ? `${faster}; ${step}, ${sent}` : `One device: ${step}`}. Curves: ${curves}.`;
  };

  const drawBill = ({ training, larger, failures, total }, choice, constants, width) => {
    const svg = Moving.canvas(width, 96, "Hours of GPUs");
    const parts = [
      ["training", training, "moving-done"],
      ["larger batch", larger, "moving-part"],
      ["failures", failures, "moving-open"],
    ];
    parts.forEach(([name, hours, look], i) => {
      svg.append(text(0, 18 + 32 * i, name, "", "start"));
      const left = 92 + ((i ? training + (i > 1 ? larger : 0) : 0) / total) * (width - 190),
        wide = (hours / total) * (width - 190);
      svg.append(
        box(left, 2 + 32 * i, Math.max(wide, 1.5), 24, look),
        text(left + wide + 6, 18 + 32 * i, `${count(hours)} h`, "", "start"),
      );
    });
    return svg;
  };

  const sayBill = ({ total, days, money }, { price }) =>
    `${count(total)} GPU hours, ${three(days)} days; ${count(money)} at ${write(price, "money")} an hour.`;

  const explorer = (find, draw, say) => (data, host) => {
    const { title, sliders, constants } = data;
    const choice = {},
      stage = make("div", { class: "moving-stage" });
    const words = make("p", { class: "moving-words", "aria-live": "polite" });
    const show = () => {
      const found = find(choice, constants);
      stage.replaceChildren(draw(found, choice, constants, Math.floor(stage.clientWidth)));
      words.textContent = say(found, choice);
    };
    const rows = sliders.map(({ name, label, unit, values, start }) => {
      choice[name] = values[start];
      const moved = (position) => ((choice[name] = values[position]), show());
      return Moving.slider(label, values.length - 1, start, (position) => write(values[position], unit), moved).row;
    });
    host.append(
      make("p", { class: "moving-title" }, title),
      make("div", { class: "moving-sliders" }, ...rows),
      words,
      stage,
    );
    Moving.follow(stage, show);
    // The still picture of the cell above is for paper.
    host.parentElement
      .querySelectorAll(".cell:has(+ .moving) .cell_output")
      .forEach((still) => still.classList.add("moving-still"));
    return { title };
  };
  Moving.kinds.scaling = explorer(Explorer.scaling, drawScaling, sayScaling);
  Moving.kinds.bill = explorer(Explorer.bill, drawBill, sayBill);
}
