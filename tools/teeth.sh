#!/usr/bin/env bash
# Shows that the tests have teeth: plants each bug of internal/mutant and runs the ordinary tests, narrowed
# to where it must be noticed. Prints one line for each, and ends with one line: N passed, N failed.
set -uo pipefail
cd "$(dirname "$0")/.."

# What must notice each bug: a package, and the tests of it that are run (all when there is no pattern).
# Other tests may notice it too; these are quick.
bugs='
unknown_is_402          checkout  AnUnknownSettlement
repeat_unsigned         checkout  NobodyLearns
body_not_compared       checkout  AnotherBody
forged_quote            checkout  AQuoteIsOurs
deliver_first           checkout  NothingIsDelivered
order_of_anyone         checkout  AnOrderExists
anyone_pays             checkout  AnOpenedOrder
sold_before_caught_up   store     MarkIsKept
recovered_twice         store     RecoveredOnce
adopted_forgotten       store     FoundByItsKey
refusal_unjudged        checkout  PreemptedBuyer
public_proves           checkout  ProvesNobody
goods_unasked           checkout  LostOrder
arrived_submitted       checkout  ReorganisedArrival
arrival_unchecked       checkout  InventedArrival
arrived_unlocked        store     ClaimedOrResolved
reference_of_order      checkout  LostOrder
amount_at_least         payment   .
expired_accepted        payment   .
receipt_trusted         chain     SpentElsewhere
transfer_of_another     chain     OneTransfer
expiry_at_head          chain     AnUnusedAuthorization
one_node_buries         chain     NoSingleNode
one_node_delivers       chain     OneNodesWord
one_node_includes       chain     ForgedReceipt
one_node_refuses        chain     MoneyIsSeenBehind
errors_answer           chain     AnErrorIsNoReceipt
quorum_of_one           chain     OneNodeLeft
head_believed           chain     MadeUpHead
slow_node_awaited       chain     NodeThatHangs
nonce_believed          chain     HugeAccountNonce
history_believed        chain     NoNodeAloneDecides
reorg_ignored           chain     IsNoticed
pause_ignored           chain     IssuerIsNamed
hash_believed           checkout  BelievedOnly
payer_not_told          checkout  IssuerDoesIsNot
settle_failure_ignored  facilitator SettlesNothing
sent_before_stored      chain     NotStored
in_flight_is_failed     chain     InFlight
refund_nonce_fresh      checkout  SignedAgainWithItsNonce
undone_refunded         checkout  UndoneIsNotRefunded
decided_over_refund     store     NothingIsDecided
retry_same_reference    checkout  RetryAfterARefusal
switch_ignored          availability PausedByConfigurationOrOperators
purchase_key_not_unique store     OneKeyIsOneOrder
authorization_not_unique store    OneAuthorization
job_forgotten           store     PlacedWithItsJob
order_unfenced          store     LostItsJob
supplier_not_asked      esim      NobodyIsAskedToPay
claim_unswitched        store     ASwitch
holds_unlimited         store     WhatIsScarce
holds_kept              app       WhoHasNoMoneyHoldsNothing
lanes_overlap           store     LanesLeaveRoom
holds_released_early    store     AHoldLasts
paid_too_late           store     WhoseTimeIsOver
findings_block_all      reconcile NobodyCloses
any_amount_of_nonce     reconcile EachDifferenceHasItsCode
ranges_not_halved       chain     FloodOfEmptyTransfers
difference_seen_once    reconcile BetweenTwoReadings
resolution_forgotten    reconcile StaysSoUntilThereIsMore
report_unbounded        reconcile AreSummed
resend_unknown          card      .
horizon_ignored         card      .
new_reference           card      .
fee_version_per_attempt card      .
fee_on_the_card         card      TheFeeIsNeverOnACard
fee_forgiven            card      AFeeThatWasSpent
card_state_believed     card      WhatTheIssuer
marker_after_call       job       Submit
challenge_reused        auth      Reveal
scope_ignored           api       Session|Revealing
sealed_in_the_open      api       Sealed
secrets_replayed        checkout  SecretsAreRepeated
payment_logged          api       TheLog
classes_share_slots     job       NoClassTakes
periodic_piles          job       DoesNotPileUp
parked_for_ever         job       ParkedPeriodicJobs
simulated_for_nothing   chain     ASimulationIsWhat
code_ignored            chain     CodeInstalledAfterTheClaim
bumped_with_code        chain     CodeInstalledAfterTheSending
reverts_unbounded       chain     AfterItsSecondRevert
nonce_forgotten         store     PruningKeeps
undecided_unlimited     store     APayerHasOnly
unsettled_unlimited     store     UnpaidOrdersHold
paid_is_unsettled       store     UnpaidOrdersHold
validity_unbounded      payment   .
payments_uncounted      checkout  PaymentThatProvesNothing
orders_uncounted        checkout  OpenedOrdersAreBounded
turns_per_process       store     OverAllProcesses
expired_kept            store     ExpiredUnpaidIsPruned
connections_uncounted   server    AnAddressHasSoManyConnections
'
limit=180 # seconds for the tests of one bug, or of a package without any; building is not counted
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# plant NAME PACKAGE PATTERN expects a test to fail, and writes the verdict.
plant() {
  local name=$1 package=$2 pattern=$3 log="$out/$1.log" by
  # A bug that does not compile would pass for one that is noticed.
  if ! go test -c -tags "mutant,mutant_$name" -o "$out/$name.test" "./internal/$package" >"$log" 2>&1; then
    echo "BROKEN: $name does not build: $(head -n 2 "$log" | tail -n 1)" >"$out/$name"
  elif (cd "internal/$package" && "$out/$name.test" -test.failfast -test.timeout "${limit}s" -test.run "$pattern") >"$log" 2>&1; then
    echo "SURVIVED: $name, internal/$package does not notice it" >"$out/$name"
  elif by=$(grep -om1 -- '--- FAIL: [^ (]*' "$log"); then
    echo "caught: $name by ${by##* } (internal/$package)" >"$out/$name"
  else
    echo "BROKEN: $name ends without a failed test: $(tail -n 1 "$log")" >"$out/$name"
  fi
  cat "$out/$name"
  rm -f "$out/$name.test"
}

