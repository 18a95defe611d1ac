package keys

import (
	"context"
	"errors"
	"os/exec"
	"regexp"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// openCommand looks for the program now, so that its absence is known before there is something to sign.
func openCommand(c Config) (roamcard.Signer, error) {
	if _, err := exec.LookPath(c.Command[0]); err != nil {
		return nil, &Error{Kind: ErrNoProgram, Where: "the signer " + c.Command[0], Advice: "name its path", Err: reason(err)}
	}
	return redacting{roamcard.CommandSigner{Account: c.Address, Command: c.Command, Environment: c.Environment}}, nil
}

// reason is why a program cannot be run, without the name, which is told already.
func reason(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}

// redacting is a program that signs; what could be a key is removed from its errors.
type redacting struct{ roamcard.CommandSigner }

// SignTypedData implements roamcard.Signer.
func (d redacting) SignTypedData(ctx context.Context, doc roamcard.TypedData) ([]byte, error) {
	sig, err := d.CommandSigner.SignTypedData(ctx, doc)
	return sig, redact(err)
}

// SignMessage implements roamcard.Signer.
func (d redacting) SignMessage(ctx context.Context, text string) ([]byte, error) {
	sig, err := d.CommandSigner.SignMessage(ctx, text)
	return sig, redact(err)
}

// keyLike is 32 bytes in hex or more: a private key, an extended one, a signature.
var keyLike = regexp.MustCompile(`[0-9a-fA-F]{64,}`)

// redacted is an error whose text was cleaned; errors.Is sees the kinds behind it, and nobody its text.
type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string        { return r.text }
func (r *redacted) Is(target error) bool { return errors.Is(r.err, target) }

func redact(err error) error {
	if err == nil || !keyLike.MatchString(err.Error()) {
		return err
	}
	return &redacted{text: keyLike.ReplaceAllString(err.Error(), "[redacted]"), err: err}
}
