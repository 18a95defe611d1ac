package rpcx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/fault"
)

// signIn answers AuthService calls with fixed errors and records the requests.
type signIn struct {
	roamcardv1connect.UnimplementedAuthServiceHandler
	err  error
	seen []*roamcardv1.CreateChallengeRequest
}

func (s *signIn) CreateChallenge(
	_ context.Context, req *roamcardv1.CreateChallengeRequest,
) (*roamcardv1.CreateChallengeResponse, error) {
	s.seen = append(s.seen, req)
	if s.err != nil {
		return nil, s.err
	}
	return &roamcardv1.CreateChallengeResponse{IntentId: "i", Message: req.GetAddress()}, nil
}

// serve starts an AuthService with what every service has around it.
func serve(t *testing.T, impl *signIn) *httptest.Server {
	t.Helper()
	newServer, err := Servers(Config{})
	if err != nil {
		t.Fatal(err)
	}
	methods := newServer()
	roamcardv1connect.RegisterAuthServiceHandler(methods, impl)
	mux := http.NewServeMux()
	connecthttp.Mount(mux, methods, OverHTTP(MaxMessage)...)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// calling is a client of a server.
func calling(server *httptest.Server, options ...connecthttp.Option) roamcardv1connect.AuthServiceClient {
	return roamcardv1connect.NewAuthServiceClient(connect.NewClient(
		connecthttp.NewTransport(server.Client(), server.URL, options...)))
}

func problemOf(t *testing.T, err error) *roamcardv1.Problem {
	t.Helper()
	connectErr, ok := errors.AsType[*connect.Error](err)
	if !ok {
		t.Fatalf("%v is not a connect error", err)
	}
	for _, detail := range connectErr.Details() {
		if value, err := connectproto.UnmarshalErrorDetail(detail); err == nil {
			if problem, ok := value.(*roamcardv1.Problem); ok {
				return problem
			}
		}
	}
	t.Fatalf("%v has no problem", err)
	return nil
}

func rules(problem *roamcardv1.Problem) []string {
	var out []string
	for _, f := range problem.GetFields() {
		out = append(out, f.GetPath()+" "+f.GetRule())
	}
	return out
}

func TestMalformedJSONIsProblemForConnectCallers(t *testing.T) {
	impl := &signIn{}
	server := serve(t, impl)
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8",
		"application/json;charset=UTF-8"} {
		for _, c := range []struct {
			body string
			want []string
		}{
			{`{"address":"a","nope":1}`, []string{"nope json.unknown"}},
			{`{"address":"a","address":"b"}`, []string{"address json.duplicate"}},
			{`{"preferred_message_schemes":[]}`, []string{"preferred_message_schemes json.unknown"}},
			{``, []string{" json.syntax"}},
		} {
			res, err := http.Post(server.URL+roamcardv1connect.AuthServiceCreateChallengeProcedure, contentType,
				strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			var answer struct {
				Code    string
				Details []struct {
					Type  string
					Debug struct {
						Code   string
						Fields []fault.Field
					}
				}
			}
			if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != 400 || answer.Code != "invalid_argument" || len(answer.Details) != 1 {
				t.Fatalf("%s %q: %d %+v", contentType, c.body, res.StatusCode, answer)
			}
			var got []string
			for _, f := range answer.Details[0].Debug.Fields {
				got = append(got, f.Path+" "+f.Rule)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s %q: %s", contentType, c.body, diff)
			}
		}
	}
	if len(impl.seen) != 0 {
		t.Errorf("a malformed request reached the handler: %v", impl.seen)
	}
}

// lenient is a JSON codec that sends fixed bytes for any message.
type lenient struct {
	codec
	body string
}

func (l lenient) MarshalWrite(_ context.Context, to io.Writer, _ any) error {
	_, err := io.WriteString(to, l.body)
	return err
}

func TestMalformedJSONIsProblemOnEveryProtocol(t *testing.T) {
	server := serve(t, &signIn{})
	for name, option := range map[string][]connecthttp.Option{
		"connect":  nil,
		"gRPC-Web": {connecthttp.WithGRPCWeb()},
	} {
		client := calling(server, append(option, connecthttp.WithCodecs(
			lenient{codec{"json"}, `{"address":"a","nope":1}`}, connectproto.NewBinaryCodec()))...)
		_, err := client.CreateChallenge(context.Background(), &roamcardv1.CreateChallengeRequest{})
		if diff := cmp.Diff([]string{"nope json.unknown"}, rules(problemOf(t, err))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestMessageThatCannotBeReadIsItsCallers: a query that is no base64, and a body that ends before its end.
func TestMessageThatCannotBeReadIsItsCallers(t *testing.T) {
	server := serve(t, &signIn{})
	const query = roamcardv1connect.AuthServiceGetSessionProcedure + "?connect=v1&encoding=proto&base64=1&message=%7B"
	cut := httptest.NewRequest(http.MethodPost, roamcardv1connect.AuthServiceCreateChallengeProcedure,
		io.MultiReader(strings.NewReader(`{"address"`), iotest.ErrReader(io.ErrUnexpectedEOF)))
	cut.Header.Set("Content-Type", "application/json")
	for name, r := range map[string]*http.Request{
		"a query": httptest.NewRequest(http.MethodGet, query, http.NoBody), "a body": cut,
	} {
		w := httptest.NewRecorder()
		server.Config.Handler.ServeHTTP(w, r)
		if w.Code != 400 || !strings.Contains(w.Body.String(), string(fault.SchemaInvalid)) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestWellFormedJSONIsServedWithDefaults(t *testing.T) {
	server := serve(t, &signIn{})
	res, err := http.Post(server.URL+roamcardv1connect.AuthServiceCreateChallengeProcedure, "application/json",
		strings.NewReader(`{"address":"0xab"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		t.Fatal(err)
	}
	if want := `{"intentId":"i","messageScheme":"","message":"0xab"}`; compact.String() != want {
		t.Errorf("got %s, want %s", compact.String(), want)
	}
}

func TestUnknownFieldOfABinaryMessageIsServed(t *testing.T) {
	req := &roamcardv1.CreateChallengeRequest{Address: "0xab"}
	unknown := protowire.AppendTag(nil, protowire.MaxValidNumber, protowire.BytesType)
	req.ProtoReflect().SetUnknown(protowire.AppendBytes(unknown, make([]byte, 16)))
	if _, err := calling(serve(t, &signIn{})).CreateChallenge(context.Background(), req); err != nil {
		t.Error(err)
	}
}

func TestMarshalJSONIsCompactAndStable(t *testing.T) {
	m := &roamcardv1.Card{Id: "c", Status: "ACTIVE", Last4: proto.String("4242")}
	got, err := MarshalJSON(m)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"id":"c","status":"ACTIVE","last4":"4242"}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
