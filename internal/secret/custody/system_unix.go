//go:build unix

package custody

import (
	"io/fs"
	"syscall"
)

// hasModes says that owner and mode tell who can change a file.
const hasModes = true

// noFollow opens no link, and does not wait for the other end of a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

func ownerOf(info fs.FileInfo) (uid int, known bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(stat.Uid), true
}

// modeOf is a mode as chmod spells it.
func modeOf(info fs.FileInfo) uint32 {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return uint32(info.Mode().Perm())
	}
	return uint32(stat.Mode) & 0o7777
}
