package voucher

import (
	"net/http"
	"strconv"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
)

const keyPaused = "voucher.paused"

// Register registers vouchers from the press as a product.
func (p *Press) Register() app.Registration {
	return app.Registration{
		Rows: store.Product{Kind: Kind, Goods: Records{}, RefOf: Ref},
		Own: []provider.Setting{
			{Key: keyPaused, Help: "closes the sale of vouchers", Default: "false", Check: isBool},
		},
		Make: func(_ *app.App, parts *app.Parts) (app.Made, error) {
			paused, _ := strconv.ParseBool(parts.Own.Text(keyPaused)) // checked when it was read; not set is open
			v := Vouchers{
				Press: p, Paused: paused, Switches: parts.Switches, Payments: parts.Payments,
				Workers: parts.Workers(settlement.Fulfilling), Now: parts.Now,
			}
			return app.Made{Product: v, Routes: func(s app.Selling) map[string]http.Handler {
				return map[string]http.Handler{"POST " + Path: shop{selling: s, press: p}}
			}}, nil
		},
		Provided: func(*app.App) (reconcile.Product, error) { return Made{p}, nil },
	}
}

func isBool(text string) error {
	_, err := strconv.ParseBool(text)
	return err
}
