package app

import (
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/secret"
)

func TestPublicKeysPayNothingInProduction(t *testing.T) {
	public := devnet.WalletsOf(devnet.RoleTreasury)[0].PrivateKey
	for name, key := range map[string]string{"with 0x": public, "without": strings.TrimPrefix(public, "0x"),
		"in capitals": "0x" + strings.ToUpper(public[2:])} {
		c := Config{Environment: Production, TreasuryKey: secret.New(key)}
		if err := c.refusePublicKeys(); err == nil || !strings.Contains(err.Error(), "treasury.key") ||
			strings.Contains(err.Error(), key) {
			t.Errorf("treasury, %s: %v", name, err)
		}
		c = Config{Environment: Production, RelayerKeys: []secret.Text{secret.New(key)}}
		if err := c.refusePublicKeys(); err == nil || !strings.Contains(err.Error(), "relayer.keys") {
			t.Errorf("relayer, %s: %v", name, err)
		}
		c.Environment = Sandbox
		if err := c.refusePublicKeys(); err != nil {
			t.Errorf("sandbox, %s: %v", name, err)
		}
	}
	c := Config{Environment: Production, TreasuryKey: secret.New(strings.Repeat("11", 32))}
	if err := c.refusePublicKeys(); err != nil {
		t.Error(err)
	}
}

func TestUnreadableTreasuryKeyIsRefusedUnseen(t *testing.T) {
	a := &App{config: Config{TreasuryKey: secret.New("0xnot-a-key")}}
	if _, err := a.refunds(); err == nil || !strings.Contains(err.Error(), "treasury.key") ||
		strings.Contains(err.Error(), "not-a-key") {
		t.Errorf("read: %v", err)
	}
	none := &App{}
	r, err := none.refunds()
	if err != nil || r.Treasury != nil || r.Unavailable() == "" || r.Deadline != 24*time.Hour {
		t.Errorf("without a key %+v, %v", r, err)
	}
}
