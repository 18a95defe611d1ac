package roamcard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

const hidden = "THE-SECRET"

// soldESIM is an order with everything that must not be shown.
func soldESIM() *roamcardv1.Order {
	token := hidden
	return &roamcardv1.Order{
		OrderId: "ord_1", Kind: "esim", Status: "fulfilled", AmountUsdCents: 490,
		CreatedAt: timestamppb.New(time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)),
		Delivery:  &roamcardv1.EsimDelivery{Status: "fulfilled", PlanId: "jp-1", Token: &token},
		Credentials: &roamcardv1.EsimCredentials{Iccid: hidden, Lpa: hidden,
			InstallUrls: &roamcardv1.EsimInstallUrls{Ios: hidden}},
	}
}

func TestResultsAreJSON(t *testing.T) {
	t.Parallel()
	bought := roamcard.Purchase{
		Order:          &roamcardv1.Order{OrderId: "ord_1", Kind: "card_issue", Status: "settled", AmountUsdCents: 2500},
		IdempotencyKey: "k", RequestID: "r",
	}
	secret := roamcard.NewSecret(hidden)
	esim := &roamcard.BoughtESIM{Purchase: bought, DeliveryToken: secret,
		Credentials: &roamcard.ESIM{ICCID: secret, LPA: secret}}
	order := `{"orderId":"ord_1","operationId":"","kind":"card_issue","status":"settled","amountUsdCents":2500}`
	redacted := `{"iccid":"[redacted]","smdpAddress":"[redacted]","matchingId":"[redacted]","lpa":"[redacted]",` +
		`"qrPng":"[redacted]",` +
		`"ios":"[redacted]","android":"[redacted]"}`
	denied := &roamcard.PaymentError{Kind: roamcard.ErrPolicyDenied, Detail: "no"}
	report := `{"code":"denied_by_local_policy","detail":"the policy does not allow this payment: no",` +
		`"status":0,"requestId":"",` +
		`"safeToPayAgain":true,"nextAction":"ask_owner","idempotencyKey":"","orderId":""}`
	for what, c := range map[string]struct {
		result any
		want   string
	}{
		"purchase": {bought, `{"order":` + order + `,"replayed":false,"idempotencyKey":"k","requestId":"r"}`},
		"eSIM": {esim, `{"order":` + order +
			`,"replayed":false,"idempotencyKey":"k","requestId":"r","deliveryToken":"[redacted]","credentials":` +
			redacted + `}`},
		"no token": {roamcard.BoughtESIM{Purchase: bought}, `{"order":` + order +
			`,"replayed":false,"idempotencyKey":"k","requestId":"r"}`},
		"resumed": {roamcard.Resumed{Operation: roamcard.OpCard, Key: "k", Order: bought.Order},
			`{"operation":"/api/card/purchase","idempotencyKey":"k","order":` + order + `,"error":null}`},
		"not resumed": {&roamcard.Resumed{Operation: roamcard.OpCard, Key: "k", Err: denied},
			`{"operation":"/api/card/purchase","idempotencyKey":"k","order":null,"error":` + report + `}`},
		"verdict": {roamcard.Verdict{Quote: roamcard.Quote{Operation: roamcard.OpCard, Amount: 2500, AmountUSDC: "25000000"},
			Denied: denied},
			`{"quote":{"operation":"/api/card/purchase","idempotencyKey":"","resource":"","description":"",` +
				`"amountUsdCents":2500,` +
				`"amount":"25000000","payTo":"","asset":"","network":""},"denied":` + report + `,"asks":false}`},
		"budget": {roamcard.Budget{Spent: 1, Cap: 2}, `{"spentUsdCents":1,"capUsdCents":2}`},
		"page": {roamcard.Page[*roamcardv1.Order]{Items: []*roamcardv1.Order{bought.Order}, Next: "n"}, `{"items":[` +
			order + `],"nextPageToken":"n"}`},
		"card":  {roamcard.Credentials{Number: hidden, SecurityCode: hidden}, `"[redacted]"`},
		"shown": {roamcard.Presented{Seen: true}, `{"presented":true}`},
		"message": {soldESIM(), `{"orderId":"ord_1","operationId":"","kind":"esim","status":"fulfilled",` +
			`"amountUsdCents":490,"createdAt":"2026-11-22T09:30:00Z",` +
			`"delivery":{"status":"fulfilled","planId":"jp-1","token":"[redacted]"},` +
			`"credentials":{"iccid":"[redacted]","smdpAddress":"","matchingId":"",` +
			`"lpa":"[redacted]","qrSvg":"","qrPng":"","installUrls":{"ios":"[redacted]","android":""}}}`},
	} {
		got, err := json.Marshal(c.result)
		if err != nil || string(got) != c.want {
			t.Errorf("%s is\n%s\nwant\n%s\n%v", what, got, c.want, err)
		}
		if text := fmt.Sprintf("%s %v %+v %#v", got, c.result, c.result, c.result); what != "message" &&
			strings.Contains(text, hidden) {
			t.Errorf("%s shows its secret: %s", what, text)
		}
	}
}

