// The catalogue of eSIM plans.
import type { EsimPlan } from "roamcard";
import { useMemo, useState } from "preact/hooks";
import { Message } from "../lib/parts.js";
import { dollars, texts } from "../lib/text.js";
import {
  centsPerGb, countriesOf, type Country, countryName, isCountry, isPlan, type Sort, sorted,
} from "./catalogue.js";
import { dataOf } from "./data.js";
import { Loading, type Props } from "./page.js";
import type { Shop } from "./shop.js";

const t = texts.shop;

export function EsimsView({ state, shop }: Props) {
  const { plans, config, view } = state;
  const [query, setQuery] = useState("");
  const paused = config?.esim?.purchasePaused ?? false;
  return (
    <>
      <section class="intro">
        <h1>{t.esimHero}</h1>
        <p class="lead">{t.esimText}</p>
      </section>
      {paused && <Message tone="warn" title={t.pausedTitle} text={t.pausedText} />}
      {!plans ? (
        state.away ? <Message tone="bad" title={t.catalogueAway} text="" /> : <Loading text={t.loading} />
      ) : (
        <Catalogue plans={plans} of={view.of} query={query} search={setQuery} paused={paused} shop={shop} />
      )}
    </>
  );
}

interface CatalogueProps {
  plans: EsimPlan[];
  of: string | undefined;
  query: string;
  search: (query: string) => void;
  paused: boolean;
  shop: Shop;
}

function Catalogue({ plans, of, query, search, paused, shop }: CatalogueProps) {
  const countries = useMemo(() => countriesOf(plans), [plans]);
  const regions = of === "regions";
  const code = regions ? undefined : of?.toUpperCase();
  const input = (event: { currentTarget: HTMLInputElement }) => {
    search(event.currentTarget.value);
    // Whoever searches looks through all countries.
    if (code !== undefined) location.hash = "#esims";
  };
  return (
    <>
      <div class="finder">
        <label class="field grow">
          <span>{t.search}</span>
          <input type="search" value={query} autoComplete="off" onInput={input} />
        </label>
        <div class="switch">
          <a href="#esims" aria-current={regions ? undefined : "true"}>
            {t.countries}
          </a>
          <a href="#esims/regions" aria-current={regions ? "true" : undefined}>
            {t.regions}
          </a>
        </div>
      </div>
      {regions ? (
        <Plans plans={plans.filter((p) => p.type === "region" && isPlan(query, p))} paused={paused} shop={shop} />
      ) : code !== undefined ? (
        <OfCountry code={code} plans={plans} paused={paused} shop={shop} />
      ) : (
        <Countries all={countries.filter((each) => isCountry(query, each))} chosen={() => search("")} />
      )}
    </>
  );
}

function Countries({ all, chosen }: { all: Country[]; chosen: () => void }) {
  if (all.length === 0) return <p class="soft none">{t.nothingFound}</p>;
  return (
    <ul class="countries">
      {all.map(({ code, name, from, count }) => (
        <li key={code}>
          <a href={`#esims/${code}`} onClick={chosen}>
            <span class="code" aria-hidden="true">
              {code}
            </span>
            <span class="line-text">
              <span>{name}</span>
              <small>
                {t.from(dollars(from))} · {t.plans(count)}
              </small>
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

interface PlansProps {
  plans: EsimPlan[];
  paused: boolean;
  shop: Shop;
}

function OfCountry({ code, plans, paused, shop }: PlansProps & { code: string }) {
  const here = plans.filter(({ countryCodes }) => countryCodes.includes(code));
  const own = here.filter(({ type }) => type === "country");
  const wide = here.filter(({ type }) => type === "region");
  return (
    <>
      <p>
        <a href="#esims">← {t.allCountries}</a>
      </p>
      <h2 class="country">{countryName(code)}</h2>
      <Plans plans={own} paused={paused} shop={shop} />
      {wide.length > 0 && (
        <>
          <h3>{t.regions}</h3>
          <Plans plans={wide} paused={paused} shop={shop} bare />
        </>
      )}
    </>
  );
}

function Plans({ plans, paused, shop, bare }: PlansProps & { bare?: boolean }) {
  const [by, setBy] = useState<Sort>("price");
  const [unlimited, setUnlimited] = useState(false);
  const shown = sorted(unlimited ? plans.filter((p) => p.unlimited) : plans, by);
  const hasUnlimited = plans.some((p) => p.unlimited);
  return (
    <>
      {!bare && (
        <div class="sorting">
          <label class="field line-field">
            <span>{t.sort}</span>
            <select value={by} onChange={(event) => setBy(event.currentTarget.value as Sort)}>
              <option value="price">{t.sortPrice}</option>
              <option value="data">{t.sortData}</option>
              <option value="perGb">{t.sortPerGb}</option>
            </select>
          </label>
          {hasUnlimited && (
            <label class="check">
              <input
                type="checkbox"
                checked={unlimited}
                onChange={(event) => setUnlimited(event.currentTarget.checked)}
              />
              {t.unlimitedOnly}
            </label>
          )}
        </div>
      )}
      {shown.length === 0 && <p class="soft none">{t.nothingFound}</p>}
      <ul class="plans">
        {shown.map((plan) => (
          <PlanCard key={plan.planId} plan={plan} disabled={paused} buy={() => buyPlan(shop, plan)} />
        ))}
      </ul>
    </>
  );
}

function buyPlan(shop: Shop, plan: EsimPlan): void {
  shop.sales.open({ kind: "esim", cents: plan.priceUsdCents, plan });
}

interface PlanCardProps {
  plan: EsimPlan;
  disabled: boolean;
  buy: () => void;
}

/** A plan, with what a gigabyte of it costs. Its name is its supplier's text. */
export function PlanCard({ plan, disabled, buy }: PlanCardProps) {
  const { name, validityDays, priceUsdCents, countryCodes, type, fairUse } = plan;
  const perGb = centsPerGb(plan);
  const price = dollars(priceUsdCents);
  const countries = countryCodes.map(countryName).join(", ");
  return (
    <li class="plan">
      <div class="plan-head">
        <strong class="plan-data">{dataOf(plan)}</strong>
        <span class="soft">{t.days(validityDays)}</span>
      </div>
      <p class="stranger" lang="en">
        {name}
      </p>
      {type === "region" && (
        <details class="covers">
          <summary>{t.covers(countryCodes.length)}</summary>
          <p class="soft">{countries}</p>
        </details>
      )}
      {fairUse && (
        <p class="small soft stranger" lang="en">
          {t.fairUse(fairUse)}
        </p>
      )}
      <div class="plan-foot">
        <span>
          <strong>{price}</strong>
          {perGb !== undefined && <small>{t.perGb(dollars(perGb))}</small>}
        </span>
        <button class="second" disabled={disabled} aria-label={t.buyPlan(name, price)} onClick={buy}>
          {t.buy}
        </button>
      </div>
    </li>
  );
}
