//go:build unix

package devnet

import (
	"os"
	"os/exec"
)

// lingering runs "$@" in place of this shell, and a watcher next to it, which reads from descriptor 3 until the pipe
// there ends, waits, and interrupts "$@". The watcher keeps neither the lock, which is descriptor 4, nor the output:
// both must end with "$@". The process id cannot have gone to a stranger by then, as it also names the group that the
// watcher is in.
const lingering = `(read -r _ <&3; sleep 0.5 || sleep 1; kill -INT $$) 4<&- >/dev/null 2>&1 &
exec "$@" 3<&-`

// lingerAfterParent makes cmd, once started, live on for half a second after the other end of pipe was closed or died
// with its process, and be interrupted then. It has a process group of its own, so that a terminal's Ctrl-C does not
// reach it.
func lingerAfterParent(cmd *exec.Cmd, pipe *os.File) {
	const shell = "/bin/sh"
	cmd.Args = append([]string{shell, "-c", lingering, shell, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = shell
	cmd.ExtraFiles = append([]*os.File{pipe}, cmd.ExtraFiles...)
	attributes(cmd).Setpgid = true
}
