// Package telemetry is logs, traces, metrics and request ids, with redaction by type.
package telemetry
