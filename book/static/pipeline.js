// Chapter 7: the schedules of a pipeline. A backward pass takes as long as two forward passes.
Moving.kinds.pipeline = ({ title, runs, choices, start }) => {
  const spans = ({ schedule, stages, batches }) => runs[`${schedule} ${stages} ${batches}`];
  const steps = (choice) =>
    Math.max(
      ...spans(choice)
        .flat()
        .map(([, , , end]) => end),
    );
  // What each stage does in a unit of time, and how many micro-batches' activations it keeps in it.
  const doing = (choice, time) =>
    spans(choice).map((stage) => stage.find(([, , begin, end]) => begin < time && time <= end));
  const kept = (choice, time) =>
    spans(choice).map((stage) => {
      const begun = stage.filter(([kind, , begin]) => kind === "forward" && begin < time).length;
      return begun - stage.filter(([kind, , , end]) => kind === "backward" && end < time).length;
    });
  const draw = (choice, time, width) => {
    const { make, box, text, of } = Moving;
    const k = Number(choice.stages),
      left = 72,
      pitch = 44,
      high = 30,
      unit = (width - left - 2) / steps(choice);
    const svg = Moving.canvas(width, k * pitch + 20, `${choice.schedule}, time ${time} of ${steps(choice)}`);
    const held = kept(choice, time);
    spans(choice).forEach((stage, s) => {
      const y = 4 + s * pitch,
        x = (at) => left + at * unit;
      svg.append(
        text(0, y + 13, `stage ${s}`, "moving-name" + of(s), "start"),
        text(0, y + 29, `keeps ${held[s]}`, "moving-small", "start"),
      );
      svg.append(box(left, y, unit * steps(choice), high, "moving-idle"));
      for (const [kind, i, begin, end] of stage.filter((pass) => pass[2] < time)) {
        const look = kind === "forward" ? "moving-part" : "moving-done";
        const long = (Math.min(end, time) - begin) * unit,
          now = time <= end ? " moving-new" : "";
        svg.append(box(x(begin) + 0.5, y, long - 1, high, look + of(s) + now));
        if (long > 7 * String(i).length)
          svg.append(text(x(begin) + long / 2, y + 19, i, `${look}-text moving-pass`));
      }
    });
    const at = left + time * unit;
    svg.append(make("path", { d: `M${at} 0V${k * pitch - 6}`, class: "moving-now" }));
    svg.append(
      text(left, k * pitch + 14, "0", "moving-small", "start"),
      text(width - 2, k * pitch + 14, steps(choice), "moving-small", "end"),
    );
    return svg;
  };
  const say = (choice, time) => {
    if (!time) return "Before: no stage has begun.";
    const each = doing(choice, time).map(
      (pass, s) => `stage ${s} ${pass ? `${pass[0]} ${pass[1]}` : "waits"}`,
    );
    return `Time ${time} of ${steps(choice)}: ${each.join(", ")}. Micro-batches kept: ${kept(choice, time).join(", ")}.`;
  };
  const note = (choice) => {
    const all = steps(choice),
      p = Number(choice.stages),
      m = Number(choice.batches);
    const times = [...Array(all)].map((_, i) => i + 1);
    const waits = times.filter((time) => !doing(choice, time)[0]).length;
    const most = [...Array(p)].map((_, s) => Math.max(...times.map((time) => kept(choice, time)[s])));
    const idle = `Each stage waits ${waits} of ${all} units of time: (p − 1)/(m + p − 1) = ${p - 1}/${m + p - 1}.`;
    return `${idle} Kept at most: ${most.join(", ")} micro-batches. Light: forward; full colour: backward, twice as long.`;
  };
  // The first backward passes: the bubble is seen, and what is kept.
  const begin = ({ stages, batches }) => Number(stages) + Number(batches) + 2;
  return { title, choices, start, steps, draw, say, note, begin, pace: 500 };
};
