// Package custody keeps what belongs to a wallet from the other users of its machine, and from the programs that its
// own user starts.
//
//	a path     leads where its owner wants it to: no folder or link on it is another user's to change
//	a folder   is this user's or root's, and others cannot write it; nor can they, where it holds a secret, read a file
//	a program  is started with the environment that any program needs, which holds no key and no token
//
// The clients of all languages check alike, and say it in the same words: clients/testing/custody.json. Windows has no
// such modes, and a user's folders are the user's there: nothing is checked.
package custody

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// What others must not be allowed by the mode of a file.
const (
	// NoWriters is for what decides what is paid.
	NoWriters fs.FileMode = 0o022
	// NoReaders is for a secret.
	NoReaders fs.FileMode = 0o077
	// GroupReaders is for a secret that may be mounted: a volume of Kubernetes gives its files to a group.
	GroupReaders fs.FileMode = 0o027
)

// ExposedError is a file or a folder that other users can change, or read where it holds a secret.
type ExposedError struct{ text string }

// Error implements error.
func (e *ExposedError) Error() string { return e.text }

func exposed(format string, args ...any) error { return &ExposedError{fmt.Sprintf(format, args...)} }

// CheckFolder refuses a folder that others may write, or put another one in the place of.
func CheckFolder(path string) error {
	if !hasModes {
		return nil
	}
	real, err := resolve(path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(real)
	if err != nil {
		return err
	}
	return checkFolder(real, info, false)
}

// MakeFolder makes a folder, and those above it that are missing, for this user alone. One that is there is checked as
// by CheckFolder; below one that others may write none is made.
func MakeFolder(path string) error {
	if _, err := resolve(path); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return CheckFolder(path)
}

// Open opens a file to read it, unless its mode allows others what they are denied, or others may put another one in
// its place. Owner and mode are those of what was opened, not of a path that may change meanwhile.
func Open(path string, denied fs.FileMode) (*os.File, error) {
	real, err := resolve(path)
	if err != nil {
		return nil, err
	}
	return OpenIn(real, denied)
}

// OpenIn is Open in a folder that was checked. A link is not followed.
func OpenIn(path string, denied fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		if info, told := os.Lstat(path); told == nil && info.Mode()&fs.ModeSymlink != 0 {
			err = exposed("the file %s is a link; name the file that it leads to", path)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkFile(path, info, denied)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Read reads a file that Open opens, and of a longer one no more than so many bytes.
func Read(path string, denied fs.FileMode, most int64) ([]byte, error) {
	f, err := Open(path, denied)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	return text, errors.Join(err, f.Close())
}

// Create makes a file that this user alone can read, and that is on the disk when it returns, in a folder that is made
// where it is missing. It replaces none: fs.ErrExist.
func Create(path string, text []byte) error {
	folder, err := resolve(filepath.Dir(path))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	real, err := resolve(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(real, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(real)) // half a file is none
	}
	return nil
}

const maxLinks = 40

// resolve gives a path without links. Every folder on the way is this user's or root's, and others cannot write it, or
// its sticky bit keeps them from what is not theirs; every link is this user's or root's. The way begins at the user's
// home where it leads through it, for what is above that is the system's. What is missing is not checked.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil || !hasModes {
		return path, err
	}
	at, left := begin(path)
	for links := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		folder, err := os.Lstat(at)
		if err == nil {
			err = checkFolder(at, folder, true)
		}
		if err != nil {
			return "", err
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return filepath.Join(append([]string{next}, left...)...), nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if err := checkOwner("link", next, info); err != nil {
			return "", err
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		more := strings.Split(target, "/")
		if filepath.IsAbs(target) {
			at, more = begin(target)
		}
		left = append(more, left...)
	}
	return at, nil
}

// begin is where the way of an absolute path begins, and the names on it.
func begin(path string) (at string, names []string) {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		rest, below := strings.CutPrefix(path+"/", filepath.Clean(home)+"/")
		if real, err := filepath.EvalSymlinks(home); below && err == nil {
			return real, strings.Split(rest, "/")
		}
	}
	return "/", strings.Split(path, "/")
}

// checkFolder refuses a folder that others may write. Where it is only passed, a sticky bit keeps them from what is in
// it and not theirs.
func checkFolder(path string, info fs.FileInfo, passed bool) error {
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	if err := checkOwner("folder", path, info); err != nil {
		return err
	}
	if info.Mode()&NoWriters == 0 || passed && info.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	return exposed("others may write the folder %s, whose mode is %04o; `chmod go-w %s`, or name another one", path,
		modeOf(info), path)
}

func checkFile(path string, info fs.FileInfo, denied fs.FileMode) error {
	if !hasModes {
		return nil
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "read", Path: path, Err: errors.New("it is no file")}
	}
	if err := checkOwner("file", path, info); err != nil {
		return err
	}
	if info.Mode()&denied == 0 {
		return nil
	}
	may, change := "write", "go-w"
	if denied&^NoWriters != 0 {
		may, change = "use", "600"
	}
	return exposed("others may %s the file %s, whose mode is %04o; `chmod %s %s`, and look whether it still says what "+
		"you wrote", may, path, modeOf(info), change, path)
}

// checkOwner refuses what is another user's. Root can do everything anyway.
func checkOwner(kind, path string, info fs.FileInfo) error {
	owner, known := ownerOf(info)
	if user := os.Geteuid(); known && owner != 0 && owner != user {
		return exposed("the %s %s is that of user %d, and this is user %d; name one of your own", kind, path, owner, user)
	}
	return nil
}
