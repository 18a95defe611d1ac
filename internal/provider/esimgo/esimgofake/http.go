package esimgofake

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

const (
	maxQuantity = 10
	smdpAddress = "rsp.esimgo.example.com"
)

func ok(body any) vendorfake.Reply { return vendorfake.JSON(http.StatusOK, body) }

func no(status int, message string) vendorfake.Reply {
	return vendorfake.JSON(status, map[string]string{"message": message})
}

// later is no, until so many seconds have passed.
func later(status int, message string, seconds int) vendorfake.Reply {
	r := no(status, message)
	r.Header = map[string]string{"Retry-After": strconv.Itoa(seconds)}
	return r
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, route := range map[string]struct {
		op     func(vendorfake.Call) string
		answer func(vendorfake.Call) vendorfake.Reply
	}{
		"GET /catalogue":             {listing, s.catalogue},
		"GET /catalogue/{name}":      {vendorfake.Always(opPlan), s.bundle},
		"GET /orders":                {vendorfake.Always(opOrdered), s.list},
		"GET /orders/{reference}":    {vendorfake.Always(opOrdered), s.order},
		"POST /orders":               {ordering, s.take},
		"GET /esims/assignments":     {vendorfake.Always(opAssignments), s.assignments},
		"GET /esims/{iccid}":         {vendorfake.Always(opESIM), s.esim},
		"GET /esims/{iccid}/bundles": {vendorfake.Always(opBundles), s.applied},
		"GET /organisation":          {vendorfake.Always(opOrganisation), s.organisation},
	} {
		mux.HandleFunc(pattern, s.Serve(route.op, func(c vendorfake.Call) vendorfake.Reply {
			s.mu.Lock()
			defer s.mu.Unlock()
			return route.answer(c)
		}))
	}
	s.Control(mux, "/control/", s.books)
	mux.HandleFunc("POST /control/webhooks", vendorfake.Local(s.setCallbacks))
	mux.HandleFunc("POST /control/orders/{reference}/usage", vendorfake.Local(s.use))
	return mux
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// listing is topups for what an eSIM's countries have, and plans for any other list.
func listing(c vendorfake.Call) string {
	if c.URL.Query().Has("countries") {
		return opTopups
	}
	return opPlans
}

// ordering is check for what is only validated, and topup for what is added to an eSIM.
func ordering(c vendorfake.Call) string {
	var asked orderRequest
	switch err := json.Unmarshal(c.Body, &asked); {
	case err == nil && asked.Type == "validate":
		return opCheck
	case err == nil && len(asked.Order) == 1 && len(asked.Order[0].ICCIDs) > 0:
		return opTopup
	}
	return opOrder
}

type orderRequest struct {
	Type   string `json:"type"`
	Assign *bool  `json:"assign"`
	Order  []struct {
		Type     string `json:"type"`
		Item     string `json:"item"`
		Quantity int    `json:"quantity"`
		// ICCIDs are the eSIMs that the bundle is added to.
		ICCIDs []string `json:"iccids"`
	} `json:"order"`
}

// take validates an order, or makes it.
func (s *Server) take(c vendorfake.Call) vendorfake.Reply {
	var asked orderRequest
	if json.Unmarshal(c.Body, &asked) != nil {
		return no(http.StatusBadRequest, "invalid request body")
	}
	if !slices.Contains([]string{"validate", "transaction"}, asked.Type) || len(asked.Order) != 1 ||
		asked.Order[0].Type != "bundle" || asked.Order[0].Quantity < 1 {
		return no(http.StatusBadRequest, "invalid order")
	}
	line := asked.Order[0]
	if line.Quantity > maxQuantity {
		return no(http.StatusTooManyRequests, "too many eSIMs in an order")
	}
	b := s.find(line.Item)
	if b == nil {
		return no(http.StatusBadRequest, "bundle not found")
	}
	var onto *bought
	fits := len(line.ICCIDs) == 0
	if len(line.ICCIDs) == 1 {
		onto = s.holding(line.ICCIDs[0])
		fits = onto != nil && onto.use.Profile != "Deleted"
	}
	total := b.Price * money.USDC(line.Quantity)
	if asked.Type == "validate" {
		answer := orderBody{
			Total: dollars(total), Currency: s.currency(), Valid: new(fits && !b.soldOut && total <= s.balance),
			Order: []lineBody{{
				Type: "bundle", Item: b.Name, Quantity: line.Quantity, SubTotal: dollars(total), Price: dollars(b.Price),
			}},
		}
		return ok(answer)
	}
	switch now := s.cfg.Now(); {
	case b.soldOut:
		return no(http.StatusBadRequest, "bundle not available")
	case !fits:
		return no(http.StatusBadRequest, "bundle not compatible with the eSIM")
	case total > s.balance:
		return no(http.StatusBadRequest, "insufficient balance")
	case line.Quantity != 1 || asked.Assign == nil || !*asked.Assign:
		return no(http.StatusBadRequest, "only one eSIM is assigned at a time")
	case now.Sub(s.latest) < s.cfg.OrderGap:
		return later(http.StatusTooManyRequests, "too many requests", int(s.cfg.OrderGap/time.Second)+1)
	default:
		s.latest = now
	}
	return ok(s.shown(s.sell(b, onto)))
}

// currency is the organisation's.
func (s *Server) currency() string { return "USD" }

func (s *Server) catalogue(r vendorfake.Call) vendorfake.Reply {
	bundles := slices.DeleteFunc(slices.Clone(s.bundles),
		func(b *Bundle) bool { return !b.in(r.URL.Query().Get("countries")) })
	page, of := paged(r, bundles, s.cfg.PageSize)
	shown := make([]bundleBody, 0, len(page))
	for _, b := range page {
		shown = append(shown, b.shown())
	}
	return ok(map[string]any{"bundles": shown, "pageCount": of, "rows": len(bundles)})
}

// in reports whether a bundle shows one of some countries, separated by commas. A region shows none.
func (b *Bundle) in(countries string) bool {
	return countries == "" || b.Region == "" && slices.ContainsFunc(strings.Split(countries, ","), func(c string) bool {
		return slices.Contains(b.Countries, c)
	})
}

func (s *Server) bundle(r vendorfake.Call) vendorfake.Reply {
	b := s.find(r.PathValue("name"))
	if b == nil {
		return no(http.StatusNotFound, "bundle not found")
	}
	return ok(b.shown())
}

func (s *Server) list(r vendorfake.Call) vendorfake.Reply {
	all := slices.Clone(s.orders)
	if !s.cfg.OldestFirst {
		slices.Reverse(all)
	}
	page, of := paged(r, all, s.cfg.PageSize)
	shown := make([]orderBody, 0, len(page))
	for _, o := range page {
		body := s.shown(o)
		body.Order[0].ESIMs = nil // only an order by itself shows its eSIM
		shown = append(shown, body)
	}
	return ok(map[string]any{"orders": shown, "pageCount": of, "rows": len(all)})
}

func (s *Server) order(r vendorfake.Call) vendorfake.Reply {
	if o := s.ordered(r.PathValue("reference")); o != nil {
		return ok(s.shown(o))
	}
	return no(http.StatusNotFound, "order not found")
}

func (s *Server) assignments(r vendorfake.Call) vendorfake.Reply {
	o := s.ordered(r.URL.Query().Get("reference"))
	switch {
	case r.Header.Get("Accept") != "application/json":
		return no(http.StatusNotAcceptable, "this fake writes no CSV")
	case o == nil:
		return no(http.StatusBadRequest, "order not found")
	case !o.Completed:
		return later(http.StatusServiceUnavailable, "processing", 1)
	}
	return ok(map[string]any{"esims": []installBody{o.sim.shown()}})
}

func (s *Server) esim(r vendorfake.Call) vendorfake.Reply {
	o := s.holding(r.PathValue("iccid"))
	if o == nil {
		return no(http.StatusBadRequest, "eSIM not found")
	}
	body := o.sim.shown()
	if o.use.Profile != "" {
		body.Status = o.use.Profile
	}
	return ok(body)
}

// applied are the bundles of an eSIM.
func (s *Server) applied(r vendorfake.Call) vendorfake.Reply {
	o := s.holding(r.PathValue("iccid"))
	if o == nil {
		return no(http.StatusBadRequest, "eSIM not found")
	}
	var shown []any
	for _, name := range s.bundlesOf(o) {
		b, assignments := s.find(name), []any{}
		for _, one := range s.orders {
			if one.Bundle == name && (one == o || one.Onto == o.Reference) && one.Completed {
				assignments = append(assignments, one.assignment(b, o.use))
			}
		}
		shown = append(shown, map[string]any{"name": name, "description": b.Description, "assignments": assignments})
	}
	return ok(map[string]any{"bundles": shown})
}

// bundlesOf names the bundles of an eSIM.
func (s *Server) bundlesOf(o *bought) (names []string) {
	for _, one := range s.orders {
		if (one == o || one.Onto == o.Reference) && one.Completed && !slices.Contains(names, one.Bundle) {
			names = append(names, one.Bundle)
		}
	}
	return names
}

// assignment is a bundle on an eSIM. What is used is of the one that the eSIM came with; the others wait.
func (o *bought) assignment(b *Bundle, use Use) map[string]any {
	used := use.Used
	if o.Onto != "" {
		used, use.Bundle = 0, ""
	}
	total := int64(b.DataMB) * 1_000_000
	assignment := map[string]any{
		"id": o.Reference, "callTypeGroup": "data", "initialQuantity": max(total, 0), "bundleState": "Queued",
		"remainingQuantity": max(total-used, 0), "assignmentDateTime": stamp(o.Created),
		"assignmentReference": o.Reference, "unlimited": b.Unlimited,
	}
	if use.Bundle != "" {
		assignment["bundleState"] = use.Bundle
		assignment["startTime"], assignment["endTime"] = stamp(o.Created), stamp(o.Created.AddDate(0, 0, b.Days))
	}
	return assignment
}

// holding is the order that an eSIM was made for.
func (s *Server) holding(iccid string) *bought {
	i := slices.IndexFunc(s.orders, func(o *bought) bool { return o.Completed && o.Onto == "" && o.sim.iccid == iccid })
	if i < 0 {
		return nil
	}
	return s.orders[i]
}

func (s *Server) organisation(vendorfake.Call) vendorfake.Reply {
	return ok(map[string]any{"name": "roamcard", "balance": dollars(s.balance), "currency": s.currency()})
}

func (s *Server) ordered(reference string) *bought {
	i := slices.IndexFunc(s.orders, func(o *bought) bool { return o.Reference == reference })
	if i < 0 {
		return nil
	}
	return s.orders[i]
}

// paged is one page of a list, and how many there are. Pages count from 1.
func paged[T any](r vendorfake.Call, all []T, size int) (page []T, of int) {
	if n, err := strconv.Atoi(r.URL.Query().Get("perPage")); err == nil && n > 0 {
		size = min(size, n)
	}
	n, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || n < 1 {
		n = 1
	}
	from := min((n-1)*size, len(all))
	return all[from:min(from+size, len(all))], (len(all) + size - 1) / size
}

type bundleBody struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Groups      []string      `json:"groups"`
	Countries   []countryBody `json:"countries"`
	DataMB      int           `json:"dataAmount"`
	Days        int           `json:"duration"`
	Speed       []string      `json:"speed"`
	Autostart   bool          `json:"autostart"`
	Roaming     []string      `json:"roamingEnabled"`
	Unlimited   bool          `json:"unlimited"`
	Price       json.Number   `json:"price"`
	Billing     string        `json:"billingType"`
}

