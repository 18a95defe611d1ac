package card_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/x402"
)

// chest pays remainders back: once for an order, after it was asked so many times.
type chest struct {
	shop  *closer
	waits int
	// trouble is said once, instead of a progress.
	trouble order.Progress
	fails   error

	mu   sync.Mutex
	paid map[order.ID][]money.USDC
	// early says that money was asked for before the issuer had confirmed the withdrawal.
	early bool
	// byHand are transfers that an operator has made to the card's owner; chainDown, that nobody shows them.
	byHand    map[x402.Hash]money.USDC
	chainDown error
}

// Return implements card.Refunds.
func (c *chest) Return(_ context.Context, l *job.Lease, r payment.Return) (order.Progress, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.shop.args(); c.shop.issuer.Executed(a.Ref()) != 1 || len(c.shop.posted()) != 1 {
		c.early = true
	}
	switch {
	case c.waits > 0:
		c.waits--
		return order.Progress{State: order.Waiting, After: time.Second}, nil
	case c.trouble.State != order.Waiting:
		said := c.trouble
		c.trouble = order.Progress{}
		return said, nil
	}
	if len(c.paid[r.Order]) == 0 {
		c.paid[r.Order] = append(c.paid[r.Order], r.Amount)
	}
	if err := c.fails; err != nil {
		c.fails = nil
		return order.Progress{}, err
	}
	return order.Progress{State: order.Delivered},
		c.shop.store.SaveClosing(context.Background(), l.Fence(), r.Next.(card.CloseArgs), r.Postings...)
}

// Transferred implements payment.Transfers: what was sent by hand.
func (c *chest) Transferred(_ context.Context, to x402.Address, amount money.USDC, hash x402.Hash) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byHand[hash] == amount && to == c.shop.sold().Owner, c.chainDown
}

const longestHold = 30 * time.Minute

// closer is a shelf with a card that is sold, which an operator may close.
type closer struct {
	*shelf
	refunds *chest
	admin   card.CloseAdmin
	order   order.ID
	// working is since when the issuer could be asked.
	working time.Time
}

// closing tells a story of a card on which 15.00 are left.
func closing(t *testing.T, limits bool, traits fulfilment.Traits, tell func(c *closer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &closer{shelf: newShelf(t, traits), refunds: &chest{paid: map[order.ID][]money.USDC{}}}
		c.refunds.shop = c
		c.issuer = cardtest.NewIssuer(cardtest.Config{Instant: true, Limits: limits, Traits: traits})
		cfg := c.Config
		cfg.Working = func() time.Time { return c.working }
		cfg.Providers = []card.Provider{{
			Issuer: c.issuer, Vault: c.issuer, Stock: c.issuer, Lister: c.issuer, Controls: c.issuer, Closer: c.issuer,
			Traits: traits, Capabilities: c.issuer.Capabilities(),
		}}
		c.Cards = card.New(cfg)
		credit := topup.Topups{Cards: c.Cards}
		c.made.Deliver = func(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
			if o.Kind == topup.Kind {
				return credit.Deliver(ctx, l, o)
			}
			return c.Deliver(ctx, l, o)
		}
		c.admin = card.CloseAdmin{
			Jobs: c.store.Closings(), Issuers: c.Cards, CallTimeout: callTimeout, Now: time.Now, Chain: c.refunds,
		}
		closings := card.Closings{
			Cards: c.Cards, Store: c.store, Refunds: c.refunds, LongestHold: longestHold,
		}
		c.made.Work(t, map[job.Kind]job.Handler{
			card.FeeJob: c.WithdrawFee, card.CloseJob: closings.Close,
		}, func() {
			c.order = c.paid()
			c.pass(time.Second)
			tell(c)
			if c.refunds.early {
				t.Error("a refund was asked for before the withdrawal was confirmed and posted")
			}
		})
	})
}

func (c *closer) sold() card.Card { return c.card(c.order) }

