//go:build !unix

package custody

import "io/fs"

const (
	hasModes = false
	noFollow = 0
)

func ownerOf(fs.FileInfo) (uid int, known bool) { return 0, false }

func modeOf(info fs.FileInfo) uint32 { return uint32(info.Mode().Perm()) }
