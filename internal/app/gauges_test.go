package app

import (
	"bytes"
	"errors"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestBooksThatWereNeverComparedGrowOld: without a value no alert could fire while every comparison fails.
func TestBooksThatWereNeverComparedGrowOld(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := began.Add(26 * time.Minute)
	for name, tt := range map[string]struct {
		compared time.Time
		every    time.Duration
		want     time.Duration
	}{
		"never":             {time.Time{}, 5 * time.Minute, 26 * time.Minute},
		"before this start": {began.Add(-time.Hour), 5 * time.Minute, 86 * time.Minute},
		"a minute ago":      {now.Add(-time.Minute), 5 * time.Minute, time.Minute},
		"by a clock ahead":  {now.Add(time.Second), 5 * time.Minute, 0},
		"by hand only":      {now.Add(-time.Minute), 0, time.Minute},
	} {
		if age := booksAge(tt.compared, began, now, tt.every); age == nil || *age != tt.want {
			t.Errorf("%s: %v, want %s", name, age, tt.want)
		}
	}
	if age := booksAge(time.Time{}, began, now, 0); age != nil {
		t.Errorf("books that nobody compares are %s old", *age)
	}
}

// TestRetiredRelayerIsWatchedWhileItFinishes: without ether its open transactions would stall, unnoticed.
func TestRetiredRelayerIsWatchedWhileItFinishes(t *testing.T) {
	active, finishing, done := x402.Address{1}, x402.Address{2}, x402.Address{3}
	held := map[x402.Address]*big.Int{active: gwei(5), finishing: gwei(7), done: gwei(0)}
	all := relayerGauges(held, []x402.Address{finishing, done}, []x402.Address{active, finishing})
	slices.SortFunc(all, func(a, b telemetry.RelayerGauge) int { return int(a.Gwei - b.Gwei) })
	want := []telemetry.RelayerGauge{
		{Address: active.String(), Gwei: 5}, {Address: finishing.String(), Retired: true, Gwei: 7},
	}
	if !slices.Equal(all, want) {
		t.Errorf("%+v, want %+v", all, want)
	}
}

// TestUnreadGaugeIsSaidOnce: gauges are read every few seconds, and what hangs does so for hours.
func TestUnreadGaugeIsSaidOnce(t *testing.T) {
	var lines bytes.Buffer
	log, u := slog.New(slog.NewTextHandler(&lines, nil)), &unread{}
	for _, err := range []error{nil, errors.New("no answer"), errors.New("no answer"), nil, nil, errors.New("down")} {
		u.note(t.Context(), log, "float", err)
		u.note(t.Context(), log, "jobs", nil)
	}
	var said []string
	for line := range strings.Lines(lines.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "level=")
		said = append(said, text)
	}
	want := []string{
		`WARN msg="gauge not read" gauge=float error="no answer"`, `INFO msg="gauge read again" gauge=float`,
		`WARN msg="gauge not read" gauge=float error=down`,
	}
	if !slices.Equal(said, want) {
		t.Errorf("got %q", said)
	}
}
