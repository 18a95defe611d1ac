package sandbox

import (
	"net/http"
	"slices"
	"time"
)

// The states of a profile in the supplier's own words. A released profile is on no device.
const (
	profileReleased  = "released"
	profileInstalled = "installed"
	profileEnabled   = "enabled"
	profileDepleted  = "depleted"
	profileExpired   = "expired"
	profileCancelled = "cancelled"
)

// profileBody is a profile on the wire, without what installs it.
type profileBody struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Used   int64  `json:"usedBytes"`
	// Total is absent when the data is not limited.
	Total      *int64    `json:"totalBytes,omitempty"`
	MeasuredAt time.Time `json:"measuredAt"`
	// InstallBy is when a profile that was never installed ends.
	InstallBy time.Time `json:"installBy"`
	// Credit is what was given back for a cancelled profile.
	Credit   int64  `json:"creditMicros"`
	Currency string `json:"currency"`
}

// installWithin is how long a profile may be left without being installed.
const installWithin = 180 * 24 * time.Hour

// profile finds what was released.
func (b *supplierBooks) profile(id string) (esimRow, planRow, error) {
	if err := b.advance(b.clock()); err != nil {
		return esimRow{}, planRow{}, err
	}
	row, ok := b.esims[id]
	if !ok || row.AtOnce || row.Status == allocating || row.Onto != "" {
		return esimRow{}, planRow{}, &problem{http.StatusNotFound, codeNotFound, "there is no such profile"}
	}
	return row, b.plans[row.Plan], nil
}

func (s *supplier) getProfile(c call) (any, error) {
	s.books.mu.Lock()
	defer s.books.mu.Unlock()
	row, plan, err := s.books.profile(c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return s.profileBody(row, plan), nil
}

func (s *supplier) profileBody(row esimRow, plan planRow) profileBody {
	b := profileBody{
		ID: row.ID, Status: profileReleased, Used: row.Used, MeasuredAt: s.books.clock(),
		InstallBy: row.CreatedAt.Add(installWithin), Currency: currencyUSD,
	}
	switch {
	case row.Status == cancelled:
		b.Status, b.Credit = profileCancelled, row.Cost
	case row.Profile != "":
		b.Status = row.Profile
	}
	total, limited := int64(plan.DataMB)<<20, !plan.Unlimited
	for _, t := range s.books.addedTo(row.ID) {
		p := s.books.plans[t.Plan]
		total, limited = total+int64(p.DataMB)<<20, limited && !p.Unlimited
	}
	if limited {
		b.Total = &total
	}
	return b
}

// addedTo are the orders that were added to a profile.
func (b *supplierBooks) addedTo(profile string) []esimRow {
	return slices.DeleteFunc(b.rows(), func(row esimRow) bool { return row.Onto != profile || row.Status != released })
}

// takes reports whether more can be added to a profile: it is there, and was neither cancelled nor has it expired.
func (b *supplierBooks) takes(id string) bool {
	row, ok := b.esims[id]
	return ok && row.Onto == "" && row.Status == released && row.Profile != profileExpired
}

// sameArea reports whether two plans are of the same countries.
func sameArea(a, b planRow) bool { return a.Kind == b.Kind && slices.Equal(a.Countries, b.Countries) }

// getTopups lists the plans that can be added to a profile: those of its area, and none once it is finished.
func (s *supplier) getTopups(c call) (any, error) {
	all := s.books.listed()
	s.books.mu.Lock()
	defer s.books.mu.Unlock()
	row, plan, err := s.books.profile(c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	list := listBody[planBody]{Items: []planBody{}}
	for _, p := range all {
		if s.books.takes(row.ID) && sameArea(p, plan) {
			list.Items = append(list.Items, p.body())
		}
	}
	return list, nil
}

// postCancel takes a profile back that no device has, once, and credits what it cost.
func (s *supplier) postCancel(c call) (any, error) {
	b := s.books
	b.mu.Lock()
	defer b.mu.Unlock()
	row, plan, err := b.profile(c.PathValue("id"))
	switch {
	case err != nil:
		return nil, err
	case row.Status == cancelled:
		return s.profileBody(row, plan), nil
	case row.Profile != "" || len(b.addedTo(row.ID)) > 0:
		return nil, &problem{http.StatusUnprocessableEntity, codeInstalled, "a device has the profile, or more was added"}
	}
	row.Status = cancelled
	return s.profileBody(row, plan), b.write(supplierEntry{
		At: b.clock(), Float: b.float + row.Cost, Esims: []esimRow{row},
	})
}

// setProfile does what the device of a profile's owner would do.
func (s *supplier) setProfile(c call) (any, error) {
	var asked struct {
		Status string `json:"status"`
		Used   int64  `json:"usedBytes"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	states := []string{profileInstalled, profileEnabled, profileDepleted, profileExpired}
	if !slices.Contains(states, asked.Status) || asked.Used < 0 {
		return nil, invalid("status is installed, enabled, depleted or expired, usedBytes a number of bytes")
	}
	b := s.books
	b.mu.Lock()
	defer b.mu.Unlock()
	row, plan, err := b.profile(c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if row.Status != released {
		return nil, invalid("the profile is cancelled")
	}
	row.Profile, row.Used = asked.Status, asked.Used
	return s.profileBody(row, plan), b.write(supplierEntry{At: b.clock(), Float: b.float, Esims: []esimRow{row}})
}