type countryBody struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	ISO    string `json:"iso"`
}

func (b *Bundle) shown() bundleBody {
	body := bundleBody{
		Name: b.Name, Description: b.Description, Groups: []string{"Standard Fixed"}, DataMB: b.DataMB, Days: b.Days,
		Speed: []string{"4G"}, Autostart: true, Unlimited: b.Unlimited, Price: dollars(b.Price), Billing: "FixedCost",
		Countries: []countryBody{}, Roaming: []string{},
	}
	if b.Region != "" {
		body.Countries, body.Roaming = []countryBody{{b.Region, b.Region, b.Region}}, b.Countries
		return body
	}
	for _, c := range b.Countries {
		body.Countries = append(body.Countries, countryBody{Name: "Country " + c, Region: "Region", ISO: c})
	}
	return body
}

type orderBody struct {
	Order     []lineBody  `json:"order"`
	Total     json.Number `json:"total"`
	Currency  string      `json:"currency"`
	Valid     *bool       `json:"valid,omitempty"`
	Created   string      `json:"createdDate,omitempty"`
	Assigned  bool        `json:"assigned"`
	Status    string      `json:"status,omitempty"`
	Message   string      `json:"statusMessage,omitempty"`
	Reference string      `json:"orderReference,omitempty"`
}

