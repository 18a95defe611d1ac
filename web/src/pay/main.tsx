import { render } from "preact";
import { keepFocus } from "../lib/focus.js";
import { texts, unescaped } from "../lib/text.js";
import { PayFlow } from "./flow.js";
import { PayPage } from "./page.js";

const [, orderId = ""] = /\/pay\/([^/]+)$/.exec(location.pathname) ?? [];
const place = document.querySelector("#page")!;
document.documentElement.lang = texts.lang;
place.replaceChildren();
keepFocus();
const flow: PayFlow = new PayFlow(unescaped(orderId), (state) =>
  render(<PayPage state={state} flow={flow} />, place),
);
