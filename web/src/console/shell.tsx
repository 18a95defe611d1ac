// The frame of the console: who is signed in, the menu with what waits, the search, and the place that is shown.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Summary } from "roamcard";
import { texts } from "../lib/text.js";
import { ApprovalsPlace } from "./approvals.js";
import { AuditPlace } from "./audit.js";
import { CancellationsPlace, ClosingsPlace, FeesPlace } from "./cards.js";
import { BooksPlace, FindingsPlace, TransfersPlace } from "./books.js";
import { GaugesPlace } from "./gauges.js";
import { JobsPlace, SwitchesPlace } from "./jobs.js";
import { letters, useKeys } from "./keys.js";
import { OrderPlace } from "./order.js";
import { OrdersPlace } from "./orders.js";
import { type Act, Ago, Dialog } from "./parts.js";
import { found, hrefOf, type Place, places, type Route, routeOf } from "./route.js";
import type { Session, Signed } from "./session.js";
import { t } from "./text.js";
import { useWatch, type Watched } from "./watch.js";

/** What every place is given. */
export interface Here extends Signed {
  route: Route;
  watched: Watched;
  /** Rises when everything is to be read again. */
  turn: number;
  /** Asks before something is done, then reads again. */
  ask: (act: Act) => void;
  /** Says what was done. */
  say: (text: string) => void;
  again: () => void;
}

export function Shell({ signed, session }: { signed: Signed; session: Session }) {
  const route = useRoute();
  const orderId = route.place === "orders" ? route.of : undefined;
  const watched = useWatch(signed.api, orderId);
  const [turn, setTurn] = useState(0);
  const [act, setAct] = useState<Act>();
  const [said, setSaid] = useState("");
  const [help, setHelp] = useState(false);
  const [letterKeys, setLetterKeys] = useState(true);
  const [menu, setMenu] = useState(false);
  const main = useRef<HTMLElement>(null);
  const again = useCallback(() => setTurn((n) => n + 1), []);
  const showHelp = useCallback(() => setHelp(true), []);
  useKeys({ on: letterKeys, help: showHelp, refresh: again });
  const title = t.places[route.place];
  const at = `${route.place} ${route.of ?? ""}`;
  useEffect(() => {
    document.title = texts.documentTitle(title);
    setMenu(false);
    setSaid("");
    main.current?.focus();
  }, [at]);
  const here: Here = { ...signed, route, watched, turn, ask: setAct, say: setSaid, again };
  const closed = (done?: string) => {
    setAct(undefined);
    if (done === undefined) return;
    setSaid(done);
    again();
    watched.look();
  };
  return (
    <div class="console">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        {t.skip}
      </a>
      <header class="bar">
        <span class="brand">
          roamcard <span class="soft">{t.console}</span>
        </span>
        <button type="button" class="menu" aria-expanded={menu} aria-controls="menu" onClick={() => setMenu(!menu)}>
          {t.menu}
        </button>
      </header>
      <div id="menu" class={menu ? "side open" : "side"}>
        <Menu route={route} summary={watched.summary} />
        <Person signed={signed} session={session} watched={watched} help={showHelp} />
      </div>
      <main id="main" ref={main} tabIndex={-1}>
        <div class="top">
          <Search say={setSaid} />
          <button type="button" class="quiet" onClick={again}>
            {t.refresh}
          </button>
        </div>
        <p class={said ? "said" : "hidden"} role="status">
          {said}
        </p>
        <Shown here={here} />
      </main>
      {act && <Dialog act={act} close={closed} reread={again} />}
      {help && <Help close={() => setHelp(false)} on={letterKeys} turn={setLetterKeys} />}
    </div>
  );
}

function Shown({ here }: { here: Here }) {
  switch (here.route.place) {
    case "orders":
      return here.route.of === undefined ? <OrdersPlace here={here} /> : <OrderPlace here={here} id={here.route.of} />;
    case "approvals":
      return <ApprovalsPlace here={here} />;
    case "transfers":
      return <TransfersPlace here={here} />;
    case "findings":
      return <FindingsPlace here={here} />;
    case "books":
      return <BooksPlace here={here} />;
    case "fees":
      return <FeesPlace here={here} />;
    case "closings":
      return <ClosingsPlace here={here} />;
    case "cancellations":
      return <CancellationsPlace here={here} />;
    case "jobs":
      return <JobsPlace here={here} />;
    case "switches":
      return <SwitchesPlace here={here} />;
    case "gauges":
      return <GaugesPlace here={here} />;
    case "audit":
      return <AuditPlace here={here} />;
  }
}