func TestMessagesAreReadFromJSON(t *testing.T) {
	t.Parallel()
	order := soldESIM()
	kept := proto.Clone(order)
	data, err := json.Marshal(order)
	if err != nil || !proto.Equal(order, kept) {
		t.Fatalf("writing changed the order: %v, %v", order, err)
	}
	var again roamcardv1.Order
	if err := json.Unmarshal([]byte(strings.Replace(string(data), "{", `{"added later": 1,`, 1)), &again); err != nil {
		t.Fatal(err)
	}
	if again.GetAmountUsdCents() != 490 || !again.GetCreatedAt().AsTime().Equal(order.GetCreatedAt().AsTime()) {
		t.Errorf("%v", &again)
	}
}

func TestErrorsAreReports(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	at := time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)
	api := roamcard.APIError{Status: 402, Code: "payment_rejected", Detail: "No.", SafeToPayAgain: true,
		NextAction: "sign_new_payment", RequestID: "r", OrderID: "o", IdempotencyKey: "k"}
	live := api
	live.RetryAt = at
	busy := &roamcard.APIError{Status: 503, Code: "dependency_down", Detail: "Later.", NextAction: "retry_same_request",
		RequestID: "r", OrderID: "o"}
	for name, c := range map[string]struct {
		err  error
		want roamcard.ErrorReport
	}{
		"refused": {&api, roamcard.ErrorReport{
			Code: "payment_rejected", Detail: "No.", Status: 402, RequestID: "r", SafeToPayAgain: yes,
			NextAction: "sign_new_payment", IdempotencyKey: "k", OrderID: "o"}},
		// The service's word does not make a payment safe that the chain could still take.
		"refused and live": {&live, roamcard.ErrorReport{
			Code: "payment_rejected", Detail: "No.", Status: 402, RequestID: "r", SafeToPayAgain: no,
			NextAction: "sign_new_payment", IdempotencyKey: "k", OrderID: "o", RetryAt: &at}},
		"poor": {&roamcard.PaymentError{Kind: roamcard.ErrInsufficientFunds, Detail: "no money moved", IdempotencyKey: "k",
			Err: &live}, roamcard.ErrorReport{
			Code: "insufficient_funds", Detail: "No.", Status: 402, RequestID: "r", SafeToPayAgain: no,
			NextAction: "fund_wallet", IdempotencyKey: "k", OrderID: "o", RetryAt: &at}},
		"unclear": {&roamcard.AmbiguousPaymentError{IdempotencyKey: "k", Err: busy}, roamcard.ErrorReport{
			Code: "payment_outcome_unknown", Detail: "Later.", Status: 503, RequestID: "r", SafeToPayAgain: no,
			NextAction: "retry_same_request", IdempotencyKey: "k", OrderID: "o"}},
		"clock": {&roamcard.PaymentError{Kind: roamcard.ErrClock, Detail: "x"}, roamcard.ErrorReport{
			Code: "clock_differs", Detail: "the clocks differ: x", SafeToPayAgain: yes, NextAction: "set_clock"}},
		"signed before": {&roamcard.PaymentError{Kind: roamcard.ErrClock, Detail: "x", IdempotencyKey: "k"},
			roamcard.ErrorReport{
				Code: "clock_differs", Detail: "the clocks differ: x", SafeToPayAgain: no, NextAction: "set_clock",
				IdempotencyKey: "k"}},
		"journal": {&roamcard.JournalError{File: "f", Reason: roamcard.JournalFull, IdempotencyKey: "k", Err: io.EOF},
			roamcard.ErrorReport{
				Code: "journal_full", Detail: "the journal f is full: EOF", SafeToPayAgain: no, NextAction: "fix_journal",
				IdempotencyKey: "k"}},
		"other": {io.EOF, roamcard.ErrorReport{Code: "failed", Detail: "EOF"}},
	} {
		for _, err := range []error{c.err, errors.Join(c.err)} {
			if got := roamcard.ReportOf(err); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		}
		if _, plain := c.err.(json.Marshaler); plain {
			data, err := json.Marshal(map[string]error{"error": c.err})
			var got struct{ Error roamcard.ErrorReport }
			if err := errors.Join(err, json.Unmarshal(data, &got)); err != nil || !reflect.DeepEqual(got.Error, c.want) {
				t.Errorf("%s: %s, %v", name, data, err)
			}
		}
	}
}

