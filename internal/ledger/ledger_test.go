package ledger

import (
	"errors"
	"testing"

	"github.com/roamcard/roamcard/internal/money"
)

func balanced(t *testing.T, postings ...Posting) map[Account]money.USDC {
	t.Helper()
	ids := map[ID]bool{}
	for _, p := range postings {
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		if ids[p.ID] {
			t.Errorf("%s is there twice", p.ID)
		}
		ids[p.ID] = true
	}
	return Balances(postings)
}

func TestEveryPostingBalances(t *testing.T) {
	tests := map[string]struct {
		postings []Posting
		want     map[Account]money.USDC
	}{
		"a card": {
			[]Posting{Settled("o", 25_000_000), Loaded("o", "c", 2500), FeeWithdrawn("o", "c", 1000)},
			map[Account]money.USDC{
				Treasury: 25_000_000, Float: -15_000_000, Card("c"): 15_000_000, Holder("c"): -15_000_000,
				Customer("o"): 0, IssueFeeRevenue: -10_000_000,
			},
		},
		"a top-up": {
			[]Posting{Settled("o", 25_000_000), Loaded("o", "c", 2450), LoadFee("o", 50)},
			map[Account]money.USDC{
				Treasury: 25_000_000, Float: -24_500_000, Card("c"): 24_500_000, Holder("c"): -24_500_000,
				Customer("o"): 0, LoadFeeRevenue: -500_000,
			},
		},
		"an eSIM": {
			[]Posting{Settled("o", 5_000_000), Supplied("o", 4_000_001), Sold("o", 500, EsimRevenue)},
			map[Account]money.USDC{
				Treasury: 5_000_000, SupplierFloat: -4_000_001, EsimCost: 4_000_001, Customer("o"): 0, EsimRevenue: -5_000_000,
			},
		},
		"an eSIM that was made and refunded": {
			[]Posting{Settled("o", 5_000_000), Supplied("o", 4_000_000), Refunded("o", 5_000_000)},
			map[Account]money.USDC{Treasury: 0, SupplierFloat: -4_000_000, EsimCost: 4_000_000, Customer("o"): 0},
		},
		"a refund": {
			[]Posting{Settled("o", 25_000_000), Refunded("o", 25_000_000)},
			map[Account]money.USDC{Treasury: 0, Customer("o"): 0},
		},
		"a lost payment that went back": {
			[]Posting{Unmatched("0xaa", 7, 5), SentBack("0xaa", 7, 5, 5)},
			map[Account]money.USDC{Treasury: 0, UnmatchedFunds: 0},
		},
		"a lost payment of which a part went back": {
			[]Posting{Unmatched("0xaa", 7, 5), SentBack("0xaa", 7, 5, 3)},
			map[Account]money.USDC{Treasury: 2, UnmatchedFunds: 0, Donations: -2},
		},
		"a lost payment that went back with others": {
			[]Posting{Unmatched("0xaa", 7, 5), SentBack("0xaa", 7, 5, 8)},
			map[Account]money.USDC{Treasury: 0, UnmatchedFunds: 0},
		},
		"an unmatched transfer": {
			[]Posting{Unmatched("0xaa", 7, 1)},
			map[Account]money.USDC{Treasury: 1, UnmatchedFunds: -1},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := balanced(t, tt.postings...)
			if len(got) != len(tt.want) {
				t.Errorf("accounts %v, want %v", got, tt.want)
			}
			for account, want := range tt.want {
				if got[account] != want {
					t.Errorf("%s holds %s, want %s", account, got[account], want)
				}
			}
		})
	}
}

func TestWhatDoesNotBalanceIsRefused(t *testing.T) {
	for name, entries := range map[string][]Entry{
		"nothing":       nil,
		"one entry":     {{Treasury, 1}},
		"a zero":        {{Treasury, 0}, {UnmatchedFunds, 0}},
		"a missing one": {{Treasury, 5}, {UnmatchedFunds, -4}},
	} {
		if err := (Posting{ID: "x", Entries: entries}).Check(); !errors.Is(err, ErrUnbalanced) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPostingIsNamedByWhatItRecords(t *testing.T) {
	seen := map[ID]bool{}
	for _, p := range []Posting{
		Settled("o", 1), Settled("p", 1), Loaded("o", "c", 1), LoadFee("o", 1), FeeWithdrawn("o", "c", 1), Refunded("o", 1),
		Supplied("o", 1), Sold("o", 1, EsimRevenue),
		Unmatched("0xaa", 1, 1), Unmatched("0xaa", 2, 1), Unmatched("0xab", 1, 1),
	} {
		if seen[p.ID] {
			t.Errorf("%s names two things", p.ID)
		}
		seen[p.ID] = true
	}
	if Settled("o", 1).ID != Settled("o", 2).ID {
		t.Error("a payment is posted again with another amount")
	}
}
