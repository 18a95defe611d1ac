// Package telemetry is logs, traces and request ids, with redaction by type.
package telemetry