// TestStatusesAreTheDocumentedOnes compares the constants with the comments of the protos.
func TestStatusesAreTheDocumentedOnes(t *testing.T) {
	documented := func(file, message string) string {
		data, err := os.ReadFile("../../../proto/roamcard/v1/" + file)
		_, after, found := strings.Cut(string(data), "\nmessage "+message+" {")
		if err != nil || !found {
			t.Fatalf("%s has no %s: %v", file, message, err)
		}
		before, _, _ := strings.Cut(after, "\n}")
		return before
	}
	has := func(doc string, names ...string) {
		for _, name := range names {
			if !strings.Contains(doc, name) {
				t.Errorf("%q is not documented", name)
			}
		}
	}
	texts := func(all ...roamcard.OrderStatus) (names []string) {
		for _, s := range all {
			names = append(names, string(s))
		}
		return names
	}
	order := documented("order.proto", "Order")
	has(order, texts(roamcard.OrderPaymentRequired, roamcard.OrderSettling, roamcard.OrderSettled,
		roamcard.OrderProvisioning, roamcard.OrderFulfilled,
		roamcard.OrderExpired, roamcard.OrderRefundPending, roamcard.OrderRefunded, roamcard.OrderOperatorReview)...)
	has(order, string(roamcard.KindCard), string(roamcard.KindTopUp), string(roamcard.KindESIM))
	steps := []string{string(roamcard.StepUnpaid), string(roamcard.StepQueued), string(roamcard.StepPending),
		string(roamcard.StepRefused), string(roamcard.StepReview)}
	has(documented("order.proto", "Issuance"), append(steps, string(roamcard.StepActive), string(roamcard.StepClosed))...)
	has(documented("order.proto", "Topup"), append(steps, string(roamcard.StepCredited))...)
	has(documented("order.proto", "EsimDelivery"), string(roamcard.DeliveryUnpaid), string(roamcard.DeliveryPending),
		string(roamcard.DeliveryFulfilled), string(roamcard.DeliveryCancelled),
		string(roamcard.DeliveryReview), string(roamcard.DeliveryRefundPending), string(roamcard.DeliveryRefunded))
	has(documented("card.proto", "Card"), string(roamcard.CardPending), string(roamcard.CardActive),
		string(roamcard.CardFrozen), string(roamcard.CardClosed), string(roamcard.CardFailed))
	if roamcard.StatusOf(soldESIM()) != roamcard.OrderFulfilled || !roamcard.StatusOf(soldESIM()).Final() ||
		roamcard.OrderSettled.Final() {
		t.Error("a fulfilled order is final, and a settled one is not")
	}
}