names=$(awk 'NF {print $1}' <<<"$bugs" | sort)
listed=$(sed -n 's/.*planted == "\(.*\)"/\1/p' internal/mutant/mutants.go | sort)
if [[ $names != "$listed" ]]; then
  echo "this script and internal/mutant name different bugs:"
  diff <(echo "$names") <(echo "$listed")
  exit 1
fi

# Without a bug every test passes, and every pattern finds one.
echo "--- without a bug"
for package in $(awk 'NF {print $2}' <<<"$bugs" | sort -u); do
  if ! go test -count=1 -timeout "${limit}s" "./internal/$package" >"$out/clean.log" 2>&1; then
    cat "$out/clean.log"
    echo "internal/$package fails without a bug"
    exit 1
  fi
  listed=$(go test -list . "./internal/$package")
  for pattern in $(awk -v p="$package" '$2 == p {print $3}' <<<"$bugs"); do
    if ! grep -Eq "^Test.*($pattern)" <<<"$listed"; then
      echo "internal/$package has no test like $pattern"
      exit 1
    fi
  done
done

echo "--- with one bug each"
while read -r name package pattern; do
  [[ -n $name ]] || continue
  while (($(jobs -rp | wc -l) >= 2)); do wait -n; done
  plant "$name" "$package" "$pattern" &
done <<<"$bugs"
wait

passed=0 failed=0
while read -r name; do
  if grep -q '^caught' "$out/$name" 2>/dev/null; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done <<<"$names"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
