package dev

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/roamcard/roamcard/internal/secret"
)

// secrets are those that no child knows. They are kept next to the data, so that a restart on the same folder honours
// the tokens and quotes of the last run.
type secrets struct {
	operator string
	quote    secret.Text
	receipts secret.Text
}

// readSecrets reads the secrets of a data folder, and makes those that are missing.
func readSecrets(dir string) (s secrets, err error) {
	if s.operator, err = keep(filepath.Join(dir, "operator.token"), "rco_"); err != nil {
		return s, err
	}
	quote, err := keep(filepath.Join(dir, "quote.key"), "")
	if err != nil {
		return s, err
	}
	s.quote = secret.New(quote)
	receipts, err := keep(filepath.Join(dir, "receipt.key"), "")
	s.receipts = secret.New(receipts)
	return s, err
}

// keep reads a secret, or makes and writes one.
func keep(path, prefix string) (string, error) {
	if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
		return string(b), nil
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails: the program ends when there is no randomness
	text := prefix + hex.EncodeToString(random)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("make the data folder: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("keep a development secret: %w", err)
	}
	return text, nil
}
