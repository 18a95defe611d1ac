package roamcardtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/clients/go/roamcard/roamcardtest"
)

// notServed are the scenarios of clients/testing/scenarios.json that need what the fake does not have.
var notServed = map[string]string{
	"esim-late": "its eSIMs come with the answer", "reveal": "it seals no cards", "watch": "it serves no streams",
	"smart-account": "its wallets are keys",
}

// scenarios are those that the fake bears out as the service does; each gives how many transfers there are.
var scenarios = map[string]func(*stage) int{
	"purchase": func(s *stage) int {
		bought := must(s.buyer().Cards.Purchase(s.ctx, "k"))
		must(s.buyer().Cards.WaitUntilActive(s.ctx, bought.Order.GetOrderId()))
		return 1
	},
	"top-up": func(s *stage) int {
		must(s.buyer().Cards.Purchase(s.ctx, "k"))
		must(s.buyer().Cards.TopUp(s.ctx, 2500, "t"))
		return 2
	},
	"esim-topup": func(s *stage) int {
		bought := must(s.buyer().ESIM.Purchase(s.ctx, "", "k"))
		id := bought.Order.GetOrderId()
		plans := must(roamcard.Collect(s.buyer().ESIM.TopUps(s.ctx, id)))
		more := must(s.buyer().ESIM.TopUp(s.ctx, id, plans[0].GetPlanId(), "t"))
		if roamcard.ESIMTopUpOf(more.Order) != roamcard.DeliveryFulfilled {
			s.Errorf("topped up: %v", more.Order)
		}
		return 2
	},
	"esim": func(s *stage) int {
		if must(s.buyer().ESIM.Purchase(s.ctx, "", "k")).Credentials == nil {
			s.Error("no eSIM came")
		}
		return 1
	},
	"controls": func(s *stage) int {
		c := s.buyer()
		card := must(c.Cards.WaitUntilActive(s.ctx, must(c.Cards.Purchase(s.ctx, "k")).Order.GetOrderId()))
		for range 2 {
			if frozen := must(c.Cards.Freeze(s.ctx, card)); roamcard.CardStatusOf(frozen) != roamcard.CardFrozen {
				s.Error(frozen)
			}
		}
		if _, err := c.Cards.TopUp(s.ctx, 2500, "t"); !errors.Is(err, &roamcard.APIError{Code: "active_card_missing"}) {
			s.Error(err)
		}
		if thawed := must(c.Cards.Unfreeze(s.ctx, card)); roamcard.CardStatusOf(thawed) != roamcard.CardActive {
			s.Error(thawed)
		}
		want := roamcard.CardLimits{PerTransaction: 2000, PerMonth: 9000, BlockedCategories: []string{"7995"}}
		for _, got := range []roamcard.CardLimits{
			must(c.Cards.SetLimits(s.ctx, card, want)), must(c.Cards.Limits(s.ctx, card)),
		} {
			if got.PerTransaction != 2000 || got.PerMonth != 9000 || !slices.Equal(got.BlockedCategories, []string{"7995"}) {
				s.Error(got)
			}
		}
		if d := must(c.Cards.Details(s.ctx, card)); d.GetBillingAddress().GetPostalCode() == "" ||
			d.GetThreeDSecure().GetMethod() != "automatic" {
			s.Error(d)
		}
		if all := must(roamcard.Collect(c.Cards.Transactions(s.ctx, card))); len(all) != 0 {
			s.Error(all)
		}
		return 1
	},
	"pay-order": func(s *stage) int {
		c := s.buyer()
		opened := must(c.Orders.CreateESIM(s.ctx, "", "k"))
		for range 2 {
			must(c.Orders.Pay(s.ctx, opened.GetPayableUrl()))
		}
		return 1
	},
	"reply-dropped": func(s *stage) int {
		s.Faults.LoseAnswer(roamcardtest.When{On: roamcardtest.Paid})
		s.Faults.CutAnswer(roamcardtest.When{On: roamcardtest.Paid}, 100)
		return s.resent(3)
	},
	"reply-late": func(s *stage) int {
		s.Faults.Delay(roamcardtest.When{On: roamcardtest.Paid}, time.Minute)
		return s.resent(2)
	},
	"unavailable": func(s *stage) int {
		s.Faults.Unavailable(roamcardtest.When{On: roamcardtest.Paid, Before: true})
		s.Faults.Unavailable(roamcardtest.When{On: roamcardtest.Paid})
		return s.resent(3)
	},
	"killed": func(s *stage) int {
		s.Faults.LoseAnswer(roamcardtest.When{On: roamcardtest.Paid, Times: -1})
		if _, err := s.buyer().ESIM.Purchase(s.ctx, "", "k"); !errors.Is(err, roamcard.ErrAmbiguousPayment) {
			s.Error(err)
		}
		s.Faults.Clear()
		if all := must(s.buyer().ResumeAll(s.ctx)); len(all) != 1 || all[0].Err != nil {
			s.Errorf("%+v", all)
		}
		return 1
	},
	"journal-lost": func(s *stage) int {
		must(s.buyer().ESIM.Purchase(s.ctx, "", "k"))
		s.folder = s.TempDir()
		must(s.buyer().ESIM.Purchase(s.ctx, "", "k"))
		return 1
	},
	"parallel": func(s *stage) int {
		clients := []*roamcard.Client{s.buyer(), s.buyer()}
		var calls sync.WaitGroup
		for i := range 6 {
			calls.Go(func() {
				if _, err := clients[i%2].ESIM.Purchase(s.ctx, "", "k"); err != nil {
					s.Error(err)
				}
			})
		}
		calls.Wait()
		return 1
	},
	"caps": func(s *stage) int {
		s.policy.MaxPerDay = 10
		if _, err := s.buyer().ESIM.Purchase(s.ctx, "", "k"); !errors.Is(err, roamcard.ErrPolicyDenied) {
			s.Error(err)
		}
		return 0
	},
	"wrong-terms": func(s *stage) int {
		s.policy.PayTo = "0x000000000000000000000000000000000000dEaD"
		if _, err := s.buyer().ESIM.Purchase(s.ctx, "", "k"); !errors.Is(err, roamcard.ErrTermsMismatch) {
			s.Error(err)
		}
		return 0
	},
	"approval": func(s *stage) int {
		s.policy.Mode, s.policy.Approve = roamcard.HumanApproval,
			func(context.Context, roamcard.Quote) (bool, error) { return false, nil }
		if _, err := s.buyer().ESIM.Purchase(s.ctx, "", "k"); !errors.Is(err, roamcard.ErrApprovalDenied) {
			s.Error(err)
		}
		return 0
	},
	"poor": func(s *stage) int {
		if err := s.Token.SetBalance(s.signer.Address(), 1); err != nil {
			s.Error(err)
		}
		if _, err := s.buyer().ESIM.Purchase(s.ctx, "", "k"); !errors.Is(err, roamcard.ErrInsufficientFunds) {
			s.Error(err)
		}
		return 0
	},
	"sign-in": func(s *stage) int {
		c := s.buyer()
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				if _, err := c.Cards.List(s.ctx); err != nil {
					s.Error(err)
				}
			})
		}
		calls.Wait()
		s.passed = 2 * time.Hour
		must(c.Cards.List(s.ctx))
		signedIn := 0
		for _, r := range s.Faults.Requests() {
			if strings.HasSuffix(r.Path, "VerifyChallenge") {
				signedIn++
			}
		}
		if signedIn != 2 {
			s.Errorf("signed in %d times, want twice", signedIn)
		}
		return 0
	},
}

