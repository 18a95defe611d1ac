package app

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// maxFile is more than any key, keystore or configuration needs.
const maxFile = 1 << 20

// fileFacts say who else can use a file. They are those of what was opened, not of a path that may change meanwhile.
type fileFacts struct {
	path string
	mode fs.FileMode
	// owner is the number of its user; -1 when it is not known.
	owner int
	// sealed says that it lies on a file system of its own that cannot be written: a container's mount, in which the
	// others of its machine are not.
	sealed bool
}

// exposedError says that others may use a file.
type exposedError struct{ why string }

func (e *exposedError) Error() string { return e.why }

// readWhole reads a file that check, which may be nil, takes as it was opened.
func readWhole(path string, check func(fileFacts) error) (text []byte, of fileFacts, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, of, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, of, err
	}
	of = fileFacts{path: path, mode: info.Mode(), owner: ownerOf(info), sealed: isSealed(f, info)}
	if check != nil {
		if err := check(of); err != nil {
			return nil, of, err
		}
	}
	text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxFile)
	}
	return text, of, err
}

// exposed is an *exposedError when anybody but the owner may change the file, or anybody outside its group read it. The
// group may read it: a volume of Kubernetes gives its files to a group. Where the file is sealed and root's, such as a
// Secret that is mounted with the usual mode, nobody else is there to read it.
func (of fileFacts) exposed() error {
	const others = 0o027
	if !of.mode.IsRegular() || of.mode.Perm()&others == 0 || runtime.GOOS == "windows" || of.sealed && of.owner == 0 {
		return nil
	}
	return &exposedError{fmt.Sprintf("others may read or change %s, its mode is %#o; run chmod 600 %[1]s", of.path,
		of.mode.Perm())}
}

// foreign is an *exposedError when another user than root and this one owns the file, and so may change it.
func (of fileFacts) foreign() error {
	if !of.mode.IsRegular() || of.sealed || of.owner <= 0 || of.owner == os.Geteuid() {
		return nil
	}
	return &exposedError{fmt.Sprintf("%s belongs to another user, number %d; run chown %d %[1]s", of.path, of.owner,
		os.Geteuid())}
}

// readPrivate reads a key from a file that is not exposed.
func readPrivate(path string) (secret.Text, error) {
	text, _, err := readWhole(path, func(of fileFacts) error {
		if !of.mode.IsRegular() {
			return fmt.Errorf("%s is not a file", path)
		}
		return of.exposed()
	})
	return secret.New(string(text)), err
}

// readValue reads the file of a setting. With an *exposedError comes its text: not every setting is a secret.
func readValue(path string) ([]byte, error) {
	text, of, err := readWhole(path, nil)
	if err == nil {
		err = of.exposed()
	}
	return text, err
}

// checkPrivate refuses a configuration file that has secrets itself and that others may use.
func (of fileFacts) checkPrivate(file map[string]string) error {
	var held []string
	for _, s := range settings() {
		if s.holdsSecret(file[s.key]) {
			held = append(held, s.key)
		}
	}
	if len(held) == 0 {
		return nil
	}
	for _, why := range []error{of.exposed(), of.foreign()} {
		if why != nil {
			return fmt.Errorf("the configuration file has secrets (%s), but %w, or name files with them by variables that "+
				"end in _FILE", strings.Join(held, ", "), why)
		}
	}
	return nil
}

// holdsSecret reports whether a value is a secret, or has one in a URL.
func (s setting) holdsSecret(value string) bool {
	switch {
	case value == "" || value == none:
		return false
	case s.holds != nil:
		return s.holds(value)
	case s.secret:
		return true
	}
	return strings.Contains(secret.MaskList(value), secret.Redacted)
}

// holdsKey reports whether a list has a private key, not only references to keys and accounts.
func holdsKey(list string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(part string) bool {
		kind, rest := splitReference(part)
		_, err := x402.ParseAddress(strings.TrimSpace(part))
		where, _, _ := strings.Cut(rest, "#") // an account, or where the passphrase is
		return kind == byText && err != nil || strings.Contains(secret.Mask(where), secret.Redacted)
	})
}

// holdsPassword reports whether a connection string has a password. A user is none.
func holdsPassword(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	user, _, named := strings.Cut(rest, "@")
	return strings.Contains(url, "password") || named && strings.Contains(user, ":")
}
