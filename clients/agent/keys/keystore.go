package keys

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/keystore"
	"github.com/roamcard/roamcard/internal/secret"
)

func (c *Config) openKeystore(ctx context.Context) (roamcard.Secret, error) {
	none := roamcard.NewSecret("")
	damaged := func(why string) error { return &Error{Kind: ErrDamaged, Where: c.where(), Advice: why} }
	text, err := readPrivate(c.Keystore.File, c.where())
	if err != nil {
		return none, err
	}
	file, err := keystore.Parse(text)
	if err != nil {
		return none, damaged(err.Error())
	}
	if !file.NamesAccount() && c.Address == "" {
		return none, &Error{Kind: ErrConfig, Where: c.where(), Advice: "the file names no account; set address"}
	}
	pass, err := c.passphrase(ctx)
	if err != nil {
		return none, err
	}
	key, err := file.Open(secret.New(pass.Reveal()))
	if errors.Is(err, keystore.ErrPassphrase) {
		return none, &Error{Kind: ErrPassphrase, Where: c.where(), Advice: "or the file is damaged"}
	}
	if err != nil {
		return none, damaged(err.Error())
	}
	return roamcard.NewSecret(hex.EncodeToString(crypto.FromECDSA(key))), nil
}

// putKeystore writes the file as geth does, with its usual cost.
func putKeystore(path string, private, pass roamcard.Secret) error {
	where := "the keystore " + path
	key, err := crypto.HexToECDSA(strings.TrimPrefix(strings.TrimSpace(private.Reveal()), "0x"))
	if err != nil {
		return &Error{Kind: ErrDamaged, Where: where, Advice: "the key is not 32 bytes in hex"}
	}
	text, err := keystore.Encrypt(key, secret.New(pass.Reveal()))
	if err != nil {
		return &Error{Kind: ErrUnwritable, Where: where, Advice: err.Error()}
	}
	return writePrivate(path, where, text)
}
