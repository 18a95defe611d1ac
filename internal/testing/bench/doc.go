// Package bench measures what the service costs, always against something plain in the same run: `make bench` writes
// docs/performance.md from it.
package bench
