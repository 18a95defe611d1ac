#!/usr/bin/env bash
# Runs the programs of examples/ against one development server, and checks what they print and what they paid. It needs
# bin/roamcard, and takes packages from the clients of this repository: nothing is installed. Ends with one line:
# N passed, N failed.
#
#   ROAMCARD_READY=…  the ready file of a server that runs already
#   ROAMCARD_COSTS=…  a file that gets a line with the processors' seconds that the examples took
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
python=$root/clients/python/.venv/bin/python
work=$(mktemp -d)
# PostgreSQL may run as another user, who has to get in.
chmod 755 "$work"
passed=0 failed=0
started=()

finish() {
  local pid
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null; done
  for pid in "${started[@]}"; do wait "$pid" 2>/dev/null; done
  rm -rf "$work"
}
trap finish EXIT

# count NAME CODE LOG counts one check, and shows what it printed when it failed.
count() {
  if [[ $2 -eq 0 ]]; then
    passed=$((passed + 1))
    echo "ok    $1"
  else
    failed=$((failed + 1))
    echo "FAIL  $1"
    cat "$3"
  fi
}

# check NAME COMMAND… runs a command that has to succeed. A function's steps are joined by &&: errexit is off in it.
check() {
  local name=$1 code=0
  shift
  "$@" >"$work/check.log" 2>&1 || code=$?
  count "$name" "$code" "$work/check.log"
}

# prints LOG PATTERN… fails unless the log has a line for each pattern, and shows the log.
prints() {
  local log=$1 pattern
  shift
  cat "$log"
  for pattern; do
    grep -Eq -- "$pattern" "$log" || { echo "nothing is like $pattern" && return 1; }
  done
}

# up LOG PID waits until a program has printed its address, and fails when it has ended. The address is in $url then.
up() {
  until url=$(grep -Eo 'http://127\.0\.0\.1:[0-9]+' "$1" | head -n 1) && [[ -n $url ]]; do
    kill -0 "$2" 2>/dev/null || { cat "$1" && return 1; }
    sleep 0.1
  done
}

# json EXPRESSION [ARGUMENT…] prints what an expression makes of the JSON of its input, `it`, and of the arguments,
# `at`. It fails when that is nothing, or false.
json() {
  node -e 'const it = JSON.parse(require("fs").readFileSync(0, "utf8")), [expression, ...at] = process.argv.slice(1);
    const got = eval(expression);
    if (got === undefined || got === false) process.exit(1);
    console.log(got);' "$@"
}

# chain SCRIPT ARGUMENT… runs a script of a module that has the chain of the server, viem and the arguments.
chain() {
  node --input-type=module -e '
    import { readFileSync } from "node:fs";
    import { createRequire } from "node:module";
    import { Chain } from "./clients/typescript/test/support/chain.mjs";
    const { generatePrivateKey, privateKeyToAddress } =
      createRequire(process.cwd() + "/clients/typescript/package.json")("viem/accounts");
    const [ready, ...args] = process.argv.slice(1);
    const chain = new Chain(JSON.parse(readFileSync(ready, "utf8")));
    '"$1" "$ready" "${@:2}"
}

# wallets N prints the keys and addresses of new wallets with 1,000 USDC.
wallets() {
  chain 'for (let i = 0; i < args[0]; i++) {
      const key = generatePrivateKey();
      await chain.mint(privateKeyToAddress(key), 1_000_000_000n);
      console.log(key, privateKeyToAddress(key));
    }' "$1"
}

