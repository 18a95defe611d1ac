package x402

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/roamcard/roamcard/internal/money"
)

// MaxHeader is how many bytes a header may have; nothing longer is decoded. A real one has about 1.5 kB.
const MaxHeader = 16 << 10

// PaymentV1 stands for a payment of version 1 of the protocol, which is not read. It is no base64, so that no
// payment is equal to it.
const PaymentV1 = "x402 version 1"

// PaymentIn is the PAYMENT-SIGNATURE header of a request, PaymentV1 when only version 1's header is there, and
// empty when nothing is paid.
func PaymentIn(h interface{ Get(name string) string }) string {
	payment := h.Get(HeaderSignature)
	if payment == "" && h.Get(HeaderSignatureV1) != "" {
		return PaymentV1
	}
	return payment
}

// DecodePayment reads a PAYMENT-SIGNATURE header. The error is a *MalformedError when the header is
// not a payment and a *RejectedError when it is one of a kind that is not taken here. A nil error
// says nothing about whom, when or how much: that is for the terms.
func DecodePayment(header string) (Payment, error) { return decodePayment(header, ParseSignature) }

// DecodeAnyPayment is DecodePayment that takes the signatures of smart accounts, too.
func DecodeAnyPayment(header string) (Payment, error) {
	return decodePayment(header, ParseAnySignature)
}

func decodePayment(header string, signature func(string) (Signature, error)) (Payment, error) {
	if header == PaymentV1 {
		return Payment{}, &RejectedError{ReasonVersion, "X-PAYMENT is of x402 version 1 and was not read: this service " +
			"takes x402 version 2 only. " +
			"Sign the terms in PAYMENT-REQUIRED and send the payment in PAYMENT-SIGNATURE."}
	}
	data, err := decodeBase64(header)
	if err != nil {
		return Payment{}, malformed(err.Error())
	}
	members, err := parseJSON(data)
	if err != nil {
		return Payment{}, malformed(err.Error())
	}
	root := object{members: members, err: &err}
	version := root.number("x402Version")
	if err != nil {
		return Payment{}, malformed(err.Error())
	}
	if version != "2" {
		return Payment{},
			&RejectedError{ReasonVersion, "This payment is of another version, and this service takes x402 version 2 only."}
	}
	p := Payment{Accepted: readAccepted(root.object("accepted")), Resource: readResource(root.optionalObject("resource"))}
	p.Identifier = readIdentifier(root.optionalObject("extensions"))
	payload := root.object("payload")
	if err != nil {
		return Payment{}, malformed(err.Error())
	}
	if p.Accepted.Scheme != Scheme {
		return Payment{}, &RejectedError{ReasonScheme, "only the scheme exact is accepted"}
	}
	if err := readPayload(payload, &p, signature); err != nil {
		return Payment{}, err
	}
	return p, nil
}

// PaymentIdentifier is the extension by which a client names what it pays, so that paying twice for it is noticed.
const PaymentIdentifier = "payment-identifier"

// isIdentifier reports whether an id is one that the extension takes.
func isIdentifier(id string) bool {
	const characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return len(id) >= 16 && len(id) <= 128 && strings.Trim(id, characters) == ""
}

// DeclarePaymentIdentifier is what a challenge says of the extension: a client may send an id, as its info.id.
func DeclarePaymentIdentifier() map[string]any {
	return map[string]any{
		"info": map[string]any{"required": false},
		"schema": map[string]any{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type":    "object",
			"properties": map[string]any{
				"required": map[string]any{"type": "boolean"},
				"id":       map[string]any{"type": "string", "minLength": 16, "maxLength": 128, "pattern": "^[a-zA-Z0-9_-]+$"},
			},
			"required": []string{"required"},
		},
	}
}

// readIdentifier reads the id of the extension payment-identifier, which a client that has none may have echoed.
func readIdentifier(extensions object) string {
	info := extensions.optionalObject(PaymentIdentifier).optionalObject("info")
	id := info.optionalText("id")
	if info.has("id") && !isIdentifier(id) {
		info.fail("id", "16 to 128 letters, digits, _ and -")
	}
	return id
}

func readAccepted(o object) Requirements {
	o.only("scheme", "network", "amount", "asset", "payTo", "maxTimeoutSeconds", "extra")
	r := Requirements{
		Scheme:  o.text("scheme"),
		Network: o.text("network"),
		Amount:  o.text("amount"),
		Asset:   o.text("asset"),
		PayTo:   o.text("payTo"),
		Extra:   o.optionalObject("extra").members,
	}
	seconds, err := strconv.ParseUint(o.number("maxTimeoutSeconds").String(), 10, 31)
	if err != nil {
		o.fail("maxTimeoutSeconds", "a positive integer")
	}
	r.MaxTimeoutSeconds = int(seconds)
	return r
}

func readResource(o object) Resource {
	return Resource{
		URL:         o.optionalText("url"),
		Description: o.optionalText("description"),
		MimeType:    o.optionalText("mimeType"),
		ServiceName: o.optionalText("serviceName"),
	}
}

