package stripefake

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const currency = "usd"

func missing(param string) error {
	return invalid("parameter_missing", param, "Missing required param: "+param+".")
}

func notFound(what, id string) error {
	return &problem{
		http.StatusNotFound, "invalid_request_error", "resource_missing", what, "No such " + what + ": '" + id + "'",
	}
}

func (s *Server) open(c call) (any, error) {
	for _, name := range []string{"cardholder", "currency", "type"} {
		if c.form.text(name) == "" {
			return nil, missing(name)
		}
	}
	switch {
	case c.form.text("cardholder") != s.cardholder:
		return nil, invalid("resource_missing", "cardholder", "No such cardholder: '"+c.form.text("cardholder")+"'")
	case c.form.text("currency") != currency:
		return nil, invalid("", "currency", "this server issues cards in dollars")
	case c.form.text("type") != "virtual":
		return nil, invalid("", "type", "this server issues virtual cards")
	case s.books.Holder != "active" || s.books.Disabled != "":
		return nil, invalid("", "cardholder", "This cardholder cannot be issued cards: "+s.books.Holder+s.books.Disabled)
	}
	status := c.form.text("status")
	if !slices.Contains([]string{"", "active", "inactive"}, status) {
		return nil, invalid("", "status", "Invalid status")
	}
	limits, err := c.form.limits()
	if err != nil {
		return nil, err
	}
	metadata := c.form.under("metadata")
	if err := metadataFits(metadata); err != nil {
		return nil, err
	}
	if err := c.form.rest(); err != nil {
		return nil, err
	}
	opened := s.issue(limits, metadata)
	if status != "active" {
		opened.Status = "inactive"
	}
	return s.cardBody(opened), nil
}

func (s *Server) update(c call) (any, error) {
	on := s.find(c.id)
	if on == nil {
		return nil, notFound("issuing card", c.id)
	}
	status := c.form.text("status")
	if !slices.Contains([]string{"", "active", "inactive", "canceled"}, status) {
		return nil, invalid("", "status", "Invalid status")
	}
	controls, err := c.form.controls()
	if err != nil {
		return nil, err
	}
	metadata := maps.Clone(on.Metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	maps.Copy(metadata, c.form.under("metadata"))
	maps.DeleteFunc(metadata, func(_, value string) bool { return value == "" })
	if err := metadataFits(metadata); err != nil {
		return nil, err
	}
	if err := c.form.rest(); err != nil {
		return nil, err
	}
	if on.Status == "canceled" {
		return nil, invalid("", "", "You cannot update a canceled card.")
	}
	if controls != nil { // what it does not name is taken away, which is the worst that the documentation allows
		on.Limits, on.Allowed, on.Blocked = controls.Limits, controls.Allowed, controls.Blocked
	}
	if status != "" {
		on.Status = status
	}
	on.Metadata = metadata
	return s.cardBody(on), nil
}

// metadataFits is the vendor's bound of 50 keys of 40 characters, with values of 500.
func metadataFits(all map[string]string) error {
	if len(all) > 50 {
		return invalid("", "metadata", "Metadata can have up to 50 keys.")
	}
	for key, value := range all {
		if len(key) > 40 || len(value) > 500 || strings.ContainsAny(key, "[]") {
			return invalid("", "metadata", "Metadata keys have up to 40 characters, values up to 500.")
		}
	}
	return nil
}

// controls are the parameters spending_controls[...]; nil when there are none.
func (f *form) controls() (*Card, error) {
	asked := false
	for name := range f.values {
		asked = asked || strings.HasPrefix(name, "spending_controls[")
	}
	if !asked {
		return nil, nil
	}
	limits, err := f.limits()
	if err != nil {
		return nil, err
	}
	c := &Card{Limits: limits}
	for name, into := range map[string]*[]string{"allowed_categories": &c.Allowed, "blocked_categories": &c.Blocked} {
		name = "spending_controls[" + name + "]"
		for n := 0; ; n++ {
			one := f.text(fmt.Sprintf("%s[%d]", name, n))
			if one == "" {
				break
			}
			*into = append(*into, one)
		}
	}
	if len(c.Allowed) > 0 && len(c.Blocked) > 0 {
		return nil, invalid("", "spending_controls", "You cannot allow and block categories at once.")
	}
	return c, nil
}

// limits are the parameters spending_controls[spending_limits][n][...]; nil when there are none.
func (f *form) limits() (all []Limit, err error) {
	const list = "spending_controls[spending_limits]"
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s[%d]", list, n)
		text, interval := f.text(name+"[amount]"), f.text(name+"[interval]")
		if text == "" && interval == "" {
			return all, nil
		}
		amount, err := strconv.ParseInt(text, 10, 64)
		if err != nil || amount < 0 {
			return nil, invalid("parameter_invalid_integer", name+"[amount]", "Invalid integer: "+text)
		}
		if !slices.Contains([]string{"all_time", "daily", "monthly", "per_authorization", "weekly", "yearly"}, interval) {
			return nil, invalid("", name+"[interval]", "Invalid interval")
		}
		l := Limit{Amount: amount, Interval: interval}
		for m := 0; ; m++ {
			category := f.text(fmt.Sprintf("%s[categories][%d]", name, m))
			if category == "" {
				break
			}
			l.Categories = append(l.Categories, category)
		}
		all = append(all, l)
	}
}

