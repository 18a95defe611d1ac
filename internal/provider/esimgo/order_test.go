package esimgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

func TestOnlyValidateRefuses(t *testing.T) {
	for want, prepare := range map[string]func(*esimgofake.Server){
		fulfilment.RefusedFloat: func(s *esimgofake.Server) { s.SetBalance(1_000_000) },
		esim.RefusedPlan:        func(s *esimgofake.Server) { s.Withdraw(france) },
		esim.RefusedStock:       func(s *esimgofake.Server) { s.SellOut(france) },
		esim.RefusedPrice:       func(s *esimgofake.Server) { s.SetPrice(france, 10_000_001) },
	} {
		b := start(t, esimgofake.Config{})
		prepare(b.vendor)
		r := asking(france)
		_, err := b.Order(t.Context(), r)
		if refusalOf(err) != want {
			t.Errorf("Order = %v, want the refusal %s", err, want)
		}
		if b.vendor.Requests()["order"] != 0 {
			t.Errorf("%s: an order was sent that validate did not take", want)
		}
		b.wantNone(r)
	}
}

func TestTransactionRefusesNothing(t *testing.T) {
	for _, status := range []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
		http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusNoContent, http.StatusFound,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			b := start(t, esimgofake.Config{})
			failing := b.over(between{after: func(r *http.Request, was int, body string) (int, string) {
				if isTransaction(t, r) {
					return status, `{"message":"insufficient balance"}`
				}
				return was, body
			}})
			r := asking(france)
			_, err := failing.Order(t.Context(), r)
			wantUnknown(t, err)
			b.wantFound(r, b.vendor.Orders()[0].Reference)
		})
	}
}

