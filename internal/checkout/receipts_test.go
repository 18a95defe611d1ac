package checkout_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/receipt"
	"github.com/roamcard/roamcard/internal/x402"
)

// signsAs is a signer of the shop whose key is made of a byte, and of former ones.
func signsAs(t testing.TB, keys ...byte) *receipt.Signer {
	t.Helper()
	var seeds [][]byte
	for _, key := range keys {
		seeds = append(seeds, slices.Repeat([]byte{key}, 32))
	}
	s, err := receipt.New("https://shop.example", seeds...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// proven is what a receipt proves.
func proven(t *testing.T, s *receipt.Signer, r *checkout.SignedReceipt) receipt.Proof {
	t.Helper()
	if r == nil {
		t.Fatal("no receipt")
	}
	document, err := s.Document()
	if err != nil {
		t.Fatal(err)
	}
	p, err := receipt.Verify(r.JWS, document)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReceiptIsSignedOnceTheOrderIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signer := signsAs(t, 1)
		s := checkouttest.Open(t, checkouttest.Options{Signer: signer, Dead: true, Wait: time.Second})
		b := s.NewBuyer(t)
		_, _ = s.Buy(t.Context(), s.PaidCard(t, b, "k")) // which nobody settles
		o, err := s.Store.Orders.FindByKey(t.Context(), card.Kind, b.Address, "k")
		if err != nil {
			t.Fatal(err)
		}
		if early, err := s.Order(t.Context(), o.ID, b.Address); err != nil || early.Receipt != nil {
			t.Errorf("before the delivery: %+v, %v", early.Receipt, err)
		}
		if page, _, err := s.Receipts(t.Context(), b.Address, checkout.Query{Limit: 10}); err != nil || len(page) != 0 {
			t.Errorf("before the delivery: %+v, %v", page, err)
		}
		s.Run(t)
		s.Reaches(t, o.ID, order.Fulfilled)
		done, err := s.Order(t.Context(), o.ID, b.Address)
		if err != nil {
			t.Fatal(err)
		}
		p := done.Payment
		want := receipt.Proof{
			Claims: receipt.Claims{
				Amount: "25000000", Asset: p.Asset.String(), IssuedAt: time.Now().Unix(), Network: x402.NetworkID,
				OrderID: string(o.ID), Outcome: receipt.Delivered, Payer: b.Address.String(), Product: "card_issue",
				ResourceURL: "https://shop.example/api/card/purchase", Transaction: p.Receipt.Transaction.String(), Version: 1,
			},
			Signer: "did:web:shop.example",
		}
		got := proven(t, signer, done.Receipt)
		want.KeyID = got.KeyID
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for _, status := range order.Statuses() {
			at := done
			at.Receipt, at.Order.Status = nil, status
			if got := s.WithReceipt(t.Context(), at); (got.Receipt != nil) != (status == order.Fulfilled) {
				t.Errorf("%s, paid and not refunded: %+v", status, got.Receipt)
			}
		}
	})
}

func TestReceiptStaysAsItWasSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Signer: signsAs(t, 1)})
		b := s.NewBuyer(t)
		id := s.MustBuy(t, s.PaidCard(t, b, "k")).Order.ID
		s.Reaches(t, id, order.Fulfilled)
		first, err := s.Order(t.Context(), id, b.Address)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		rotated := signsAs(t, 2, 1)
		later := checkouttest.Open(t, checkouttest.Options{
			Store: s.Store, Chain: s.Chain, Issuer: s.Issuer, Signer: rotated,
		})
		again, err := later.Order(t.Context(), id, b.Address)
		if err != nil || again.Receipt == nil || *again.Receipt != *first.Receipt {
			t.Errorf("%+v, %v; first %+v", again.Receipt, err, first.Receipt)
		}
		proven(t, rotated, again.Receipt)
		page, next, err := later.Receipts(t.Context(), b.Address, checkout.Query{Limit: 10})
		if err != nil || next != "" || !slices.Equal(page, []checkout.SignedReceipt{*first.Receipt}) {
			t.Errorf("%+v, %q, %v", page, next, err)
		}
		if page, _, err := later.Receipts(t.Context(), s.NewBuyer(t).Address, checkout.Query{Limit: 10}); err != nil ||
			len(page) != 0 {
			t.Errorf("another wallet has %+v, %v", page, err)
		}
	})
}

func TestReceiptOfARefundNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signer := signsAs(t, 1)
		s, _ := checkouttest.OpenWithTreasury(t, checkouttest.Options{Signer: signer}, 100_000_000)
		b := s.NewBuyer(t)
		id := s.MustBuy(t, s.PaidCard(t, b, "k~002")).Order.ID
		s.Reaches(t, id, order.Refunded)
		done, err := s.Order(t.Context(), id, b.Address)
		if err != nil {
			t.Fatal(err)
		}
		got := proven(t, signer, done.Receipt)
		if got.Outcome != receipt.Refunded || got.RefundTransaction != done.Refund.Receipt.Transaction.String() ||
			done.Receipt.Outcome != receipt.Refunded {
			t.Errorf("%+v", got)
		}
	})
}

func TestReceiptsAreListedInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signer := signsAs(t, 1)
		s, _ := checkouttest.OpenWithTreasury(t, checkouttest.Options{Signer: signer}, 100_000_000)
		b := s.NewBuyer(t)
		var want []string
		for _, key := range []string{"a~002", "b~002", "c"} {
			id := s.MustBuy(t, s.PaidCard(t, b, key)).Order.ID
			s.Reaches(t, id, map[bool]order.Status{true: order.Fulfilled, false: order.Refunded}[key == "c"])
			want = append([]string{string(id)}, want...)
			time.Sleep(time.Second)
		}
		var got []string
		q := checkout.Query{Limit: 2}
		for {
			page, next, err := s.Receipts(t.Context(), b.Address, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range page {
				got = append(got, proven(t, signer, &one).OrderID)
			}
			if q.Before = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// failing keeps no receipts.
type failing struct{ checkout.ReceiptStore }

func (failing) KeepReceipts(
	context.Context, x402.Address, ...checkout.SignedReceipt,
) (map[order.ID]checkout.SignedReceipt, error) {
	return nil, errors.New("the disk is full")
}

func TestOrderIsShownWithoutAReceiptThatCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Signer: signsAs(t, 1)})
		kept := s.ReceiptStore
		s.ReceiptStore = failing{kept}
		b := s.NewBuyer(t)
		id := s.MustBuy(t, s.PaidCard(t, b, "k")).Order.ID
		s.Reaches(t, id, order.Fulfilled)
		if got, err := s.Order(t.Context(), id, b.Address); err != nil || got.Receipt != nil {
			t.Errorf("%+v, %v", got, err)
		}
		s.ReceiptStore = kept
		if got, err := s.Order(t.Context(), id, b.Address); err != nil || got.Receipt == nil {
			t.Errorf("asked again: %+v, %v", got, err)
		}
	})
}

func TestChallengeHasItsTermsSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Signer: signsAs(t, 1)})
		b := s.NewBuyer(t)
		direct := checkouttest.Purchase("k")
		direct.Extensions = map[string]any{"other": true}
		created, err := s.Create(t.Context(), checkout.CreateRequest{
			Kind: card.Kind, Owner: b.Address, Request: json.RawMessage(`{}`),
			Resource: "https://shop.example/what/its/owner/calls/it",
		})
		if err != nil {
			t.Fatal(err)
		}
		link := "https://shop.example" + order.PayPath(created.Order.ID)
		_, unpaid := s.Pay(t.Context(), created.Order.ID, "", x402.Resource{URL: link + "?another=path"})
		rpc := direct
		rpc.Resource.URL = "https://shop.example/roamcard.v1.CardService/PurchaseCard"
		at := direct.Resource.URL
		for name, tt := range map[string]struct {
			required x402.PaymentRequired
			at       string
			until    time.Time
			others   int
		}{
			"a purchase":            {s.Challenge(t, direct), at, time.Now().Add(5 * time.Minute), 1},
			"a purchase by Connect": {s.Challenge(t, rpc), at, time.Now().Add(5 * time.Minute), 1},
			"an order":              {checkouttest.Required(t, unpaid), link, *created.Order.ExpiresAt, 0},
		} {
			asked := tt.required.Accepts[0]
			want := receipt.Offer{
				Amount: asked.Amount, Asset: asked.Asset, Network: asked.Network, PayTo: asked.PayTo,
				ResourceURL: tt.at, Scheme: asked.Scheme, ValidUntil: tt.until.Unix(), Version: 1,
			}
			if diff := cmp.Diff(want, offered(t, tt.required)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if len(tt.required.Extensions) != 1+tt.others {
				t.Errorf("%s: %v", name, tt.required.Extensions)
			}
		}
		_, _ = s.Pay(t.Context(), created.Order.ID, b.Pay(t, checkouttest.Required(t, unpaid)), x402.Resource{URL: link})
		s.Reaches(t, created.Order.ID, order.Fulfilled)
		done, err := s.Order(t.Context(), created.Order.ID, b.Address)
		if err != nil {
			t.Fatal(err)
		}
		if got := proven(t, signsAs(t, 1), done.Receipt); got.ResourceURL != link {
			t.Errorf("the receipt is of %s, the offer was of %s", got.ResourceURL, link)
		}
		if len(direct.Extensions) != 1 {
			t.Errorf("the caller's extensions are changed: %v", direct.Extensions)
		}
	})
}

// offered is the one offer of a challenge. Who signed it is not looked at.
func offered(t *testing.T, required x402.PaymentRequired) (o receipt.Offer) {
	t.Helper()
	text, err := json.Marshal(required.Extensions[x402.OfferReceipt])
	if err != nil {
		t.Fatal(err)
	}
	var extension struct {
		Info struct {
			Offers []struct {
				AcceptIndex int
				Signature   string
			}
		}
	}
	if err := json.Unmarshal(text, &extension); err != nil || len(extension.Info.Offers) != 1 ||
		extension.Info.Offers[0].AcceptIndex != 0 {
		t.Fatalf("%s, %v", text, err)
	}
	_, rest, _ := strings.Cut(extension.Info.Offers[0].Signature, ".")
	payload, _, _ := strings.Cut(rest, ".")
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestNothingIsSignedWithoutAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		if got := s.Challenge(t, checkouttest.Purchase("k")); got.Extensions != nil {
			t.Errorf("%v", got.Extensions)
		}
		id := s.MustBuy(t, s.PaidCard(t, b, "k")).Order.ID
		s.Reaches(t, id, order.Fulfilled)
		if got, err := s.Order(t.Context(), id, b.Address); err != nil || got.Receipt != nil {
			t.Errorf("%+v, %v", got.Receipt, err)
		}
		if page, next, err := s.Receipts(t.Context(), b.Address, checkout.Query{Limit: 10}); err != nil ||
			len(page) != 0 || next != "" {
			t.Errorf("%v, %q, %v", page, next, err)
		}
	})
}
