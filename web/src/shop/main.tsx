import { render } from "preact";
import { keepFocus } from "../lib/focus.js";
import { texts } from "../lib/text.js";
import { ShopPage } from "./page.js";
import { Shop } from "./shop.js";

const place = document.querySelector("#page")!;
document.documentElement.lang = texts.lang;
document.title = texts.shop.documentTitle;
place.replaceChildren();
keepFocus();
const shop: Shop = new Shop((state) => render(<ShopPage state={state} shop={shop} />, place));
render(<ShopPage state={shop.state} shop={shop} />, place);
