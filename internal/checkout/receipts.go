package checkout

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/paging"
	"github.com/roamcard/roamcard/internal/receipt"
	"github.com/roamcard/roamcard/internal/x402"
)

// SignedReceipt is the receipt of an order that has ended, as it was first signed: the same for ever, whatever key
// signs by then.
type SignedReceipt struct {
	Order   order.ID
	Outcome receipt.Outcome
	// JWS is the receipt in the compact form.
	JWS      string
	IssuedAt time.Time
}

// ReceiptStore keeps signed receipts.
type ReceiptStore interface {
	// Receipts finds the receipts of an owner's orders; an order without one is left out.
	Receipts(ctx context.Context, owner x402.Address, ids ...order.ID) (map[order.ID]SignedReceipt, error)
	// KeepReceipts keeps receipts of an owner's orders. An order that has one keeps that. It returns those that are kept
	// then.
	KeepReceipts(
		ctx context.Context, owner x402.Address, signed ...SignedReceipt,
	) (map[order.ID]SignedReceipt, error)
}

// Locator is a Product whose path depends on the order.
type Locator interface {
	// PathOf is the URL path at which an order was bought.
	PathOf(o order.Order) string
}

// withOffer is the extensions of a challenge, with the offer signed for what is asked.
func (c *Checkout) withOffer(
	extensions map[string]any, p Purchase, o order.Offer, asked x402.Requirements,
) (map[string]any, error) {
	if c.Signer == nil {
		return extensions, nil
	}
	sold, until := order.Order{Kind: p.Kind, Key: p.Key, Item: o.Item}, c.Now().Add(quoteLifetime)
	if p.of != nil {
		sold = *p.of
		if sold.ExpiresAt != nil {
			until = *sold.ExpiresAt
		}
	}
	jws, err := c.Signer.Offer(receipt.Offer{
		ResourceURL: c.boughtAt(sold), Scheme: asked.Scheme, Network: asked.Network, Asset: asked.Asset, PayTo: asked.PayTo,
		Amount: asked.Amount, ValidUntil: until.Unix(),
	})
	if err != nil {
		return nil, fmt.Errorf("sign the offer: %w", err)
	}
	all := maps.Clone(extensions) // which are shared
	if all == nil {
		all = map[string]any{}
	}
	all[x402.OfferReceipt] = x402.DeclareOffers(jws)
	return all, nil
}

// WithReceipt adds the signed receipt of an order that has ended, which is signed now if it has none. It never fails:
// an order whose receipt cannot be had is answered without, and has it when it is asked for again.
func (c *Checkout) WithReceipt(ctx context.Context, paid PaidOrder) PaidOrder {
	signed, err := c.receipts(ctx, paid.Order.Owner, paid)
	if err != nil {
		c.Log.WarnContext(ctx, "an order is shown without its receipt", "order", paid.Order.ID, "error", err)
		return paid
	}
	if one, ok := signed[paid.Order.ID]; ok {
		paid.Receipt = &one
	}
	return paid
}

// Receipts lists the receipts of a wallet's orders, newest order first. next is the cursor of the next page, or empty.
func (c *Checkout) Receipts(
	ctx context.Context, owner x402.Address, q Query,
) (page []SignedReceipt, next order.ID, err error) {
	if c.Signer == nil {
		return nil, "", nil
	}
	limit := q.Limit
	q.Limit, q.Ended = limit+1, true
	orders, err := c.Store.Orders(ctx, owner, q)
	if err != nil {
		return nil, "", fmt.Errorf("list the orders: %w", err)
	}
	orders, next = paging.Cut(orders, limit, func(o order.Order) order.ID { return o.ID })
	paid, err := c.withPayments(ctx, orders...)
	if err != nil {
		return nil, "", err
	}
	signed, err := c.receipts(ctx, owner, paid...)
	if err != nil {
		return nil, "", err
	}
	for _, o := range orders {
		if one, ok := signed[o.ID]; ok {
			page = append(page, one)
		}
	}
	return page, next, nil
}

// receipts are those of an owner's orders that have ended. Those that have none are signed and kept.
func (c *Checkout) receipts(
	ctx context.Context, owner x402.Address, paid ...PaidOrder,
) (map[order.ID]SignedReceipt, error) {
	if c.Signer == nil {
		return nil, nil
	}
	ended := map[order.ID]receipt.Claims{}
	var ids []order.ID
	for _, p := range paid {
		if claims, ok := c.claims(p); ok {
			ended[p.Order.ID] = claims
			ids = append(ids, p.Order.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	kept, err := c.ReceiptStore.Receipts(ctx, owner, ids...)
	if err != nil || len(kept) == len(ids) {
		return kept, err
	}
	var made []SignedReceipt
	for _, id := range ids {
		if _, ok := kept[id]; ok {
			continue
		}
		now := c.Now()
		claims := ended[id]
		claims.IssuedAt = now.Unix()
		jws, err := c.Signer.Receipt(claims)
		if err != nil {
			return nil, fmt.Errorf("sign the receipt of %s: %w", id, err)
		}
		made = append(made, SignedReceipt{Order: id, Outcome: claims.Outcome, JWS: jws, IssuedAt: now})
	}
	fresh, err := c.ReceiptStore.KeepReceipts(ctx, owner, made...)
	if err != nil {
		return nil, fmt.Errorf("keep the receipts: %w", err)
	}
	maps.Copy(fresh, kept)
	return fresh, nil
}

// claims are what a receipt says of an order, if it has ended. IssuedAt is left out.
func (c *Checkout) claims(p PaidOrder) (receipt.Claims, bool) {
	proof := p.Payment.Receipt
	if proof == nil {
		return receipt.Claims{}, false
	}
	claims := receipt.Claims{
		Amount: proof.Amount.String(), Asset: p.Payment.Asset.String(), Network: p.Payment.Network,
		OrderID: string(p.Order.ID), Outcome: receipt.Delivered, Payer: proof.Payer.String(),
		Product: string(p.Order.Kind), ResourceURL: c.boughtAt(p.Order), Transaction: proof.Transaction.String(),
	}
	switch {
	case p.Order.Status == order.Fulfilled:
		return claims, true
	case p.Order.Status == order.Refunded && p.Refund != nil && p.Refund.Receipt != nil:
		claims.Outcome, claims.RefundTransaction = receipt.Refunded, p.Refund.Receipt.Transaction.String()
		return claims, true
	}
	return receipt.Claims{}, false
}

// boughtAt is the URL of what an order paid for: the route of its product, or its own address. By which of our paths or
// protocols it was asked for, and what its owner calls it, is not signed.
func (c *Checkout) boughtAt(o order.Order) string {
	if o.IsKeyless() {
		return c.Signer.Origin() + order.PayPath(o.ID)
	}
	if p, ok := c.products[o.Kind].(Locator); ok {
		return c.Signer.Origin() + p.PathOf(o)
	}
	return c.Signer.Origin() + c.products[o.Kind].Path()
}
