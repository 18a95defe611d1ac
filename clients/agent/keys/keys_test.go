package keys_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"
	"github.com/zalando/go-keyring"

	"github.com/roamcard/roamcard/clients/agent/keys"
	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// A well-known key of development chains, and its account.
const (
	key     = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	account = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
	other   = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
)

// TestMain lets the test's own program stand for the programs of a wallet's owner.
func TestMain(m *testing.M) {
	if os.Getenv("KEYS_TEST_PROGRAM") != "" && os.Getenv("ROAMCARD_WALLET_KEY") != "" {
		fmt.Fprintln(os.Stderr, "a program of the wallet's owner was given a key that is not its own")
		os.Exit(9)
	}
	if len(os.Args) == 1 && os.Getenv("KEYS_TEST_PROGRAM") == "" {
		panic("a program that was started without its part would start all tests again")
	}
	switch os.Getenv("KEYS_TEST_PROGRAM") {
	case "sign":
		os.Exit(sign())
	case "leak":
		fmt.Fprintln(os.Stderr, "cannot sign with 0x"+key)
		os.Exit(1)
	case "passphrase":
		fmt.Println("correct horse")
		os.Exit(0)
	case "nothing":
		os.Exit(0)
	case "failing passphrase":
		fmt.Fprintln(os.Stderr, "correct horse")
		os.Exit(7)
	case "hanging":
		time.Sleep(time.Hour)
	}
	if err := os.Setenv("ROAMCARD_WALLET_KEY", key); err != nil { // what is started does not see it
		panic(err)
	}
	os.Exit(m.Run())
}

func sign() int {
	signer, err := roamcard.NewKeySigner(key)
	if err != nil {
		return 1
	}
	var asked struct{ Method, Message string }
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil || asked.Method != "personal_sign" {
		return 1
	}
	sig, err := signer.SignMessage(context.Background(), asked.Message)
	if err != nil {
		return 1
	}
	fmt.Printf("0x%x\n", sig)
	return 0
}

// write makes a file of a mode.
func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