# paid WALLET AMOUNT… fails unless these are the transfers of a wallet to the service, by the chain's word.
paid() {
  local got
  # Without viem, which takes half a second to load.
  got=$(node -e 'const { rpcUrl, usdc, payTo } = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
    const word = (address) => "0x" + address.slice(2).toLowerCase().padStart(64, "0");
    const transfer = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
    const filter = { address: usdc, fromBlock: "0x0", topics: [transfer, word(process.argv[2]), word(payTo)] };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_getLogs", params: [filter] });
    fetch(rpcUrl, { method: "POST", headers: { "content-type": "application/json" }, body })
      .then((answer) => answer.json())
      .then(({ result }) => console.log(result.map((log) => BigInt(log.data)).join(" ")));
    ' "$ready" "$1") || return 1
  [[ $got == "${*:2}" ]] || { echo "the transfers are $got, and not ${*:2}" && return 1; }
}

# What an example would have installed is what the clients have.
stage() {
  local name
  mkdir -p "$work/node_modules/@types"
  ln -s "$root/clients/typescript" "$work/node_modules/roamcard"
  ln -s "$root/clients/typescript/node_modules/viem" "$work/node_modules/viem"
  ln -s "$root/clients/typescript/node_modules/@types/node" "$work/node_modules/@types/node"
  for name in trip-agent worker; do cp -r "examples/$name" "$work/$name" && rm -rf "$work/$name/node_modules"; done
  # Kills a program when it pays: right before the payment is sent, or when the answer is there that nobody reads then.
  cat >"$work/kill.mjs" <<'JS'
const send = globalThis.fetch;
globalThis.fetch = async (input, init) => {
  const pays = new Headers(init?.headers ?? input.headers).has("payment-signature");
  if (pays && process.env.KILL === "before") process.kill(process.pid, "SIGKILL");
  const answer = await send(input, init);
  if (pays && process.env.KILL === "after") process.kill(process.pid, "SIGKILL");
  return answer;
};
JS
}

build_typescript() { (cd "$work/$1" && "$root/clients/typescript/node_modules/.bin/tsc"); }
build_go() { go build -o "$work/connect-go" ./examples/connect-go; }
lint_python() {
  local ruff=$root/clients/python/.venv/bin/ruff config=$root/clients/python/pyproject.toml
  "$ruff" check --quiet --no-cache --config "$config" examples &&
    "$ruff" format --quiet --no-cache --check --config "$config" examples
}

# trip SENTENCE [FLAG…] runs the agent, with flags of node. What it prints is in trip.log.
trip() {
  local sentence=$1
  shift
  (cd "$work" && ROAMCARD_JOURNAL=$work/trip.journal WALLET_KEY=$trip_key \
    node "$@" trip-agent/dist/trip.js "$sentence") >"$work/trip.log" 2>&1
}
france="5 days in FR from 2026-12-20, at most 10 USD"
japan="3 days in JP from 2027-03-01, at most 10 USD"

trip_killed() {
  local code=0
  KILL=after trip "$france" --import "$work/kill.mjs" || code=$?
  [[ $code -eq 137 ]] && prints "$work/trip.log" 'France 1 GB, 7 days is enough, for 0\.84 USD' &&
    paid "$trip_wallet" 840000
}
trip_repeated() {
  trip "$france" && prints "$work/trip.log" 'The journal has this trip; its payment is signed' \
    'Order ord_[0-9a-f]+ was paid before' '^LPA +LPA:1\$.+' '^iPhone +https://' && paid "$trip_wallet" 840000
}
trip_lost() {
  rm -r "$work/trip.journal" && trip "$france" && prints "$work/trip.log" 'was paid before' &&
    paid "$trip_wallet" 840000
}
trip_killed_before() {
  local code=0 price
  KILL=before trip "$japan" --import "$work/kill.mjs" || code=$?
  price=$(sed -nE 's/.* for ([0-9]+)\.([0-9]+) USD.$/\1\2/p' "$work/trip.log")
  [[ $code -eq 137 ]] && paid "$trip_wallet" 840000 && trip "$japan" && prints "$work/trip.log" 'is paid|was paid' &&
    paid "$trip_wallet" 840000 "$((10#$price))0000"
}
trip_printed() {
  local wallet
  read -r trip_key wallet < <(wallets 1) && rm -r "$work/trip.journal" && trip "$france" &&
    printed trip-agent "$work/trip.log" && paid "$wallet" 840000
}
trip_too_dear() {
  local code=0
  trip "5 days in FR from 2027-01-02, at most 0.10 USD" || code=$?
  [[ $code -eq 1 ]] && prints "$work/trip.log" 'Nothing was bought: no plan is enough'
}

worker() {
  (cd "$work/worker" && WALLET_KEY=$worker_key node --test --test-reporter=spec worker.test.mjs) \
    >"$work/worker.log" 2>&1 && prints "$work/worker.log" '^ℹ pass 5$' && paid "$worker_wallet" 500000
}

notebook() {
  ROAMCARD_JOURNAL=$work/notebook.journal WALLET_KEY=$notebook_key \
    "$python" examples/notebook/run.py examples/notebook/card.ipynb >"$work/notebook.log" 2>&1 &&
    prints "$work/notebook.log" "is ACTIVE; it $1" 'credited with 24\.50 USD' '39\.50 USD are on the card' \
      'card_topup +25\.00 USD +fulfilled' 'card_issue +25\.00 USD +fulfilled' &&
    paid "$notebook_wallet" 25000000 25000000
}

shop_start() {
  # Not when the program is started, or the address of the one before it may be read.
  if [[ -e $work/shop.log ]]; then mv "$work/shop.log" "$work/shop-before.log"; fi
  touch "$work/shop.log"
  PORT=0 WALLET_KEY=$shop_key "$python" examples/pay-link-shop/shop.py >"$work/shop.log" 2>&1 &
  shop=$!
  started+=("$shop")
  up "$work/shop.log" "$shop"
}
# A form that is sent twice is one order, and the shop pays for none.
shop_order() {
  local key plan
  shop_start && curl -sS "$url/" >"$work/page.html" &&
    key=$(sed -nE 's/.*name="key" value="([^"]+).*/\1/p' "$work/page.html") &&
    plan=$(grep -Eo 'value="pln_[^"]+' "$work/page.html" | head -n 1 | cut -d'"' -f2) &&
    curl -sS -d "key=$key&plan=$plan" "$url/orders" && curl -sS -d "key=$key&plan=$plan" "$url/orders" &&
    link=$(curl -sS "$url/orders" | json 'it.length === 1 && it[0].payable_url') &&
    [[ $link == "$ROAMCARD_URL"/pay/ord_* ]] && curl -sS "$url/" | grep -F "$link" && paid "$shop_wallet"
}
shop_told() {
  until grep -q "$1" "$work/shop.log"; do
    kill -0 "$shop" || return 1
    sleep 0.1
  done
}
# printed NAME LOG compares what an example's README shows with what it printed.
printed() { node tools/printed.mjs "examples/$1/README.md" "$2"; }

# Killed and started again, the shop goes on; the order is paid by another program, which has the wallet.
shop_paid() {
  kill -KILL "$shop" && { wait "$shop" 2>/dev/null; shop_start; } &&
    ROAMCARD_WALLET_KEY=$shop_key ROAMCARD_JOURNAL=$work/shop.journal \
      bin/roamcard orders pay "$link" --yes --max 5 --wait && shop_told "is fulfilled: paid on chain" &&
    prints "$work/shop.log" "Order ${link##*/} is payment_required: $link" && paid "$shop_wallet" 500000
}

connect_go() {
  local order
  order=$(ROAMCARD_WALLET_KEY=$go_key bin/roamcard orders create --esim "" --key examples --json | json it.orderId) &&
    [[ $order == ord_* ]] && { ADDR=127.0.0.1:0 WALLET_KEY=$go_key "$work/connect-go" >"$work/go.log" 2>&1 & } &&
    started+=($!) && up "$work/go.log" $! && curl -sS "$url/overview?country=FR&order=$order" >"$work/overview.json" &&
    cat "$work/overview.json" && json 'it.sale === "open" && it.plans[0].usdCents === 50 &&
      it.order.id === at[0] && it.order.status === "payment_required" && it.order.payableUrl.endsWith(at[0])' \
      "$order" <"$work/overview.json" &&
    [[ $(curl -sS -o /dev/null -w '%{http_code}' "$url/overview?country=FR&order=ord_other") == 404 ]] &&
    [[ $(curl -sS -o /dev/null -w '%{http_code}' "$url/overview?country=France") == 400 ]]
}

stop_server() {
  kill "$server" && wait "$server" || { tail -n 60 "$work/server.log" && return 1; }
}

stage
ready=${ROAMCARD_READY:-$work/ready.json}
if [[ -z ${ROAMCARD_READY:-} ]]; then
  mkdir "$work/server"
  chmod 755 "$work/server"
  bin/roamcard dev --addr 127.0.0.1:0 --limits off --data "$work/server" --ready-file "$ready" \
    >"$work/server.log" 2>&1 &
  server=$!
  started+=("$server")
fi
# While the server starts.
check "what is Python is linted" lint_python
check "trip-agent is built" build_typescript trip-agent
check "worker is built" build_typescript worker
check "connect-go is built" build_go
until [[ -s $ready ]]; do
  if ! kill -0 "${server:-}" 2>/dev/null; then
    cat "$work/server.log"
    echo "$passed passed, $((failed + 1)) failed"
    exit 1
  fi
  sleep 0.1
done
ROAMCARD_URL=$(json it.baseUrl <"$ready")
export ROAMCARD_URL
unset ROAMCARD_READY_FILE ROAMCARD_SIGNER ROAMCARD_KEYSTORE ROAMCARD_KEYCHAIN
{
  read -r trip_key trip_wallet
  read -r worker_key worker_wallet
  read -r notebook_key notebook_wallet
  read -r shop_key shop_wallet
  read -r go_key _
} < <(wallets 5)

check "trip-agent is killed when its payment was taken" trip_killed
check "trip-agent gives the same eSIM, paid once" trip_repeated
check "trip-agent pays nothing more without its journal" trip_lost
check "trip-agent is killed before it sends, and pays once" trip_killed_before
check "trip-agent prints what its README shows" trip_printed
check "trip-agent keeps to what the sentence allows" trip_too_dear
check "worker buys for its caller, once for a key" worker
check "worker answers as its README shows" printed worker "$work/worker.log"
check "notebook buys a card and tops it up" notebook "is paid"
check "notebook prints what its README shows" printed notebook "$work/notebook.log"
check "notebook runs again and pays nothing" notebook "was paid before"
check "pay-link-shop makes one order of two forms" shop_order
check "pay-link-shop is killed, and sees the order paid" shop_paid
cat "$work/shop-before.log" "$work/shop.log" >"$work/shops.log"
check "pay-link-shop prints what its README shows" printed pay-link-shop "$work/shops.log"
check "connect-go answers with status, plans and order" connect_go
check "connect-go answers as its README shows" printed connect-go "$work/overview.json"

if [[ -n ${server:-} ]]; then check "the server ends in order" stop_server; fi
if [[ -n ${ROAMCARD_COSTS:-} ]]; then
  # What this shell's ended children have had of the processors, with theirs.
  read -r -a stat <"/proc/$BASHPID/stat"
  spent=$((stat[15] + stat[16]))
  printf '{"suite":"examples","test":"examples","seconds":%d.%02d}\n' $((spent / 100)) $((spent % 100)) \
    >>"$ROAMCARD_COSTS"
fi
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