func (c *closer) close() job.Row {
	c.Helper()
	row, err := c.admin.Close(c.Context(), c.sold().ID, card.OperatorContext{Operator: "op"})
	if err != nil {
		c.Fatal(err)
	}
	return row
}

func (c *closer) row() job.Row {
	row, _, _ := c.queue.Find(context.Background(), card.CloseJob, c.sold().ID.String())
	return row
}

func (c *closer) args() card.CloseArgs {
	a, _ := job.Decode[card.CloseArgs](c.row())
	return a
}

// wantClosed wants the card closed, and its remainder withdrawn and paid back once; nothing of either if it is zero.
func (c *closer) wantClosed(left money.Cents) {
	c.Helper()
	row, a := c.row(), c.args()
	if row.Status != job.Succeeded || a.Stage != card.StageClosed || a.Remainder != left {
		c.Fatalf("the closing is %s in %s with %s, %q; want it closed with %s", row.Status, a.Stage, a.Remainder,
			row.LastError, left)
	}
	if got := c.sold(); got.Status != card.Closed {
		c.Errorf("the card is %s", got.Status)
	}
	read, err := c.issuer.Account(c.Context(), c.sold().Ref)
	if err != nil || read.State != card.AccountClosed {
		c.Errorf("at the issuer, the card is %+v, %v", read, err)
	}
	var want []money.USDC
	if left > 0 {
		want = []money.USDC{left.USDC()}
	}
	if got := c.refunds.paid[c.order]; len(got) != len(want) || len(got) == 1 && got[0] != want[0] {
		c.Errorf("paid back: %v, want %v", got, want)
	}
	c.wantPosted(left)
}

// posted are the postings of closings.
func (c *closer) posted() []ledger.Posting {
	return slices.DeleteFunc(c.store.Orders().Posted(c.order), func(p ledger.Posting) bool {
		return p.Kind != ledger.KindRemainder && p.Kind != ledger.KindReturned
	})
}

func (c *closer) wantPosted(left money.Cents) {
	c.Helper()
	posted := c.posted()
	for _, p := range posted {
		if err := p.Check(); err != nil {
			c.Error(err)
		}
	}
	sums := ledger.Balances(posted)
	if sums[ledger.Customer(string(c.order))] != 0 || sums[ledger.Treasury] != -left.USDC() ||
		sums[ledger.Float] != left.USDC() {
		c.Errorf("the ledger has %v", sums)
	}
}

func TestClosedCardIsEmptiedRefundedAndEnded(t *testing.T) {
	for name, limits := range map[string]bool{"purse": false, "limit": true} {
		t.Run(name, func(t *testing.T) {
			closing(t, limits, careful, func(c *closer) {
				c.issuer.Spend(c.sold().Ref, 300)
				c.close()
				c.pass(time.Minute)
				c.wantClosed(1200)
				if again := c.close(); again.ID != c.row().ID || again.Status != job.Succeeded {
					c.Errorf("closed again: %+v", again)
				}
				c.pass(time.Minute)
				c.wantClosed(1200)
			})
		})
	}
}

func TestEmptyCardIsJustEnded(t *testing.T) {
	closing(t, false, careful, func(c *closer) {
		c.issuer.Spend(c.sold().Ref, 1500)
		c.close()
		c.pass(time.Minute)
		c.wantClosed(0)
		if n := c.issuer.Executed(c.args().Ref()); n != 0 {
			c.Errorf("%d withdrawals of nothing", n)
		}
	})
}

