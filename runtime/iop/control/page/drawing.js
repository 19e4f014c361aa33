/* The timeline: slots in use, stacked per provider, under the capacity line, and the line of waiters above it.
 *
 * One plain script without a need of its own: the Control Plane's page loads it with <script src>, the smoke report
 * carries its text in a <script>. It defines one global, iopDrawing, and nothing happens until that is called.
 *
 *   iopDrawing.timeline(svg, data, options)    draws into an <svg> element, replacing what is in it
 *
 *   data = {
 *     from, to,                     seconds, the ends of the time axis (any clock, the same for all)
 *     capacity,                     slots: the height of the capacity line
 *     providers: [{id, capacity}],  bottom of the stack first; index 0 gets the first colour
 *     points: [{at, inFlight: {id: n}, queued, capacity}]
 *   }                               in order of `at`; a point holds until the next one, the last until `to`. What a
 *                                   point before `from` says holds at `from`; without one, nothing is drawn before the
 *                                   first point: it is not known. An absent provider has 0 in flight. `capacity` of a
 *                                   point is optional: from there on the line is at that height.
 *   options = {                     all optional
 *     width, height,                in CSS pixels; else what the element measures, else 720 by 240
 *     origin,                       the second that the axis calls 0; else `from`
 *     zero,                         what stands at that tick instead of "0 s", such as "now"
 *     still,                        this picture is drawn once: no room is kept for a line that may grow
 *     title                         the picture's name for screen readers; else "Slots in use and waiting, over time"
 *   }
 *
 * It describes itself in words (<title>, <desc>), the legend is text, and all names are set as text, never as markup.
 * Colours are CSS custom properties of the page around it, with defaults for light and dark of their own:
 * --iop-p1 … --iop-p8 (providers), --iop-queue, --iop-ink, --iop-muted, --iop-rule, --iop-paper.
 *
 *   iopDrawing.plain(text, length)  a name that came from elsewhere, fit to be shown: control characters and marks of
 *                                   direction become visible as ⟨U+202E⟩, and what is longer than `length` is cut
 *   iopDrawing.colour(index)        the colour of the provider at `index`, as a CSS value
 */
