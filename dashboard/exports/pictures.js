// Saves a chart as it stands in the page. Streamlit draws charts as SVG and offers PNG only; both are made here
// from the same drawing, with the page's background and font in the file, so that it looks alike everywhere.
// No sign "less than" may stand before a letter or a slash: the page's sanitizer would drop the script.
(() => {
  if (window.pyrometerPictures) return;
  window.pyrometerPictures = true;

  const SVG = "http://www.w3.org/2000/svg";
  const XLINK = "http://www.w3.org/1999/xlink";
  const FONT = "app/static/inter-latin-wght-normal.woff2";
  const MARGIN = 16;
  const SHARPNESS = 2;
  let font;

  const asDataUrl = (blob) =>
    new Promise((done, failed) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result);
      reader.onerror = () => failed(reader.error);
      reader.readAsDataURL(blob);
    });

  // Asked for once; a chart without its font is still a chart.
  const fontFace = () => {
    font ??= fetch(new URL(FONT, document.baseURI))
      .then((answer) => answer.blob())
      .then(asDataUrl)
      .then((url) => `@font-face { font-family: Inter; font-weight: 100 900; src: url("${url}"); }`)
      .catch(() => "");
    return font;
  };

  const chartBefore = (button) => {
    let place = button.closest('[data-testid="stElementContainer"]');
    while (place) {
      const chart = place.querySelector('[data-testid="stVegaLiteChart"] svg.marks');
      if (chart) return chart;
      place = place.previousElementSibling;
    }
    return null;
  };

  const child = (name, attributes, text = "") => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };

  const drawing = async (chart, about) => {
    const shown = chart.getBoundingClientRect();
    const [width, height] = [shown.width + 2 * MARGIN, shown.height + 2 * MARGIN];
    const copy = chart.cloneNode(true);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.setAttribute("viewBox", `${-MARGIN} ${-MARGIN} ${width} ${height}`);
    for (const link of copy.querySelectorAll("a")) {
      const address = link.getAttribute("href") ?? link.getAttributeNS(XLINK, "href");
      if (address) link.setAttributeNS(XLINK, "xlink:href", new URL(address, document.baseURI).href);
    }
    const page = getComputedStyle(document.querySelector('[data-testid="stApp"]'));
    copy.prepend(
      child("title", {}, about),
      child("style", {}, await fontFace()),
      child("rect", { x: -MARGIN, y: -MARGIN, width, height, fill: page.backgroundColor }),
    );
    return { width, height, text: new XMLSerializer().serializeToString(copy) };
  };

  const painted = async ({ width, height, text }) => {
    const image = new Image(width, height);
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * SHARPNESS);
    canvas.height = Math.round(height * SHARPNESS);
    const pen = canvas.getContext("2d");
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  };

  const download = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button[data-format]");
    const chart = button && chartBefore(button);
    if (!chart) return;
    const { format, name, about } = button.dataset;
    const made = await drawing(chart, about);
    const blob = format === "png" ? await painted(made) : new Blob([made.text], { type: "image/svg+xml" });
    download(blob, `${name}.${format}`);
  });
})();
