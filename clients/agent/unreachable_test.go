package agent

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// nobody is a network in which nothing listens.
type nobody struct{}

func (nobody) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

func TestServiceThatIsAwayIsSaidToBe(t *testing.T) {
	t.Parallel()
	c := session(t, Config{
		Settings: Settings{Origin: "http://127.0.0.1:1"}, Store: roamcard.NewMemoryStore(), HTTP: nobody{},
		OpenSigner: func(context.Context) (roamcard.Signer, error) { return nil, nil },
	})
	for _, tool := range toolsOf(t, c) {
		if tool.Name != "list_esim_plans" {
			continue
		}
		if p := refusalOf(t, c, tool, map[string]any{}); p.Code != "service_unreachable" || p.NextAction != waitAndCall {
			t.Errorf("%+v", p)
		}
		return
	}
	t.Error("there is no list of plans")
}
