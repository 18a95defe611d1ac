//go:build demo

package dev

// The program of `make demo` has the sandbox alone.
func vendors() []vendor { return nil }