// A lost, late or unreadable answer of any call ends as if it had come: nothing is withdrawn or paid twice.
func TestClosingSurvivesWhateverTheIssuerAnswers(t *testing.T) {
	modes := []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutBefore, fulfilmenttest.TimeoutAfter,
		fulfilmenttest.Malformed, fulfilmenttest.RateLimited, fulfilmenttest.Duplicate,
	}
	ops := []fulfilmenttest.Op{cardtest.Lock, cardtest.Left, cardtest.Move, cardtest.Moved, cardtest.End}
	for _, op := range ops {
		for _, mode := range modes {
			for name, limits := range map[string]bool{"purse": false, "limit": true} {
				t.Run(name+"/"+string(op)+"/"+string(mode), func(t *testing.T) {
					closing(t, limits, careful, func(c *closer) {
						c.issuer.Fault(op, mode)
						c.close()
						c.pass(30 * time.Minute)
						c.wantClosed(1500)
						if n := c.issuer.Executed(c.args().Ref()); n != 1 {
							c.Errorf("the withdrawal was executed %d times", n)
						}
					})
				})
			}
		}
	}
}

func TestNothingIsRefundedWhileTheWithdrawalIsUnknown(t *testing.T) {
	closing(t, false, fulfilment.Traits{VisibilityDelay: visibilityDelay}, func(c *closer) {
		c.issuer.Fault(cardtest.Move, fulfilmenttest.TimeoutBefore)
		c.close()
		c.pass(30 * time.Minute)
		if row := c.row(); row.Status != job.OperatorReview || !strings.Contains(row.LastError, "no trace") {
			c.Fatalf("the closing is %s: %q", row.Status, row.LastError)
		}
		if n := c.issuer.Calls(cardtest.Move); n != 2 { // the fee's and one of the remainder
			c.Errorf("the issuer was asked for %d movements", n)
		}
		if len(c.refunds.paid) != 0 || len(c.posted()) != 0 {
			c.Errorf("paid back: %v, posted: %v", c.refunds.paid, c.posted())
		}
	})
}

func TestRefusedWithdrawalWaitsForAnOperator(t *testing.T) {
	for _, mode := range []fulfilmenttest.Mode{fulfilmenttest.Refused, fulfilmenttest.Rejected} {
		t.Run(string(mode), func(t *testing.T) {
			closing(t, false, careful, func(c *closer) {
				c.issuer.Fault(cardtest.Move, mode)
				c.close()
				c.pass(time.Minute)
				first := c.args()
				if row := c.row(); row.Status != job.OperatorReview || first.Version != 2 || len(first.Earlier) != 1 {
					c.Fatalf("the closing is %s: %q, %+v", row.Status, row.LastError, first)
				}
				if len(c.refunds.paid) != 0 {
					c.Errorf("paid back: %v", c.refunds.paid)
				}
				if _, err := c.admin.Retry(c.Context(), c.row().ID, card.OperatorContext{Operator: "op"}); err != nil {
					c.Fatal(err)
				}
				c.pass(time.Minute)
				c.wantClosed(1500)
			})
		})
	}
}

// What a merchant takes after all is not paid back: the withdrawal is refused, and what is left is read again.
func TestMerchantThatTakesMoreIsPaidFirst(t *testing.T) {
	closing(t, false, careful, func(c *closer) {
		c.issuer.Fault(cardtest.Move, fulfilmenttest.TimeoutBefore)
		c.close()
		c.pass(time.Second)
		c.issuer.Spend(c.sold().Ref, 400)
		c.pass(time.Hour)
		c.wantClosed(1100)
		if a := c.args(); a.Version != 2 {
			c.Errorf("version %d", a.Version)
		}
	})
}

func TestHeldMoneyIsWaitedFor(t *testing.T) {
	for taken, left := range map[bool]money.Cents{true: 1100, false: 1500} {
		closing(t, false, careful, func(c *closer) {
			release := c.issuer.Hold(c.T, c.sold().Account, 400)
			c.close()
			c.pass(20 * time.Minute)
			if a := c.args(); a.Stage != card.StageLocking || len(c.refunds.paid) != 0 {
				c.Fatalf("while a merchant holds money: %+v, paid %v", a, c.refunds.paid)
			}
			if got := c.sold(); got.Status != card.Frozen {
				c.Errorf("the card is %s", got.Status)
			}
			release(taken)
			c.pass(2 * time.Hour)
			c.wantClosed(left)
		})
	}
	closing(t, false, careful, func(c *closer) {
		c.issuer.Hold(c.T, c.sold().Account, 400)
		c.close()
		c.pass(3 * longestHold / 2)
		if row := c.row(); row.Status != job.OperatorReview {
			c.Errorf("after too long a hold, the closing is %s", row.Status)
		}
	})
}

