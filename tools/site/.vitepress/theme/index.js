import DefaultTheme from "vitepress/theme-without-fonts";
import Mermaid from "./Mermaid.vue";
import VersionMenu from "./VersionMenu.vue";
import "./style.css";

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) {
    app.component("Mermaid", Mermaid);
    app.component("VersionMenu", VersionMenu);
  },
};
