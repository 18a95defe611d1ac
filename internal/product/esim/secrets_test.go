package esim_test

import (
	"bytes"
	"context"
	"image/png"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store/memory"
)

var activationData = esim.ActivationData{
	ICCID: secret.New("8910390000000000017"), SMDPAddress: secret.New("smdp.example.com"), MatchingID: secret.New("AB-12"),
	OID: secret.New("1.3.6.1.4.1.31746"),
}

func TestActivationDataIsOpenedOnlyAsWhatItWasSealed(t *testing.T) {
	old, fresh := "old:"+strings.Repeat("01", 32), "new:"+strings.Repeat("02", 32)
	k := keyring(t, old)
	sealed, err := k.Seal("ord_1", activationData)
	if err != nil || sealed.Key != "old" {
		t.Fatalf("sealed by %q, %v", sealed.Key, err)
	}
	for _, secret := range []string{"8910390000000000017", "smdp.example.com", "AB-12"} {
		if bytes.Contains(sealed.Box, []byte(secret)) {
			t.Errorf("the box shows %s", secret)
		}
	}
	both := keyring(t, fresh+","+old)
	got, err := both.Open("ord_1", sealed)
	if err != nil || !got.ICCID.Equal(activationData.ICCID) || !got.SMDPAddress.Equal(activationData.SMDPAddress) ||
		!got.MatchingID.Equal(activationData.MatchingID) || !got.Equal(activationData) {
		t.Errorf("opens as another: %v", err)
	}
	again, err := k.Seal("ord_1", activationData)
	if err != nil || bytes.Equal(again.Box, sealed.Box) {
		t.Error("the same data is sealed alike twice")
	}
	for name, try := range map[string]func() error{
		"another order": func() error { _, err := k.Open("ord_2", sealed); return err },
		"no such key":   func() error { _, err := keyring(t, fresh).Open("ord_1", sealed); return err },
		"another key of the same name": func() error {
			_, err := keyring(t, "old:"+strings.Repeat("03", 32)).Open("ord_1", sealed)
			return err
		},
		"changed": func() error {
			box := bytes.Clone(sealed.Box)
			box[len(box)-1] ^= 1
			_, err := k.Open("ord_1", esim.Sealed{Key: "old", Box: box})
			return err
		},
		"cut": func() error { _, err := k.Open("ord_1", esim.Sealed{Key: "old", Box: sealed.Box[:5]}); return err },
	} {
		if try() == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func TestKeyringThatCannotBeReadQuotesNothing(t *testing.T) {
	key := strings.Repeat("ab", 32)
	for _, text := range []string{"", key, "a:" + key[2:], "a:" + key + ",", "a:" + key + ",a:" + key, "a b:" + key, ":" +
		key, "a:" + strings.Repeat("zz", 32)} {
		_, err := esim.ParseKeyring(secret.New(text))
		if err == nil || strings.Contains(err.Error(), key[:8]) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNewKeySealsEverythingAgain(t *testing.T) {
	story(t, careful, func(s *shop) {
		orders := []order.Order{s.paid(), s.paid(), s.paid()}
		s.pass(10 * time.Second)
		before, err := s.Credentials(s.Context(), s.now(orders[0]))
		if err != nil {
			t.Fatal(err)
		}
		s.Config.Keys = keyring(t, "k2:"+strings.Repeat("02", 32)+",k1:"+strings.Repeat("01", 32))
		if got := s.started(esim.New(s.Config), esim.Resealing, esim.New(s.Config).Reseal); got != job.Succeeded {
			t.Fatalf("the job is %s", got)
		}
		// The old key may go.
		s.Config.Keys = keyring(t, "k2:"+strings.Repeat("02", 32))
		rotated := esim.New(s.Config)
		for _, o := range orders {
			if key := s.profile(o.ID).ActivationData.Key; key != "k2" {
				t.Errorf("sealed with %s", key)
			}
			if _, err := rotated.Credentials(s.Context(), s.now(o)); err != nil {
				t.Error(err)
			}
		}
		after, err := rotated.Credentials(s.Context(), s.now(orders[0]))
		if err != nil || !after.LPA.Equal(before.LPA) {
			t.Errorf("another eSIM after the rotation: %v", err)
		}
	})
}

func TestCredentialsWaitForTheEnd(t *testing.T) {
	story(t, careful, func(s *shop) {
		s.supplier.Fault(esimtest.Order, fulfilmenttest.StaysPending)
		o := s.paid()
		s.pass(time.Second)
		if _, err := s.Credentials(s.Context(), s.now(o)); fault.Of(err) != fault.OrderNotFulfilled {
			t.Errorf("credentials: %v", err)
		}
	})
}

// TestWhatWasSentBackHasNoCredentials: nobody is told to ask again for an eSIM that never comes.
func TestWhatWasSentBackHasNoCredentials(t *testing.T) {
	story(t, careful, func(s *shop) {
		s.supplier.Fault(esimtest.Order, fulfilmenttest.StaysPending)
		o := s.paid()
		for status, waits := range map[order.Status]bool{
			order.Provisioning: true, order.OperatorReview: true, order.RefundPending: true, order.Refunded: false,
			order.Expired: false,
		} {
			o.Status = status
			_, err := s.Credentials(s.Context(), o)
			f, ok := fault.As(err)
			if !ok || f.Code != fault.OrderNotFulfilled || f.Retryable != waits || (f.NextAction == fault.PollOrder) != waits ||
				f.OrderID != string(o.ID) {
				t.Errorf("%s: %v, %+v", status, err, f)
			}
		}
	})
}

// TestWhatWasDeliveredByHandIsAnswered: its payer, who asks again, gets the order.
func TestWhatWasDeliveredByHandIsAnswered(t *testing.T) {
	story(t, careful, func(s *shop) {
		s.supplier.Fault(esimtest.Order, fulfilmenttest.StaysPending)
		o := s.paid()
		o.Status = order.Fulfilled
		_, err := s.Credentials(s.Context(), o)
		if f, ok := fault.As(err); !ok || f.Code != fault.OrderNotFulfilled || f.Retryable {
			t.Errorf("its credentials: %v", err)
		}
		if got, err := s.HandOver(s.Context(), o, true, time.Now()); err != nil || got.Credentials != nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestDeliveryTokenOpensOneOrderUntilItEnds(t *testing.T) {
	story(t, careful, func(s *shop) {
		o, other := s.paid(), s.paid()
		s.pass(time.Second)
		first, err := s.Token(s.Context(), o)
		if err != nil || first.ExpiresAt.Sub(o.CreatedAt) != esim.TokenLifetime ||
			!strings.HasPrefix(first.Text.Reveal(), "edt_") || len(first.Text.Reveal()) != 47 {
			t.Fatalf("token %+v of %d characters, %v", first, len(first.Text.Reveal()), err)
		}
		again, err := s.Token(s.Context(), o)
		if err != nil || !again.Text.Equal(first.Text) {
			t.Error("a replay gives another token")
		}
		opens := func(id order.ID, token secret.Text) bool {
			t.Helper()
			got, err := s.Open(s.Context(), id, token)
			if err != nil && fault.Of(err) != fault.OrderNotFound {
				t.Fatal(err)
			}
			return err == nil && got.ID == id
		}
		if !opens(o.ID, first.Text) {
			t.Error("the token does not open its order")
		}
		for name, token := range map[string]secret.Text{
			"cut": secret.New(first.Text.Reveal()[:46]), "long": secret.New("edt_" + strings.Repeat("x", 10_000)),
			"other end": secret.New(first.Text.Reveal()[:46] + "!"),
		} {
			if opens(o.ID, token) {
				t.Errorf("%s: opened", name)
			}
		}
		for _, text := range []string{"", "x", "edt", first.Text.Reveal()[4:], strings.ToUpper(first.Text.Reveal()),
			strings.Repeat("x", 10_000)} {
			for _, id := range []order.ID{o.ID, "ord_unknown"} {
				if _, err := s.Open(s.Context(), id, secret.New(text)); fault.Of(err) != fault.SessionInvalid {
					t.Errorf("%q is no delivery token, and %s: %v", text, id, err)
				}
			}
		}
		if opens(other.ID, first.Text) || opens("ord_unknown", first.Text) {
			t.Error("the token opens another order")
		}
		second, err := s.RotateToken(s.Context(), o)
		if err != nil || opens(o.ID, first.Text) || !opens(o.ID, second.Text) {
			t.Errorf("after the rotation the old one opens: %t, %v", opens(o.ID, first.Text), err)
		}
		now, err := s.Token(s.Context(), o)
		if diff := cmp.Diff(second.Text.Reveal(), now.Text.Reveal()); err != nil || diff != "" {
			t.Errorf("the live token, %v: %s", err, diff)
		}
		for age, want := range map[time.Duration]bool{esim.TokenLifetime - time.Second: true, esim.TokenLifetime: false} {
			old := order.Order{ID: order.NewID(time.Now()), Kind: esim.Kind, Status: order.Fulfilled,
				CreatedAt: time.Now().Add(-age)}
			s.store.Orders().Put(old)
			token, err := s.Token(s.Context(), old)
			if err != nil || opens(old.ID, token.Text) != want {
				t.Errorf("after %s it opens: %t, %v", age, !want, err)
			}
		}
	})
}

func TestUnpaidOrderIsNotOpened(t *testing.T) {
	story(t, careful, func(s *shop) {
		o := order.Order{ID: order.NewID(time.Now()), Kind: esim.Kind, Status: order.Settling, CreatedAt: time.Now()}
		s.store.Orders().Put(o)
		token, err := s.Token(s.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(s.Context(), o.ID, token.Text); fault.Of(err) != fault.OrderNotFound {
			t.Errorf("opened: %v", err)
		}
		if _, err := s.RotateToken(s.Context(), o); fault.Of(err) != fault.OrderNotFulfilled {
			t.Errorf("rotated: %v", err)
		}
	})
}

func TestPicturesAreOfTheirSize(t *testing.T) {
	story(t, careful, func(s *shop) {
		o := s.paid()
		s.pass(time.Second)
		got, err := s.Credentials(s.Context(), s.now(o))
		if err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(strings.NewReader(got.QRPNG.Reveal()))
		if err != nil || picture.Bounds().Dx() < 200 || picture.Bounds().Dx()%8 != 0 {
			t.Errorf("%v, %v", picture.Bounds(), err)
		}
		if svg := got.QRSVG.Reveal(); !strings.HasPrefix(svg, "<svg ") || !strings.HasSuffix(svg, "</svg>") ||
			strings.Count(svg, "M") < 50 {
			t.Errorf("the SVG is %q", svg)
		}
		want := "https://esimsetup.apple.com/esim_qrcode_provisioning?carddata=" +
			"LPA%3A1%24smdp.example.com%24MATCH-000001"
		if got.IOS.Reveal() != want {
			t.Errorf("iOS: %s", got.IOS.Reveal())
		}
	})
}

// started lets a worker have the job that another process has queued at its start, and says what the job is then.
func (s *shop) started(by *esim.Esims, kind job.Kind, worker job.Handler) job.Status {
	s.Helper()
	queue := memory.New(nil).Jobs()
	at := slices.IndexFunc(by.Jobs(), func(w job.Work) bool { return w.Kind == kind })
	start := *by.Jobs()[at].Start
	if _, err := queue.Enqueue(s.Context(), start); err != nil {
		s.Fatal(err)
	}
	runner := job.NewRunner(job.Config{Queue: queue, Log: slog.New(slog.DiscardHandler)})
	runner.Register(kind, worker)
	ctx, stop := context.WithCancel(s.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- runner.Run(ctx) }()
	s.pass(10 * time.Second)
	stop()
	if err := <-stopped; err != nil {
		s.Error(err)
	}
	row, found, err := queue.Find(s.Context(), kind, start.UniqueKey)
	if err != nil || !found {
		s.Fatalf("the job: found %t, %v", found, err)
	}
	return row.Status
}

// While a key is rolled out, a process that has the former one as its first leaves the job to the others.
func TestProcessWithTheFormerKeyLeavesTheResealing(t *testing.T) {
	story(t, careful, func(s *shop) {
		s.paid()
		s.pass(10 * time.Second)
		cfg := s.Config
		cfg.Keys = keyring(t, "k2:"+strings.Repeat("02", 32)+",k1:"+strings.Repeat("01", 32))
		if got := s.started(esim.New(cfg), esim.Resealing, esim.New(s.Config).Reseal); got != job.Queued {
			t.Errorf("the job is %s, want it left in the queue", got)
		}
	})
}

// While a supplier is rolled out, a process that does not know it yet leaves its catalogue to the others.
func TestProcessWithoutTheSupplierLeavesItsCatalogue(t *testing.T) {
	story(t, careful, func(s *shop) {
		cfg := s.Config
		another := cfg.Providers[0]
		another.Name = "another"
		cfg.Providers = append(slices.Clone(cfg.Providers), another)
		both := esim.New(cfg)
		if got := s.started(both, esim.Syncing, esim.New(s.Config).Sync); got != job.Queued {
			t.Errorf("the job is %s, want it left in the queue", got)
		}
		if got := s.started(both, esim.Syncing, both.Sync); got != job.Succeeded {
			t.Errorf("the job of a process that knows all is %s", got)
		}
	})
}
