package esimaccess

import (
	"reflect"
	"testing"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/provider/wire/wiretest"
)

// TestAnswersMeanTheSameInEveryForm reads answers in all forms that their values can have.
func TestAnswersMeanTheSameInEveryForm(t *testing.T) {
	type read struct {
		bought  esim.Purchase
		code    string
		state   esim.State
		listing esim.Listing
	}
	const profile = `{"esimTranNo":"231","orderNo":"B1","transactionId":"5f1c6f8e-0c51-4a5a-9b55-0e5a3f0a3f11-7500",` +
		`"iccid":"8943108170000775671","ac":"LPA:1$rsp-eu.example.com$451F9802E6854E3E","esimStatus":"GOT_RESOURCE",` +
		`"smdpStatus":"RELEASED","expiredTime":"2026-12-21T03:04:05Z","dataType":"1","packageList":[{"packageCode":"P1"}]}`
	const listed = `{"packageCode":"P1","name":"France 1 GB","price":7500,"currencyCode":"USD","volume":1073741824,` +
		`"dataType":"1","activeType":"2","duration":7,"durationUnit":"DAY","location":"FR,DE","locationCode":"EU-2",` +
		`"fupPolicy":null,"new":{}}`
	var want read
	check := func(t *testing.T, parse func(*read) error) {
		t.Helper()
		var got read
		if err := parse(&got); err != nil {
			t.Errorf("not read: %v", err)
		}
		if got.code != "" && got.bought.ActivationData != nil {
			got.code += " " + got.bought.ActivationData.ICCID.Reveal() + " " + esim.LPA(*got.bought.ActivationData)
			got.bought.ActivationData = nil
		}
		if reflect.DeepEqual(want, read{}) {
			want = got
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("read as %+v, want %+v", got, want)
		}
	}
	wiretest.Respelled(t, profile, []string{"esimStatus", "smdpStatus"}, func(t *testing.T, body []byte) {
		check(t, func(r *read) error {
			var a profileAnswer
			err := wire.Decode(body, &a)
			if err == nil {
				r.bought, err = a.purchase()
			}
			r.code, r.state = a.packageCode(), a.state()
			return err
		})
	})
	if want.bought.State != esim.PurchaseReady || want.state.Status != esim.ProfileNotInstalled ||
		want.state.ExpiresAt.IsZero() {
		t.Errorf("the profile is read as %+v", want)
	}
	want = read{}
	words := []string{"currencyCode", "durationUnit", "location", "locationCode"}
	wiretest.Respelled(t, listed, words, func(t *testing.T, body []byte) {
		check(t, func(r *read) error {
			var a packageAnswer
			err := wire.Decode(body, &a)
			if err == nil {
				r.listing, err = a.listing()
			}
			return err
		})
	})
	if want.listing.Cost != 750_000 || len(want.listing.Countries) != 2 {
		t.Errorf("the package is read as %+v", want.listing)
	}
}
