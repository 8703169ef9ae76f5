// Comes back to where a reader was on a page. Streamlit scrolls an element, whose place no browser keeps. No sign
// "less than" may stand before a letter or a slash, as in pictures.js.
(() => {
  if (window.pyrometerScrolling) return;
  window.pyrometerScrolling = true;

  const [AGAIN_MS, LONGEST_MS, HELD_MS] = [100, 10_000, 1500];
  const MOVES = ["wheel", "touchmove", "pointerdown", "keydown"];
  const main = () => document.querySelector('[data-testid="stMain"]');
  const key = () => `pyrometer_scroll ${location.pathname}${location.search}`;

  addEventListener("pagehide", () => {
    // Browsers that keep nothing for a site refuse even to be asked.
    try {
      sessionStorage.setItem(key(), main()?.scrollTop ?? 0);
    } catch {}
  });

  const place = () => {
    const [loaded] = performance.getEntriesByType("navigation");
    try {
      return loaded?.type === "navigate" ? 0 : Number(sessionStorage.getItem(key()));
    } catch {
      return 0;
    }
  };

  // The page fills up by and by, also above what is seen; a reader who moves meanwhile goes where they want.
  const wanted = place();
  let [moved, end] = [false, performance.now() + LONGEST_MS];
  MOVES.forEach((kind) => addEventListener(kind, () => (moved = true), { once: true, passive: true }));
  const step = () => {
    if (moved || performance.now() > end) return;
    const shown = main();
    if (shown) shown.scrollTop = wanted;
    if (shown && shown.scrollTop > wanted - 1) end = Math.min(end, performance.now() + HELD_MS);
    setTimeout(step, AGAIN_MS);
  };
  if (wanted > 0) step();
})();
