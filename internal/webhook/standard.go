package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/secret"
)

const (
	// tolerance is how far the time of a signature may be from now.
	tolerance = 5 * time.Minute
	// maxClaimed is how many signatures of a request are looked at: a sender who changes its secret has two.
	maxClaimed = 8
)

// CheckStandard verifies a request that is signed by the Standard Webhooks scheme, version 1: HMAC-SHA256 over
// "id.timestamp.body" with any of the secrets. It returns the id. Secrets are base64, with or without "whsec_" before.
func CheckStandard(header http.Header, body []byte, secrets []secret.Text, now time.Time) (id string, err error) {
	if err := StandardSigned(header, now); err != nil {
		return "", err
	}
	id, stamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	claimed := claimedOf(header.Get("Webhook-Signature"))
	for _, s := range secrets {
		key, err := StandardKey(s)
		if err != nil {
			continue
		}
		// Once for each secret, however many signatures a stranger claims.
		made := signStandard(key, id, stamp, body)
		for _, sum := range claimed {
			if hmac.Equal(sum, made) {
				return id, nil
			}
		}
	}
	return "", fmt.Errorf("%w: no signature is right", ErrForged)
}

// StandardSigned fails unless the headers have the form of a signature by the scheme, made not long ago.
func StandardSigned(header http.Header, now time.Time) error {
	at, err := strconv.ParseInt(header.Get("Webhook-Timestamp"), 10, 64)
	if header.Get("Webhook-Id") == "" || err != nil {
		return fmt.Errorf("%w: the id or the time is missing", ErrForged)
	}
	if age := now.Sub(time.Unix(at, 0)); age > tolerance || age < -tolerance {
		return fmt.Errorf("%w: signed at another time, %s ago", ErrForged, age.Round(time.Second))
	}
	if len(claimedOf(header.Get("Webhook-Signature"))) == 0 {
		return fmt.Errorf("%w: no signature has its form", ErrForged)
	}
	return nil
}

// claimedOf are the first signatures of a header that are of version 1 and have the length of one.
func claimedOf(header string) (sums [][]byte) {
	for one := range strings.FieldsSeq(header) {
		text, isV1 := strings.CutPrefix(one, "v1,")
		if !isV1 || len(text) != base64.StdEncoding.EncodedLen(sha256.Size) {
			continue
		}
		if sum, err := base64.StdEncoding.DecodeString(text); err == nil && len(sum) == sha256.Size {
			sums = append(sums, sum)
		}
		if len(sums) == maxClaimed {
			break
		}
	}
	return sums
}

// SignStandard signs a body as CheckStandard verifies it, and returns the headers.
func SignStandard(key []byte, id string, body []byte, now time.Time) http.Header {
	stamp := strconv.FormatInt(now.Unix(), 10)
	return http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {stamp},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(signStandard(key, id, stamp, body))},
	}
}

func signStandard(key []byte, id, stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.", id, stamp)
	_, _ = mac.Write(body)
	return mac.Sum(nil)
}

// CheckStandardSecret says why a text cannot be a secret of the scheme.
func CheckStandardSecret(s secret.Text) error {
	_, err := StandardKey(s)
	return err
}

// StandardKey is the key of a secret, at least 16 bytes.
func StandardKey(s secret.Text) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Reveal(), "whsec_"))
	if err != nil || len(key) < 16 {
		return nil, fmt.Errorf("a webhook secret is base64 of at least 16 bytes, with whsec_ before or not")
	}
	return key, nil
}