// cheap is the keystore of the key, as geth writes it, at little cost.
func cheap(t testing.TB) string {
	t.Helper()
	k, err := crypto.HexToECDSA(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := keystore.EncryptKey(
		&keystore.Key{Id: uuid.New(), Address: crypto.PubkeyToAddress(k.PublicKey), PrivateKey: k}, "correct horse", 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// named are the variables that the programs need.
var named = []string{"KEYS_TEST_PROGRAM"}

func program(t *testing.T, what string) []string {
	t.Helper()
	t.Setenv("KEYS_TEST_PROGRAM", what)
	return []string{os.Args[0]}
}

// expect checks an error's kind, and that it quotes no secret.
func expect(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want %v", err, kind)
	}
	if typed, ok := errors.AsType[*keys.Error](err); !ok || typed.Where == "" {
		t.Errorf("%v does not say where", err)
	}
	redacting(t, err)
}

func redacting(t *testing.T, err error) {
	t.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		if text := fmt.Sprintf("%v %+v", e, e); strings.Contains(text, key[:16]) || strings.Contains(text, "horse") {
			t.Errorf("the error tells a secret: %s", text)
		}
	}
}

func TestSettingsNameASourceAndHoldNoKey(t *testing.T) {
	for _, text := range []string{
		`{"kind": "command", "command": ["sign"], "address": "` + account + `", "environment": ["A"]}`,
		`{"keystore": {"file": "~/k"}}`,
		`{"keychain": "wallet"}`,
	} {
		if _, err := keys.Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		``, `"` + key + `"`, `{}`, `{"privateKey": "` + key + `"}`, `{"` + key + `": 1}`,
		`{"kind": "keychain", "keystore": {"file": "/k"}}`,
		`{"keystore": {"file": "/k", "passphrase": "correct horse"}}`,
	} {
		_, err := keys.Parse([]byte(text))
		expect(t, err, keys.ErrConfig)
	}
}

func TestKeystoreOpensWithItsPassphrase(t *testing.T) {
	file := write(t, "keystore.json", cheap(t), 0o600)
	asked := func(context.Context, string) (roamcard.Secret, error) {
		return roamcard.NewSecret("correct horse"), nil
	}
	for name, c := range map[string]keys.Config{
		"from a file": {
			Keystore: &keys.Keystore{File: file, PassphraseFile: write(t, "pass", "correct horse\r\n", 0o400)},
		},
		"from a program": {
			Keystore: &keys.Keystore{File: file, PassphraseCommand: program(t, "passphrase")}, Environment: named,
		},
		"asked for": {Keystore: &keys.Keystore{File: file}, Ask: asked, Address: strings.ToLower(account)},
	} {
		signer, err := keys.Open(t.Context(), c)
		if err != nil || signer.Address() != account {
			t.Errorf("%s: %v, %v", name, signer, err)
		}
	}
}

func TestOpenSaysWhyItFailsWithoutSecrets(t *testing.T) {
	file, pass := write(t, "keystore.json", cheap(t), 0o600), write(t, "pass", "correct horse\n", 0o600)
	at := func(file, pass string) keys.Config {
		return keys.Config{Keystore: &keys.Keystore{File: file, PassphraseFile: pass}}
	}
	by := func(command ...string) keys.Config {
		return keys.Config{Keystore: &keys.Keystore{File: file, PassphraseCommand: command}, Environment: named}
	}
	for name, tt := range map[string]struct {
		program string
		c       keys.Config
		want    error
	}{
		"nothing named":   {"", keys.Config{}, keys.ErrConfig},
		"two named":       {"", keys.Config{Keychain: "a", Command: []string{"b"}, Address: account}, keys.ErrConfig},
		"no account":      {"", keys.Config{Command: []string{os.Args[0]}}, keys.ErrConfig},
		"no address":      {"", keys.Config{Command: []string{os.Args[0]}, Address: "0x12"}, keys.ErrConfig},
		"a relative path": {"", at("keystore.json", pass), keys.ErrConfig},
		"a key as a path": {"", at(key, pass), keys.ErrConfig},
		"two passphrases": {
			"", keys.Config{Keystore: &keys.Keystore{File: file, PassphraseFile: pass, PassphraseCommand: []string{"x"}}},
			keys.ErrConfig,
		},
		"no program": {
			"", keys.Config{Command: []string{"/no/such/program"}, Address: account}, keys.ErrNoProgram,
		},
		"no keystore":           {"", at(file+".gone", pass), keys.ErrMissing},
		"a folder":              {"", at(filepath.Dir(file), pass), keys.ErrUnreadable},
		"a readable keystore":   {"", at(write(t, "open.json", cheap(t), 0o640), pass), keys.ErrMode},
		"a readable passphrase": {"", at(file, write(t, "open", "correct horse", 0o604)), keys.ErrMode},
		"no passphrase file":    {"", at(file, pass+".gone"), keys.ErrMissing},
		"an empty passphrase":   {"", at(file, write(t, "empty", "\n", 0o600)), keys.ErrNoPassphrase},
		"another passphrase":    {"", at(file, write(t, "wrong", "incorrect horse", 0o600)), keys.ErrPassphrase},
		"nobody to ask":         {"", at(file, ""), keys.ErrNoPassphrase},
		"another account":       {"", keys.Config{Address: other, Keystore: at(file, pass).Keystore}, keys.ErrOtherKey},
		"no passphrase program": {"", by("/no/such/program"), keys.ErrNoProgram},
		"a failing one":         {"failing passphrase", by(os.Args[0]), keys.ErrProgram},
		"a silent one":          {"nothing", by(os.Args[0]), keys.ErrNoPassphrase},
		"a key as a keystore":   {"", at(write(t, "key", key, 0o600), pass), keys.ErrDamaged},
		"an endless keystore":   {"", at(write(t, "long", strings.Repeat(" ", 70_000), 0o600), pass), keys.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KEYS_TEST_PROGRAM", tt.program)
			_, err := keys.Open(t.Context(), tt.c)
			expect(t, err, tt.want)
		})
	}
}

// The file is changed in many ways; the library that decrypts it panics on some.
func TestDamagedKeystoreNeverOpensAsAnotherKey(t *testing.T) {
	good, pass := cheap(t), write(t, "pass", "correct horse", 0o600)
	file := write(t, "keystore.json", good, 0o600)
	open := func(text string) (string, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		signer, err := keys.Open(t.Context(), keys.Config{Keystore: &keys.Keystore{File: file, PassphraseFile: pass}})
		if err != nil {
			redacting(t, err)
			if _, ok := errors.AsType[*keys.Error](err); !ok {
				t.Errorf("untyped: %v", err)
			}
			return "", err
		}
		return signer.Address(), nil
	}
	if got, err := open(good); got != account {
		t.Fatalf("undamaged: %q, %v", got, err)
	}
	for i := range len(good) {
		for _, text := range []string{
			good[:i], good[:i] + good[i+1:], good[:i] + "0" + good[i+1:], good[:i] + "f" + good[i+1:],
		} {
			if got, err := open(text); err == nil && got != account {
				t.Fatalf("%s opened as %s", text, got)
			}
		}
	}
	for from, to := range map[string]string{
		`"n":2`: `"n":1073741824`, `"r":8`: `"r":-8`, `"p":1`: `"p":1000000`, `"dklen":32`: `"dklen":8`,
		`"version":3`: `"version":1`,
		`"scrypt"`:    `"pbkdf2"`, `"aes-128-ctr"`: `"aes-128-cbc"`, `"iv":"`: `"iv":"00`,
		`"kdfparams":{`: `"kdfparams":{"c":1,"prf":"x",`,
	} {
		if _, err := open(strings.Replace(good, from, to, 1)); err == nil && from != `"kdfparams":{` {
			t.Errorf("%s for %s was taken", to, from)
		}
	}
}

