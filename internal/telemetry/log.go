package telemetry

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/secret"
)

// NewLogger makes the program's logger: one line per record, JSON or text, in UTC. Records made within
// a request have its trace, span and request id.
func NewLogger(w io.Writer, level slog.Level, json bool) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if json {
		h = slog.NewJSONHandler(w, opts)
	}
	return slog.New(correlated{h})
}

// correlated puts a record's time in UTC, adds its trace, span and request id, and masks what may be secret in the URLs
// that errors of others quote.
type correlated struct{ slog.Handler }

// Handle implements slog.Handler.
func (h correlated) Handle(ctx context.Context, r slog.Record) error {
	r = masked(r)
	r.Time = r.Time.UTC()
	if id := RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		r.AddAttrs(slog.String("trace_id", s.TraceID().String()), slog.String("span_id", s.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h correlated) WithAttrs(attrs []slog.Attr) slog.Handler {
	all := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		all[i], _ = maskedAttr(a)
	}
	return correlated{h.Handler.WithAttrs(all)}
}

// WithGroup implements slog.Handler.
func (h correlated) WithGroup(name string) slog.Handler { return correlated{h.Handler.WithGroup(name)} }

// masked is a record whose attributes are masked. Messages are constants.
func masked(r slog.Record) slog.Record {
	changed := false
	r.Attrs(func(a slog.Attr) bool {
		_, changed = maskedAttr(a)
		return !changed
	})
	if !changed {
		return r
	}
	all := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		a, _ = maskedAttr(a)
		all.AddAttrs(a)
		return true
	})
	return all
}

// maskedAttr masks texts, errors and groups of them, and says whether something has changed.
func maskedAttr(a slog.Attr) (_ slog.Attr, changed bool) {
	text := ""
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindGroup:
		group := slices.Clone(v.Group())
		for i := range group {
			one := false
			group[i], one = maskedAttr(group[i])
			changed = changed || one
		}
		if changed {
			a.Value = slog.GroupValue(group...)
		}
		return a, changed
	case slog.KindString:
		text = v.String()
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			text = err.Error()
		}
	}
	if strings.Contains(text, "://") {
		a.Value = slog.StringValue(secret.Mask(text))
		return a, true
	}
	return a, false
}
