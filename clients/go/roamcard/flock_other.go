//go:build !unix || solaris || aix

package roamcard

import "os"

// lockFile locks nothing: these systems have no flock(2), and their pids are those of the whole machine.
func lockFile(*os.File) bool { return false }

func holderOfFile(*os.File) holderState { return holderUnknown }