// The checksum of the format does not cover its initialization vector.
func TestKeystoreWithoutAnAccountNeedsOne(t *testing.T) {
	text := strings.Replace(cheap(t), `"address":"`+strings.ToLower(account[2:])+`",`, "", 1)
	file, pass := write(t, "keystore.json", text, 0o600), write(t, "pass", "correct horse", 0o600)
	c := keys.Config{Keystore: &keys.Keystore{File: file, PassphraseFile: pass}}
	_, err := keys.Open(t.Context(), c)
	expect(t, err, keys.ErrConfig)
	c.Address = account
	if _, err := keys.Open(t.Context(), c); err != nil {
		t.Error(err)
	}
}

func TestKeystoreWithPBKDF2Opens(t *testing.T) {
	// The vector of the format's definition: PBKDF2, passphrase "testpassword".
	const text = `{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},
"ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46","kdf":"pbkdf2","kdfparams":{"c":262144,
"dklen":32,
"prf":"hmac-sha256","salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},
"mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},
"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}`
	const vector = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d"
	want, err := roamcard.NewKeySigner(vector)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := keys.Open(t.Context(), keys.Config{Address: want.Address(), Keystore: &keys.Keystore{
		File: write(t, "keystore.json", text, 0o600), PassphraseFile: write(t, "pass", "testpassword", 0o600),
	}})
	if err != nil || signer.Address() != want.Address() {
		t.Errorf("%v, %v", signer, err)
	}
}

func TestPutKeepsAKeyAndReplacesNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "keystore.json")
	c := keys.Config{Keystore: &keys.Keystore{File: file, PassphraseFile: write(t, "pass", "correct horse", 0o600)}}
	signer, err := keys.Put(t.Context(), c, roamcard.NewSecret("0x"+key+"\n"))
	if err != nil || signer.Address() != account {
		t.Fatalf("%v, %v", signer, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), key[:16]) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := keystore.DecryptKey(text, "correct horse"); err != nil {
		t.Errorf("geth does not read it: %v", err)
	}
	_, err = keys.Put(t.Context(), c, roamcard.NewSecret(key))
	expect(t, err, keys.ErrExists)
	_, err = keys.Put(t.Context(), c, roamcard.NewSecret(key[:60]))
	expect(t, err, keys.ErrDamaged)
	_, err = keys.Put(t.Context(), keys.Config{Command: []string{os.Args[0]}, Address: account}, roamcard.NewSecret(key))
	expect(t, err, keys.ErrConfig)
}

func TestKeychainEntryOpens(t *testing.T) {
	keyring.MockInit()
	c := keys.Config{Keychain: "travel"}
	_, err := keys.Open(t.Context(), c)
	expect(t, err, keys.ErrMissing)
	if signer, err := keys.Put(t.Context(), c, roamcard.NewSecret(key)); err != nil || signer.Address() != account {
		t.Fatalf("%v, %v", signer, err)
	}
	_, err = keys.Put(t.Context(), c, roamcard.NewSecret(key))
	expect(t, err, keys.ErrExists)
	c.Address = other
	_, err = keys.Open(t.Context(), c)
	expect(t, err, keys.ErrOtherKey)
	if err := keyring.Set("roamcard", "broken", key[:10]); err != nil {
		t.Fatal(err)
	}
	_, err = keys.Open(t.Context(), keys.Config{Keychain: "broken"})
	expect(t, err, keys.ErrDamaged)
	keyring.MockInitWithError(errors.New("org.freedesktop.secrets was not provided, and 0x" + key))
	_, err = keys.Open(t.Context(), c)
	expect(t, err, keys.ErrNoKeychain)
	_, err = keys.Put(t.Context(), keys.Config{Keychain: "travel"}, roamcard.NewSecret(key))
	expect(t, err, keys.ErrNoKeychain)
}

func TestCommandSigns(t *testing.T) {
	c := keys.Config{Address: account, Command: program(t, "sign"), Environment: named}
	signer, err := keys.Open(t.Context(), c)
	if err != nil || signer.Address() != account {
		t.Fatalf("%v, %v", signer, err)
	}
	want, err := roamcard.NewKeySigner(key)
	if err != nil {
		t.Fatal(err)
	}
	expected, err := want.SignMessage(t.Context(), "hello")
	if err != nil {
		t.Fatal(err)
	}
	if sig, err := signer.SignMessage(t.Context(), "hello"); err != nil ||
		hex.EncodeToString(sig) != hex.EncodeToString(expected) {
		t.Errorf("%x, %v", sig, err)
	}
	t.Setenv("KEYS_TEST_PROGRAM", "leak")
	_, err = signer.SignMessage(t.Context(), "hello")
	if err == nil || !strings.Contains(err.Error(), "cannot sign with 0x[redacted]") {
		t.Errorf("%v", err)
	}
	redacting(t, err)
	_, err = signer.SignTypedData(t.Context(), roamcard.TypedData{})
	redacting(t, err)
	if err == nil {
		t.Error("no error")
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	file := write(t, "keystore.json", cheap(t), 0o600)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := keys.Open(ctx, keys.Config{
		Keystore: &keys.Keystore{File: file, PassphraseCommand: program(t, "hanging")}, Environment: named,
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
