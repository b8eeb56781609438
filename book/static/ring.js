// Chapter 9: keys and values go round a ring, and each rank computes the pairs that it may see.
Moving.kinds.ring = ({ title, runs, tokens, choices, start }) => {
  const run = ({ way, ranks }) => runs[`${way} ${ranks}`];
  const steps = ({ ranks }) => Number(ranks);
  const number = (value) => value.toLocaleString("en");
  // Pairs of a query and a key that a rank computes in a turn: squares, and triangles on the diagonal.
  const work = (choice) => {
    const { pieces, turns } = run(choice),
      size = tokens / pieces.flat().length;
    const pairs = (same) => (same ? (size * (size + 1)) / 2 : size * size);
    return turns.map((ranks) =>
      ranks.map((found) => found.reduce((sum, [, , same]) => sum + pairs(same), 0)),
    );
  };
  const slowest = (choice) => work(choice).map((ranks) => Math.max(...ranks));
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const visitor = (k, rank, turn) => (rank - turn + k) % k;

  const table = (svg, choice, step, left, top, side) => {
    const { make, box, text, of } = Moving;
    const { pieces, turns } = run(choice),
      n = pieces.flat().length,
      cell = side / n;
    const home = [...Array(n)].map((_, piece) => pieces.findIndex((mine) => mine.includes(piece)));
    svg.append(text(left + side / 2, top - 24, "keys of rank"));
    svg.append(
      make(
        "text",
        { transform: `translate(${left - 24} ${top + side / 2}) rotate(-90)`, "text-anchor": "middle" },
        "queries of rank",
      ),
    );
    home.forEach((rank, i) => {
      svg.append(text(left + (i + 0.5) * cell, top - 6, rank, "moving-name" + of(rank)));
      svg.append(text(left - 7, top + (i + 0.5) * cell + 4, rank, "moving-name" + of(rank), "end"));
    });
    turns.forEach((ranks, turn) => {
      const look = turn + 1 === step ? "moving-done" : turn < step ? "moving-part" : "moving-own";
      for (const [query, key, same] of ranks.flat()) {
        const x = left + key * cell + 1,
          y = top + query * cell + 1,
          c = cell - 2,
          style = look + of(home[query]);
        svg.append(
          same ? make("path", { d: `M${x} ${y}V${y + c}H${x + c}Z`, class: style }) : box(x, y, c, c, style),
        );
      }
    });
  };

  // A lane for each rank: a turn ends when the slowest has done its part.
  const lanes = (svg, choice, step, left, top, width, scale) => {
    const { make, box, text, of } = Moving,
      k = Number(choice.ranks),
      ends = [0];
    for (const longest of slowest(choice)) ends.push(ends.at(-1) + longest);
    const x = (pairs) => left + 54 + (pairs / scale) * (width - 56);
    svg.append(text(left, top - 24, "time, and whose keys are there", "", "start"));
    for (let rank = 0; rank < k; rank++) {
      const y = top - 6 + 30 * rank;
      svg.append(text(left, y + 16, `rank ${rank}`, "moving-name" + of(rank), "start"));
      work(choice)
        .slice(0, step)
        .forEach((ranks, turn) => {
          const at = x(ends[turn]);
          const whole = x(ends[turn + 1]) - at;
          const busy = x(ranks[rank]) - x(0);
          const look = turn + 1 === step ? "moving-done" : "moving-part";
          svg.append(box(at, y, whole, 24, "moving-idle"));
          if (busy) svg.append(box(at + 0.5, y, busy - 1, 24, look + of(rank)));
          const owner = visitor(k, rank, turn);
          if (whole > 9) svg.append(text(at + whole / 2, y + 16.5, owner, busy ? `${look}-text` : ""));
        });
    }
    ends
      .slice(1, step + 1)
      .forEach((end) =>
        svg.append(make("path", { d: `M${x(end)} ${top - 10}v${30 * k}`, class: "moving-now" })),
      );
  };

  const draw = (choice, step, width) => {
    const k = Number(choice.ranks),
      beside = width > 540,
      side = beside ? 280 : Math.min(width - 46, 300),
      top = 40;
    const height = beside ? Math.max(top + side, top + 30 * k) + 4 : top + side + 52 + 30 * k;
    const svg = Moving.canvas(
      width,
      height,
      `${choice.ranks} ranks, ${choice.way}, after step ${step} of ${steps(choice)}`,
    );
    // The time of pieces in order, so that the other way is seen to take less.
    const scale = sum(slowest({ way: start.longest, ranks: choice.ranks }));
    table(svg, choice, step, 40, top, side);
    lanes(
      svg,
      choice,
      step,
      ...(beside ? [40 + side + 28, top, width - side - 68] : [0, top + side + 50, width]),
      scale,
    );
    return svg;
  };
  const say = (choice, step) => {
    const k = Number(choice.ranks),
      { pieces } = run(choice);
    const has = pieces.map((mine, rank) => `rank ${rank} has ${mine.join(" and ")}`);
    const count = pieces.flat().length;
    if (!step) return `Before: queries, keys and values are in ${count} pieces; ${has.join(", ")}.`;
    const turn = step - 1,
      visits = pieces.map((_, rank) => `${rank} those of ${visitor(k, rank, turn)}`);
    const which = turn
      ? `Keys and values have gone on: rank ${visits.join(", ")}.`
      : "Each rank has its own keys and values.";
    const computed = work(choice)[turn].map(number).join("; ");
    return `Step ${step} of ${k}, turn ${turn}. ${which} Pairs computed: ${computed}.`;
  };
  const note = (choice) => {
    const turns = work(choice),
      most = sum(slowest(choice)),
      even = sum(turns.flat()) / Number(choice.ranks);
    const ideal = most === even ? ", an even share" : `; an even share would be ${number(even)}`;
    const pairs = `The slowest of each turn together compute ${number(most)} pairs${ideal}.`;
    const colours = "Full colour: this turn. Blank in the table: the mask. Grey: waiting.";
    return `${number(tokens)} tokens. ${pairs} ${colours}`;
  };
  const begin = () => 2; // keys and values have gone on
  return { title, choices, start, steps, draw, say, note, begin };
};
