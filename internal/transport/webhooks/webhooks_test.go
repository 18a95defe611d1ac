package webhooks_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/transport/webhooks"
)

// inbox takes the events of one provider.
type inbox struct{ got []string }

func (i *inbox) Takes(_ context.Context, provider string, header http.Header) error {
	switch {
	case provider != "known":
		return fault.New(fault.RouteNotFound, "")
	case header.Get("Signature") == "":
		return fault.New(fault.WebhookRejected, "")
	}
	return nil
}

func (i *inbox) Receive(_ context.Context, provider string, _ http.Header, body []byte) error {
	i.got = append(i.got, provider+" "+string(body))
	return nil
}

// unread is a body that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body of a stranger is read")
	return 0, errors.New("unread")
}

// TestBodyForNobodyIsNotRead: a stranger may send it as slowly as he likes.
func TestBodyForNobodyIsNotRead(t *testing.T) {
	in := &inbox{}
	routes := http.NewServeMux()
	routes.Handle(webhooks.Pattern, webhooks.Handler(in))
	for provider, want := range map[string]int{"unknown": http.StatusNotFound, "known": http.StatusUnauthorized} {
		answer := httptest.NewRecorder()
		routes.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/api/webhooks/"+provider, unread{t}))
		if answer.Code != want {
			t.Errorf("%s: answered %d, want %d", provider, answer.Code, want)
		}
	}
	answer := httptest.NewRecorder()
	signed := httptest.NewRequest(http.MethodPost, "/api/webhooks/known", strings.NewReader("{}"))
	signed.Header.Set("Signature", "s")
	routes.ServeHTTP(answer, signed)
	if answer.Code != http.StatusNoContent || len(in.got) != 1 || in.got[0] != "known {}" {
		t.Errorf("answered %d, got %v", answer.Code, in.got)
	}
}
