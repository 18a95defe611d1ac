package esimgo

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/provider/wire/wiretest"
)

// TestAnswersMeanTheSameInEveryForm reads answers in all forms that their values can have.
func TestAnswersMeanTheSameInEveryForm(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		words  []string
		read   func(body []byte) (any, error)
	}{
		"an order": {
			`{"orderReference":"8b1d","status":"completed","valid":true,"total":1.12,"currency":"USD",` +
				`"createdDate":"2026-11-21T03:04:05Z","order":[{"item":"esim_1GB","quantity":1,"esims":[{` +
				`"iccid":"8943108170000775671","matchingId":"AB-12","smdpAddress":"rsp.example.com",` +
				`"firstInstalledDateTime":null}]}]}`,
			[]string{"status", "currency", "smdpAddress"},
			func(body []byte) (any, error) {
				var a orderAnswer
				if err := wire.Decode(body, &a); err != nil {
					return nil, err
				}
				cost, err := a.cost("esim_1GB")
				if err != nil {
					return nil, err
				}
				e, err := a.entry(time.Time{})
				if err != nil {
					return nil, err
				}
				p := a.Order[0].ESIMs[0]
				m, err := esim.Activation(string(p.ICCID), p.SMDP, p.MatchingID)
				return []any{cost, e, m.ICCID.Reveal(), esim.LPA(m), a.Status == completed, bool(*a.Valid)}, err
			},
		},
		"a bundle of the catalogue": {
			`{"name":"esim_1GB","description":"1 GB","countries":[{"iso":"FR"}],"roamingEnabled":[],"dataAmount":1000,` +
				`"duration":7,"unlimited":false,"price":1.12}`,
			[]string{"iso"},
			func(body []byte) (any, error) {
				var a bundleAnswer
				err := wire.Decode(body, &a)
				l, ok := a.listing()
				return []any{l, ok}, err
			},
		},
		"a bundle of an eSIM": {
			`{"bundleState":"active","initialQuantity":1000,"remainingQuantity":400,"unlimited":false,` +
				`"endTime":"2026-12-21T03:04:05Z"}`,
			[]string{"bundleState"},
			func(body []byte) (any, error) {
				var a appliedAnswer
				err := wire.Decode(body, &a)
				return bundlesOn{a}.state(simReleased), err
			},
		},
		"a page": {
			`{"pageCount":3}`, nil,
			func(body []byte) (any, error) {
				var a pages
				if err := wire.Decode(body, &a); err != nil {
					return nil, err
				}
				return a.after(2, 1)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wiretest.ReadsAlike(t, c.answer, c.words, c.read)
		})
	}
}
