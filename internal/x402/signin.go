package x402

import (
	"encoding/json"
	"fmt"
	"slices"
)

// SignInWithX is the extension by which a wallet signs in for one request (CAIP-122), and HeaderSignIn the header that
// has what it signed.
const (
	SignInWithX  = "sign-in-with-x"
	HeaderSignIn = "SIGN-IN-WITH-X"
)

// MaxSignIn is how many bytes a HeaderSignIn may have; nothing longer is decoded. One of a key has about 1 kB, one of a
// smart account that is not deployed a few.
const MaxSignIn = 8 << 10

// SignInType is the only one of a chain of the EVM: a text of EIP-4361, signed with personal_sign.
const SignInType = "eip191"

// SignIn is the content of a HeaderSignIn. The texts are as they came: what was signed is put together of them.
type SignIn struct {
	Domain    string
	Address   Address
	Statement string
	URI       string
	Version   string
	// ChainID is a network of CAIP-2.
	ChainID string
	Nonce   string
	// IssuedAt, ExpirationTime and NotBefore are RFC 3339; the last two may be empty.
	IssuedAt, ExpirationTime, NotBefore string
	RequestID                           string
	Resources                           []string
	// ByKey says that the client declares the signature of a key: eip191. Otherwise it may be a smart account's.
	ByKey     bool
	Signature string
}

// signInSchemes are what a client may say of its signature. It is a hint: what was signed decides.
var signInSchemes = []string{"", "eip191", "eip1271", "eip6492"}

// DecodeSignIn reads a HeaderSignIn. The error says what is wrong with its form, and is fit to show. A nil error says
// nothing about who signed what.
func DecodeSignIn(header string) (SignIn, error) {
	if len(header) > MaxSignIn {
		return SignIn{}, fmt.Errorf("the header is longer than %d bytes", MaxSignIn)
	}
	data, err := decodeBase64(header)
	if err != nil {
		return SignIn{}, err
	}
	members, err := parseJSON(data)
	if err != nil {
		return SignIn{}, err
	}
	root := object{members: members, err: &err}
	s := SignIn{
		Domain: root.text("domain"), Statement: root.optionalText("statement"), URI: root.text("uri"),
		Version: root.text("version"), ChainID: root.text("chainId"), Nonce: root.text("nonce"),
		IssuedAt: root.text("issuedAt"), ExpirationTime: root.optionalText("expirationTime"),
		NotBefore: root.optionalText("notBefore"), RequestID: root.optionalText("requestId"),
		Resources: root.optionalTexts("resources"), Signature: root.text("signature"),
	}
	if root.text("type") != SignInType {
		root.fail("type", SignInType)
	}
	scheme := root.optionalText("signatureScheme")
	if !slices.Contains(signInSchemes, scheme) {
		root.fail("signatureScheme", "eip191, eip1271 or eip6492")
	}
	s.ByKey = scheme == "eip191"
	var notAddress error
	if s.Address, notAddress = ParseAddress(root.text("address")); notAddress != nil {
		root.fail("address", "0x and 40 hex digits, with the right checksum if it has one")
	}
	if err != nil {
		return SignIn{}, err
	}
	return s, nil
}

// DeclareSignIn is what a challenge says of the extension: what a wallet may sign, and on which network. Times are
// RFC 3339.
func DeclareSignIn(s SignIn) map[string]any {
	info := map[string]any{
		"domain": s.Domain, "uri": s.URI, "version": s.Version, "nonce": s.Nonce, "issuedAt": s.IssuedAt,
		"expirationTime": s.ExpirationTime, "statement": s.Statement,
	}
	return map[string]any{
		"info":            info,
		"supportedChains": []any{map[string]any{"chainId": s.ChainID, "type": SignInType}},
		"schema":          json.RawMessage(signInSchema),
	}
}

// signInSchema says no more than what has to be there: proxies bound headers by 4 KiB, and clients know the rest.
const signInSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","required":["domain",` +
	`"address","uri","version","chainId","type","nonce","issuedAt","signature"]}`

// optionalTexts is an array of strings or absent.
func (o object) optionalTexts(name string) []string {
	if !o.has(name) {
		return nil
	}
	array, ok := o.members[name].([]any)
	texts := make([]string, 0, len(array))
	for _, v := range array {
		s, isText := v.(string)
		ok = ok && isText
		texts = append(texts, s)
	}
	if !ok {
		o.fail(name, "an array of strings")
	}
	return texts
}