func (s *Server) getCard(c call) (any, error) {
	on := s.find(c.id)
	if on == nil {
		return nil, notFound("issuing card", c.id)
	}
	if err := c.form.rest(); err != nil {
		return nil, err
	}
	return s.cardBody(on), nil
}

func (s *Server) listCards(c call) (any, error) {
	var listed []entry
	for _, one := range s.books.Cards {
		if !one.Hidden {
			listed = append(listed, entry{one.ID, one.Created, s.cardBody(one)})
		}
	}
	return c.list(listed)
}

func (s *Server) listAuthorizations(c call) (any, error) {
	of, status := c.form.text("card"), c.form.text("status")
	var listed []entry
	for _, one := range s.books.Authorizations {
		if (of == "" || one.Card == of) && (status == "" || one.Status == status) {
			listed = append(listed, entry{one.ID, one.Created, s.authorizationBody(one)})
		}
	}
	return c.list(listed)
}

func (s *Server) listTransactions(c call) (any, error) {
	of := c.form.text("card")
	var listed []entry
	for _, one := range s.books.Transactions {
		if of == "" || one.Card == of {
			listed = append(listed, entry{one.ID, one.Created, s.transactionBody(one)})
		}
	}
	return c.list(listed)
}

// entry is an object that may be listed.
type entry struct {
	id      string
	created int64
	body    any
}

// list is a page of a list, the newest first.
func (c call) list(all []entry) (any, error) {
	limit, since := int64(10), int64(0)
	for name, into := range map[string]*int64{"limit": &limit, "created[gte]": &since} {
		if text := c.form.text(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, invalid("parameter_invalid_integer", name, "Invalid integer: "+text)
			}
			*into = n
		}
	}
	after, before := c.form.text("starting_after"), c.form.text("ending_before")
	if err := c.form.rest(); err != nil {
		return nil, err
	}
	if limit < 1 || limit > 100 || (after != "" && before != "") {
		return nil, invalid("", "limit", "limit is 1 to 100, and a list is read in one direction")
	}
	slices.Reverse(all)
	all = slices.DeleteFunc(all, func(e entry) bool { return e.created < since })
	from, to := 0, len(all)
	for name, id := range map[string]string{"starting_after": after, "ending_before": before} {
		if id == "" {
			continue
		}
		at := slices.IndexFunc(all, func(e entry) bool { return e.id == id })
		switch {
		case at < 0:
			return nil, invalid("resource_missing", name, "No such object: '"+id+"'")
		case name == "starting_after":
			from = at + 1
		default:
			to = at
		}
	}
	more := int64(to-from) > limit
	if more && before != "" {
		from = to - int(limit)
	} else if more {
		to = from + int(limit)
	}
	data := []any{}
	for _, e := range all[from:to] {
		data = append(data, e.body)
	}
	return map[string]any{"object": "list", "url": c.path, "has_more": more, "data": data}, nil
}

func (s *Server) getHolder(c call) (any, error) {
	if c.id != s.cardholder {
		return nil, notFound("cardholder", c.id)
	}
	if err := c.form.rest(); err != nil {
		return nil, err
	}
	return s.holderBody(), nil
}

func (s *Server) getBalance(c call) (any, error) {
	if err := c.form.rest(); err != nil {
		return nil, err
	}
	nothing := []any{amountBody(0)}
	return map[string]any{
		"object": "balance", "livemode": false, "available": nothing, "pending": nothing,
		"issuing": map[string]any{"available": []any{amountBody(s.books.Balance)}},
	}, nil
}

func amountBody(cents int64) any {
	return map[string]any{"amount": cents, "currency": currency, "source_types": map[string]any{"card": cents}}
}
