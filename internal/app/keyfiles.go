package app

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/keystore"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/secret"
)

// openKeystore opens PATH#PASSPHRASE, whose passphrase is a reference to a file or a variable.
func openKeystore(text string) (payment.Signer, error) {
	path, passphrase, named := strings.Cut(text, "#")
	if kind, _ := splitReference(passphrase); !named || path == "" || kind != byFile && kind != byEnv {
		return nil, errors.New("name the file and where its passphrase is: keystore:PATH#file:PATH or keystore:PATH#env:NAME")
	}
	raw, err := readPrivate(path)
	if err != nil {
		return nil, err
	}
	file, err := keystore.Parse([]byte(raw.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("the keystore %s: %w", path, err)
	}
	if !file.NamesAccount() {
		return nil, fmt.Errorf("the keystore %s: it does not say whose key it has, so a damaged one could pass", path)
	}
	pass, err := readReference(passphrase)
	if err != nil {
		return nil, fmt.Errorf("the passphrase: %w", err)
	}
	key, err := file.Open(pass)
	if err != nil {
		return nil, fmt.Errorf("the keystore %s: %w", path, err)
	}
	return curve.NewLocalSigner(key), nil
}

// readReference reads the one line that file:PATH or env:NAME refers to.
func readReference(text string) (secret.Text, error) {
	kind, name := splitReference(text)
	if kind == byFile {
		raw, err := readPrivate(name)
		if err != nil {
			return secret.Text{}, err
		}
		line, _, _ := strings.Cut(raw.Reveal(), "\n")
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			return secret.Text{}, fmt.Errorf("the first line of %s is empty", name)
		}
		return secret.New(line), nil
	}
	value := os.Getenv(name)
	if value == "" {
		return secret.Text{}, fmt.Errorf("the variable %s is not set", name)
	}
	return secret.New(value), nil
}

// referredVariables are the variables that references to keys name.
func (c Config) referredVariables() (names []string) {
	for _, ref := range c.keyRefs() {
		kind, rest := splitReference(ref.text.Reveal())
		if _, passphrase, found := strings.Cut(rest, "#"); kind == byKeystore && found {
			kind, rest = splitReference(passphrase)
		}
		if kind == byEnv {
			names = append(names, rest)
		}
	}
	if kind, name := splitReference(c.FacilitatorKeySecret.Reveal()); kind == byEnv {
		names = append(names, name)
	}
	return names
}
