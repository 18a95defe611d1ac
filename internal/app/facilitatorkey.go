package app

import (
	"errors"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/facilitator/cdp"
	"github.com/roamcard/roamcard/internal/secret"
)

// hasFacilitatorKey reports whether calls to the facilitator are signed by an API key.
func (c Config) hasFacilitatorKey() bool {
	return c.FacilitatorKeyID != "" || !c.FacilitatorKeySecret.IsZero()
}

// facilitatorKey opens the API key that calls to the facilitator are signed by.
func (c Config) facilitatorKey() (*cdp.Source, error) {
	text, err := c.readFacilitatorSecret()
	if err != nil {
		return nil, err
	}
	return cdp.New(c.FacilitatorKeyID, text, c.now)
}

// readFacilitatorSecret reads the key's secret, which is a text or a reference to one, of several lines in a file.
func (c Config) readFacilitatorSecret() (secret.Text, error) {
	switch kind, name := splitReference(c.FacilitatorKeySecret.Reveal()); kind {
	case byText:
		return c.FacilitatorKeySecret, nil
	case byFile:
		return readPrivate(name)
	case byEnv:
		return readReference(c.FacilitatorKeySecret.Reveal())
	default:
		return secret.Text{}, errors.New("set it to the secret itself, or to file:PATH or env:NAME")
	}
}

// facilitatorMistakes are what is missing of the settings by which a facilitator knows us, and too much.
func (c Config) facilitatorMistakes() (wrong []error) {
	const id, key = "facilitator.key_id", "facilitator.key_secret"
	if !c.FacilitatorToken.IsZero() && c.hasFacilitatorKey() {
		wrong = append(wrong, fmt.Errorf("facilitator.token: a key is set, too (%s, %s): set what the facilitator asks for, "+
			"the token or the key", id, key))
	}
	half := func(missing, other string) {
		wrong = append(wrong, fmt.Errorf("%s (%s) is not set, and %s is: a key needs both", missing,
			setting{key: missing}.env(), other))
	}
	switch {
	case !c.hasFacilitatorKey():
	case c.FacilitatorKeyID == "":
		half(id, key)
	case c.FacilitatorKeySecret.IsZero():
		half(key, id)
	}
	return wrong
}

// facilitatorKeyMistakes are what is wrong with a key that is whole.
func (c Config) facilitatorKeyMistakes() []error {
	if !c.hasFacilitatorKey() || len(c.facilitatorMistakes()) > 0 {
		return nil
	}
	if _, err := c.facilitatorKey(); err != nil {
		return []error{fmt.Errorf("facilitator.key_secret: %w", err)}
	}
	return nil
}

// holdsFacilitatorSecret reports whether a value is the secret itself, and no reference to it.
func holdsFacilitatorSecret(value string) bool {
	kind, _ := splitReference(value)
	return !slices.Contains([]string{byFile, byEnv}, kind)
}
