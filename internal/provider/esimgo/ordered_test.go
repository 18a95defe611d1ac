package esimgo_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// lose sends an order whose answer is lost, before or after the vendor made it.
func (b *bench) lose(code string, mode vendorfake.Mode) esim.Request {
	b.t.Helper()
	r := asking(code)
	b.fault("order", mode)
	_, err := b.Order(b.t.Context(), r)
	wantUnknown(b.t, err)
	return r
}

// buy sends an order that is answered.
func (b *bench) buy(code string) (esim.Request, esim.Purchase) {
	b.t.Helper()
	r := asking(code)
	p, err := b.Order(b.t.Context(), r)
	if err != nil {
		b.t.Fatalf("order: %v", err)
	}
	return r, p
}

func (b *bench) wantFound(r esim.Request, reference string) {
	b.t.Helper()
	if p, err := b.Ordered(b.t.Context(), r.Ref); err != nil || p.ID != reference || p.Ref != r.Ref {
		b.t.Errorf("found %+v, %v; want the order %s", p, err, reference)
	}
}

func (b *bench) wantNone(r esim.Request) {
	b.t.Helper()
	if p, err := b.Ordered(b.t.Context(), r.Ref); !errors.Is(err, fulfilment.ErrNoRef) {
		b.t.Errorf("found %+v, %v; want ErrNoRef", p, err)
	}
}

func (b *bench) wantAmbiguous(r esim.Request) {
	b.t.Helper()
	p, err := b.Ordered(b.t.Context(), r.Ref)
	wantUnknown(b.t, err)
	if p.ActivationData != nil {
		b.t.Error("an ambiguous order hands out its eSIM")
	}
}

func TestLostAnswerIsFoundByAnotherProcess(t *testing.T) {
	b := start(t, esimgofake.Config{})
	r := b.lose(france, vendorfake.TimeoutAfter)
	b.Supplier = b.dial()
	b.wantFound(r, b.vendor.Orders()[0].Reference)
	// From then on it is read by its name, whatever else is bought.
	b.vendor.Buy(france)
	b.wantFound(r, b.vendor.Orders()[0].Reference)
}

func TestOrderOfAnotherReferenceIsNotTaken(t *testing.T) {
	b := start(t, esimgofake.Config{})
	first := b.lose(france, vendorfake.TimeoutBefore)
	second, p := b.buy(france)
	b.wantNone(first)
	b.wantFound(second, p.ID)
}

// TestOrderThatTwoReferencesCanHaveMadeIsNobodys: one answer was lost on the way to the vendor, the other on the way
// back, and nothing tells which.
func TestOrderThatTwoReferencesCanHaveMadeIsNobodys(t *testing.T) {
	b := start(t, esimgofake.Config{})
	first := b.lose(france, vendorfake.TimeoutBefore)
	b.clock.pass(time.Second)
	second := b.lose(france, vendorfake.TimeoutAfter)
	b.wantAmbiguous(first)
	b.wantAmbiguous(second)
	if n := len(b.vendor.Orders()); n != 1 {
		t.Errorf("%d orders were made", n)
	}
}

func TestTwoOrdersThatFitAreNobodys(t *testing.T) {
	b := start(t, esimgofake.Config{})
	first, second := b.lose(france, vendorfake.TimeoutAfter), b.lose(france, vendorfake.TimeoutAfter)
	b.wantAmbiguous(first)
	b.wantAmbiguous(second)
}

func TestLostAnswersOfDifferentBundlesAreFound(t *testing.T) {
	b := start(t, esimgofake.Config{})
	first, second := b.lose(france, vendorfake.TimeoutAfter), b.lose(japan, vendorfake.ErrorAfter)
	b.wantFound(second, b.vendor.Orders()[1].Reference)
	b.wantFound(first, b.vendor.Orders()[0].Reference)
}

func TestLostAnswersFarApartAreFound(t *testing.T) {
	b := start(t, esimgofake.Config{})
	first := b.lose(france, vendorfake.TimeoutAfter)
	b.clock.pass(time.Hour)
	second := b.lose(france, vendorfake.TimeoutAfter)
	b.clock.pass(time.Hour)
	third := b.lose(france, vendorfake.TimeoutBefore)
	b.wantFound(second, b.vendor.Orders()[1].Reference)
	b.wantFound(first, b.vendor.Orders()[0].Reference)
	b.wantNone(third)
}

