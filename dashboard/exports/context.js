// Keeps what a reader chose of hardware, metric, workload and range in a cookie of this browser, and writes into
// the address what a page took from there. No sign "less than" may stand before a letter or a slash.
(() => {
  if (window.pyrometerContext) return;
  window.pyrometerContext = true;

  const YEAR_S = 365 * 24 * 3600;

  const written = (bar) => {
    const here = new URL(location.href);
    // While another page loads, this one's bar still stands.
    if (here.pathname !== bar.dataset.path || (here.searchParams.get("view") ?? "") !== bar.dataset.view) return;
    const query = new URLSearchParams(bar.dataset.added);
    const open = [...query].filter(([name]) => !here.searchParams.has(name));
    if (!open.length) return;
    open.forEach(([name, value]) => here.searchParams.append(name, value));
    history.replaceState(history.state, "", here);
  };

  const kept = (bar) => {
    const cookie = `pyrometer_context=${bar.dataset.context}`;
    document.cookie = `${cookie}; Path=/; SameSite=Lax; Max-Age=${YEAR_S}`;
  };

  const look = () => {
    const bar = document.querySelector("p[data-context]");
    if (!bar || bar.dataset.seen === location.href + bar.dataset.context) return;
    kept(bar);
    written(bar);
    bar.dataset.seen = location.href + bar.dataset.context;
  };

  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, attributeFilter: ["data-context", "data-added"] });
})();
