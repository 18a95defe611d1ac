//go:build !linux

package apptest

import "os/exec"

// dieWithTests cannot be kept here; what the tests started ends with them unless they are killed.
func dieWithTests(*exec.Cmd) {}
