/* Draws each round's timeline from the data in the document; again when the window or the colours change. */
"use strict";
(() => {
  const rounds = JSON.parse(document.getElementById("rounds").textContent);
  const pictures = [...document.querySelectorAll("svg[data-round]")];

  function draw() {
    for (const svg of pictures) {
      const { round, title } = svg.dataset;
      svg.removeAttribute("aria-label");
      iopDrawing.timeline(svg, rounds[round], { origin: 0, still: true, title });
    }
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(draw).observe(document.querySelector("main"));
})();
