// @ts-check
// Pins the theme a person chose before the first paint; without a choice the system's applies.
// A classic script on purpose: modules run only after the page has been parsed.
(() => {
  try {
    const theme = localStorage.getItem("rushlight.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch (error) {
    console.info("Storage is blocked, so the system's theme applies.", error);
  }
})();
