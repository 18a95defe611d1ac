package roamcardtest_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/clients/go/roamcard/roamcardtest"
)

func buyer(t *testing.T, s *roamcardtest.Service, changes ...func(*roamcard.Config)) *roamcard.Client {
	t.Helper()
	wallet, err := roamcard.NewKeySigner(walletKey)
	if err != nil {
		t.Fatal(err)
	}
	c := roamcard.Config{
		BaseURL: s.URL(), Signer: wallet, HTTP: s.Transport(), Poll: time.Millisecond,
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 25_000, MaxPerDay: 100_000},
	}
	for _, change := range changes {
		change(&c)
	}
	client, err := roamcard.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestFakeAnswersAsTheServiceDoes holds every answer of a walk through the API to the shapes that a real service
// gave.
func TestFakeAnswersAsTheServiceDoes(t *testing.T) {
	s := roamcardtest.New(roamcardtest.Config{})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	cmd := exec.Command("node", "../../../testing/journey.mjs", s.URL(), walletKey)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	real, err := os.ReadFile("../../../testing/shapes.json")
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := errors.Join(json.Unmarshal(out, &got), json.Unmarshal(real, &want)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the real service's shapes and the fake's (-want +got):\n%s", diff)
	}
}

func TestClientBuysAtTheFakeAsAtTheService(t *testing.T) {
	ctx, s := t.Context(), roamcardtest.New(roamcardtest.Config{})
	c := buyer(t, s)
	bought, err := c.Cards.Purchase(ctx, "card")
	if err != nil {
		t.Fatal(err)
	}
	card, err := c.Cards.WaitUntilActive(ctx, bought.Order.GetOrderId())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cards.TopUp(ctx, 3000, "topup"); err != nil {
		t.Fatal(err)
	}
	if b, err := c.Cards.Balance(ctx, card); err != nil || b.GetAvailableUsdCents() != 1500+2940 {
		t.Errorf("balance %v, %v", b, err)
	}
	opened, err := c.Orders.CreateESIM(ctx, "", "open")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if paid, err := c.Orders.Pay(ctx, opened.GetOrderId()); err != nil || paid.GetStatus() != "fulfilled" {
			t.Errorf("%v, %v", paid, err)
		}
	}
	esim, err := c.ESIM.Purchase(ctx, "", "esim")
	if err != nil || esim.Credentials == nil {
		t.Fatalf("%v, %v", esim, err)
	}
	again, err := c.ESIM.Purchase(ctx, "", "esim")
	if err != nil || !again.Order.GetReplayed() || again.Order.GetOrderId() != esim.Order.GetOrderId() {
		t.Errorf("%v, %v", again, err)
	}
	orders, err := roamcard.Collect(c.Orders.List(ctx, false))
	if err != nil || len(orders) != 4 || len(s.Token.Transfers()) != 4 {
		t.Errorf("%d orders, %d transfers, %v", len(orders), len(s.Token.Transfers()), err)
	}
	if _, err := c.Cards.Purchase(ctx, "second"); !errors.Is(err, &roamcard.APIError{Code: "card_already_exists"}) {
		t.Errorf("a second card: %v", err)
	}
}

func TestTransactionsHavePages(t *testing.T) {
	ctx, s := t.Context(), roamcardtest.New(roamcardtest.Config{})
	c := buyer(t, s)
	when := roamcardtest.When{On: "/roamcard.v1.CardService/ListCardTransactions"}
	says := func(body string) {
		s.Faults.Answer(when, roamcardtest.Answer{Status: http.StatusOK, ContentType: "application/json", Body: body})
	}
	for range 2 {
		says(`{"transactions": [{"id": "a", "merchant": {"name": "Shop"}}], "nextPageToken": "two"}`)
		says(`{"transactions": [{"id": "b", "declineReason": "card_frozen"}]}`)
	}
	page, err := c.Cards.TransactionsPage(ctx, "card", "")
	if err != nil || len(page.Items) != 1 || page.Items[0].GetMerchant().GetName() != "Shop" || page.Next != "two" {
		t.Fatalf("%+v, %v", page, err)
	}
	page, err = c.Cards.TransactionsPage(ctx, "card", page.Next)
	if err != nil || len(page.Items) != 1 || page.Next != "" {
		t.Errorf("%+v, %v", page, err)
	}
	all, err := roamcard.Collect(c.Cards.Transactions(ctx, "card"))
	if err != nil || len(all) != 2 || all[1].GetDeclineReason() != "card_frozen" {
		t.Errorf("%v, %v", all, err)
	}
}

