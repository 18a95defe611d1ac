package invariants

// cancelJob gives an eSIM back.
const cancelJob = "esim_cancel"

// cancelRow is the job that gives an eSIM back: how far it is, what the supplier has credited, and what of it goes
// back.
type cancelRow struct {
	Job, Order, Profile, Status, Stage string
	Credit, Refund                     int64
	// ByHand is the transaction that an operator refunded it with.
	ByHand string
}

// granted says that the supplier must have taken the eSIM back, returned that its owner must have the refund.
func (c cancelRow) granted() bool  { return c.Stage == "refunding" || c.returned() }
func (c cancelRow) returned() bool { return c.Stage == "refunded" }

func (r *records) cancelsByOrder() map[string]cancelRow {
	all := map[string]cancelRow{}
	for _, c := range r.cancels {
		all[c.Order] = c
	}
	return all
}

// cancelledEsimsAreGivenBack follows every cancellation to the supplier's books and to the refund, and back.
func cancelledEsimsAreGivenBack(r *records) []string {
	var f findings
	made, profiles, orders := map[string]supplierEsim{}, map[string]profileRow{}, r.ordersByID()
	for _, e := range r.supplier.Esims {
		made[lower(e.Reference)] = e
	}
	cancels := r.cancelsByOrder()
	for _, p := range r.profiles {
		profiles[p.ID] = p
		if p.Status == "cancelled" && !cancels[p.Order].granted() {
			f.add("profile %s of order %s is cancelled, and nobody gave it back", p.ID, p.Order)
		}
	}
	refunds := map[string]refundRow{}
	for _, b := range r.refunds {
		refunds[b.Order] = b
	}
	for _, c := range r.cancels {
		p := profiles[c.Profile]
		at := made[lower(p.Reference)]
		refund, refunded := refunds[c.Order]
		switch {
		case p.Order != c.Order:
			f.add("cancellation %s is of profile %s, which is not that of order %s", c.Job, c.Profile, c.Order)
			continue
		case c.granted() && (at.Status != "cancelled" || p.Status != "cancelled"):
			f.add("cancellation %s: the supplier's eSIM is %q, ours is %s", c.Job, at.Status, p.Status)
		case c.granted() && (c.Refund <= 0 || c.Refund > c.Credit || c.Credit > at.Cost ||
			c.Refund > orders[c.Order].PriceCents*unitsPerCent):
			f.add("cancellation %s: the eSIM cost %d units, %d were credited and %d go back", c.Job, at.Cost, c.Credit, c.Refund)
		case (refunded || c.ByHand != "") && (!c.granted() || at.Status != "cancelled"):
			f.add("cancellation %s: a refund is signed, and the supplier granted nothing", c.Job)
		case c.returned() && !r.refundedOnce(c.Order, c.ByHand, c.Refund):
			f.add("cancellation %s: %d units go back, and the refund of %d units is %q", c.Job, c.Refund, refund.Value,
				refund.Status)
		case c.Stage == "kept" && p.Status != "ready":
			f.add("cancellation %s was refused, and the eSIM is %s", c.Job, p.Status)
		}
		switch ended := c.returned() || c.Stage == "kept"; {
		case ended != (c.Status == "succeeded"):
			f.add("cancellation %s is %s in the stage %s", c.Job, c.Status, c.Stage)
		case c.Status == "queued" || c.Status == "processing" || c.Status == "failed":
			f.add("cancellation %s is still %s", c.Job, c.Status)
		}
	}
	return f
}