// TestClosingThatWaitsIsLookedAtAnewAfterAnOutage: held money and a card that somebody else works on may be waited for
// for weeks, and are looked at seldom then. What happened during an outage is not one more of these waits late.
func TestClosingThatWaitsIsLookedAtAnewAfterAnOutage(t *testing.T) {
	closing(t, false, careful, func(c *closer) {
		c.issuer.Hold(c.T, c.sold().Account, 400)
		c.close()
		c.pass(20 * time.Minute)
		seldom := c.row().RunAt
		c.working = seldom.Add(-2 * time.Second)
		c.pass(time.Until(seldom) + 2*time.Second)
		if next := c.row().RunAt.Sub(seldom); next <= 0 || next > 10*time.Second {
			c.Errorf("seconds after an outage, it is looked at again after %s", next)
		}
	})
}

func TestMoreThanTheBooksPutOnACardIsNotPaidBack(t *testing.T) {
	closing(t, false, careful, func(c *closer) {
		c.issuer.Hold(c.T, c.sold().Account, -100)(true)
		c.close()
		c.pass(time.Minute)
		if row := c.row(); row.Status != job.OperatorReview || !strings.Contains(row.LastError, "16.00") ||
			len(c.refunds.paid) != 0 {
			c.Errorf("the closing is %s: %q; paid back: %v", row.Status, row.LastError, c.refunds.paid)
		}
	})
}

func TestRefundThatFailsOrWaitsEndsOnce(t *testing.T) {
	closing(t, false, careful, func(c *closer) {
		c.refunds.waits, c.refunds.fails = 3, errors.New("the process ends")
		c.close()
		c.pass(time.Hour)
		c.wantClosed(1500)
	})
	closing(t, false, careful, func(c *closer) {
		c.refunds.trouble = order.Progress{State: order.Doubtful, Reason: "no treasury"}
		c.close()
		c.pass(time.Minute)
		if row := c.row(); row.Status != job.OperatorReview || row.LastError != "no treasury" ||
			c.args().Stage != card.StageRefunding {
			c.Fatalf("the closing is %s in %s: %q", row.Status, c.args().Stage, row.LastError)
		}
		if _, err := c.admin.Retry(c.Context(), c.row().ID, card.OperatorContext{Operator: "op"}); err != nil {
			c.Fatal(err)
		}
		c.pass(time.Minute)
		c.wantClosed(1500)
	})
}

// TestTopUpsMeetAClosing: one that the issuer has is on the card and in the remainder, one that it never had is
// refunded.
func TestTopUpsMeetAClosing(t *testing.T) {
	for name, limits := range map[string]bool{"purse": false, "limit": true} {
		t.Run(name, func(t *testing.T) {
			closing(t, limits, careful, func(c *closer) {
				begun := c.topUp()
				c.issuer.Fault(cardtest.Move, fulfilmenttest.TimeoutAfter)
				c.pass(100 * time.Millisecond)
				c.close()
				c.pass(time.Second)
				late := c.topUp()
				c.pass(10 * time.Minute)
				if at := c.ended(begun); at.State != order.Delivered && at.State != order.Refused {
					c.Errorf("the first top-up: %+v", at)
				}
				if at := c.ended(late); at.State != order.Refused || at.Reason != card.RefusedState {
					c.Errorf("the late top-up: %+v", at)
				}
				left := money.Cents(1500)
				if c.ended(begun).State == order.Delivered {
					left += 2450
				}
				c.wantClosed(left)
			})
		})
	}
}

