//go:build !demo

package dev

import (
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
)

// unhurried is the quota of a vendor that is played: more calls in a second than are ever made.
const unhurried = "10000"

// vendors are the real providers that a development server can have.
func vendors() []vendor {
	return []vendor{
		{
			role: Issuer, name: lithic.Name, make: func() fake { return lithicfake.New(lithicfake.Config{}) },
			key: lithicfake.DevKey, own: map[string]string{
				lithic.FloatKey: lithicfake.Float, lithic.ProgramKey: lithicfake.Program,
				lithic.TransferKey: "TRANSFER/ACCOUNT_TO_ACCOUNT/load",
				lithic.BillingKey:  "Lithic Programme; 1 Example Street; ; Dover; DE; 19901; US", lithic.ChallengeKey: "automatic",
				lithic.PerSecondKey: unhurried,
			},
		},
		{
			role: Issuer, name: stripe.Name, make: func() fake { return stripefake.New(stripefake.Config{}) },
			key: stripefake.DevKey, own: map[string]string{
				stripe.CardholderKey: stripefake.DevCardholder, stripe.PublishableKey: stripefake.DevPublishable,
				stripe.ElementsKey: "{url}/elements.js", stripe.PerSecondKey: unhurried,
			},
		},
		{
			role: Supplier, name: esimaccess.Name,
			make: func() fake { return esimaccessfake.New(esimaccessfake.Config{}) },
			key:  esimaccessfake.DevAccessCode, own: map[string]string{esimaccess.SecretKey: esimaccessfake.DevSecret},
			visibilityDelay: esimaccess.VisibilityDelayKey,
		},
		{
			role: Supplier, name: esimgo.Name, make: func() fake { return esimgofake.New(esimgofake.Config{}) },
			own:  map[string]string{esimgo.PerSecondKey: unhurried},
			path: "/v2.4", key: esimgofake.DevKey, calls: true, visibilityDelay: esimgo.VisibilityDelayKey,
		},
	}
}
