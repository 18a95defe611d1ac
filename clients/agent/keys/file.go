package keys

import (
	"errors"
	"io/fs"

	"github.com/roamcard/roamcard/internal/secret/custody"
)

// maxFile is more than any keystore or passphrase needs.
const maxFile = 64 << 10

// readPrivate reads a file that only its owner can read.
func readPrivate(path, where string) ([]byte, error) {
	text, err := custody.Read(path, custody.NoReaders, maxFile+1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Kind: ErrMissing, Where: where}
	}
	if exposed, ok := errors.AsType[*custody.ExposedError](err); ok {
		return nil, &Error{Kind: ErrMode, Where: where, Advice: exposed.Error()}
	}
	if err != nil {
		return nil, &Error{Kind: ErrUnreadable, Where: where, Err: err}
	}
	if len(text) > maxFile {
		return nil, &Error{Kind: ErrDamaged, Where: where, Advice: "it is longer than 64 KiB"}
	}
	return text, nil
}

// writePrivate makes a file that only its owner can read, and that is on the disk when it returns.
func writePrivate(path, where string, text []byte) error {
	err := custody.Create(path, text)
	if errors.Is(err, fs.ErrExist) {
		return &Error{Kind: ErrExists, Where: where, Advice: "move it away first"}
	}
	if err != nil {
		return &Error{Kind: ErrUnwritable, Where: where, Err: err}
	}
	return nil
}
