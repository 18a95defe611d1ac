package roamcard

import "github.com/roamcard/roamcard/internal/telemetry"

// Secret is a text that shows itself as "[redacted]" in logs, formats and JSON. Reveal gives the text.
type Secret = telemetry.Secret

// NewSecret keeps a text secret.
func NewSecret(text string) Secret { return telemetry.NewSecret(text) }