func TestPoorWalletIsToldSo(t *testing.T) {
	s := roamcardtest.New(roamcardtest.Config{Balance: 10})
	if _, err := buyer(t, s).ESIM.Purchase(t.Context(), "", "k"); !errors.Is(err, roamcard.ErrInsufficientFunds) {
		t.Error(err)
	}
}

func TestFakeTakesNoSmartAccounts(t *testing.T) {
	t.Parallel()
	s := roamcardtest.New(roamcardtest.Config{})
	client := buyer(t, s, func(c *roamcard.Config) {
		account, err := roamcard.NewCoinbaseSmartAccount(c.Signer, "0x2c26c0e7cd32a5ad45a9d3b2c2f6bf5d3d5caf11", 0)
		if err != nil {
			t.Fatal(err)
		}
		c.Signer = account
	})
	_, err := client.Cards.Purchase(t.Context(), "k")
	told, ok := errors.AsType[*roamcard.APIError](err)
	if !ok || told.Code != "payer_kind_not_accepted" || told.Status != http.StatusForbidden {
		t.Errorf("a smart account pays: %v", err)
	}
	if len(s.Token.Transfers()) != 0 {
		t.Error("the token moved money")
	}
}

// TestEveryFaultIsSurvived hits the paid request with each fault: the client ends with the order and one transfer.
func TestEveryFaultIsSurvived(t *testing.T) {
	paid := roamcardtest.When{On: roamcardtest.Paid}
	before := roamcardtest.When{On: roamcardtest.Paid, Before: true}
	tests := map[string]func(*roamcardtest.Faults){
		"LoseAnswer":         func(f *roamcardtest.Faults) { f.LoseAnswer(paid) },
		"LoseAnswer, before": func(f *roamcardtest.Faults) { f.LoseAnswer(before) },
		"LoseAnswer, thrice": func(f *roamcardtest.Faults) {
			f.LoseAnswer(roamcardtest.When{On: roamcardtest.Paid, Times: 3})
		},
		"LoseAnswer, unpaid":  func(f *roamcardtest.Faults) { f.LoseAnswer(roamcardtest.When{On: roamcardtest.Unpaid}) },
		"CutAnswer":           func(f *roamcardtest.Faults) { f.CutAnswer(paid, 20) },
		"CutAnswer, end":      func(f *roamcardtest.Faults) { f.CutAnswer(paid, -1) },
		"Unavailable":         func(f *roamcardtest.Faults) { f.Unavailable(paid) },
		"Unavailable, before": func(f *roamcardtest.Faults) { f.Unavailable(before) },
		"Page":                func(f *roamcardtest.Faults) { f.Page(paid) },
		"Repeat":              func(f *roamcardtest.Faults) { f.Repeat(paid) },
		"Delay":               func(f *roamcardtest.Faults) { f.Delay(paid, time.Minute) },
		"Answer": func(f *roamcardtest.Faults) {
			f.Answer(paid, roamcardtest.Answer{Status: 502, ContentType: "text/html", Body: "<html>"})
		},
	}
	for name, fault := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := roamcardtest.New(roamcardtest.Config{})
			fault(s.Faults)
			c := buyer(t, s, func(c *roamcard.Config) { c.Timeout = 200 * time.Millisecond })
			if _, err := c.ESIM.Purchase(t.Context(), "", "k"); err != nil {
				t.Fatal(err)
			}
			if moved := s.Token.Transfers(); len(moved) != 1 {
				t.Errorf("%d transfers", len(moved))
			}
			hit := 0
			for _, r := range s.Faults.Requests() {
				if r.Fault != "" {
					hit++
				}
			}
			if hit == 0 {
				t.Error("the fault hit nothing")
			}
		})
	}
}

// TestFaultsReachClientsOverTheNetwork cuts an answer that passes through a socket.
func TestFaultsReachClientsOverTheNetwork(t *testing.T) {
	s := roamcardtest.New(roamcardtest.Config{})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	s.Faults.CutAnswer(roamcardtest.When{On: "/api/config"}, 10)
	s.Faults.LoseAnswer(roamcardtest.When{On: "/health", Nth: 2})
	res, err := http.Get(s.URL() + "/api/config")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); err == nil || len(body) != 10 {
		t.Errorf("%q, %v", body, err)
	}
	for i, lost := range []bool{false, true, false} {
		// A client that gets no answer to a read asks once more by itself, unless its connection is new.
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if res, err := client.Get(s.URL() + "/health"); (err != nil) != lost {
			t.Errorf("%d: %v, %v", i, res, err)
		}
	}
}
