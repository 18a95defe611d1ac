package keys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// maxFile is more than any keystore or passphrase needs.
const maxFile = 64 << 10

// readPrivate reads a file that only its owner can read. The modes are those of what was opened, not of a path that
// somebody may change meanwhile.
func readPrivate(path, where string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Kind: ErrMissing, Where: where}
	}
	if err != nil {
		return nil, &Error{Kind: ErrUnreadable, Where: where, Err: err}
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, &Error{Kind: ErrUnreadable, Where: where, Err: err}
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{Kind: ErrUnreadable, Where: where, Advice: "it is not a file"}
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" { // Windows has no such modes
		return nil, &Error{Kind: ErrMode, Where: where, Advice: fmt.Sprintf("its mode is %#o; run chmod 600 %s", mode, path)}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
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
	fail := func(err error) error { return &Error{Kind: ErrUnwritable, Where: where, Err: err} }
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &Error{Kind: ErrExists, Where: where, Advice: "move it away first"}
	}
	if err != nil {
		return fail(err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fail(errors.Join(err, os.Remove(path))) // half a keystore is none
	}
	return nil
}
