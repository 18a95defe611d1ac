package handshake_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hpke"
	"crypto/sha256"
	"crypto/sha3"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/roamcard/roamcard/internal/handshake"
)

func TestSealedToOneRecipient(t *testing.T) {
	private, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	info, aad, plain := []byte(handshake.RevealInfo), []byte("0b0c6f0e-5d7c-4b8a-9a55-1c3f0d4f5a11"),
		[]byte(`{"number":"4242"}`)
	enc, sealed, err := handshake.Seal(private.PublicKey().Bytes(), info, aad, plain)
	if err != nil {
		t.Fatal(err)
	}
	open := func(k hpke.PrivateKey, info, aad []byte) ([]byte, error) {
		return handshake.Open(k, enc, info, aad, sealed)
	}
	if got, err := open(private, info, aad); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("opened %q, %v", got, err)
	}
	other, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() ([]byte, error){
		"other key":  func() ([]byte, error) { return open(other, info, aad) },
		"other info": func() ([]byte, error) { return open(private, []byte("roamcard card reveal v2"), aad) },
		"other card": func() ([]byte, error) { return open(private, info, []byte("another")) },
	} {
		if got, err := try(); err == nil {
			t.Errorf("%s: opened %q", name, got)
		}
	}
	if enc2, sealed2, _ := handshake.Seal(private.PublicKey().Bytes(), info, aad, plain); bytes.Equal(enc, enc2) ||
		bytes.Equal(sealed, sealed2) {
		t.Error("two seals are the same")
	}
}

// rfcContext is the receiver's key schedule written out from RFC 9180, sections 4.1 and 5.1, for
// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM in base mode.
func rfcContext(t *testing.T, skR, enc, info []byte) (aead cipher.AEAD, baseNonce []byte) {
	t.Helper()
	must := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	extract := func(suite string, salt []byte, label string, ikm []byte) []byte {
		return must(hkdf.Extract(sha256.New, slices.Concat([]byte("HPKE-v1"+suite+label), ikm), salt))
	}
	expand := func(suite string, prk []byte, label string, info []byte, length int) []byte {
		l := binary.BigEndian.AppendUint16(nil, uint16(length))
		return must(hkdf.Expand(sha256.New, prk, string(slices.Concat(l, []byte("HPKE-v1"+suite+label), info)), length))
	}
	private, err := ecdh.X25519().NewPrivateKey(skR)
	if err != nil {
		t.Fatal(err)
	}
	ephemeral, err := ecdh.X25519().NewPublicKey(enc)
	if err != nil {
		t.Fatal(err)
	}
	const kem, hpkeSuite = "KEM\x00\x20", "HPKE\x00\x20\x00\x01\x00\x02"
	dh := must(private.ECDH(ephemeral))
	shared := expand(kem, extract(kem, nil, "eae_prk", dh), "shared_secret",
		slices.Concat(enc, private.PublicKey().Bytes()), 32)
	context := slices.Concat([]byte{0}, extract(hpkeSuite, nil, "psk_id_hash", nil),
		extract(hpkeSuite, nil, "info_hash", info))
	secret := extract(hpkeSuite, shared, "secret", nil)
	block, err := aes.NewCipher(expand(hpkeSuite, secret, "key", context, 32))
	if err != nil {
		t.Fatal(err)
	}
	if aead, err = cipher.NewGCM(block); err != nil {
		t.Fatal(err)
	}
	return aead, expand(hpkeSuite, secret, "base_nonce", context, 12)
}

// TestReceiverOfTheRFC ties Seal to the published vectors: the receiver written out here agrees
// with the vector of this suite, and it opens what Seal made.
func TestReceiverOfTheRFC(t *testing.T) {
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	skR := unhex("497b4502664cfea5d5af0b39934dac72242a74f8480451e1aee7d6a53320333d")
	enc := unhex("6c93e09869df3402d7bf231bf540fadd35cd56be14f97178f0954db94b7fc256")
	aead, nonce := rfcContext(t, skR, enc, unhex("4f6465206f6e2061204772656369616e2055726e"))
	if got := accumulate(t, aead, nonce); got != "1702e73e1e71705faa8241022af1deea" {
		t.Fatalf("the receiver does not agree with the vector: %s", got)
	}

	pkR := unhex("430f4b9859665145a6b1ba274024487bd66f03a2dd577d7753c68d7d7d00c00c")
	enc, sealed, err := handshake.Seal(pkR, []byte(handshake.RevealInfo), []byte("card"), []byte("plain"))
	if err != nil {
		t.Fatal(err)
	}
	aead, nonce = rfcContext(t, skR, enc, []byte(handshake.RevealInfo))
	if got, err := aead.Open(nil, nonce, sealed, []byte("card")); err != nil || string(got) != "plain" {
		t.Errorf("opened %q, %v", got, err)
	}
}

// accumulate digests a thousand sealings of inputs drawn from SHAKE128, as the short form of the
// RFC's vectors in the standard library does.
func accumulate(t *testing.T, aead cipher.AEAD, baseNonce []byte) string {
	t.Helper()
	source, sink := sha3.NewSHAKE128(), sha3.NewSHAKE128()
	draw := func() []byte {
		b := make([]byte, 1)
		_, _ = source.Read(b)
		b = make([]byte, b[0])
		_, _ = source.Read(b)
		return b
	}
	for i := range 1000 {
		aad, plain := draw(), draw()
		nonce := slices.Clone(baseNonce)
		counter := binary.BigEndian.Uint64(nonce[4:]) ^ uint64(i)
		binary.BigEndian.PutUint64(nonce[4:], counter)
		_, _ = sink.Write(aead.Seal(nil, nonce, plain, aad))
	}
	sum := make([]byte, 16)
	_, _ = sink.Read(sum)
	return hex.EncodeToString(sum)
}

// lowOrder are u-coordinates whose shared secret is zero for everybody, in every spelling that
// X25519 reads.
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

func TestNothingIsSealedToABadKey(t *testing.T) {
	bad := [][]byte{nil, {}, make([]byte, 31), make([]byte, 33), make([]byte, 64)}
	for _, s := range lowOrder {
		key, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		bad = append(bad, key)
	}
	for _, key := range bad {
		if enc, sealed, err := handshake.Seal(key, nil, nil, []byte("plain")); err == nil || enc != nil || sealed != nil {
			t.Errorf("sealed to %x", key)
		}
	}
}

// TestOpensWhatEveryLanguageOpens reads clients/testing/hpke.json, as the other clients do.
func TestOpensWhatEveryLanguageOpens(t *testing.T) {
	data, err := os.ReadFile("../../clients/testing/hpke.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Suite, PrivateKey, Info, AAD, Plaintext, Enc, Ciphertext string }
	if err := json.Unmarshal(data, &v); err != nil || v.Suite != handshake.SealSuite || v.Info != handshake.RevealInfo {
		t.Fatalf("%+v, %v", v, err)
	}
	bytesOf := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	key, err := hpke.DHKEM(ecdh.X25519()).NewPrivateKey(bytesOf(v.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	got, err := handshake.Open(key, bytesOf(v.Enc), []byte(v.Info), []byte(v.AAD), bytesOf(v.Ciphertext))
	if err != nil || string(got) != v.Plaintext {
		t.Errorf("opened %q, %v", got, err)
	}
}
