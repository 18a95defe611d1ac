package lithic_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// frame asks for a frame, and returns its status and whether a text is in it.
func (b *bench) frame(at, text string) (int, bool) {
	b.Helper()
	resp, err := b.web.Client().Get(at)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if policy := resp.Header.Get("Content-Security-Policy"); resp.StatusCode == http.StatusOK &&
		!strings.HasSuffix(policy, "frame-ancestors https://cards.example") {
		b.Errorf("others may frame it: %q", policy)
	}
	body := make([]byte, 4<<10)
	n, _ := resp.Body.Read(body)
	return resp.StatusCode, strings.Contains(string(body[:n]), text)
}

func TestCardIsShownInFramesThatLoadOnce(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	page := card.Look{Origin: "https://cards.example", Until: b.clock.now().Add(time.Minute)}
	if parts := b.PageParts(); len(parts.Frames) != 1 || parts.Frames[0] != b.web.URL || parts.VendorScript != "" ||
		len(parts.Scripts)+len(parts.Connects) > 0 {
		t.Errorf("the page may load %+v", parts)
	}
	made := b.fake.Cards()[0]
	first, err := b.Show(t.Context(), a.ID, page)
	if err != nil || len(first.Frames) != 4 || len(first.Values) > 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	for n, text := range []string{made.Number, "06", "20", made.Code} {
		at := first.Frames[n].URL.Reveal()
		if status, has := b.frame(at, text); status != http.StatusOK || !has {
			t.Errorf("%s: %d", first.Frames[n].Title, status)
		}
		if status, _ := b.frame(at, text); status != http.StatusUnauthorized {
			t.Errorf("%s again: %d", first.Frames[n].Title, status)
		}
		if strings.Contains(fulfilmenttest.Shown(t, first), at) {
			t.Error("the session shows where it is printed")
		}
	}
	late, err := b.Show(t.Context(), a.ID, page)
	if err != nil {
		t.Fatal(err)
	}
	b.clock.pass(time.Minute)
	if status, _ := b.frame(late.Frames[0].URL.Reveal(), ""); status != http.StatusUnauthorized {
		t.Errorf("a late frame: %d", status)
	}
}

func TestCardWithoutASessionIsNotShown(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	until := b.clock.now().Add(time.Minute)
	for name, asked := range map[string]struct {
		account string
		page    card.Look
	}{
		"http":         {a.ID, card.Look{Origin: "http://cards.example", Until: until}},
		"a path":       {a.ID, card.Look{Origin: "https://cards.example/", Until: until}},
		"the past":     {a.ID, card.Look{Origin: "https://cards.example", Until: b.clock.now()}},
		"an hour":      {a.ID, card.Look{Origin: "https://cards.example", Until: until.Add(time.Hour)}},
		"no card":      {fulfilmenttest.NewRef().String(), card.Look{Origin: "https://cards.example", Until: until}},
		"another path": {"../cards", card.Look{Origin: "https://cards.example", Until: until}},
	} {
		if shown, err := b.Show(t.Context(), asked.account, asked.page); err == nil || len(shown.Frames) > 0 {
			t.Errorf("%s: %+v, %v", name, shown, err)
		}
	}
	page := card.Look{Origin: "https://cards.example", Until: until}
	for _, mode := range []vendorfake.Mode{
		vendorfake.ErrorAfter, vendorfake.TimeoutAfter, vendorfake.Malformed, vendorfake.Truncated, vendorfake.RateLimited,
	} {
		if !b.fake.Fault("embed", mode) {
			t.Fatalf("the fake has no %s", mode)
		}
		shown, err := b.Show(t.Context(), a.ID, page)
		if err == nil || len(shown.Frames) > 0 || strings.Contains(fulfilmenttest.Shown(t, err), `"session"`) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}
