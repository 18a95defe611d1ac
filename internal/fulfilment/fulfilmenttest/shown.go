package fulfilmenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
)

// Shown is a value in every form in which it could reach a log or an answer.
func Shown(t *testing.T, v any) string {
	t.Helper()
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s %q\n", v, v, v, v, v)
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	out.Write(encoded)
	slog.New(slog.NewTextHandler(&out, nil)).Info("shown", "value", v)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("shown", "value", v)
	return out.String()
}
