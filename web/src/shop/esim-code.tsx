// The code that installs an eSIM, from the answer to its payment, by its token, or for its signed-in owner.
import type { Buyer, Order } from "roamcard";
import { useEffect, useRef, useState } from "preact/hooks";
import { NoticeBox } from "../lib/parts.js";
import { texts } from "../lib/text.js";
import { useAct } from "./act.js";
import type { Delivered } from "./state.js";

const t = texts.shop;

export interface CodeProps {
  order: Order;
  /** The client that reads it. */
  client: Buyer;
  delivered?: Delivered | undefined;
}

/** Shows the code in a part of the page that no script reads. What has just come is shown at once. */
export function EsimCode({ order, delivered, client }: CodeProps) {
  const place = useRef<HTMLDivElement>(null);
  const { busy, notice, run } = useAct();
  const [over, setOver] = useState(false);
  const show = async () => {
    const { current } = place;
    if (!current) return;
    setOver(false);
    const { credentials, deliveryToken } = delivered ?? {};
    const done = await run(async (signal) => {
      const present = (await import("./presented.js")).esimPresenter(current);
      if (credentials) return present.presentEsim(credentials, signal);
      return client.esim.install(order.orderId, { present, deliveryToken, signal });
    });
    if (done) setOver(true);
  };
  useEffect(() => void (delivered && show()), []);
  return (
    <div class="stack">
      <p class="soft">{over ? t.qrHidden : t.qr}</p>
      {!busy && (
        <button class="second" onClick={() => void show()}>
          {t.showQr}
        </button>
      )}
      <div ref={place} class="secret" />
      <NoticeBox notice={notice} about={{ network: "", refused: t.impossible }} />
    </div>
  );
}
