package hostile_test

import (
	"fmt"
	"net/http"

	"github.com/google/uuid"
)

// throttled are attacks that turn our limits against others.
func throttled() []attack {
	return []attack{
		{
			name: "limits-used-up-with-public-payments", ref: "A41", by: watcher, do: usesUpLimits,
			aim:     "a buyer may not buy, because somebody repeats the buyer's old payments under new keys",
			defence: "a payment counts for its payer only when it can still move money",
		},
	}
}

func usesUpLimits(r *trial) {
	victim := r.wallet(1000)
	_, header := victim.buys(r, esimPath)
	for i := range 40 {
		thief := r.caller()
		if a := thief.send(r.Context(), http.MethodPost, esimPath, keyed(fmt.Sprint("k", i)), headerPayment,
			header); a.status == http.StatusOK {
			r.Fatalf("%.300s", a.body)
		}
	}
	body := keyed(uuid.NewString())
	a := victim.offers(r.Context(), esimPath, body, victim.pays(r, victim.terms(r, esimPath, body)).header(r))
	if a.status != http.StatusOK {
		r.Errorf("the victim's own purchase: %d %.300s", a.status, a.body)
	}
	r.exactly(victim, 2)
}