func TestAnswersThatDoNotMatchAreUnknown(t *testing.T) {
	for name, change := range map[string][2]string{
		"a text":       {`{`, `"`},
		"several":      {`"order":[`, `"order":[{"item":"` + france + `","quantity":1},`},
		"two of it":    {`"quantity":1`, `"quantity":2`},
		"no reference": {`"orderReference":"`, `"reference":"`},
		"a path":       {`"orderReference":"`, `"orderReference":"../`},
		"no currency":  {`"currency":"USD"`, `"currency":""`},
		"no total":     {`"total":1.12`, `"total":null`},
		"a millionth":  {`"total":1.12`, `"total":1.1200001`},
		"negative":     {`"total":1.12`, `"total":-1.12`},
		"no status":    {`"status":"completed"`, `"status":""`},
		"trailing":     {`"orderReference"`, `"x":{}}{"orderReference"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, esimgofake.Config{})
			changed := b.over(between{after: func(r *http.Request, status int, body string) (int, string) {
				if isTransaction(t, r) {
					return status, strings.Replace(body, change[0], change[1], 1)
				}
				return status, body
			}})
			_, err := changed.Order(t.Context(), asking(france))
			wantUnknown(t, err)
		})
	}
}

func TestNothingIsSentWhenValidateDoesNotAnswer(t *testing.T) {
	for _, mode := range []vendorfake.Mode{
		vendorfake.ErrorBefore, vendorfake.ErrorAfter, vendorfake.TimeoutBefore, vendorfake.Malformed,
		vendorfake.Truncated, vendorfake.Huge, vendorfake.RateLimited, vendorfake.Unauthorized, esimgofake.Processing,
		vendorfake.Inexact, vendorfake.WrongCurrency, vendorfake.WrongOwner,
	} {
		t.Run(string(mode), func(t *testing.T) {
			b := start(t, esimgofake.Config{})
			b.fault("check", mode)
			r := asking(france)
			_, err := b.Order(t.Context(), r)
			if !errors.Is(err, fulfilment.ErrNotSent) || refusalOf(err) != "" || b.vendor.Requests()["order"] != 0 {
				t.Errorf("Order = %v after %d orders, want ErrNotSent", err, b.vendor.Requests()["order"])
			}
			b.wantNone(r)
			// So the same reference may be sent after all.
			if p, err := b.Order(t.Context(), r); err != nil || p.State != esim.PurchaseReady {
				t.Errorf("sent after all: %+v, %v", p, err)
			}
		})
	}
}

func TestReferenceIsSentOnce(t *testing.T) {
	for _, mode := range []vendorfake.Mode{vendorfake.TimeoutBefore, vendorfake.TimeoutAfter, ""} {
		b := start(t, esimgofake.Config{})
		if mode != "" {
			b.fault("order", mode)
		}
		r := asking(france)
		_, _ = b.Order(t.Context(), r)
		for range 2 {
			_, err := b.dial().Order(t.Context(), r)
			wantUnknown(t, err)
		}
		if n := b.vendor.Requests()["order"]; n != 1 {
			t.Errorf("%q: %d orders were sent under one reference", mode, n)
		}
	}
}

// broken is a journal that does not answer.
type broken struct {
	esim.Journal
	begin, name, sent, between, named bool
}

var errBroken = errors.New("the database is gone")

func (j broken) Begin(ctx context.Context, s esim.Sent) error {
	if j.begin {
		return errBroken
	}
	return j.Journal.Begin(ctx, s)
}

func (j broken) Name(ctx context.Context, ref fulfilment.Ref, account string) error {
	if j.name {
		return errBroken
	}
	return j.Journal.Name(ctx, ref, account)
}

func (j broken) Sent(ctx context.Context, ref fulfilment.Ref) (esim.Sent, error) {
	if j.sent {
		return esim.Sent{}, errBroken
	}
	return j.Journal.Sent(ctx, ref)
}

func (j broken) Named(ctx context.Context, accounts []string) (map[string]esim.Sent, error) {
	if j.named {
		return nil, errBroken
	}
	return j.Journal.Named(ctx, accounts)
}

func (j broken) SentBetween(ctx context.Context, code string, from, to time.Time) ([]esim.Sent, error) {
	if j.between {
		return nil, errBroken
	}
	return j.Journal.SentBetween(ctx, code, from, to)
}

func TestNothingIsDecidedWithoutTheJournal(t *testing.T) {
	for name, j := range map[string]broken{
		"begin": {begin: true}, "name": {name: true}, "sent": {sent: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, esimgofake.Config{})
			j.Journal = b.journal
			b.config.Journal = j
			p, err := b.dial().Order(t.Context(), asking(france))
			wantUnknown(t, err)
			if p.ActivationData != nil {
				t.Error("an eSIM is handed on that the journal does not know")
			}
			if sent := b.vendor.Requests()["order"]; sent != 0 && name != "name" {
				t.Errorf("%d orders were sent that the journal does not have", sent)
			}
		})
	}
	b := start(t, esimgofake.Config{})
	r := b.lose(france, vendorfake.TimeoutAfter)
	for name, j := range map[string]broken{
		"sent": {sent: true}, "between": {between: true}, "name": {name: true}, "named": {named: true},
	} {
		j.Journal = b.journal
		b.config.Journal = j
		p, err := b.dial().Ordered(t.Context(), r.Ref)
		wantUnknown(t, err)
		if p.ActivationData != nil {
			t.Errorf("%s: an eSIM is handed on that the journal does not know", name)
		}
	}
}

func TestOrderIsOfOneAssignedESIM(t *testing.T) {
	b := start(t, esimgofake.Config{})
	var sent []map[string]any
	recorded := b.over(between{before: func(r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		body, err := r.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		var one map[string]any
		if err := json.NewDecoder(body).Decode(&one); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, one)
	}})
	if _, err := recorded.Order(t.Context(), asking(france)); err != nil {
		t.Fatal(err)
	}
	const line = `[map[item:` + france + ` quantity:1 type:bundle]]`
	if len(sent) != 2 {
		t.Fatalf("sent %v", sent)
	}
	for i, kind := range []string{"validate", "transaction"} {
		if got := fmt.Sprint(sent[i]["order"]); sent[i]["type"] != kind || sent[i]["assign"] != true || got != line {
			t.Errorf("sent %v, want a %s of %s", sent[i], kind, line)
		}
	}
}

func TestOrdersThatComeTooSoonAreNotSent(t *testing.T) {
	b := start(t, esimgofake.Config{OrderGap: 3 * time.Second})
	b.config.OrderGap = 3 * time.Second
	b.Supplier = b.dial()
	b.buy(france)
	soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r := asking(france)
	if _, err := b.Order(soon, r); !errors.Is(err, fulfilment.ErrNotSent) {
		t.Errorf("an order right after another = %v, want ErrNotSent", err)
	}
	b.clock.pass(3 * time.Second)
	if _, err := b.Order(soon, r); err != nil {
		t.Errorf("an order three seconds after another = %v", err)
	}
}

func TestCheckSaysWhatAnOrderWouldCost(t *testing.T) {
	b := start(t, esimgofake.Config{Balance: 5_000_000})
	want := func(code string, want esim.Stock) {
		t.Helper()
		if got, err := b.Check(t.Context(), code); err != nil || got != want {
			t.Errorf("Check = %+v, %v; want %+v", got, err, want)
		}
	}
	want(japan, esim.Stock{Cost: 1_430_500, Units: esim.Plenty, Float: 5_000_000})
	// What we cannot afford is still in stock.
	want("esim_5GB_30D_REUP_V2", esim.Stock{Cost: 6_050_000, Units: esim.Plenty, Float: 5_000_000})
	b.vendor.SellOut(japan)
	want(japan, esim.Stock{Cost: 1_430_500, Units: 0, Float: 5_000_000})
	for _, code := range []string{"../organisation", "a/b", "", "..", strings.Repeat("a", 200), "esim_gone"} {
		if _, err := b.Check(t.Context(), code); !errors.Is(err, esim.ErrNoPlan) {
			t.Errorf("Check(%q) = %v, want ErrNoPlan", code, err)
		}
	}
	if b.vendor.Requests()["order"] != 0 {
		t.Error("a check orders")
	}
	b.vendor.Withdraw(france)
	for _, op := range []string{"plan", "organisation"} {
		b.fault(op, vendorfake.Unauthorized)
		if _, err := b.Check(t.Context(), france); err == nil || errors.Is(err, esim.ErrNoPlan) {
			t.Errorf("%s is unauthorized: Check = %v", op, err)
		}
		b.fault(op, vendorfake.Unauthorized)
		if _, err := b.Order(t.Context(), asking(france)); op == "plan" && !errors.Is(err, fulfilment.ErrNotSent) {
			t.Errorf("%s is unauthorized: Order = %v", op, err)
		}
		_, _ = b.Probe(t.Context())
	}
}

func TestPageOfAProxyIsNoRefusal(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html>blocked</html>"))
		}))
		b := start(t, esimgofake.Config{})
		b.config.URL = web.URL
		s := b.dial()
		if _, err := s.Order(t.Context(), asking(france)); !errors.Is(err, fulfilment.ErrNotSent) {
			t.Errorf("Order = %v, want ErrNotSent", err)
		}
		if _, err := s.Check(t.Context(), france); err == nil || errors.Is(err, esim.ErrNoPlan) {
			t.Errorf("Check = %v, want an error that settles nothing", err)
		}
		web.Close()
	}
}

func TestCatalogueIsReadWhole(t *testing.T) {
	b := start(t, esimgofake.Config{PageSize: 3})
	for name, odd := range map[string]esimgofake.Bundle{
		"inexact":  {Name: "inexact"},
		"free":     {Name: "free", Countries: []string{"FR"}, DataMB: 1, Days: 1},
		"nowhere":  {Name: "nowhere", DataMB: 1, Days: 1, Price: 1},
		"atlantis": {Name: "atlantis", Countries: []string{"FR", "QQ"}, DataMB: 1, Days: 1, Price: 1},
		"a/path":   {Name: "a/path", Countries: []string{"FR"}, DataMB: 1, Days: 1, Price: 1},
	} {
		if odd.Name != name {
			t.Fatal(name)
		}
		b.vendor.List(odd)
	}
	for i := range 250 {
		b.vendor.List(esimgofake.Bundle{
			Name: fmt.Sprintf("bundle_%03d", i), Countries: []string{"us"}, DataMB: 500, Days: 3, Price: 990_001,
		})
	}
	got, err := b.Listings(t.Context())
	if err != nil || len(got) != 255 {
		t.Fatalf("%d listings, %v; want 255", len(got), err)
	}
	want := map[string]esim.Listing{
		"esim_UL_7D_FR_V2": {
			Code: "esim_UL_7D_FR_V2", Name: "eSIM, Unlimited, 7 Days, France, V2", Type: esim.Country,
			Countries: []string{"FR"}, Unlimited: true, ValidityDays: 7, Cost: 9_000_000, InStock: true,
		},
		japan: {
			Code: japan, Name: "eSIM, 1GB, 7 Days, Japan, V2", Type: esim.Country, Countries: []string{"JP"}, DataMB: 1000,
			ValidityDays: 7, Cost: 1_430_500, InStock: true,
		},
		"bundle_007": {
			Code: "bundle_007", Name: "bundle_007", Type: esim.Country, Countries: []string{"US"}, DataMB: 500,
			ValidityDays: 3, Cost: 990_001, InStock: true,
		},
	}
	for _, l := range got {
		if w, ok := want[l.Code]; ok && fmt.Sprint(l) != fmt.Sprint(w) {
			t.Errorf("%+v, want %+v", l, w)
		}
		if l.Code == "esim_5GB_30D_REUP_V2" && (l.Type != esim.Region || len(l.Countries) != 8) {
			t.Errorf("a region is listed as %+v", l)
		}
		if strings.Contains(l.Code, "_UL_") && (!l.Unlimited || l.DataMB != 0) {
			t.Errorf("a bundle without a limit of data is listed as %+v", l)
		}
		if l.Code == "esim_1GB_7D_RBAL_V2" && (l.Type != esim.Region || fmt.Sprint(l.Countries) != "[AL HR ME]") {
			t.Errorf("a region that is named in place of its countries is listed as %+v", l)
		}
		delete(want, l.Code)
	}
	if len(want) != 0 {
		t.Errorf("not listed: %v", want)
	}
}

func TestInexactPricesAreLeftOut(t *testing.T) {
	b := start(t, esimgofake.Config{})
	inexact := b.over(between{after: func(_ *http.Request, status int, body string) (int, string) {
		return status, strings.Replace(body, `"price":1.12,`, `"price":1.1200000000000001,`, 1)
	}})
	got, err := inexact.Listings(t.Context())
	if err != nil || len(got) != 4 {
		t.Errorf("%d listings, %v; want 4", len(got), err)
	}
}

func TestEmptyPageEndsAListThatDoesNotSayItsLength(t *testing.T) {
	b := start(t, esimgofake.Config{PageSize: 1})
	silent := b.over(between{after: func(_ *http.Request, status int, body string) (int, string) {
		return status, strings.Replace(body, `"pageCount"`, `"was"`, 1)
	}})
	if got, err := silent.Listings(t.Context()); err != nil || len(got) != 5 {
		t.Errorf("%d listings, %v; want 5", len(got), err)
	}
}

func TestDebtIsNoFloat(t *testing.T) {
	b := start(t, esimgofake.Config{})
	b.vendor.SetBalance(1)
	for balance, want := range map[string]money.USDC{"-12.5": 0, "0": 0, "7.000001": 7_000_001, "1e1": 10_000_000} {
		owing := b.over(between{after: func(_ *http.Request, status int, body string) (int, string) {
			return status, strings.Replace(body, `"balance":0.000001`, `"balance":`+balance, 1)
		}})
		if got, err := owing.Check(t.Context(), france); err != nil || got.Float != want {
			t.Errorf("balance %s: %+v, %v", balance, got, err)
		}
	}
	for _, balance := range []string{"1e13", "0.0000001", "--1", "-0.0000001", `"many"`, "null"} {
		odd := b.over(between{after: func(_ *http.Request, status int, body string) (int, string) {
			return status, strings.Replace(body, `"balance":0.000001`, `"balance":`+balance, 1)
		}})
		if got, err := odd.Check(t.Context(), france); err == nil {
			t.Errorf("balance %s is taken as %+v", balance, got)
		}
	}
}

// TestAnswersStayOutOfErrors: the vendor quotes an eSIM wherever it can.
func TestAnswersStayOutOfErrors(t *testing.T) {
	const iccid, matching = "8944500000000000001", "GO-000001-A1B2C3D4"
	b := start(t, esimgofake.Config{})
	for status, body := range map[int]string{
		200: `{"orderReference":"x","status":"` + iccid + `","order":"` + matching + `"}`,
		400: `{"message":"` + iccid + ` ` + matching + `"}`,
		500: iccid + matching, 502: `{"message":"` + iccid + `"}`, 302: iccid,
	} {
		quoting := b.over(between{after: func(r *http.Request, was int, answer string) (int, string) {
			if isTransaction(t, r) || r.Method == http.MethodGet {
				return status, body
			}
			return was, answer
		}})
		r := asking(france)
		_, err := quoting.Order(t.Context(), r)
		wantUnknown(t, err)
		_, read := quoting.Ordered(t.Context(), r.Ref)
		for _, err := range []error{err, read} {
			shown := fulfilmenttest.Shown(t, err)
			for _, hidden := range []string{iccid, matching, esimgofake.DevKey} {
				if strings.Contains(shown, hidden) {
					t.Errorf("%d: %s", status, shown)
				}
			}
		}
	}
}