// topUp lets the owner pay for a load of 24.50.
func (c *closer) topUp() order.ID {
	split := topup.SplitOf(2500)
	split.Card = c.sold().ID
	o := order.Order{
		ID: order.NewID(time.Now()), Kind: topup.Kind, Owner: owner, Price: 2500, UpdatedAt: time.Now(),
		Item: asItem(c.T, split), Delivery: 1,
	}
	c.made.Ended = c.post
	c.made.Begin(c.T, o)
	return o.ID
}

func TestClosedCardAnswersTheDocumentedErrors(t *testing.T) {
	uses := func(c *closer, id uuid.UUID) map[string]error {
		_, freeze := c.Freeze(c.Context(), id, owner)
		_, unfreeze := c.Unfreeze(c.Context(), id, owner)
		_, reveal := c.Own(c.Context(), id, owner)
		_, topUp := topup.Topups{Cards: c.Cards}.Reserve(c.Context(), owner, credit)
		return map[string]error{"freeze": freeze, "unfreeze": unfreeze, "reveal": reveal, "top-up": topUp}
	}
	wanted := func(c *closer, want map[string]fault.Code) {
		for name, err := range uses(c, c.sold().ID) {
			if fault.Of(err) != want[name] {
				c.Errorf("%s: %v, want %s", name, err, want[name])
			}
			if want[name] == fault.CardLocked && !strings.Contains(fmt.Sprint(err), "An operator is closing the card.") {
				c.Errorf("%s: %v does not say who locks the card", name, err)
			}
		}
	}
	closing(t, false, careful, func(c *closer) {
		c.refunds.waits = 60
		if _, err := c.Freeze(c.Context(), c.sold().ID, owner); err != nil {
			c.Fatal(err)
		}
		c.close()
		c.pass(10 * time.Second)
		wanted(c, map[string]fault.Code{
			"freeze": fault.CardLocked, "unfreeze": fault.CardLocked, "reveal": fault.CardNotActive,
			"top-up": fault.ActiveCardMissing,
		})
		c.pass(10 * time.Minute)
		c.wantClosed(1500)
		wanted(c, map[string]fault.Code{
			"freeze": fault.CardNotActive, "unfreeze": fault.CardNotActive, "reveal": fault.CardNotActive,
			"top-up": fault.ActiveCardMissing,
		})
	})
}

// An owner who is unfreezing the card as an operator closes it has ended before the remainder is read.
func TestRemainderIsReadAfterTheOwnersCallHasEnded(t *testing.T) {
	closing(t, false, careful, func(c *closer) {
		if _, err := c.Freeze(c.Context(), c.sold().ID, owner); err != nil {
			c.Fatal(err)
		}
		c.close()
		c.pass(callTimeout - time.Second)
		if n := c.issuer.Calls(cardtest.Left); n != 0 {
			c.Errorf("the remainder was read %d times", n)
		}
		if _, err := c.issuer.SetFrozen(c.Context(), c.sold().Account, false); err != nil {
			c.Fatal(err)
		}
		c.pass(time.Minute)
		c.wantClosed(1500)
	})
}

// unable are issuers that close no cards.
type unable struct{}

func (unable) Closes(string) bool { return false }

