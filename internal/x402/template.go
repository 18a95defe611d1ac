package x402

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// RequiredTemplate is an encoded challenge in which one text differs from answer to answer. Only what that touches is
// encoded again.
type RequiredTemplate struct {
	// head and tail are encoded, before and after are not.
	head, before, after, tail string
	length                    int
}

// NewRequiredTemplate makes a template of a PAYMENT-REQUIRED header and a text that occurs in it. The text needs no
// escape in JSON.
func NewRequiredTemplate(header, text string) (RequiredTemplate, error) {
	data, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		return RequiredTemplate{}, fmt.Errorf("decode x402 header: %w", err)
	}
	at := strings.Index(string(data), text)
	if at < 0 || text == "" {
		return RequiredTemplate{}, errors.New("the text is not in the challenge")
	}
	// Three bytes are four characters.
	from, to := at-at%3, at+len(text)
	to = min(to+(3-to%3)%3, len(data))
	return RequiredTemplate{
		head: header[:from/3*4], before: string(data[from:at]), after: string(data[at+len(text) : to]),
		tail: header[(to+2)/3*4:], length: len(text),
	}, nil
}

// With is the header with another text, of the same length, that needs no escape either.
func (t RequiredTemplate) With(text string) (string, error) {
	if len(text) != t.length {
		return "", errors.New("the text has another length than the one in its place")
	}
	return t.head + base64.StdEncoding.EncodeToString([]byte(t.before+text+t.after)) + t.tail, nil
}
