// Package keystore opens and makes encrypted files of one private key: version 3 of the Web3 secret storage, as geth
// writes it.
package keystore

import (
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/secret"
)

// ErrPassphrase says that the passphrase is another one, or that the file is damaged: the format cannot tell which.
var ErrPassphrase = errors.New("the passphrase is wrong, or the file is damaged")

// Damaged says what is wrong with a file. It quotes nothing of it.
type Damaged string

// Error implements error.
func (d Damaged) Error() string { return string(d) }

// File is a keystore whose members are checked. It is still encrypted.
type File struct{ stored stored }

// stored is the file. Every member is checked before go-ethereum sees it, which panics on a damaged one.
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

// Parse reads a file. Its error is Damaged.
func Parse(text []byte) (File, error) {
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return File{}, Damaged("it is not a keystore in JSON") // the library's error may quote the file
	}
	if why := s.wrong(); why != "" {
		return File{}, Damaged(why)
	}
	return File{s}, nil
}

// NamesAccount reports whether the file says whose key it has. The checksum leaves the initialization vector out, so
// only the account tells that the right key came out: without it, compare the key's with one that is known.
func (f File) NamesAccount() bool { return f.stored.Address != "" }

// Open decrypts the key, which takes about a second of computing and, for a file of geth's, 256 MiB. The error is
// ErrPassphrase or Damaged.
func (f File) Open(passphrase secret.Text) (*ecdsa.PrivateKey, error) {
	plain, err := keystore.DecryptDataV3(f.stored.Crypto.library(), passphrase.Reveal())
	if errors.Is(err, keystore.ErrDecrypt) {
		return nil, ErrPassphrase
	}
	if err != nil {
		return nil, Damaged("it cannot be decrypted")
	}
	key, err := crypto.ToECDSA(plain)
	if err != nil {
		return nil, Damaged("what it holds is not a private key of 32 bytes")
	}
	account := crypto.PubkeyToAddress(key.PublicKey).Hex()
	if named := f.stored.Address; named != "" &&
		!strings.EqualFold(strings.TrimPrefix(account, "0x"), strings.TrimPrefix(named, "0x")) {
		return nil, Damaged("its key is not that of the account it names")
	}
	return key, nil
}

// Encrypt makes the file of a key as geth does, with its usual cost.
func Encrypt(key *ecdsa.PrivateKey, passphrase secret.Text) ([]byte, error) {
	text, err := keystore.EncryptKey(
		&keystore.Key{Id: uuid.New(), Address: crypto.PubkeyToAddress(key.PublicKey), PrivateKey: key},
		passphrase.Reveal(), keystore.StandardScryptN, keystore.StandardScryptP)
	if err != nil {
		return nil, errors.New("it cannot be encrypted")
	}
	return append(text, '\n'), nil
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
