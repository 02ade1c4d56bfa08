"use strict";
// A graph is as wide as the page. A click makes a frame as wide as the graph; a click on the topmost one shows everything
// again. A frame's data-x and data-w are of WIDTH.
const WIDTH = 1200, CHARACTER = 7.3;
const page = () => document.documentElement.clientWidth || innerWidth;

function place(frame, x, width) {
  const [rect, text] = [frame.querySelector("rect"), frame.querySelector("text")];
  const name = frame.querySelector("title").textContent.split("\n")[0];
  const letters = Math.floor(width / CHARACTER);
  rect.setAttribute("x", x);
  rect.setAttribute("width", width);
  text.setAttribute("x", Math.max(x, 0) + 3);
  text.textContent = name.length <= letters ? name : letters > 3 ? name.slice(0, letters - 2) + ".." : "";
}

function zoom(chosen) {
  const left = +chosen.dataset.x, width = +chosen.dataset.w, whole = page(), scale = whole / width;
  const base = +chosen.querySelector("rect").getAttribute("y");
  chosen.parentNode.chosen = chosen;
  for (const frame of chosen.parentNode.querySelectorAll(".frame")) {
    const x = +frame.dataset.x, w = +frame.dataset.w;
    const isAround = +frame.querySelector("rect").getAttribute("y") < base;
    const isSeen = isAround ? x <= left + 0.01 && x + w >= left + width - 0.01 : x >= left - 0.01 && x + w <= left + width + 0.01;
    frame.classList.toggle("hidden", !isSeen);
    frame.classList.toggle("around", isAround && isSeen);
    if (isSeen) place(frame, isAround ? 0 : (x - left) * scale, isAround ? whole : w * scale);
  }
}

function fit() {
  for (const text of document.querySelectorAll(".right")) text.setAttribute("x", page() - 8);
  for (const graph of document.querySelectorAll(".graph")) zoom(graph.chosen || graph.querySelector(".frame"));
}

// Marks the frames whose names match, and says how wide they are together: frames within a marked one do not count again.
function search(wanted) {
  let pattern = null;
  try {
    pattern = wanted ? new RegExp(wanted, "i") : null;
  } catch {
    document.getElementById("found").textContent = `not a regular expression: ${wanted}`;
    return;
  }
  const spans = [];
  for (const frame of document.querySelectorAll(".frame")) {
    const matches = pattern !== null && pattern.test(frame.querySelector("title").textContent.split("\n")[0]);
    frame.classList.toggle("match", matches);
    if (matches) spans.push([+frame.dataset.x, +frame.dataset.x + +frame.dataset.w]);
  }
  let covered = 0, end = 0;
  for (const [from, to] of spans.sort((a, b) => a[0] - b[0])) {
    covered += Math.max(0, to - Math.max(from, end));
    end = Math.max(end, to);
  }
  const isOne = document.querySelectorAll(".graph").length === 1;
  const share = isOne ? `, ${((100 * covered) / WIDTH).toFixed(1)} %` : "";
  document.getElementById("found").textContent = pattern ? `${spans.length} frames match${share}` : "";
}

function ask() {
  const wanted = prompt("Search for a function, by a regular expression (empty: none):", "");
  if (wanted !== null) search(wanted);
}

document.querySelectorAll(".frame").forEach((frame) => frame.addEventListener("click", () => zoom(frame)));
document.getElementById("search").addEventListener("click", ask);
addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "f") {
    event.preventDefault();
    ask();
  }
});
// Now the width is the page's, without a scroll bar. Inside of another page, where no script runs, the picture scales.
for (const name of ["width", "viewBox"]) document.documentElement.removeAttribute(name);
addEventListener("resize", fit);
fit();
