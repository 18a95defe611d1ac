// Package keys opens the wallet of an agent where its owner keeps it: a program that signs, an encrypted keystore,
// or the keychain of the operating system.
//
//	source      what the settings say                    who holds the key
//	command     the program and the account's address    the program; this process never sees it
//	keystore    a file of go-ethereum's (version 3)      this process, once it has the passphrase
//	keychain    the name of an entry                     this process, once the system allows it
//
// The settings hold no key and no passphrase, and no error does.
package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config names one source of signatures: exactly one of Command, Keystore and Keychain is set. Paths are absolute or
// begin with "~/", because whoever starts an agent's server chooses its working folder.
type Config struct {
	// Kind says which one it is, "command", "keystore" or "keychain"; it may be left out.
	Kind string `json:"kind,omitempty"`
	// Address is the account. A command needs it; of the others it refuses every other account's key.
	Address string `json:"address,omitempty"`
	// Command is a program and its arguments, asked as roamcard.CommandSigner says. It is not run through a shell.
	Command []string `json:"command,omitempty"`
	// Keystore is an encrypted file.
	Keystore *Keystore `json:"keystore,omitempty"`
	// Keychain is the name of an entry of the operating system's keychain, as `roamcard wallet new --keychain` tells it.
	Keychain string `json:"keychain,omitempty"`
	// Environment names the variables that the command, or the passphrase's, gets in addition to what programs need; of a
	// key or a token in this program's environment it gets none that is not named.
	Environment []string `json:"environment,omitempty"`
	// Ask asks the person at the terminal for a passphrase that nothing else names. Nil where nobody can be asked.
	Ask func(ctx context.Context, prompt string) (roamcard.Secret, error) `json:"-"`
}

// Keystore is a file of version 3 of the Web3 secret storage, as geth writes it. Its passphrase is read from
// PassphraseFile, else printed by PassphraseCommand, else asked for.
type Keystore struct {
	File string `json:"file"`
	// PassphraseFile holds one line, and only its owner can read it (0600).
	PassphraseFile string `json:"passphraseFile,omitempty"`
	// PassphraseCommand is a program, such as that of a password store, whose first line of output is the passphrase.
	PassphraseCommand []string `json:"passphraseCommand,omitempty"`
}

// Parse reads settings, and refuses members that it does not know: a key in them would be one.
func Parse(text []byte) (Config, error) {
	var c Config
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	if err := from.Decode(&c); err != nil {
		// The library's error may quote what somebody took for a setting.
		return Config{}, &Error{
			Kind: ErrConfig, Where: "the signer",
			Advice: "it is a JSON object with kind, address and one of command, keystore and keychain; a key is never in it",
		}
	}
	return c, c.check()
}

// Open returns the signer. It reads the key now: the keystore takes about a second of computing, a passphrase or a
// locked keychain as long as a person takes, and ctx ends the wait. Errors are *Error.
func Open(ctx context.Context, c Config) (roamcard.Signer, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if len(c.Command) > 0 {
		return openCommand(c)
	}
	var key roamcard.Secret
	var err error
	if c.Keystore != nil {
		key, err = c.openKeystore(ctx)
	} else {
		key, err = openKeychain(ctx, c.Keychain)
	}
	if err != nil {
		return nil, err
	}
	return c.own(key)
}

// Put keeps a private key, 32 bytes in hex, in the keystore or the keychain that c names, and opens it again from there
// before it says that it is kept. It replaces nothing: ErrExists.
func Put(ctx context.Context, c Config, key roamcard.Secret) (roamcard.Signer, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if len(c.Command) > 0 {
		return nil, &Error{Kind: ErrConfig, Where: "the signer", Advice: "a program that signs keeps its key itself"}
	}
	signer, err := c.own(key)
	if err != nil {
		return nil, err
	}
	c.Address = signer.Address()
	if c.Keystore == nil {
		if err := putKeychain(ctx, c.Keychain, key); err != nil {
			return nil, err
		}
		return Open(ctx, c)
	}
	// One passphrase for both ways: a person types it once more only to confirm it, which is the caller's to ask.
	pass, err := c.passphrase(ctx)
	if err != nil {
		return nil, err
	}
	if err := putKeystore(c.Keystore.File, key, pass); err != nil {
		return nil, err
	}
	c.Keystore.PassphraseFile, c.Keystore.PassphraseCommand = "", nil
	c.Ask = func(context.Context, string) (roamcard.Secret, error) { return pass, nil }
	return Open(ctx, c)
}

// check refuses settings that name no source, or two. Its c has real paths afterwards.
func (c *Config) check() error {
	wrong := func(advice string) error { return &Error{Kind: ErrConfig, Where: "the signer", Advice: advice} }
	var named []string
	for kind, is := range map[string]bool{
		"command": len(c.Command) > 0, "keystore": c.Keystore != nil, "keychain": c.Keychain != "",
	} {
		if is {
			named = append(named, kind)
		}
	}
	if len(named) != 1 || (c.Kind != "" && c.Kind != named[0]) {
		return wrong("name exactly one of command, keystore and keychain, and its kind or none")
	}
	if c.Address != "" {
		if _, err := x402.ParseAddress(c.Address); err != nil {
			return wrong("address is not 0x and 40 hex digits")
		}
	}
	if len(c.Command) > 0 && c.Address == "" {
		return wrong("a command needs the address that it signs for")
	}
	if c.Keystore == nil {
		return nil
	}
	k := *c.Keystore
	if len(k.PassphraseCommand) > 0 && k.PassphraseFile != "" {
		return wrong("name one of passphraseFile and passphraseCommand")
	}
	for name, path := range map[string]*string{"keystore.file": &k.File, "keystore.passphraseFile": &k.PassphraseFile} {
		if *path == "" && path == &k.PassphraseFile {
			continue
		}
		full, err := absolute(*path)
		if err != nil {
			return wrong(name + " has to be an absolute path, or begin with ~/")
		}
		*path = full
	}
	c.Keystore = &k // the caller's stays as it was
	return nil
}

// own makes the signer, when the key is that of the account that was named.
func (c *Config) own(key roamcard.Secret) (roamcard.Signer, error) {
	signer, err := roamcard.NewKeySigner(key.Reveal())
	if err != nil {
		return nil, &Error{Kind: ErrDamaged, Where: c.where(), Advice: "what it holds is not a private key of 32 bytes"}
	}
	if c.Address != "" && !strings.EqualFold(c.Address, signer.Address()) {
		return nil, &Error{
			Kind: ErrOtherKey, Where: c.where(), Advice: "it is for " + signer.Address() + ", not " + c.Address,
		}
	}
	return signer, nil
}

func (c *Config) where() string {
	switch {
	case c.Keystore != nil:
		return "the keystore " + c.Keystore.File
	case c.Keychain != "":
		return "the keychain's entry " + c.Keychain
	}
	return "the signer"
}

// absolute is a path that does not depend on the working folder.
func absolute(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return inHome(rest)
	}
	if !filepath.IsAbs(path) {
		return "", errRelative
	}
	return path, nil
}