"use strict";
globalThis.iopDrawing = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const LIGHT = {
    p1: "#2f6bd0",
    p2: "#0a8574",
    p3: "#8250c4",
    p4: "#b2491f",
    p5: "#bf3989",
    p6: "#667000",
    p7: "#00799e",
    p8: "#6e6259",
    queue: "#9a6700",
    ink: "#1b1f24",
    muted: "#57606a",
    rule: "#d8dee4",
    paper: "#ffffff",
  };
  const DARK = {
    p1: "#79a8f7",
    p2: "#45c4a8",
    p3: "#bd9bf0",
    p4: "#f0936a",
    p5: "#f088bd",
    p6: "#b9c552",
    p7: "#57c3e4",
    p8: "#bcaea3",
    queue: "#e0b13c",
    ink: "#e8eaed",
    muted: "#a0a8b3",
    rule: "#363c44",
    paper: "#1b1f24",
  };
  const SCALE = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
  const STRANGE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;
  const HUES = 8,
    LEAST = 200;
  const MARGIN = 34,
    RIGHT = 10,
    TOP = 6,
    AXIS = 22,
    ROW = 18,
    BETWEEN = 20;
  let drawn = 0;

  const paint = (name) => {
    const dark = globalThis.matchMedia && matchMedia("(prefers-color-scheme: dark)").matches;
    return `var(--iop-${name}, ${(dark ? DARK : LIGHT)[name]})`;
  };
  const colour = (index) => paint(`p${(index % HUES) + 1}`);
  const point = (code) => `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;

  function plain(text, length = 80) {
    const all = Array.from(String(text ?? "").slice(0, 4 * length));
    const shown = all.slice(0, length).map((c) => (STRANGE.test(c) ? point(c.codePointAt(0)) : c));
    return shown.join("").replace(/(\p{M}{3})\p{M}+/gu, "$1") + (all.length > length ? "\u2026" : "");
  }

  function make(tag, attributes, text) {
    const node = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  const label = (x, y, text, more) => make("text", { x, y, "font-size": 11, fill: paint("muted"), ...more }, text);
  const sum = (counts, providers) => providers.reduce((all, { id }) => all + (counts[id] || 0), 0);
  const round = (value) => Math.round(value * 10) / 10;

  /* The points inside the axis as steps {at, until, inFlight, queued, capacity}. */
  function steps({ from, to, capacity, points }) {
    const known = [];
    let height = capacity;
    for (const given of points) {
      height = given.capacity ?? height;
      if (given.at > to) break;
      const at = Math.max(from, given.at);
      while (known.length && known[known.length - 1].at >= at) known.pop();
      known.push({ at, inFlight: given.inFlight || {}, queued: given.queued || 0, capacity: height });
    }
    return known.map((step, i) => ({ ...step, until: i + 1 < known.length ? known[i + 1].at : to }));
  }

  /* An area of steps: along the tops, and back along the bottoms. */
  function area(known, x, top, bottom) {
    if (!known.length) return "";
    const along = known.map((s) => `L${x(s.at)} ${top(s)}H${x(s.until)}`).join("");
    const back = [...known]
      .reverse()
      .map((s) => `L${x(s.until)} ${bottom(s)}H${x(s.at)}`)
      .join("");
    return `M${x(known[0].at)} ${bottom(known[0])}${along}${back}Z`;
  }

  function ticks(from, to, origin, room) {
    const wanted = (to - from) / Math.max(1, room / 70);
    const step = SCALE.find((s) => s >= wanted) || Math.ceil(wanted / 3600) * 3600;
    const found = [];
    for (let n = Math.ceil((from - origin) / step - 1e-9); origin + n * step <= to + 1e-9; n += 1) found.push(n * step);
    return found;
  }

  /* Legend entries in rows; widths are estimates, since text cannot be measured before it is shown. */
  function legend(entries, width, start) {
    let x = start,
      row = 0;
    const placed = entries.map(({ text, fill }) => {
      const wide = 24 + text.length * 6.2;
      if (x > start && x + wide > width) {
        x = start;
        row += 1;
      }
      const at = { text, fill, x, row };
      x += wide;
      return at;
    });
    return { placed, height: (row + 1) * ROW };
  }

  function describe(known, providers, capacity) {
    if (!known.length) return "Nothing is known of this time.";
    const used = known.map((s) => sum(s.inFlight, providers)),
      last = known[known.length - 1];
    const most = (count) => Math.max(...known.map(count));
    const per = providers.map(
      ({ id, capacity: own }) => `${plain(id)} at most ${most((s) => s.inFlight[id] || 0)} of ${own}`,
    );
    return (
      `At most ${Math.max(...used)} of ${capacity} slots in use and ${most((s) => s.queued)} waiting; ` +
      `at the end ${used[used.length - 1]} in use and ${last.queued} waiting. ${per.join(", ")}.`
    );
  }

  function timeline(svg, data, options = {}) {
    const width = Math.max(LEAST, options.width || svg.clientWidth || 720);
    const height = Math.max(LEAST, options.height || svg.clientHeight || 240);
    const { from, to, providers } = data,
      origin = options.origin ?? from;
    const known = steps(data),
      most = Math.max(1, ...known.map((s) => s.queued));
    const highest = Math.max(1, data.capacity, ...known.map((s) => Math.max(s.capacity, sum(s.inFlight, providers))));
    const left = Math.max(MARGIN, 12 + 6.5 * String(Math.max(most, highest)).length); // room for the numbers
    const named = providers.map(({ id }, i) => ({ text: plain(id, 40), fill: colour(i) }));
    const key = legend([...named, { text: "waiting", fill: paint("queue") }], width, left);
    const floor = height - AXIS - key.height,
      share = (floor - TOP) * 0.22,
      equal = ((floor - TOP - 14 - BETWEEN) / (highest + most)) * most;
    const line = TOP + 14 + (options.still ? Math.min(share, equal) : share),
      roof = line + BETWEEN;
    const x = (at) => round(left + ((at - from) / Math.max(1e-9, to - from)) * (width - left - RIGHT));
    const y = (slots) => round(floor - (slots / highest) * (floor - roof));
    // one who waits is as high as one slot, as long as all of them fit
    const place = Math.min((floor - roof) / highest, (line - TOP - 14) / most);
    const yq = (queued) => round(line - queued * place);
    const parts = [];
    let below = () => 0;
    providers.forEach(({ id }, i) => {
      const under = below,
        over = (s) => under(s) + (s.inFlight[id] || 0);
      const d = area(
        known,
        x,
        (s) => y(over(s)),
        (s) => y(under(s)),
      );
      parts.push(make("path", { d, fill: colour(i), stroke: paint("paper"), "stroke-width": 0.75 }));
      below = over;
    });
    parts.push(
      make("path", {
        d: area(
          known,
          x,
          (s) => yq(s.queued),
          () => line,
        ),
        fill: paint("queue"),
      }),
    );
    const edge = known.map((s, i) => `${i ? "L" : "M"}${x(s.at)} ${y(s.capacity)}H${x(s.until)}`).join("");
    parts.push(
      make("path", { d: edge, fill: "none", stroke: paint("ink"), "stroke-width": 1.5, "stroke-dasharray": "5 3" }),
    );
    parts.push(...frame()); // over the areas, whose edges would hide it
    const top = known.length ? known[known.length - 1].capacity : data.capacity;
    parts.push(label(width - RIGHT, y(top) - 5, `capacity ${top}`, { "text-anchor": "end", fill: paint("ink") }));

    function frame() {
      const rule = (at) => make("path", { d: `M${left} ${at}H${width - RIGHT}`, stroke: paint("rule"), fill: "none" });
      const mark = (at, text) => label(left - 6, at + 4, text, { "text-anchor": "end" });
      const made = [
        rule(line),
        rule(floor),
        mark(yq(most), most),
        mark(y(data.capacity), data.capacity),
        mark(floor, 0),
        label(left, yq(most) - 5, "waiting"),
        label(left, roof - 5, "slots in use"),
      ];
      if (highest > data.capacity && y(data.capacity) - y(highest) > 12) made.push(mark(y(highest), highest));
      for (const second of ticks(from, to, origin, width - left - RIGHT)) {
        const at = x(origin + second),
          anchor = at > width - RIGHT - 16 ? "end" : at < left + 12 ? "start" : "middle";
        made.push(make("path", { d: `M${at} ${floor}v4`, stroke: paint("muted") }));
        const text = second === 0 && options.zero ? options.zero : `${String(second).replace("-", "\u2212")} s`;
        made.push(label(at, floor + 16, text, { "text-anchor": anchor }));
      }
      for (const { text, fill, x: at, row } of key.placed) {
        const middle = floor + AXIS + row * ROW + 9;
        made.push(make("rect", { x: at, y: middle - 5, width: 10, height: 10, rx: 2, fill }));
        made.push(label(at + 15, middle + 4, text, { fill: paint("ink") }));
      }
      return made;
    }

    const id = svg.id || `iop-timeline-${(drawn += 1)}`;
    const title = make("title", { id: `${id}-title` }, options.title || "Slots in use and waiting, over time");
    const desc = make("desc", { id: `${id}-desc` }, describe(known, providers, data.capacity));
    const own = {
      id,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-labelledby": title.id,
      "aria-describedby": desc.id,
      "font-family": "system-ui, sans-serif",
    };
    for (const [name, value] of Object.entries(own)) svg.setAttribute(name, value);
    svg.replaceChildren(title, desc, ...parts);
  }

  return Object.freeze({ timeline, plain, colour });
})();
