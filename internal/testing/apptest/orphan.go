//go:build !linux

package apptest

import "os/exec"

// StartTied starts a command, which ends with the tests unless they are killed.
func StartTied(cmd *exec.Cmd) error { return cmd.Start() }
