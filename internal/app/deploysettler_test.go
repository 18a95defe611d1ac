package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/rpc"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

func TestSettlerIsDeployedOnceAndByNoRelayer(t *testing.T) {
	if _, err := devnet.FindAnvil(); err != nil {
		t.Skip(err)
	}
	dev, err := devnet.StartChain(t.Context(), devnet.ChainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	node, err := rpc.DialContext(t.Context(), dev.RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	if err := node.CallContext(t.Context(), nil, "anvil_setCode", settler.Address.String(), "0x"); err != nil {
		t.Fatal(err)
	}
	relayer, buyer := devnet.WalletsOf(devnet.RoleRelayer)[0], devnet.WalletsOf(devnet.RoleBuyer)[0]
	var file bytes.Buffer
	settings := map[string]string{"chain.rpc_url": dev.RPCURL, "relayer.keys": relayer.PrivateKey}
	for key, value := range settlementSettings(settings) {
		file.WriteString(key + ": \"" + value + "\"\n")
	}
	path := filepath.Join(t.TempDir(), "roamcard.yaml")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, key, says, fails string }{
		{"no key", "", "", "ROAMCARD_DEPLOYER_KEY: not a private key"},
		{"a relayer's key", relayer.PrivateKey, "", "ROAMCARD_DEPLOYER_KEY is a relayer's"},
		{"another account", buyer.PrivateKey, settler.Address.String() + " is deployed by " + buyer.Address + " in 0x", ""},
		{"again", buyer.PrivateKey, settler.Address.String() + " was deployed before\n", ""},
	} {
		t.Setenv(app.DeployerKey, tt.key)
		var out bytes.Buffer
		err := app.DeploySettler(t.Context(), app.DeploySettlerConfig{File: path, Out: &out})
		if tt.fails == "" && err != nil || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) ||
			!strings.HasPrefix(out.String(), tt.says) || tt.says == "" && out.Len() > 0 {
			t.Errorf("%s: %q, %v", tt.name, out.String(), err)
		}
	}
}
