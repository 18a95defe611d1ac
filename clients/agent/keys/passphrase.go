package keys

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/secret/custody"
)

// letGo is how long a killed program may keep its output open.
const letGo = 2 * time.Second

// passphrase is that of the keystore: from the file, the program or the person.
func (c *Config) passphrase(ctx context.Context) (roamcard.Secret, error) {
	k, none := c.Keystore, roamcard.NewSecret("")
	switch {
	case k.PassphraseFile != "":
		where := "the passphrase's file " + k.PassphraseFile
		text, err := readPrivate(k.PassphraseFile, where)
		if err != nil {
			return none, err
		}
		return firstLine(text, where)
	case len(k.PassphraseCommand) > 0:
		return run(ctx, k.PassphraseCommand, c.Environment)
	case c.Ask != nil:
		pass, err := c.Ask(ctx, "Passphrase of "+k.File+": ")
		if err == nil && pass.Reveal() == "" {
			err = &Error{Kind: ErrNoPassphrase, Where: c.where(), Advice: "nothing was typed"}
		}
		return pass, err
	}
	return none, &Error{
		Kind: ErrNoPassphrase, Where: c.where(),
		Advice: "nobody can be asked here; name a passphraseFile (mode 0600) or a passphraseCommand",
	}
}

// run takes the passphrase from a program. Its standard error is not shown: it may quote the passphrase.
func run(ctx context.Context, command, named []string) (roamcard.Secret, error) {
	where, none := "the passphrase's program "+command[0], roamcard.NewSecret("")
	path, err := exec.LookPath(command[0])
	if err != nil {
		return none, &Error{Kind: ErrNoProgram, Where: where, Advice: "name its path", Err: reason(err)}
	}
	cmd := custody.Command(ctx, named, path, command[1:]...)
	cmd.WaitDelay = letGo
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	if err != nil {
		return none, &Error{Kind: ErrProgram, Where: where, Advice: "run it yourself to see why", Err: status(err)}
	}
	return firstLine(out, where)
}

// status is how a program ended. Its error has what it wrote, too, which only Error leaves out.
func status(err error) error {
	return &redacted{text: err.Error()}
}

func firstLine(text []byte, where string) (roamcard.Secret, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	pass := strings.TrimSuffix(string(line), "\r")
	if pass == "" {
		return roamcard.NewSecret(""), &Error{Kind: ErrNoPassphrase, Where: where, Advice: "its first line is empty"}
	}
	return roamcard.NewSecret(pass), nil
}
