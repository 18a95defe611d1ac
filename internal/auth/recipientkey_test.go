package auth_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
)

// lowOrder are u-coordinates whose shared secret is always zero, in every spelling that X25519 reads.
var lowOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"0000000000000000000000000000000000000000000000000000000000000080",
}

func TestRecipientKeyIsRefusedWhenInvalid(t *testing.T) {
	bad := [][]byte{make([]byte, 31), make([]byte, 33), make([]byte, 64)}
	for _, s := range lowOrder {
		key, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		bad = append(bad, key)
	}
	for _, key := range bad {
		if _, err := auth.ParseRecipientKey(base64.StdEncoding.EncodeToString(key)); fault.Of(err) != fault.SchemaInvalid {
			t.Errorf("ParseRecipientKey of %x: %v", key, err)
		}
	}
}

func TestRecipientKeyIsReadFromEitherBase64(t *testing.T) {
	key := recipientKey(t, 9)
	for _, e := range []*base64.Encoding{
		base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding,
	} {
		if got, err := auth.ParseRecipientKey(e.EncodeToString(key)); err != nil || !bytes.Equal(got, key) {
			t.Errorf("ParseRecipientKey = %x, %v", got, err)
		}
	}
	if got, err := auth.ParseRecipientKey(""); got != nil || err != nil {
		t.Errorf("no key: %x, %v", got, err)
	}
	text := base64.RawStdEncoding.EncodeToString(key)
	last := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", text[42])
	noncanonical := text[:42] + string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[last|1])
	for _, s := range []string{
		"=", text + "==", text + "\n", " " + text, text[:42], noncanonical, hex.EncodeToString(key),
		text[:10] + "\n" + text[10:],
	} {
		if got, err := auth.ParseRecipientKey(s); fault.Of(err) != fault.SchemaInvalid || got != nil {
			t.Errorf("ParseRecipientKey(%q) = %x, %v", s, got, err)
		}
	}
}
