package app

import (
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/secret"
)

func TestUnreadableTreasuryKeyIsRefusedUnseen(t *testing.T) {
	a := &App{config: Config{TreasuryKey: secret.New("0xnot-a-key")}}
	if _, err := a.refunds(nil); err == nil || !strings.Contains(err.Error(), "treasury.key") ||
		strings.Contains(err.Error(), "not-a-key") {
		t.Errorf("read: %v", err)
	}
	none := &App{}
	r, err := none.refunds(nil)
	if err != nil || r.Treasury != nil || r.Unavailable() == "" || r.Deadline != 24*time.Hour {
		t.Errorf("without a key %+v, %v", r, err)
	}
}
