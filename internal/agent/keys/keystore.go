package keys

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// stored is a keystore of version 3. Every member is checked before go-ethereum sees it, which panics on a damaged
// file.
type stored struct {
	Address string     `json:"address"`
	Crypto  encryption `json:"crypto"`
	ID      string     `json:"id"`
	Version int        `json:"version"`
}

type encryption struct {
	Cipher       string `json:"cipher"`
	CipherText   string `json:"ciphertext"`
	CipherParams struct {
		IV string `json:"iv"`
	} `json:"cipherparams"`
	KDF       string `json:"kdf"`
	KDFParams struct {
		DKLen int    `json:"dklen"`
		Salt  string `json:"salt"`
		N     int    `json:"n"`
		R     int    `json:"r"`
		P     int    `json:"p"`
		C     int    `json:"c"`
		PRF   string `json:"prf"`
	} `json:"kdfparams"`
	MAC string `json:"mac"`
}

// What a passphrase may cost: scrypt takes 128·n·r bytes, which is 256 MiB as geth writes it. A damaged number must not
// take the machine.
const (
	maxMemory = 1 << 30
	maxRounds = 10_000_000
	maxP      = 64
)

func (c *Config) openKeystore(ctx context.Context) (roamcard.Secret, error) {
	none := roamcard.NewSecret("")
	damaged := func(why string) error { return &Error{Kind: ErrDamaged, Where: c.where(), Advice: why} }
	text, err := readPrivate(c.Keystore.File, c.where())
	if err != nil {
		return none, err
	}
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return none, damaged("it is not a keystore in JSON") // the library's error may quote the file
	}
	if why := s.wrong(); why != "" {
		return none, damaged(why)
	}
	// The checksum leaves the initialization vector out: only the account tells that the right key came out.
	if s.Address == "" && c.Address == "" {
		return none, &Error{Kind: ErrConfig, Where: c.where(), Advice: "the file names no account; set address"}
	}
	pass, err := c.passphrase(ctx)
	if err != nil {
		return none, err
	}
	plain, err := keystore.DecryptDataV3(s.Crypto.library(), pass.Reveal())
	if errors.Is(err, keystore.ErrDecrypt) {
		return none, &Error{Kind: ErrPassphrase, Where: c.where(), Advice: "or the file is damaged"}
	}
	if err != nil {
		return none, damaged("it cannot be decrypted")
	}
	key, err := crypto.ToECDSA(plain)
	if err != nil {
		return none, damaged("what it holds is not a private key of 32 bytes")
	}
	account := crypto.PubkeyToAddress(key.PublicKey).Hex()
	if s.Address != "" && !strings.EqualFold(strings.TrimPrefix(account, "0x"), strings.TrimPrefix(s.Address, "0x")) {
		return none, damaged("its key is not that of the account it names")
	}
	return roamcard.NewSecret(hex.EncodeToString(plain)), nil
}

// wrong says why this is no valid keystore of version 3, or returns nothing.
func (s *stored) wrong() string {
	e, k := &s.Crypto, &s.Crypto.KDFParams
	switch {
	case s.Version != 3:
		return "it is not of version 3"
	case e.Cipher != "aes-128-ctr":
		return "its cipher is not aes-128-ctr"
	case !isHex(e.CipherText, 32), !isHex(e.CipherParams.IV, 16), !isHex(e.MAC, 32):
		return "its text, vector or checksum is not as long as it has to be"
	case k.DKLen != 32 || !isHex(k.Salt, -1):
		return "its derived key or its salt is not as it has to be"
	}
	switch e.KDF {
	case "scrypt":
		if k.N <= 1 || k.N&(k.N-1) != 0 || k.R <= 0 || k.P <= 0 || k.P > maxP || k.R > maxMemory/128/k.N {
			return "its parameters of scrypt are out of range"
		}
	case "pbkdf2":
		if k.PRF != "hmac-sha256" || k.C <= 0 || k.C > maxRounds {
			return "its parameters of pbkdf2 are out of range"
		}
	default:
		return "its key derivation is neither scrypt nor pbkdf2"
	}
	return ""
}

// isHex says whether text is so many bytes in hex; -1 is any number.
func isHex(text string, size int) bool {
	b, err := hex.DecodeString(text)
	return err == nil && (size < 0 || len(b) == size)
}

// library is the same in go-ethereum's type.
func (e *encryption) library() keystore.CryptoJSON {
	k := &e.KDFParams
	c := keystore.CryptoJSON{
		Cipher: e.Cipher, CipherText: e.CipherText, KDF: e.KDF, MAC: e.MAC,
		KDFParams: map[string]any{"n": k.N, "r": k.R, "p": k.P, "c": k.C, "prf": k.PRF, "dklen": k.DKLen, "salt": k.Salt},
	}
	c.CipherParams.IV = e.CipherParams.IV
	return c
}

// putKeystore writes the file as geth does, with its standard cost.
func putKeystore(path string, secret, pass roamcard.Secret) error {
	where := "the keystore " + path
	key, err := crypto.HexToECDSA(strings.TrimPrefix(strings.TrimSpace(secret.Reveal()), "0x"))
	if err != nil {
		return &Error{Kind: ErrDamaged, Where: where, Advice: "the key is not 32 bytes in hex"}
	}
	text, err := keystore.EncryptKey(
		&keystore.Key{Id: uuid.New(), Address: crypto.PubkeyToAddress(key.PublicKey), PrivateKey: key},
		pass.Reveal(), keystore.StandardScryptN, keystore.StandardScryptP)
	if err != nil {
		return &Error{Kind: ErrUnwritable, Where: where, Advice: "it cannot be encrypted"}
	}
	return writePrivate(path, where, append(text, '\n'))
}
