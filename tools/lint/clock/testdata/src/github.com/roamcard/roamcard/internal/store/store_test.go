package store

import (
	"testing"
	"time"
)

// This package runs no whole program.
func TestSleeps(t *testing.T) { time.Sleep(time.Second) }