// readPayload reads the EIP-3009 form of the scheme exact; its other forms are known, and refused.
func readPayload(o object, p *Payment, parse func(string) (Signature, error)) error {
	for _, other := range []string{"permit2Authorization", "delegationManager", "permissionContext"} {
		if o.has(other) {
			return &RejectedError{ReasonPayloadType, "only an EIP-3009 authorization is accepted"}
		}
	}
	o.only("signature", "authorization")
	signature := o.text("signature")
	a := o.object("authorization")
	a.only("from", "to", "value", "validAfter", "validBefore", "nonce")
	texts := map[string]string{}
	for _, name := range []string{"from", "to", "value", "validAfter", "validBefore", "nonce"} {
		texts[name] = a.text(name)
	}
	if *o.err != nil {
		return malformed((*o.err).Error())
	}
	var err error
	if p.Authorization, err = readAuthorization(texts); err != nil {
		return err
	}
	p.Signature, err = parse(signature)
	return err
}

func readAuthorization(texts map[string]string) (a Authorization, err error) {
	if a.From, err = ParseAddress(texts["from"]); err != nil {
		return Authorization{}, malformed("payload.authorization.from is " + err.Error())
	}
	if a.To, err = ParseAddress(texts["to"]); err != nil {
		return Authorization{}, malformed("payload.authorization.to is " + err.Error())
	}
	if a.Nonce, err = ParseHash(texts["nonce"]); err != nil {
		return Authorization{}, malformed("payload.authorization.nonce is " + err.Error())
	}
	for _, name := range []string{"value", "validAfter", "validBefore"} {
		if !isDecimal(texts[name]) {
			return Authorization{}, malformed("payload.authorization." + name + " is not a decimal integer")
		}
	}
	// From here on a number can only be too large, which is a matter of terms and not of form: some
	// payers sign the largest uint256 as "never expires".
	if a.Value, err = money.ParseUSDC(texts["value"]); err != nil {
		return Authorization{}, &RejectedError{ReasonValue, "the value is larger than any price"}
	}
	if a.ValidAfter, err = strconv.ParseUint(texts["validAfter"], 10, 64); err != nil {
		return Authorization{}, &RejectedError{ReasonValidAfter, "validAfter is too far away"}
	}
	if a.ValidBefore, err = strconv.ParseUint(texts["validBefore"], 10, 64); err != nil {
		return Authorization{}, &RejectedError{ReasonValidBefore, "validBefore is too far away"}
	}
	return a, nil
}

// isDecimal reports a canonical decimal of at most 78 digits, the length of 2^256.
func isDecimal(s string) bool {
	if s == "" || len(s) > 78 || (len(s) > 1 && s[0] == '0') {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// decodeBase64 reads the standard alphabet, padded or not, and nothing that two readers could take
// for different bytes.
func decodeBase64(header string) ([]byte, error) {
	switch {
	case header == "":
		return nil, errors.New("the header is empty")
	case len(header) > MaxHeader:
		return nil, fmt.Errorf("the header is longer than %d bytes", MaxHeader)
	case strings.ContainsAny(header, "\r\n"):
		return nil, errors.New("the header is not standard base64")
	}
	encoding := base64.RawStdEncoding
	if strings.HasSuffix(header, "=") {
		encoding = base64.StdEncoding
	}
	data, err := encoding.Strict().DecodeString(header)
	if err != nil {
		return nil, errors.New("the header is not standard base64")
	}
	return data, nil
}

// EncodeRequired writes a PAYMENT-REQUIRED header. Equal challenges have equal headers.
func EncodeRequired(r PaymentRequired) (string, error) { return encode(r) }

// EncodeSettlement writes a PAYMENT-RESPONSE header. Equal settlements have equal headers.
func EncodeSettlement(s Settlement) (string, error) { return encode(s) }

// EncodePayment writes a PAYMENT-SIGNATURE header, for a payer. Equal payments have equal headers.
func EncodePayment(p Payment) (string, error) { return encode(payloadOf(p)) }

// payloadOf is the PaymentPayload of the protocol. Its members are sorted when it is written.
func payloadOf(p Payment) map[string]any {
	a := p.Authorization
	payload := map[string]any{
		"x402Version": Version,
		"accepted":    p.Accepted,
		"payload": map[string]any{
			"signature": p.Signature.Hex(),
			"authorization": map[string]string{
				"from":        a.From.String(),
				"to":          a.To.String(),
				"value":       a.Value.String(),
				"validAfter":  strconv.FormatUint(a.ValidAfter, 10),
				"validBefore": strconv.FormatUint(a.ValidBefore, 10),
				"nonce":       a.Nonce.String(),
			},
		},
	}
	if p.Resource != (Resource{}) {
		payload["resource"] = p.Resource
	}
	if len(p.Extensions) > 0 {
		payload["extensions"] = p.Extensions
	}
	return payload
}

// DecodeRequired reads a PAYMENT-REQUIRED header, for a payer.
func DecodeRequired(header string) (PaymentRequired, error) { return decode[PaymentRequired](header) }

// DecodeSettlement reads a PAYMENT-RESPONSE header, for a payer.
func DecodeSettlement(header string) (Settlement, error) { return decode[Settlement](header) }

func encode(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode x402 header: %w", err)
	}
	return base64.StdEncoding.EncodeToString(data), nil
}

// decode trusts a server's member names more than a payer's, but not its grammar.
func decode[T any](header string) (T, error) {
	var v T
	data, err := decodeBase64(header)
	if err == nil {
		_, err = parseJSON(data)
	}
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		return v, fmt.Errorf("decode x402 header: %w", err)
	}
	return v, nil
}
