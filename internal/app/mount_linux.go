package app

import (
	"io/fs"
	"os"
	"syscall"
)

func ownerOf(info fs.FileInfo) int {
	if of, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(of.Uid)
	}
	return -1
}

// isSealed reports whether a file lies on a mount that cannot be written, of another file system than the root's: a
// unit of systemd may see all of its machine's without a right to write.
func isSealed(f *os.File, info fs.FileInfo) bool {
	const readOnly = 1 // ST_RDONLY
	var mount syscall.Statfs_t
	root, err := os.Stat("/")
	if err != nil || syscall.Fstatfs(int(f.Fd()), &mount) != nil || mount.Flags&readOnly == 0 {
		return false
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	its, known := root.Sys().(*syscall.Stat_t)
	return ok && known && of.Dev != its.Dev
}