// stage is a fake, and a wallet with a journal in a folder.
type stage struct {
	*testing.T
	*roamcardtest.Service
	ctx    context.Context
	signer *roamcard.KeySigner
	folder string
	policy roamcard.Policy
	// passed is how far the fake's clock has gone on.
	passed time.Duration
}

// buyer is a client as a new process would make it.
func (s *stage) buyer() *roamcard.Client {
	return must(roamcard.New(roamcard.Config{
		BaseURL: s.URL(), Signer: s.signer, HTTP: s.Transport(), Poll: time.Millisecond, Timeout: 200 * time.Millisecond,
		Policy: s.policy,
		Store:  must(roamcard.NewFileStore(filepath.Join(s.folder, "journal"))), Now: s.now,
	}))
}

func (s *stage) now() time.Time { return time.Now().Add(s.passed) }

// resent buys, and checks how often the same bytes went out.
func (s *stage) resent(times int) int {
	must(s.buyer().ESIM.Purchase(s.ctx, "", "k"))
	sent, different := 0, map[string]bool{}
	for _, r := range s.Faults.Requests() {
		if r.Payment != "" {
			sent++
			different[r.Payment] = true
		}
	}
	if sent != times || len(different) != 1 {
		s.Errorf("%d payments went out, %d different ones, want %d and 1", sent, len(different), times)
	}
	return 1
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestFakeBearsTheScenariosOut plays the scenarios that the clients of every language prove at the real service.
func TestFakeBearsTheScenariosOut(t *testing.T) {
	data, err := os.ReadFile("../../../testing/scenarios.json")
	if err != nil {
		t.Fatal(err)
	}
	var promised map[string]string
	if err := json.Unmarshal(data, &promised); err != nil {
		t.Fatal(err)
	}
	for name := range promised {
		play, there := scenarios[name]
		if !there {
			if notServed[name] == "" {
				t.Errorf("nothing plays %q", name)
			}
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stage{
				T: t, ctx: t.Context(), signer: wallet(t), folder: t.TempDir(),
				policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 25_000, MaxPerDay: 100_000},
			}
			s.Service = roamcardtest.New(roamcardtest.Config{Now: s.now})
			if want, got := play(s), len(s.Token.Transfers()); got != want {
				t.Errorf("%d transfers, want %d", got, want)
			}
		})
	}
}
