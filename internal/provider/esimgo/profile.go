package esimgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// installAnswer is an eSIM as the vendor shows it.
type installAnswer struct {
	ICCID      wire.Text `json:"iccid"`
	MatchingID string    `json:"matchingId"`
	SMDP       string    `json:"smdpAddress"`
	// Installed is when a device first had it; empty when none did.
	Installed wire.Text `json:"firstInstalledDateTime"`
}

// installAnswers are the eSIMs of an order: in an object by the document, as a list or alone in the vendor's guides.
type installAnswers struct {
	ESIMs []installAnswer
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *installAnswers) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte("[")) {
		return json.Unmarshal(raw, &a.ESIMs)
	}
	var object struct {
		ESIMs *[]installAnswer `json:"esims"`
		installAnswer
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return err
	}
	switch {
	case object.ESIMs != nil:
		a.ESIMs = *object.ESIMs
	case object.ICCID != "":
		a.ESIMs = []installAnswer{object.installAnswer}
	default:
		return wire.Unclear("there is no list of eSIMs")
	}
	return nil
}

// assigned reads the eSIM of an order; nil while it is being made. It must be the one that the order named, if it did.
func (s *Supplier) assigned(ctx context.Context, reference string, named *installAnswer) (*installAnswer, error) {
	var got installAnswers
	err := s.call(ctx, request{
		op: "assignments", method: http.MethodGet, path: []string{"esims", "assignments"}, route: "/esims/assignments",
		query: url.Values{"reference": {reference}},
	}, &got)
	if f, ok := errors.AsType[*failure](err); ok && f.processing {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	profile, err := one(got.ESIMs)
	if err == nil && profile != nil && named != nil && profile.number() != named.number() {
		err = wire.Unclear("the eSIM in the answer is another than the order's")
	}
	if err != nil {
		return nil, err
	}
	return profile, nil
}

// one is the only eSIM of an order, or nil. The same one twice is one.
func one(all []installAnswer) (*installAnswer, error) {
	for i := range all {
		if all[i] != all[0] {
			return nil, wire.Unclear("the order has several eSIMs")
		}
	}
	if len(all) == 0 || all[0].ICCID == "" {
		return nil, nil
	}
	return &all[0], nil
}

func (a installAnswer) whole() bool { return a.ICCID != "" && a.MatchingID != "" && a.SMDP != "" }

// number is the eSIM's number without what fills it up; empty when it is none.
func (a installAnswer) number() string {
	number, _ := esim.ParseICCID(string(a.ICCID))
	return number
}