// TestOrderSentDuringTheSearchIsNotTaken: whoever reads the journal before the list does not know who sent what is new
// in the list.
func TestOrderSentDuringTheSearchIsNotTaken(t *testing.T) {
	b := start(t, esimgofake.Config{})
	first := b.lose(france, vendorfake.TimeoutBefore)
	var second esim.Request
	searching := b.over(between{before: func(r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/orders" && second.Code == "" {
			second = b.lose(france, vendorfake.TimeoutAfter)
		}
	}})
	p, err := searching.Ordered(t.Context(), first.Ref)
	if second.Code == "" {
		t.Fatal("nothing was sent during the search")
	}
	wantUnknown(t, err)
	if p.ActivationData != nil {
		t.Error("the eSIM of the second buyer was handed to the first")
	}
}

// TestSearchOfTwoProcessesGivesAnOrderOnce: both may see one order as the only one.
func TestSearchOfTwoProcessesGivesAnOrderOnce(t *testing.T) {
	b := start(t, esimgofake.Config{})
	first := b.lose(france, vendorfake.TimeoutAfter)
	made := b.vendor.Orders()[0].Reference
	other := asking(japan)
	slow := b.over(between{before: func(r *http.Request) {
		// Another reference gets the order while this one reads it.
		if r.URL.Path == "/orders/"+made {
			sent := esim.Sent{Ref: other.Ref, Code: other.Code, Cost: 1, At: b.clock.now()}
			if err := errors.Join(b.journal.Begin(t.Context(), sent),
				b.journal.Name(t.Context(), other.Ref, made)); err != nil {
				t.Error(err)
			}
		}
	}})
	_, err := slow.Ordered(t.Context(), first.Ref)
	wantUnknown(t, err)
}

func TestOrderThatSomebodyMadeByHandIsNotTaken(t *testing.T) {
	b := start(t, esimgofake.Config{})
	b.vendor.Buy(france)
	b.clock.pass(time.Hour)
	r := b.lose(france, vendorfake.TimeoutBefore)
	b.wantNone(r)

	b.vendor.Install(b.vendor.Buy(france))
	b.wantAmbiguous(r)
	if sent, err := b.journal.Sent(t.Context(), r.Ref); err != nil || sent.Account != "" {
		t.Errorf("the journal gives it to %+v, %v", sent, err)
	}
	other := b.lose(japan, vendorfake.TimeoutAfter)
	b.vendor.Buy(japan)
	b.wantAmbiguous(other)
}

func TestOrderAtAnotherTotalIsNotTaken(t *testing.T) {
	b := start(t, esimgofake.Config{})
	r := asking(france)
	raised := b.over(between{before: func(q *http.Request) {
		if isTransaction(t, q) {
			b.vendor.SetPrice(france, 2_000_000)
		}
	}})
	_, err := raised.Order(t.Context(), r)
	wantUnknown(t, err)
	b.wantAmbiguous(r)
}

// TestListThatCannotBeReadSettlesNothing: what is unreadable could be the order that is searched.
func TestListThatCannotBeReadSettlesNothing(t *testing.T) {
	b := start(t, esimgofake.Config{})
	b.vendor.Buy(france)
	b.clock.pass(time.Hour)
	r := b.lose(france, vendorfake.TimeoutBefore)
	b.clock.pass(time.Second)
	b.vendor.Buy(japan)
	b.wantNone(r)
	today := b.clock.now().Format("2006-01-02T15:04:05")
	for name, change := range map[string][2]string{
		"no time":      {`"createdDate":"` + today, `"createdDate":"today ` + today},
		"no bundle":    {`"item":"` + japan + `"`, `"item":""`},
		"no quantity":  {`"item":"` + japan + `","quantity":1`, `"item":"` + japan + `","quantity":0`},
		"no reference": {`"orderReference":"`, `"orderReference":"../`},
		"no lines":     {`"order":[{"type":"bundle","item":"` + japan, `"order":[],"was":[{"item":"`},
		"no list":      {`"orders":`, `"items":`},
		"a text":       {`"orders":[`, `"orders":"[`},
	} {
		t.Run(name, func(t *testing.T) {
			changed := false
			spoiled := b.over(between{after: func(q *http.Request, status int, body string) (int, string) {
				text := strings.ReplaceAll(body, change[0], change[1])
				changed = changed || text != body
				return status, text
			}})
			_, err := spoiled.Ordered(t.Context(), r.Ref)
			wantUnknown(t, err)
			if !changed {
				t.Error("nothing was changed")
			}
		})
	}
}

