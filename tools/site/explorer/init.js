// Everything that would ask another host is turned off, and calls, for the site is not a service.
const dark = localStorage.getItem("vitepress-theme-appearance") || "auto";
const system = matchMedia("(prefers-color-scheme: dark)").matches;
const asDark = dark === "dark" || (dark === "auto" && system);
document.documentElement.classList.toggle("dark", asDark);
Scalar.createApiReference("#app", {
  url: "../openapi.json",
  servers: [{ url: "http://127.0.0.1:8402", description: "The service that `make dev` runs" }],
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  hideTestRequestButton: true,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: "never",
  hideDarkModeToggle: true,
  forceDarkModeState: asDark ? "dark" : "light",
});
