package keys

import (
	"errors"
	"os"
	"path/filepath"
)

// The kinds of an *Error, for errors.Is.
var (
	ErrConfig       = errors.New("the settings are wrong")
	ErrMissing      = errors.New("it is not there")
	ErrUnreadable   = errors.New("it cannot be read")
	ErrUnwritable   = errors.New("it cannot be written")
	ErrExists       = errors.New("there is one already")
	ErrMode         = errors.New("it is exposed")
	ErrDamaged      = errors.New("it is damaged")
	ErrPassphrase   = errors.New("the passphrase is wrong")
	ErrNoPassphrase = errors.New("there is no passphrase")
	ErrNoProgram    = errors.New("there is no such program")
	ErrProgram      = errors.New("the program failed")
	ErrNoKeychain   = errors.New("this machine has no keychain that answers")
	ErrOtherKey     = errors.New("it is another account's")
)

// Error is a key that could not be opened or kept. It never quotes what a file, a program or the keychain said.
type Error struct {
	// Kind is one of the errors above.
	Kind error
	// Where is the file, the program or the keychain's entry.
	Where string
	// Advice says more, and what to do; it may be empty.
	Advice string
	// Err is what the system said, if it did.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Where + ": " + e.Kind.Error()
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	return text
}

// Unwrap gives the kind, and the system's error for those who know it.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

var errRelative = errors.New("the path is relative")

func inHome(rest string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, rest), nil
}
