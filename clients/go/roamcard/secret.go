package roamcard

import "github.com/roamcard/roamcard/internal/secret"

// Secret is a text that shows itself as "[redacted]" in logs, formats and JSON. Reveal gives the text.
type Secret = secret.Text

// NewSecret keeps a text secret.
func NewSecret(text string) Secret { return secret.New(text) }