function useRoute(): Route {
  const [route, setRoute] = useState(() => routeOf(location.hash));
  useEffect(() => {
    const moved = () => setRoute(routeOf(location.hash));
    addEventListener("hashchange", moved);
    moved(); // one may have gone on before this listened
    return () => removeEventListener("hashchange", moved);
  }, []);
  return route;
}

/** How many wait at a place. */
export function waiting(place: Place, summary: Summary | undefined): number {
  if (!summary) return 0;
  const stopped = (kind?: string) =>
    sum(summary.stoppedJobs.filter((each) => kind === undefined || each.kind === kind));
  switch (place) {
    case "orders":
      return sum(summary.orders.filter(({ status }) => status === "operator_review"));
    case "transfers":
      return summary.openTransfers;
    case "findings":
      return summary.openFindings;
    case "fees":
      return stopped("card_issue_fee");
    case "closings":
      return stopped("card_close");
    case "cancellations":
      return stopped("esim_cancel");
    case "jobs":
      return stopped();
    default:
      return 0;
  }
}

function sum(counts: { count: number }[]): number {
  return counts.reduce((n, { count }) => n + count, 0);
}

function Menu({ route, summary }: { route: Route; summary: Summary | undefined }) {
  return (
    <nav aria-label={t.menu}>
      <ul>
        {places.map((place) => {
          const count = waiting(place, summary);
          return (
            <li key={place}>
              <a href={hrefOf(place)} aria-current={route.place === place ? "page" : undefined}>
                <span>{t.places[place]}</span>
                {count > 0 && (
                  <span class="count">
                    {count}
                    <span class="hidden"> {t.waiting}</span>
                  </span>
                )}
                <kbd aria-hidden="true">g {letters[place]}</kbd>
              </a>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

interface PersonProps {
  signed: Signed;
  session: Session;
  watched: Watched;
  help: () => void;
}

function Person({ signed: { me }, session, watched, help }: PersonProps) {
  const { at, lost } = watched;
  return (
    <section class="person" aria-label={t.you}>
      <p class={lost ? "live lost" : "live"}>
        {lost ? t.lost : at === undefined ? t.loading : t.live}
        {lost && at !== undefined && (
          <>
            {" "}
            <Ago at={new Date(at).toISOString()} />
          </>
        )}
      </p>
      <p>
        <strong>{me.operator}</strong>
        {me.role && <span class="soft"> · {t.roles[me.role as keyof typeof t.roles] ?? me.role}</span>}
      </p>
      <div class="buttons">
        <button type="button" class="quiet" onClick={help}>
          {t.shortcuts}
        </button>
        <button type="button" class="quiet" onClick={() => session.end("signed-out")}>
          {t.signOut}
        </button>
      </div>
    </section>
  );
}

function Search({ say }: { say: (text: string) => void }) {
  const [text, setText] = useState("");
  const search = (event: Event) => {
    event.preventDefault();
    const where = found(text);
    if (where === undefined) return say(text.trim() === "" ? "" : t.notFound);
    location.hash = where;
    setText("");
  };
  return (
    <form role="search" onSubmit={search}>
      <label class="hidden" for="search">
        {t.search}
      </label>
      <input
        id="search"
        type="search"
        placeholder={t.search}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </form>
  );
}

interface HelpProps {
  close: () => void;
  on: boolean;
  turn: (on: boolean) => void;
}

function Help({ close, on, turn }: HelpProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="help" onCancel={close}>
      <h2 id="help">{t.shortcuts}</h2>
      <dl class="keys">
        {Object.entries(t.keys).map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
        {places.map((place) => (
          <div key={place}>
            <dt>
              <kbd>g {letters[place]}</kbd>
            </dt>
            <dd>{t.places[place]}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={on} onChange={(event) => turn(event.currentTarget.checked)} />
        {t.keysOn}
      </label>
      <div class="buttons">
        <button type="button" class="main" onClick={close}>
          {t.close}
        </button>
      </div>
    </dialog>
  );
}
