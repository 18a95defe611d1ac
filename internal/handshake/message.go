package handshake

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/roamcard/roamcard/internal/x402"
)

// ErrMessage says that a text is not an EIP-4361 message in its one canonical spelling.
var ErrMessage = errors.New("not an EIP-4361 message")

const (
	maxMessageBytes = 8 << 10
	invitation      = " wants you to sign in with your Ethereum account:"
	// MessageVersion is the only one of the standard.
	MessageVersion = "1"
	minNonce       = 8
)

// Message is an EIP-4361 text taken apart. Times are kept as they were written, so that the text
// can be put together again byte for byte.
type Message struct {
	// Scheme is the origin's scheme, often left out.
	Scheme  string
	Domain  string
	Address x402.Address
	// Statement is one line for people; empty when there is none.
	Statement string
	URI       string
	ChainID   uint64
	Nonce     string
	// IssuedAt, ExpirationTime and NotBefore are RFC 3339; the last two may be empty.
	IssuedAt       string
	ExpirationTime string
	NotBefore      string
	RequestID      string
	Resources      []string
}

// Format writes the message. It checks nothing: ParseMessage tells whether the result is valid.
func (m Message) Format() string {
	var b strings.Builder
	if m.Scheme != "" {
		b.WriteString(m.Scheme + "://")
	}
	b.WriteString(m.Domain + invitation + "\n" + m.Address.String() + "\n\n")
	if m.Statement != "" {
		b.WriteString(m.Statement + "\n")
	}
	b.WriteString("\nURI: " + m.URI)
	b.WriteString("\nVersion: " + MessageVersion)
	b.WriteString("\nChain ID: " + strconv.FormatUint(m.ChainID, 10))
	b.WriteString("\nNonce: " + m.Nonce)
	b.WriteString("\nIssued At: " + m.IssuedAt)
	for _, f := range []struct{ label, value string }{
		{"Expiration Time", m.ExpirationTime}, {"Not Before", m.NotBefore}, {"Request ID", m.RequestID},
	} {
		if f.value != "" {
			b.WriteString("\n" + f.label + ": " + f.value)
		}
	}
	if len(m.Resources) > 0 {
		b.WriteString("\nResources:")
		for _, r := range m.Resources {
			b.WriteString("\n- " + r)
		}
	}
	return b.String()
}

// ParseMessage reads a message of at most 8 KiB. For every text it accepts, Format gives the same
// bytes back; every other spelling is ErrMessage.
func ParseMessage(text string) (Message, error) {
	if len(text) > maxMessageBytes || !utf8.ValidString(text) {
		return Message{}, ErrMessage
	}
	m, ok := readMessage(text)
	if !ok || !m.valid() || m.Format() != text {
		return Message{}, ErrMessage
	}
	return m, nil
}

func readMessage(text string) (Message, bool) {
	var m Message
	in := lines(strings.Split(text, "\n"))
	origin, ok := strings.CutSuffix(in.next(), invitation)
	if !ok {
		return m, false
	}
	m.Domain = origin
	if scheme, domain, found := strings.Cut(origin, "://"); found {
		m.Scheme, m.Domain = scheme, domain
	}
	var err error
	if m.Address, err = x402.ParseAddress(in.next()); err != nil || in.next() != "" {
		return m, false
	}
	if m.Statement = in.next(); m.Statement != "" && in.next() != "" {
		return m, false
	}
	m.URI = in.field("URI")
	version := in.field("Version")
	if m.ChainID, err = strconv.ParseUint(in.field("Chain ID"), 10, 64); err != nil || version != MessageVersion {
		return m, false
	}
	m.Nonce = in.field("Nonce")
	m.IssuedAt = in.field("Issued At")
	m.ExpirationTime = in.field("Expiration Time")
	m.NotBefore = in.field("Not Before")
	m.RequestID = in.field("Request ID")
	if len(in) > 0 && in[0] == "Resources:" {
		in.next()
		for len(in) > 0 && strings.HasPrefix(in[0], "- ") {
			m.Resources = append(m.Resources, in.next()[2:])
		}
	}
	return m, len(in) == 0
}

// valid checks the parts; that nothing was lost in reading is for the caller to compare.
func (m Message) valid() bool {
	if m.Scheme != "" && !isScheme(m.Scheme) || !IsAuthority(m.Domain) || !IsURI(m.URI) {
		return false
	}
	for _, r := range m.Resources {
		if !IsURI(r) {
			return false
		}
	}
	if len(m.Nonce) < minNonce || !isAlphanumeric(m.Nonce) || !isPathChars(m.RequestID) {
		return false
	}
	return isTime(m.IssuedAt) && (m.ExpirationTime == "" || isTime(m.ExpirationTime)) &&
		(m.NotBefore == "" || isTime(m.NotBefore)) && !strings.ContainsFunc(m.Statement, unicode.IsControl)
}

// lines is what is still to be read.
type lines []string

// next takes a line; past the end it is empty, which Format will not give back.
func (l *lines) next() string {
	if len(*l) == 0 {
		return ""
	}
	line := (*l)[0]
	*l = (*l)[1:]
	return line
}

// field takes a line if it has the label. A label without a value is left standing, and fails.
func (l *lines) field(label string) string {
	if len(*l) == 0 {
		return ""
	}
	value, ok := strings.CutPrefix((*l)[0], label+": ")
	if !ok || value == "" {
		return ""
	}
	l.next()
	return value
}

func isScheme(s string) bool {
	return isMadeOf(s, "+-.") && isMadeOf(s[:1], "") && (s[0] < '0' || s[0] > '9')
}

// IsAuthority reports a host with or without a port, as a message names its domain.
func IsAuthority(s string) bool {
	u, err := url.Parse("https://" + s)
	return err == nil && s != "" && u.Host == s && u.User == nil && isURIChars(s)
}

// IsURI reports an absolute URI of RFC 3986.
func IsURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs() && isURIChars(s) && (u.Host != "" || u.Opaque != "" || u.Path != "")
}

// isURIChars allows the characters of RFC 3986 and nothing that could end a line or hide.
func isURIChars(s string) bool {
	return isMadeOf(s, "-._~:/?#[]@!$&'()*+,;=%")
}

// isPathChars allows pchar of RFC 3986.
func isPathChars(s string) bool { return isMadeOf(s, "-._~:@!$&'()*+,;=%") }

func isAlphanumeric(s string) bool { return isMadeOf(s, "") }

// isMadeOf reports whether s has only ASCII letters, digits and the given marks.
func isMadeOf(s, marks string) bool {
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte(marks, c) < 0 {
			return false
		}
	}
	return true
}

// isTime is RFC 3339, without the comma that package time lets pass for a decimal point.
func isTime(s string) bool {
	return !strings.Contains(s, ",") && new(time.Time).UnmarshalText([]byte(s)) == nil
}
