package esim

import (
	"errors"
	"strings"

	"github.com/roamcard/roamcard/internal/secret"
)

// Why a supplier's activation data cannot be handed on. Neither text quotes it.
var (
	ErrActivationData = errors.New("the activation data does not have the form of SGP.22")
	// ErrConfirmationCode is a profile that installs only with a second code, which no supplier tells us.
	ErrConfirmationCode = errors.New("the profile needs a confirmation code, which we do not have")
)

// ParseActivation reads a profile's number and its activation code as SGP.22, section 4.1, has it, with or without the
// LPA: of a QR code:
//
//	1$SM-DP+ address$matching id[$SM-DP+ OID[$1 if a confirmation code is required[$what later versions add]]]
//
// The matching id may be empty, and so may every part after it. What later versions add are hints for the choice of a
// certificate, which a device can do without, and are left out.
func ParseActivation(iccid, code string) (ActivationData, error) {
	const prefix = "LPA:"
	code = strings.TrimSpace(code)
	if len(code) >= len(prefix) && strings.EqualFold(code[:len(prefix)], prefix) {
		code = code[len(prefix):]
	}
	parts := strings.Split(code, "$")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	const (
		format = iota
		address
		matching
		oid
		confirmation
		all
	)
	if len(parts) <= matching || parts[format] != "1" {
		return ActivationData{}, ErrActivationData
	}
	parts = append(parts, make([]string, all)...)
	switch parts[confirmation] {
	case "", "0":
	case "1":
		return ActivationData{}, ErrConfirmationCode
	default:
		return ActivationData{}, ErrActivationData
	}
	m, err := activation(iccid, parts[address], parts[matching])
	if err != nil || !isOID(parts[oid]) {
		return ActivationData{}, ErrActivationData
	}
	m.OID = secret.New(parts[oid])
	return m, nil
}

// Activation reads activation data that a supplier tells part by part: a part that is empty is one that is not told.
func Activation(iccid, address, matchingID string) (ActivationData, error) {
	if matchingID == "" {
		return ActivationData{}, ErrActivationData
	}
	return activation(iccid, address, matchingID)
}

func activation(iccid, address, matchingID string) (ActivationData, error) {
	number, numbered := ParseICCID(iccid)
	host, named := parseHost(address)
	id := strings.TrimSpace(matchingID)
	if !numbered || !named || !isMatchingID(id) {
		return ActivationData{}, ErrActivationData
	}
	return ActivationData{
		ICCID: secret.New(number), SMDPAddress: secret.New(host), MatchingID: secret.New(id),
	}, nil
}

// ParseICCID reads the 18 to 20 digits of a profile's number (ITU-T E.118), which begin with those of the telecom
// industry. As a card stores it, the letter F fills the last octet. Not all suppliers' numbers end in a check digit.
func ParseICCID(text string) (string, bool) {
	const least, octets = 18, 20
	text = strings.TrimSpace(text)
	digits := strings.TrimRight(text, "Ff")
	return digits, len(text) <= octets && len(digits) >= least && strings.HasPrefix(digits, "89") &&
		strings.Trim(digits, "0123456789") == ""
}

// parseHost reads a domain name in any case, also with the dot of the root, as devices look it up.
func parseHost(text string) (string, bool) {
	host := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(text), "."))
	labels := strings.Split(host, ".")
	const most, mostOfLabel = 253, 63
	if len(host) > most || len(labels) < 2 {
		return "", false
	}
	for _, label := range labels {
		if label == "" || len(label) > mostOfLabel || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return "", false
		}
	}
	return host, true
}

// isMatchingID takes what SGP.22 lets a matching id hold, and small letters: devices send it to the server as it is.
func isMatchingID(s string) bool {
	return len(s) <= 255 &&
		strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// isOID takes the dotted form of an object identifier, or none.
func isOID(s string) bool {
	if s == "" {
		return true
	}
	arcs := strings.Split(s, ".")
	for _, arc := range arcs {
		if arc == "" || strings.Trim(arc, "0123456789") != "" {
			return false
		}
	}
	const most = 128
	return len(s) <= most && len(arcs) > 1
}
