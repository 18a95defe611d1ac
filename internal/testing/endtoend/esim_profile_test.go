package endtoend_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// esimProfile is how an eSIM stands.
type esimProfile struct {
	OrderID, Status, ExpiresAt, ReadAt string
	Usage                              *struct{ UsedBytes, TotalBytes, MeasuredAt string }
}

// supplierShows reads the supplier's books.
func (w *world) supplierShows(into any) {
	w.t.Helper()
	if err := json.Unmarshal(w.issuer.call(http.MethodGet, "esim/books", nil), into); err != nil {
		w.t.Fatal(err)
	}
}

// newestEsim is the supplier's name of the eSIM that it made last.
func (w *world) newestEsim() string {
	w.t.Helper()
	var books struct {
		Esims []struct{ ID string }
	}
	w.supplierShows(&books)
	return books.Esims[len(books.Esims)-1].ID
}

// TestOwnerReadsHowAnEsimStands: by session or delivery token, without what installs it, and without asking the
// supplier more than once a minute.
func TestOwnerReadsHowAnEsimStands(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	w.awaitEsimReady(nil)
	b := w.buyer()
	o := b.buyEsim("an-esim-to-watch-1")
	if o.Credentials == nil {
		t.Fatalf("bought %+v", o)
	}
	w.issuer.call(http.MethodPost, "esim/profiles/"+w.newestEsim(), map[string]any{"status": "enabled", "usedBytes": 7})
	asked := func() int { // also by who had this world before
		var books struct{ Requests map[string]int }
		w.supplierShows(&books)
		return books.Requests["profile"]
	}
	before := asked()
	path := "/api/esim/orders/" + o.OrderID + "/profile"
	byToken := get(path).withHeader(rpcx.HeaderDeliveryToken, o.Delivery.Token)
	b.signIn()
	stranger := w.buyer()
	stranger.signIn()
	for range 20 {
		for _, a := range []answer{w.send(byToken), b.get(path)} {
			var p esimProfile
			a.into(t, 200, &p)
			if p.OrderID != o.OrderID || p.Status != "active" || p.ReadAt == "" || p.Usage == nil ||
				p.Usage.UsedBytes != "7" || p.Usage.TotalBytes == "" || p.Usage.MeasuredAt == "" {
				t.Fatalf("the eSIM stands as %+v", p)
			}
			for _, secret := range []string{o.Credentials.ICCID, o.Credentials.MatchingID, o.Credentials.SMDPAddress} {
				if strings.Contains(string(a.body), secret) {
					t.Errorf("the answer shows what installs the eSIM")
				}
			}
		}
		wantProblem(t, "a stranger", stranger.get(path), 404, fault.OrderNotFound)
	}
	wantProblem(t, "nobody", w.send(get(path)), 401, fault.SessionInvalid)
	if n := asked() - before; n != 1 {
		t.Errorf("the supplier was asked %d times", n)
	}
	w.checkBooks()
}