func TestOldOrdersOfOtherKindsDoNotMatter(t *testing.T) {
	b := start(t, esimgofake.Config{PageSize: 1})
	b.vendor.Buy(japan)
	b.clock.pass(time.Hour)
	r := b.lose(france, vendorfake.TimeoutAfter)
	odd := b.over(between{after: func(_ *http.Request, status int, body string) (int, string) {
		return status, strings.ReplaceAll(body, `"item":"`+japan+`"`, `"item":""`)
	}})
	if p, err := odd.Ordered(t.Context(), r.Ref); err != nil || p.ID != b.vendor.Orders()[1].Reference {
		t.Errorf("found %+v, %v", p, err)
	}
}

func TestSearchReadsNoFurtherThanItHasTo(t *testing.T) {
	b := start(t, esimgofake.Config{PageSize: 5})
	for range 40 {
		b.vendor.Buy(japan)
	}
	b.clock.pass(time.Hour)
	r := b.lose(france, vendorfake.TimeoutAfter)
	before := b.vendor.Requests()["ordered"]
	b.wantFound(r, b.vendor.Orders()[40].Reference)
	if n := b.vendor.Requests()["ordered"] - before; n != 2 {
		t.Errorf("%d requests; want one page and the order", n)
	}
}

func TestListThatIsTooLongSettlesNothing(t *testing.T) {
	b := start(t, esimgofake.Config{})
	r := b.lose(france, vendorfake.TimeoutBefore)
	b.vendor.Buy(japan)
	endless := b.over(between{after: func(_ *http.Request, status int, body string) (int, string) {
		return status, strings.ReplaceAll(body, `"pageCount":1`, `"pageCount":1000000`)
	}})
	_, err := endless.Ordered(t.Context(), r.Ref)
	wantUnknown(t, err)
}

func TestESIMIsReadWhenItIsMade(t *testing.T) {
	b := start(t, esimgofake.Config{Pending: true, Bare: true})
	r, p := b.buy(france)
	if p.State != esim.PurchasePending || p.ActivationData != nil {
		t.Errorf("ordered %+v", p)
	}
	b.vendor.Settle()
	for mode, pending := range map[vendorfake.Mode]bool{esimgofake.Processing: true, vendorfake.ErrorBefore: false} {
		b.fault("assignments", mode)
		p, err := b.Ordered(t.Context(), r.Ref)
		if pending && (err != nil || p.State != esim.PurchasePending) {
			t.Errorf("%s: %+v, %v; want it pending", mode, p, err)
		}
		if !pending {
			wantUnknown(t, err)
		}
	}
	p, err := b.Ordered(t.Context(), r.Ref)
	if err != nil || p.State != esim.PurchaseReady || p.ActivationData.ICCID.Reveal() != b.vendor.Orders()[0].ICCID ||
		p.ActivationData.SMDPAddress.Reveal() != "rsp.esimgo.example.com" {
		t.Errorf("read as %+v, %v", p, err)
	}
}

