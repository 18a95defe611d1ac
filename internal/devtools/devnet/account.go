package devnet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// account is who PostgreSQL runs as. It refuses to run as root, so a root process must choose somebody else.
type account struct {
	mode     accountMode
	uid, gid uint32 // of asUser
}

type accountMode int

const (
	asSelf       accountMode = iota // this process is not root: nothing to change
	asUser                          // as an unprivileged user, who must be able to reach the data and the programs
	asNamespaced                    // as root in the file system, but an ordinary user in a namespace of its own
)

// nobody is the unprivileged user that every system has; initdb refuses a user that has no name.
const nobody = 65534

// accountsFor returns who may run PostgreSQL on the data folder, best first. An existing folder has been made by one
// of them, and its owner tells which.
func accountsFor(data, dir string) ([]account, error) {
	if os.Geteuid() != 0 {
		return []account{{mode: asSelf}}, nil
	}
	uid, gid, err := owner(data)
	switch {
	case err == nil && uid != 0:
		return []account{{mode: asUser, uid: uid, gid: gid}}, nil
	case err == nil:
		return []account{{mode: asNamespaced}}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read data folder: %w", err)
	}
	unprivileged := account{mode: asUser, uid: nobody, gid: nobody}
	if err := reachable(dir, unprivileged); err != nil {
		return []account{{mode: asNamespaced}}, nil
	}
	return []account{unprivileged, {mode: asNamespaced}}, nil
}

// give makes the account the owner of path.
func (a account) give(path string) error {
	if a.mode != asUser {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}
