package app

import (
	"crypto/ecdsa"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/keystore"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/signer/awskms/awskmsfake"
)

// write makes a file with a mode.
func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // past the umask
		t.Fatal(err)
	}
	return path
}

func hexOf(key *ecdsa.PrivateKey) string {
	return hex.EncodeToString(crypto.FromECDSA(key))
}

// sealed is the keystore of a key, whose passphrase is "correct horse".
func sealed(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	text, err := keystore.Encrypt(key, secret.New("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// kms plays AWS KMS with one key, whose id it returns.
func kms(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	fake := awskmsfake.New()
	const id = "alias/roamcard"
	fake.Put(id, key)
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_KMS": server.URL, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
		"AWS_SECRET_ACCESS_KEY": "secret", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	return id
}

func TestEveryReferenceLeadsToItsKey(t *testing.T) {
	wallet := authtest.NewWallet(t, "relayer")
	text, account := hexOf(wallet.Key()), wallet.Address()
	t.Setenv("RELAYER_ONE", "0x"+text+"\n")
	t.Setenv("RELAYER_PASS", "correct horse")
	file := write(t, "key", text+"\n", 0o600)
	store, pass := write(t, "keystore.json", sealed(t, wallet.Key()), 0o600), write(t, "pass", "correct horse\n", 0o640)
	id := kms(t, wallet.Key())
	for reference, held := range map[string]bool{
		text: true, "0x" + text: true, "env:RELAYER_ONE": true, "file:" + file: true,
		"keystore:" + store + "#env:RELAYER_PASS": true, "keystore:" + store + "#file:" + pass: true,
		"web3signer:https://signer.example:9000#" + account.String(): false,
		"awskms:" + id: false, "awskms:" + id + "#" + account.String(): false,
	} {
		c := Config{Environment: Production, RelayerKeys: []secret.Text{secret.New(reference)}}
		keys, err := c.Keys(t.Context())
		if err != nil || len(keys.Relayers) != 1 || keys.Relayers[0].Address() != account ||
			keys.Relayers[0].IsLocal() != held {
			t.Errorf("%s: %v, %v", strings.ReplaceAll(reference, text, "KEY"), keys.Relayers, err)
			continue
		}
		if held {
			paymenttest.RunSigner(t, paymenttest.SignerHarness{
				Signer: keys.Relayers[0], Address: account, Secrets: []string{text},
			})
		}
	}
}

// TestKeysAreUsedByTheirRole: a key that is retired sends nothing new.
func TestKeysAreUsedByTheirRole(t *testing.T) {
	wallets := map[string]authtest.Wallet{}
	text := func(role string) secret.Text {
		wallets[role] = authtest.NewWallet(t, role)
		return secret.New(hexOf(wallets[role].Key()))
	}
	c := Config{
		RelayerKeys: []secret.Text{text("relayer")}, RelayerRetired: []secret.Text{text("retired relayer")},
		TreasuryKey: text("treasury"), TreasuryRetired: []secret.Text{text("retired treasury")},
	}
	keys, err := c.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for role, signers := range map[string][]payment.Signer{
		"relayer": keys.Relayers, "retired relayer": keys.Retired, "treasury": {keys.Treasury},
		"retired treasury": keys.FormerTreasuries,
	} {
		if len(signers) != 1 || signers[0].Address() != wallets[role].Address() {
			t.Errorf("%s: %v", role, signers)
		}
	}
}

// TestEveryMistakeAboutKeysIsToldAtOnce, and none of them quotes a key or a passphrase.
func TestEveryMistakeAboutKeysIsToldAtOnce(t *testing.T) {
	wallet, other := authtest.NewWallet(t, "relayer"), authtest.NewWallet(t, "other")
	text := hexOf(wallet.Key())
	t.Setenv("RELAYER_PASS", "wrong horse")
	t.Setenv("RELAYER_ODD", text[:60])
	store := write(t, "keystore.json", sealed(t, wallet.Key()), 0o600)
	wrong := []struct{ reference, want string }{
		{text[:63], "not a private key"},
		{"env:RELAYER_GONE", "RELAYER_GONE is not set"},
		{"env:RELAYER_ODD", "not a private key"},
		{"file:" + store + ".gone", "no such file"},
		{"file:" + write(t, "open", text, 0o644), "its mode is 0644"},
		{"file:" + write(t, "shared", text, 0o660), "its mode is 0660"},
		{"file:" + write(t, "empty", "\n"+text, 0o600), "is empty"},
		{"file:" + t.TempDir(), "is not a file"},
		{"keystore:" + store, "where its passphrase is"},
		{"keystore:" + store + "#correct horse", "where its passphrase is"},
		{"keystore:" + store + "#env:RELAYER_PASS", "the passphrase is wrong"},
		{"keystore:" + write(t, "no.json", text, 0o600) + "#env:RELAYER_PASS", "not a keystore"},
		{"web3signer:https://signer.example:9000", "name the account"},
		{"web3signer:http://signer.example:9000#" + other.Address().String(), "not https"},
		{"web3signer:https://signer.example#0x1234", "is not an account"},
		{"awskms:", "name the key"},
		{"awskms:alias/x#" + strings.ToLower(text[:40]), "is not an account"},
	}
	c := Config{Environment: Sandbox, TreasuryKey: secret.New("env:TREASURY_GONE")}
	for _, w := range wrong {
		c.RelayerKeys = append(c.RelayerKeys, secret.New(w.reference))
	}
	c.RelayerKeys = append(c.RelayerKeys, secret.New(text))
	c.RelayerRetired = []secret.Text{secret.New("0x" + text)}
	c.TreasuryRetired = []secret.Text{secret.New(wallet.Address().String()), secret.New("0x12")}
	told := lines(joined(c.keyMistakes(false)))
	if len(told) != len(wrong)+3 {
		t.Fatalf("%d mistakes, want %d:\n%s", len(told), len(wrong)+3, strings.Join(told, "\n"))
	}
	for i, w := range wrong {
		if prefix := fmt.Sprintf("relayer.keys, number %d: ", i+1); !strings.HasPrefix(told[i], prefix) ||
			!strings.Contains(told[i], w.want) {
			t.Errorf("%q, want %s", told[i], w.want)
		}
	}
	rest := strings.Join(told[len(wrong):], "\n")
	for _, want := range []string{
		"relayer.retired, number 1: it is of the account " + wallet.Address().String() + ", as is relayer.keys, number 18",
		"treasury.key: the variable TREASURY_GONE is not set", "treasury.retired, number 2: not a private key",
	} {
		if !strings.Contains(rest, want) {
			t.Errorf("%s does not have %q", rest, want)
		}
	}
	for _, hidden := range []string{text[:40], "horse"} {
		if strings.Contains(strings.Join(told, "\n"), hidden) {
			t.Errorf("%q is told", hidden)
		}
	}
}

func joined(errs []error) error {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return fmt.Errorf("%s", strings.Join(all, "\n"))
}

// TestPublicKeysAreRefusedInProduction, however they are referred to.
func TestPublicKeysAreRefusedInProduction(t *testing.T) {
	public := devnet.WalletsOf(devnet.RoleTreasury)[0]
	key := public.PrivateKey
	t.Setenv("PUBLIC_KEY", key)
	file := write(t, "key", key, 0o600)
	for _, reference := range []string{
		key, strings.TrimPrefix(key, "0x"), "0x" + strings.ToUpper(key[2:]), "env:PUBLIC_KEY", "file:" + file,
		"web3signer:https://signer.example#" + public.Address, "awskms:alias/x#" + public.Address,
	} {
		for setting, c := range map[string]Config{
			"relayer.keys":     {RelayerKeys: []secret.Text{secret.New(reference)}},
			"treasury.key":     {TreasuryKey: secret.New(reference)},
			"relayer.retired":  {RelayerRetired: []secret.Text{secret.New(reference)}},
			"treasury.retired": {TreasuryRetired: []secret.Text{secret.New(reference)}},
		} {
			t.Setenv("AWS_REGION", "eu-central-1")
			c.Environment = Production
			if err := joined(c.keyMistakes(true)); !strings.HasPrefix(err.Error(), setting) ||
				!strings.HasSuffix(err.Error(), "this is a public development key") {
				t.Errorf("%s: %v", setting, err)
			}
			c.Environment = Sandbox
			if wrong := c.keyMistakes(true); len(wrong) > 0 {
				t.Errorf("sandbox, %s: %v", setting, wrong)
			}
		}
	}
}
