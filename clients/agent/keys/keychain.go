package keys

import (
	"context"
	"errors"

	"github.com/zalando/go-keyring"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// service is the name that all entries have in the keychain.
const service = "roamcard"

func openKeychain(ctx context.Context, entry string) (roamcard.Secret, error) {
	text, err := inKeychain(ctx, entry, func() (string, error) { return keyring.Get(service, entry) })
	if errors.Is(err, keyring.ErrNotFound) {
		return roamcard.NewSecret(""), &Error{
			Kind: ErrMissing, Where: "the keychain's entry " + entry, Advice: "make it with `roamcard wallet new --keychain`",
		}
	}
	return roamcard.NewSecret(text), err
}

func putKeychain(ctx context.Context, entry string, key roamcard.Secret) error {
	_, err := inKeychain(ctx, entry, func() (string, error) {
		if _, err := keyring.Get(service, entry); !errors.Is(err, keyring.ErrNotFound) {
			if err == nil {
				err = &Error{Kind: ErrExists, Where: "the keychain's entry " + entry, Advice: "name another account"}
			}
			return "", err
		}
		return "", keyring.Set(service, entry, key.Reveal())
	})
	return err
}

// inKeychain asks the keychain, which may ask its owner to unlock it, until ctx ends. Headless Linux has none: the
// library's error is about D-Bus then, which the advice translates.
func inKeychain(ctx context.Context, entry string, ask func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	asked := make(chan answer, 1)
	go func() { // the library takes no context; this ends when the keychain answers, or with the program
		text, err := ask()
		asked <- answer{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case a := <-asked:
		if _, ours := errors.AsType[*Error](a.err); ours || a.err == nil || errors.Is(a.err, keyring.ErrNotFound) {
			return a.text, a.err
		}
		return "", &Error{
			Kind: ErrNoKeychain, Where: "the keychain's entry " + entry,
			Advice: "use an encrypted keystore instead (`roamcard wallet new --keystore`)", Err: redact(a.err),
		}
	}
}
