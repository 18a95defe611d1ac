// Package jitter draws the small random numbers that keep processes from doing the same at the same time. They come
// from crypto/rand, so that whoever sets its source, as a simulation does, decides on them, too.
package jitter

import (
	"crypto/rand"
	"encoding/binary"
	mathrand "math/rand/v2"
	"time"
)

// source is crypto/rand as a source of numbers.
type source struct{}

// Uint64 implements mathrand.Source.
func (source) Uint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}

var numbers = mathrand.New(source{})

// Below is a duration from zero up to most and without it.
func Below(most time.Duration) time.Duration { return time.Duration(numbers.Int64N(int64(most))) }

// IntN is a number from zero up to n and without it.
func IntN(n int) int { return numbers.IntN(n) }
