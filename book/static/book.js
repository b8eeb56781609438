// A figure enlarged by a tap or by its button: its labels are too small to read on a phone.
addEventListener("DOMContentLoaded", () => {
  const button = (text, label, type) =>
    Object.assign(document.createElement("button"), { textContent: text, ariaLabel: label, className: type });
  const dialog = document.createElement("dialog");
  dialog.className = "enlarged";
  dialog.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  for (const image of document.querySelectorAll(".bd-article img:not(a img)")) {
    const enlarge = () => {
      const copy = image.cloneNode();
      copy.style.width = `${Math.max(image.naturalWidth, 1.5 * innerWidth)}px`;
      dialog.replaceChildren(button("✕", "Close", "close-enlarged"), copy);
      dialog.showModal();
    };
    const open = button("⤢", "Enlarge the figure", "enlarge");
    image.after(open);
    for (const control of [image, open]) control.addEventListener("click", enlarge);
  }
});

// Which chapters were read to their end. This browser keeps it, and tells nobody.
addEventListener("DOMContentLoaded", () => {
  const name = (path) => path.split("/").slice(-2).join("/");
  const here = name(location.pathname), end = document.querySelector(".prev-next-footer");
  let read = [];
  try {
    read = JSON.parse(localStorage.getItem("read")) ?? [];
  } catch {
    return; // it keeps nothing
  }
  const mark = () => {
    for (const link of document.querySelectorAll('.bd-sidebar-primary a[href*="notebooks/"], .bd-sidebar-primary .current > a'))
      if (read.includes(name(link.pathname)) && !link.querySelector(".read"))
        link.append(Object.assign(document.createElement("span"), { className: "read", textContent: "✓ read" }));
  };
  mark();
  if (!end || !here.startsWith("notebooks/")) return;
  new IntersectionObserver((seen) => {
    if (!seen.some((one) => one.isIntersecting) || read.includes(here)) return;
    localStorage.setItem("read", JSON.stringify([...read, here]));
    read = [...read, here];
    mark();
  }).observe(end);
});

// Sphinx finds a heading only if the words searched for are at least half of it. Here a chapter's section
// whose heading has all of them comes first, in the order of the chapters, then such a figure, then their
// text; a name of the package comes after what explains it.
if (typeof Search !== "undefined") {
  Object.assign(Scorer, { objPartialMatch: 0, objPrio: {} });
  const inText = Search.performTermsSearch;
  Search.performTermsSearch = (terms, excluded) => {
    const { docnames, filenames, titles, alltitles } = Search._index;
    const found = [];
    for (const [title, places] of Object.entries(alltitles)) {
      const words = title.toLowerCase().split(/[^\p{L}\p{N}]+/u);
      if (![...terms].every((term) => words.some((word) => word.startsWith(term)))) continue;
      for (const [page, id] of places) {
        const chapter = Number((docnames[page].match(/^notebooks\/(\d+)-/) || [])[1]);
        if (!chapter || id === null) continue;
        const name = `${titles[page]} > ${title}`;
        const score = (id.startsWith("figure-") ? 200 : 300) - chapter;
        found.push([docnames[page], name, "#" + id, null, score, filenames[page], "title"]);
      }
    }
    const hits = inText(terms, excluded);
    for (const hit of hits) if (hit[0].startsWith("notebooks/")) hit[4] += 10;
    return [...found, ...hits];
  };
}

// A finger has no hover: its first touch of a term or a citation shows what a mouse would see.
let touched = false;
addEventListener("pointerdown", (event) => (touched = event.pointerType === "touch"), true);
addEventListener("click", (event) => {
  const link = event.target.closest?.("a.term, a.cite");
  if (!link || !touched) return;
  event.preventDefault();
  document.querySelector(".said")?.remove();
  const note = Object.assign(document.createElement("div"), { className: "said", popover: "auto" });
  const more = Object.assign(document.createElement("a"), { href: link.href });
  more.textContent = link.matches(".term") ? "In the glossary" : link.matches(".internal") ? "In the references" : "To the paper";
  note.setAttribute("role", "note");
  note.append(link.title, " ", more);
  document.body.append(note);
  note.showPopover();
});
