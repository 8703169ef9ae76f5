// Copies what is typed. No sign "less than" may stand before a letter or a slash, as in pictures.js.
(() => {
  if (window.pyrometerCopying) return;
  window.pyrometerCopying = true;

  const SHOWN_MS = 2000;

  // Browsers keep the clipboard from pages that came unencrypted, but for this machine's own.
  const bySelection = (code) => {
    getSelection().selectAllChildren(code);
    return document.execCommand("copy");
  };

  const copied = (code) =>
    navigator.clipboard
      ? navigator.clipboard.writeText(code.textContent).then(() => true, () => bySelection(code))
      : Promise.resolve(bySelection(code));

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button.py-copy");
    const code = button?.parentElement.querySelector("pre");
    if (!code) return;
    button.textContent = (await copied(code)) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), SHOWN_MS);
  });
})();
