// Pictures that move: what steps.py put into the page, one step at a time. Each kind in Moving.kinds makes
// of its data a title, what can be chosen, how many steps there are, a drawing and a sentence for each.
const Moving = {
  kinds: {},

  // An element, of HTML or of SVG, with attributes and children.
  make(tag, attributes = {}, ...children) {
    const drawn = /^(svg|g|path|rect|text|circle|line)$/.test(tag);
    const element = drawn
      ? document.createElementNS("http://www.w3.org/2000/svg", tag)
      : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  },

  // A drawing as wide as its place, so that its letters keep their size on a phone.
  canvas(width, height, label) {
    return Moving.make("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": label,
    });
  },

  text(x, y, words, style = "", anchor = "middle") {
    return Moving.make("text", { x, y, class: style, "text-anchor": anchor }, words);
  },

  // The colour of a device, as in the figures.
  of: (k) => ` d${k % 6}`,

  box(x, y, width, height, style) {
    return Moving.make("rect", { x, y, width: Math.max(width, 0), height, class: style });
  },

  // A labelled slider; `shown` gives what it says for a value.
  slider(label, most, value, shown, moved) {
    const input = Moving.make("input", { type: "range", min: 0, max: most, step: 1 });
    const output = Moving.make("output");
    const set = (position) => {
      input.value = position;
      output.textContent = shown(Number(input.value));
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.addEventListener("input", () => (set(input.value), moved(Number(input.value))));
    set(value);
    return {
      input,
      set,
      row: Moving.make("label", { class: "moving-slider" }, Moving.make("span", {}, label), input, output),
    };
  },

  // Draw again when the place gets wider or narrower.
  follow(host, draw) {
    let before = 0;
    const look = () => {
      const { width } = host.getBoundingClientRect();
      if (width && width !== before) draw((before = width));
    };
    new ResizeObserver(() => requestAnimationFrame(look)).observe(host);
  },

  // Steps with buttons, a slider, what can be chosen, and a sentence that a screen reader says.
  player(host, { title, choices, start, steps, draw, say, note, begin = () => 1, pace = 1400 }) {
    const { make } = Moving;
    const choice = { ...start };
    const stage = make("div", { class: "moving-stage" });
    const words = make("p", { class: "moving-words", "aria-live": "polite" });
    const still = make("p", { class: "moving-note" });
    let now = 0,
      timer = null;
    const go = (step) => {
      now = Math.min(Math.max(step, 0), steps(choice));
      slider.set(now);
      back.disabled = now === 0;
      next.disabled = now === steps(choice);
      show();
    };
    const show = () => {
      stage.replaceChildren(draw(choice, now, Math.floor(stage.clientWidth)));
      words.textContent = say(choice, now);
      still.textContent = note(choice);
      // What stands below stays where it is while the sentence gets shorter.
      words.style.minHeight = `${Math.max(words.offsetHeight, parseFloat(words.style.minHeight) || 0)}px`;
    };
    const stop = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
      words.setAttribute("aria-live", "polite");
    };
    const button = (label, act) => {
      const made = make("button", { type: "button" }, label);
      made.addEventListener("click", act);
      return made;
    };
    const back = button("Back", () => (stop(), go(now - 1)));
    const next = button("Next", () => (stop(), go(now + 1)));
    const play = button("Play", () => {
      if (timer) return stop();
      go(now === steps(choice) ? 0 : now + 1);
      play.textContent = "Pause";
      words.setAttribute("aria-live", "off"); // it would talk all the time
      timer = setInterval(() => (now < steps(choice) ? go(now + 1) : stop()), pace);
    });
    const slider = Moving.slider(
      "Step",
      1,
      0,
      (step) => `${step} of ${steps(choice)}`,
      (step) => (stop(), go(step)),
    );
    const chosen = choices
      .filter(({ values }) => values.length > 1)
      .map(({ name, label, values }) => {
        const options = values.map((value) => make("option", { value }, String(value)));
        const select = make("select", {}, ...options);
        select.value = choice[name];
        select.addEventListener("change", () => {
          choice[name] = select.value;
          stop();
          slider.input.max = steps(choice);
          words.style.minHeight = "";
          go(begin(choice));
        });
        return make("label", {}, label, select);
      });
    const controls = make("div", { class: "moving-controls" }, play, back, next, slider.row);
    host.append(
      make("p", { class: "moving-title" }, title),
      make("div", { class: "moving-choices" }, ...chosen),
    );
    host.append(stage, words, controls, still);
    slider.input.max = steps(choice);
    Moving.follow(stage, show);
    go(begin(choice)); // a step that says more than the beginning
  },
};

addEventListener("DOMContentLoaded", () => {
  for (const host of document.querySelectorAll(".moving")) {
    const data = JSON.parse(host.querySelector("script").textContent);
    const made = Moving.kinds[host.dataset.kind](data, host);
    host.setAttribute("role", "group");
    host.setAttribute("aria-label", made.title);
    if (made.steps) Moving.player(host, made); // an explorer has no steps
  }
});