func TestOnlyACardWhoseFeeIsDecidedIsClosed(t *testing.T) {
	closing(t, false, careful, func(c *closer) {
		_, err := c.admin.Close(c.Context(), uuid.New(), card.OperatorContext{Operator: "op"})
		wantFault(c.T, err, fault.CardNotFound)
		_, err = c.admin.Retry(c.Context(), uuid.New(), card.OperatorContext{Operator: "op"})
		wantFault(c.T, err, fault.JobNotFound)
		poor := c.admin
		poor.Issuers = unable{}
		_, err = poor.Close(c.Context(), c.sold().ID, card.OperatorContext{Operator: "op"})
		wantFault(c.T, err, fault.CardControlMissing)

		c.issuer.Fault(cardtest.Move, fulfilmenttest.Rejected)
		second := c.sold()
		second.ID, second.Status = uuid.New(), card.Active
		c.store.Put(second)
		_, err = c.admin.Close(c.Context(), second.ID, card.OperatorContext{Operator: "op"})
		wantFault(c.T, err, fault.CardNotActive)
	})
	closing(t, false, careful, func(c *closer) {
		c.issuer.Fault(cardtest.Move, fulfilmenttest.Refused)
		c.order = c.paidBy(x402.Address{1})
		c.pass(time.Minute)
		_, err := c.admin.Close(c.Context(), c.sold().ID, card.OperatorContext{Operator: "op"})
		wantFault(c.T, err, fault.FeeOutstanding)
	})
}

// A closing whose job our data has lost does not withdraw what is withdrawn already.
func TestClosingFindsItsOwnWithdrawal(t *testing.T) {
	closing(t, false, careful, func(c *closer) {
		on := c.sold()
		a := card.CloseArgs{Opening: on.Ref.String(), Version: 1}
		if _, err := c.issuer.SetFrozen(c.Context(), on.Account, true); err != nil {
			c.Fatal(err)
		}
		_, err := c.issuer.Move(c.Context(), card.Movement{
			Ref: a.Ref(), Account: on.Account, Direction: card.Withdrawal, Amount: 1500,
		})
		if err != nil {
			c.Fatal(err)
		}
		c.close()
		c.pass(time.Minute)
		c.wantClosed(1500)
	})
}

// TestRefundByHandIsConcluded: only by a transaction that the chain shows, and once.
func TestRefundByHandIsConcluded(t *testing.T) {
	closing(t, false, careful, func(c *closer) {
		act := card.OperatorContext{Operator: "op", Reason: "sent from the safe"}
		right, wrong := x402.Hash{1}, x402.Hash{2}
		c.refunds.byHand = map[x402.Hash]money.USDC{right: money.Cents(1500).USDC(), wrong: money.Cents(1499).USDC()}
		conclude := func(hash x402.Hash, want fault.Code) {
			c.Helper()
			if _, err := c.admin.Conclude(c.Context(), c.row().ID, hash, act); fault.Of(err) != want {
				c.Errorf("concluded by %x: %v, want %q", hash[:1], err, want)
			}
		}
		conclude(right, fault.JobNotFound)
		c.refunds.trouble = order.Progress{State: order.Doubtful, Reason: "the refund did not go through"}
		c.refunds.waits = 10
		c.close()
		c.pass(2 * time.Second)
		conclude(right, fault.OrderNotInReview)
		c.pass(time.Minute)
		if row, a := c.row(), c.args(); row.Status != job.OperatorReview || a.Stage != card.StageRefunding {
			c.Fatalf("the closing is %s in %s", row.Status, a.Stage)
		}
		conclude(wrong, fault.TransferUnproven)
		c.refunds.chainDown = errors.New("no node answers")
		conclude(right, fault.DependencyDown)
		c.refunds.chainDown = nil
		c.pass(time.Minute)
		if a := c.args(); a.Stage != card.StageRefunding || len(c.posted()) != 1 {
			c.Fatalf("the closing has gone on to %s, with %v", a.Stage, c.posted())
		}
		conclude(right, "")
		c.pass(time.Minute)
		conclude(right, "")
		conclude(wrong, fault.OrderNotInReview)
		if row, a := c.row(), c.args(); row.Status != job.Succeeded || a.Stage != card.StageClosed ||
			a.ByHand != right.String() {
			c.Errorf("the closing is %s in %s, by %q", row.Status, a.Stage, a.ByHand)
		}
		if len(c.refunds.paid) != 0 {
			c.Errorf("paid in addition: %v", c.refunds.paid)
		}
		c.wantPosted(1500)
	})
}
