package stripe

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/product/card"
)

// again is the cursor after the last card: the vendor does not list changes, so they are read from the start again.
const again = "again"

// Accounts implements card.CardLister: the cards of the account that are ours.
func (i *Issuer) Accounts(ctx context.Context, after string) ([]card.Account, string, error) {
	p, err := i.roll(ctx, after)
	if err != nil {
		return nil, "", fmt.Errorf("list cards: %w", err)
	}
	var all []card.Account
	for _, a := range p.items {
		ref, ours := a.ref()
		if !ours {
			continue
		}
		account, err := a.account(ref)
		if err != nil {
			return nil, "", fmt.Errorf("list cards: %w", err)
		}
		all = append(all, account)
	}
	if !p.more {
		return all, "", nil
	}
	return all, p.items[len(p.items)-1].ID, nil
}

// roll is a page of all cards of the account after one of them, the oldest first.
func (i *Issuer) roll(ctx context.Context, after string) (page[*cardAnswer], error) {
	list := lister[*cardAnswer](i.listCards)
	if after != "" {
		if !isID(after) {
			return page[*cardAnswer]{}, unclear("the cursor is none of the vendor's IDs")
		}
		return list.towardsNewest(ctx, after)
	}
	if err := i.references.follow(ctx); err != nil {
		return page[*cardAnswer]{}, err
	}
	oldest := i.references.oldest
	i.references.leave()
	if oldest == "" {
		return page[*cardAnswer]{}, nil
	}
	// Several may be of the same second, and others may have been listed late.
	for {
		older, err := i.listCards(ctx, span{after: oldest})
		if err != nil {
			return page[*cardAnswer]{}, err
		}
		if len(older.items) == 0 {
			break
		}
		oldest = older.items[len(older.items)-1].ID
	}
	first, err := i.card(ctx, "accounts", oldest)
	if err != nil {
		return page[*cardAnswer]{}, err
	}
	p, err := list.towardsNewest(ctx, oldest)
	p.items = append([]*cardAnswer{first}, p.items...)
	return p, err
}

// Changes implements card.Book. A reading lists every card and load: Stripe has no list of changes that says which of
// them it leaves out.
func (i *Issuer) Changes(ctx context.Context, after string) (card.Page, error) {
	if after == again {
		after = ""
	}
	read, err := i.changes(ctx, after)
	if err != nil {
		return card.Page{}, fmt.Errorf("read the books: %w", err)
	}
	return read, nil
}

func (i *Issuer) changes(ctx context.Context, after string) (read card.Page, err error) {
	// The cards are read first: what was spent with one of them is then known, if not what was spent since.
	p, err := i.roll(ctx, after)
	if err != nil {
		return read, err
	}
	u, err := i.inUse(ctx)
	if err != nil {
		return read, err
	}
	for _, a := range p.items {
		ref, ours := a.ref()
		if !ours {
			continue
		}
		account, err := a.account(ref)
		if err != nil {
			return card.Page{}, err
		}
		left, err := u.balanceOf(a)
		if err != nil {
			return card.Page{}, err
		}
		read.Lines = append(read.Lines, card.Line{
			ID: a.ID, Card: &card.StatedAccount{Account: account, Balance: left},
		})
		for _, ref := range a.loads() {
			m, err := a.moved(ref)
			if err != nil {
				return card.Page{}, err
			}
			read.Lines = append(read.Lines, card.Line{ID: a.ID + "/" + ref.String(), Movement: &m})
		}
	}
	read.Next, read.More = again, p.more
	if p.more {
		read.Next = p.items[len(p.items)-1].ID
	}
	return read, nil
}
