// Package scenario names what an idempotency key asks the sandbox to do wrong on purpose.
package scenario

import "context"

// Of is the scenario at the end of an idempotency key: the three digits after a "~", or empty.
func Of(key string) string {
	if len(key) < 4 || key[len(key)-4] != '~' {
		return ""
	}
	digits := key[len(key)-3:]
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' {
			return ""
		}
	}
	return digits
}

type contextKey struct{}

// With is ctx for calls to the sandbox's providers that play a scenario.
func With(ctx context.Context, scenario string) context.Context {
	return context.WithValue(ctx, contextKey{}, scenario)
}

// In is the scenario that the calls of ctx play, or empty.
func In(ctx context.Context) string {
	s, _ := ctx.Value(contextKey{}).(string)
	return s
}
