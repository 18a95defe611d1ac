package order

import (
	"encoding/json"
	"testing"
	"time"
)

func TestMovesHaveNoCycleApartFromADeadAuthorization(t *testing.T) {
	// Settling returns to payment_required when its authorization is proven dead: each return uses
	// up an authorization. Operators leave operator_review. Everything else goes forwards only.
	allowed := map[[2]Status]bool{{Settling, PaymentRequired}: true}
	var visit func(s Status, path map[Status]bool)
	visit = func(s Status, path map[Status]bool) {
		if path[s] {
			t.Fatalf("cycle through %s", s)
		}
		path[s] = true
		for _, to := range moves[s] {
			if !allowed[[2]Status{s, to}] && s != OperatorReview {
				visit(to, path)
			}
		}
		delete(path, s)
	}
	for _, s := range Statuses() {
		visit(s, map[Status]bool{})
	}
}

func TestEveryPaidOrderCanReachAnEnd(t *testing.T) {
	ends := map[Status]bool{Fulfilled: true, Refunded: true, OperatorReview: true}
	for _, s := range Statuses() {
		if !s.Paid() {
			continue
		}
		seen, queue, reaches := map[Status]bool{}, []Status{s}, false
		for len(queue) > 0 {
			at := queue[0]
			queue = queue[1:]
			reaches = reaches || ends[at]
			for _, to := range moves[at] {
				if !seen[to] {
					seen[to] = true
					queue = append(queue, to)
				}
				if !to.Paid() {
					t.Errorf("a paid order can become unpaid: %s to %s", at, to)
				}
			}
		}
		if !reaches {
			t.Errorf("%s cannot end", s)
		}
	}
}

func TestOnlyOperatorsLeaveReview(t *testing.T) {
	m := Move{From: OperatorReview, To: Provisioning, Actor: "worker"}
	if m.Check() == nil {
		t.Error("a worker left operator_review")
	}
	m.Actor = "operator:"
	if m.Check() == nil {
		t.Error("a nameless operator left operator_review")
	}
	m.Actor = "operator:ada"
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}

func TestMovesOutsideTheTableAreRefused(t *testing.T) {
	for _, m := range []Move{
		{From: PaymentRequired, To: Settled}, {From: Fulfilled, To: Refunded}, {From: Settling, To: Fulfilled},
		{From: Expired, To: Settling}, {From: Settled, To: PaymentRequired},
	} {
		if m.Check() == nil {
			t.Errorf("%s to %s was allowed", m.From, m.To)
		}
	}
}

func TestFingerprintsSeparateKindAndItem(t *testing.T) {
	const cards, topups Kind = "card_issue", "card_topup"
	a := FingerprintOf(cards, json.RawMessage(`{}`))
	if a == FingerprintOf(topups, json.RawMessage(`{}`)) || a == FingerprintOf(cards, json.RawMessage(`{"a":1}`)) {
		t.Error("two requests share a fingerprint")
	}
	if a != FingerprintOf(cards, json.RawMessage(`{}`)) {
		t.Error("one request has two fingerprints")
	}
}

func TestOrderIDsSortByTimeAndDiffer(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	first, twin, later := NewID(at), NewID(at), NewID(at.Add(time.Millisecond))
	if first == twin || first >= later || twin >= later || len(first) != len("ord_")+44 {
		t.Errorf("ids %s, %s, %s", first, twin, later)
	}
}

func TestTimeToPayEndsBeforeThatIsRecorded(t *testing.T) {
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		order Order
		at    time.Time
		want  Status
	}{
		{Order{Status: PaymentRequired, ExpiresAt: &end}, end.Add(-time.Microsecond), PaymentRequired},
		{Order{Status: PaymentRequired, ExpiresAt: &end}, end, Expired},
		{Order{Status: PaymentRequired}, end, PaymentRequired},
		{Order{Status: Settling, ExpiresAt: &end}, end, Settling},
		{Order{Status: Fulfilled}, end, Fulfilled},
	} {
		if got := tt.order.AsOf(tt.at); got.Status != tt.want {
			t.Errorf("%+v is %s at %s, want %s", tt.order, got.Status, tt.at, tt.want)
		}
	}
}

func TestNoCallerCanSendTheKeyOfAKeylessOrder(t *testing.T) {
	one, two := Keyless(NewID(time.Now())), Keyless(NewID(time.Now()))
	if one == two || len(one) <= MaxKey {
		t.Errorf("keys %q and %q", one, two)
	}
}
