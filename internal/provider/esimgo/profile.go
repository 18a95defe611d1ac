package esimgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
)

// installAnswer is an eSIM as the vendor shows it.
type installAnswer struct {
	ICCID      string `json:"iccid"`
	MatchingID string `json:"matchingId"`
	SMDP       string `json:"smdpAddress"`
	// Installed is when a device first had it; empty when none did.
	Installed string `json:"firstInstalledDateTime"`
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
	if err == nil && profile != nil && named != nil && profile.ICCID != named.ICCID {
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

func (a installAnswer) activationData() (*esim.ActivationData, error) {
	host := strings.ToLower(a.SMDP)
	if !isICCID(a.ICCID) || !isHost(host) || !isMatchingID(a.MatchingID) {
		return nil, wire.Unclear("the eSIM in the answer does not match the documentation")
	}
	return &esim.ActivationData{
		ICCID: secret.New(a.ICCID), SMDPAddress: secret.New(host), MatchingID: secret.New(a.MatchingID),
	}, nil
}

// isICCID takes 18 to 20 digits of the telecom industry. Not all of them end in a check digit.
func isICCID(s string) bool {
	return len(s) >= 18 && len(s) <= 20 && strings.HasPrefix(s, "89") && strings.Trim(s, "0123456789") == ""
}

func isHost(s string) bool {
	return len(s) <= 253 && strings.Contains(s, ".") && !strings.Contains(s, "..") && !strings.HasPrefix(s, ".") &&
		!strings.HasSuffix(s, ".") && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// isMatchingID takes what SGP.22 lets a matching id hold.
func isMatchingID(s string) bool {
	return s != "" && len(s) <= 255 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}