func TestAssignmentsAreTakenInEachDocumentedForm(t *testing.T) {
	const whole = `{"iccid":"8944500000000000001","matchingId":"A1-B2","smdpAddress":"RSP.example.com"}`
	for body, ready := range map[string]bool{
		`{"esims":[` + whole + `]}`: true, `[` + whole + `]`: true, whole: true,
		`[` + whole + `,` + whole + `]`:                                   true,
		`[` + whole + `,` + strings.Replace(whole, "1\"", "2\"", 1) + `]`: false,
		`{"esims":[{"iccid":"8944500000000000001"}]}`:                     false,
		strings.Replace(whole, "A1-B2", "a b", 1):                         false,
		strings.Replace(whole, "RSP.example.com", "rsp", 1):               false,
		strings.Replace(whole, "8944", "1234", 1):                         false,
		`{}`: false, `"ICCID","Matching ID"`: false, `{"esims":null}`: false,
	} {
		b := start(t, esimgofake.Config{Bare: true})
		shown := b.over(between{after: func(r *http.Request, status int, answer string) (int, string) {
			if r.URL.Path == "/esims/assignments" {
				return status, body
			}
			return status, answer
		}})
		p, err := shown.Order(t.Context(), asking(france))
		switch {
		case ready && (err != nil || p.State != esim.PurchaseReady ||
			p.ActivationData.SMDPAddress.Reveal() != "rsp.example.com"):
			t.Errorf("%s: %+v, %v", body, p, err)
		case !ready:
			wantUnknown(t, err)
		}
	}
}

func TestESIMOfAnotherOrderIsNotHandedOn(t *testing.T) {
	b := start(t, esimgofake.Config{})
	r, _ := b.buy(france)
	mixed := b.over(between{after: func(q *http.Request, status int, answer string) (int, string) {
		switch {
		case q.URL.Path == "/esims/assignments":
			answer = strings.Replace(answer, b.vendor.Orders()[0].ICCID, "8944509999999999999", 1)
		case strings.HasPrefix(q.URL.Path, "/orders/"):
			answer = strings.Replace(answer, `"matchingId"`, `"was"`, 1)
		}
		return status, answer
	}})
	p, err := mixed.Ordered(t.Context(), r.Ref)
	wantUnknown(t, err)
	if p.ActivationData != nil {
		t.Error("the eSIM of another order was handed on")
	}
}

func TestOrderThatIsGoneIsUnknown(t *testing.T) {
	b := start(t, esimgofake.Config{})
	r, _ := b.buy(france)
	for _, status := range []int{http.StatusNotFound, http.StatusBadRequest, http.StatusForbidden, http.StatusOK} {
		gone := b.over(between{after: func(*http.Request, int, string) (int, string) {
			return status, `{"message":"order not found"}`
		}})
		_, err := gone.Ordered(t.Context(), r.Ref)
		wantUnknown(t, err)
	}
}

func TestBookHasEveryOrder(t *testing.T) {
	b := start(t, esimgofake.Config{PageSize: 2})
	first, p := b.buy(france)
	lost := b.lose(japan, vendorfake.TimeoutAfter)
	byHand := b.vendor.Buy(japan)
	book, err := b.Purchases(t.Context())
	if err != nil || len(book) != 3 {
		t.Fatalf("%+v, %v", book, err)
	}
	refs := map[fulfilment.Ref]bool{}
	for _, p := range book {
		refs[p.Ref] = true
		if p.ActivationData != nil || p.Cost <= 0 || p.Code == "" {
			t.Errorf("the book shows %+v", p)
		}
		if (p.Ref == first.Ref) != (p.ID == b.vendor.Orders()[0].Reference) || p.Ref == lost.Ref {
			t.Errorf("%s is of %s", p.ID, p.Ref)
		}
	}
	if len(refs) != 3 || p.ID == byHand {
		t.Errorf("references %v", refs)
	}
	again, err := b.Purchases(t.Context())
	if diff := cmp.Diff(book, again); err != nil || diff != "" {
		t.Errorf("%v, the second time (-first +second):\n%s", err, diff)
	}
	b.fault("ordered", vendorfake.Truncated)
	if half, err := b.Purchases(t.Context()); err == nil || half != nil {
		t.Errorf("half a book: %+v, %v", half, err)
	}
}

// TestOrderOfAnyTimeHasOneReference: what another reference has is not searched again, whenever that was sent.
func TestOrderOfAnyTimeHasOneReference(t *testing.T) {
	b := start(t, esimgofake.Config{})
	r := b.lose(france, vendorfake.TimeoutAfter)
	other := esim.Sent{Ref: asking(france).Ref, Code: france, Cost: 1, At: b.clock.now().Add(-100 * time.Hour)}
	if err := errors.Join(b.journal.Begin(t.Context(), other),
		b.journal.Name(t.Context(), other.Ref, b.vendor.Orders()[0].Reference)); err != nil {
		t.Fatal(err)
	}
	b.wantNone(r)
}