type lineBody struct {
	Type     string        `json:"type"`
	Item     string        `json:"item"`
	Quantity int           `json:"quantity"`
	SubTotal json.Number   `json:"subTotal"`
	Price    json.Number   `json:"pricePerUnit"`
	ESIMs    []installBody `json:"esims,omitempty"`
}

type installBody struct {
	ICCID      string `json:"iccid"`
	MatchingID string `json:"matchingId"`
	SMDP       string `json:"smdpAddress"`
	Status     string `json:"profileStatus,omitempty"`
	Installed  string `json:"firstInstalledDateTime,omitempty"`
}

func (s *Server) shown(o *bought) orderBody {
	body := orderBody{
		Total: dollars(o.Total), Currency: s.currency(), Created: stamp(o.Created), Status: "processing",
		Message: "Order processing", Reference: o.Reference, Order: []lineBody{{
			Type: "bundle", Item: o.Bundle, Quantity: 1, SubTotal: dollars(o.Total), Price: dollars(o.Total),
		}},
	}
	if o.Completed {
		body.Status, body.Message, body.Assigned = "completed", "Order completed: 1 eSIMs assigned", true
	}
	if o.Completed && !s.cfg.Bare {
		// An order shows what installs its eSIM, and not how that stands.
		line := o.sim.shown()
		line.Status, line.Installed = "", ""
		body.Order[0].ESIMs = []installBody{line}
	}
	return body
}

func (m sim) shown() installBody {
	body := installBody{
		ICCID: m.iccid, MatchingID: m.matchingID, SMDP: smdpAddress, Status: "Released", Installed: m.installed,
	}
	if m.installed != "" {
		body.Status = "Installed"
	}
	return body
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// dollars writes an amount as the vendor does: a decimal number without needless zeros.
func dollars(u money.USDC) json.Number {
	return json.Number(strings.TrimSuffix(strings.TrimRight(u.Dollars(), "0"), "."))
}
