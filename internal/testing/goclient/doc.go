// Package goclient tests the Go client where that takes more than its own module has: a development server, and
// go-ethereum to compare with.
package goclient
