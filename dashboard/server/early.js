// Opens the page's WebSocket and asks for the page while the browser still loads the program that shows it.
//
// Streamlit's program does both once it runs, a third of a second after this. What it will say first is known:
// this says it sooner, and hands the socket over with all that came meanwhile. Where the program says anything
// else, it gets a socket of its own, on which nothing was said.
(() => {
  const Socket = window.WebSocket;
  const base = new URL("./", location.href);
  const token = document.cookie.match("\\b_streamlit_xsrf=([^;]*)\\b")?.[1];
  // Whoever comes for the first time has no cookie yet. A frame, what Streamlit calls embedding and what it
  // calls a static app have words of their own.
  if (!token || window.parent !== window || /[?&](embed|staticAppId)/.test(location.search)) return;

  const address = new URL("_stcore/stream", base);
  address.protocol = base.protocol === "https:" ? "wss:" : "ws:";
  const early = new Socket(address, ["streamlit", token]);
  early.binaryType = "arraybuffer";
  const kept = [];
  let said = null;
  let taken = false;
  let keeping = true;

  // The first to listen: while it keeps, nobody else hears of a message.
  early.addEventListener("message", (event) => {
    if (!keeping) return;
    event.stopImmediatePropagation();
    kept.push(event.data);
  });
  early.addEventListener("open", ask, { once: true });

  window.WebSocket = new Proxy(Socket, {
    construct(target, words) {
      const [url, protocols] = words;
      // Others than Streamlit may open one too.
      if (new URL(url, location.href).pathname !== address.pathname) return new target(...words);
      window.WebSocket = Socket;
      // The cookie among them changes its mask with every answer; a third would be the session before.
      if (protocols.length === 2 && early.readyState <= Socket.OPEN) return handedOver();
      early.close();
      return new target(...words);
    },
  });

  function ask() {
    if (taken) return;
    const theme = chosenTheme();
    if (!theme) return;
    said = rerun(theme);
    early.send(said);
  }

  function handedOver() {
    taken = true;
    // Once the program listens, which it does at once. No timer: those of a tab in the background wait.
    if (early.readyState === Socket.OPEN) queueMicrotask(() => early.dispatchEvent(new Event("open")));
    // Its own property, which hides the prototype's until the program has said its first words.
    early.send = (words) => {
      delete early.send;
      if (said === null) early.send(words);
      else if (!alike(words, said)) return early.close();
      queueMicrotask(tell);
    };
    return early;
  }

  function tell() {
    keeping = false;
    for (const data of kept.splice(0)) early.dispatchEvent(new MessageEvent("message", { data }));
  }

  function alike(words, other) {
    return words.length === other.length && words.every((byte, place) => byte === other[place]);
  }

  // Light or dark, as the program will have it; nothing where that cannot be told from here.
  function chosenTheme() {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    try {
      const chosen = localStorage.getItem(`stActiveTheme-${location.pathname}-v2`);
      return { null: system, '"System"': system, '"Light"': "light", '"Dark"': "dark" }[chosen];
    } catch {
      return system;
    }
  }

  // The program's first message in Streamlit's protocol: BackMsg { rerun_script: ClientState }.
  function rerun(theme) {
    const page = decodeURIComponent(location.pathname.slice(base.pathname.length));
    const query = location.search.slice(1);
    const context = [
      ...text(1, Intl.DateTimeFormat().resolvedOptions().timeZone),
      ...number(2 << 3, new Date().getTimezoneOffset()),
      ...text(3, navigator.language),
      ...text(4, location.origin + location.pathname),
      ...number(5 << 3, 0),
      ...text(6, theme),
    ];
    const state = [
      ...(query ? text(1, query) : []),
      ...bytes(2, []),
      ...(page ? text(4, page) : []),
      ...bytes(8, context),
    ];
    return new Uint8Array(bytes(11, state));
  }

  function text(field, words) {
    return bytes(field, [...new TextEncoder().encode(words)]);
  }

  function bytes(field, content) {
    return [...number((field << 3) | 2, content.length), ...content];
  }

  // A field's tag, and a number seven bits a byte, the lowest first; what is below zero as 64 bits.
  function number(tag, value) {
    const found = [tag];
    let left = BigInt.asUintN(64, BigInt(value));
    for (; left > 127n; left >>= 7n) found.push(Number(left & 127n) | 128);
    return [...found, Number(left)];
  }
})();
