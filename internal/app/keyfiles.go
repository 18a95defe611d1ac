package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/keystore"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/secret"
)

// maxKeyFile is more than any key, passphrase or keystore needs.
const maxKeyFile = 64 << 10

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

// ExposesSecret reports whether the mode of a file lets anybody but its owner change it, or anybody outside its group
// read it. The group may read it, because a volume of Kubernetes gives its files to a group.
func ExposesSecret(mode fs.FileMode) bool {
	const others = 0o027
	return mode.Perm()&others != 0 && runtime.GOOS != "windows" // Windows has no such modes
}

// readPrivate reads a file whose mode does not expose it. The mode is that of what was opened, not of a path that may
// change meanwhile.
func readPrivate(path string) (secret.Text, error) {
	f, err := os.Open(path)
	if err != nil {
		return secret.Text{}, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return secret.Text{}, err
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return secret.Text{}, fmt.Errorf("%s is not a file", path)
	case ExposesSecret(mode):
		return secret.Text{}, fmt.Errorf("others may read or change %s, its mode is %#o; run chmod 600", path, mode.Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(text) > maxKeyFile {
		err = fmt.Errorf("%s is longer than 64 KiB", path)
	}
	return secret.New(string(text)), err
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
	return names
}
